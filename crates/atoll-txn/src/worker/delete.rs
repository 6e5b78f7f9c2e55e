//! Deleting the row of a key.

use atoll_machine::Machine;
use atoll_storage::{Change, Table, Value};

use super::step::{Step, Wanted};
use super::{Named, Txn, Worker};
use crate::edits::What;
use crate::engine::Engine;
use crate::error::Stop;
use crate::row::Row;
use crate::scheme::Scheme;
use crate::tables::Guard;

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Deletes the row with this key; false when there is none.
    ///
    /// # Errors
    /// [`Stop::Abort`], [`Stop::Storage`], [`Stop::ReadOnly`].
    pub fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, Stop> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        self.until_done(table, |engine, txn, guard, change| {
            txn.delete(engine, guard, change, wanted)
        })
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    fn delete(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        wanted: Wanted<'_>,
    ) -> Step<bool> {
        let Some(found) = self.locate(guard, wanted) else {
            return self.watch_absence(engine, guard, wanted, false);
        };
        let (row, meta) = (found.slot.id(), found.meta);
        if Self::IN_PLACE {
            if let Err(refusal) = self.ask_write(engine, guard, found, false) {
                return Step::Refused(refusal);
            }
            if !meta.has_hash(wanted.hash) {
                return Step::Again;
            }
            if let Err(error) = guard.table.erase(change, row, &mut self.undo) {
                return Step::Failed(error.into());
            }
            let view = Row::stored(&*guard.table, found.slot);
            self.entries.note_gone(guard, row, &view);
            self.gone_rows.insert((guard.table.id().0, row.0));
        } else {
            let own = self.own(guard, row);
            // Its keys in the indexes are noted before it goes.
            let mut entries = std::mem::take(&mut self.entries);
            entries.mark_gone();
            let is_it = || meta.has_hash(wanted.hash);
            let read = self.read_row(engine, guard, found, &is_it, |view| {
                entries.rewind_gone();
                entries.note_gone(guard, row, view);
            });
            self.entries = entries;
            match self.note_absence(engine, guard, wanted.hash, read) {
                Step::Done(true) => {}
                other => return other,
            }
            let asked = self.ask_write_of(engine, guard, found, wanted.hash, false);
            if let Err(refusal) = asked {
                self.entries.rewind_gone();
                return Step::Refused(refusal);
            }
            let what = match own {
                Some((_, What::Add)) => What::Nothing,
                Some((_, What::Return)) => What::Stay,
                _ => What::Remove,
            };
            let mut edits = self.edits.borrow_mut();
            let at = match own {
                Some((at, _)) => at,
                None => edits.add(guard.table.id(), row, what),
            };
            edits.set_what(at, what);
        }
        self.forget = true;
        self.gone.push(Named { table: guard.table.id(), row, hash: wanted.hash });
        Step::Done(true)
    }
}
