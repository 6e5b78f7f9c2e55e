//! Deleting the row of a key.

use atoll_machine::Machine;
use atoll_storage::{Change, Table, Value};

use super::call::Call;
use super::found::Wanted;
use super::row_changes::Named;
use super::step::Step;
use super::txn::TxnState;
use crate::edits::What;
use crate::engine::Engine;
use crate::error::OpError;
use crate::row::Row;
use crate::scheme::Scheme;
use crate::tables::TableContext;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Deletes the row with this key. Returns false if there is none.
    ///
    /// # Errors
    /// [`OpError::Abort`], [`OpError::Storage`], [`OpError::ReadOnly`].
    pub fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, OpError> {
        self.check_writable(table)?;
        let wanted = self.wanted(table, key, true)?;
        self.until_done(table, |txn, (engine, context, change)| {
            txn.delete(engine, context, change, wanted)
        })
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    fn delete(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        change: Change,
        wanted: Wanted<'_>,
    ) -> Step<bool> {
        let Some(found) = self.locate(context, wanted) else {
            return self.read_absence(engine, context, wanted, false);
        };
        let (row, meta) = (found.slot.id(), found.meta);
        if Self::IN_PLACE {
            if let Err(conflict) = self.ask_write(engine, context, found, false) {
                return Step::Conflict(conflict);
            }
            if !meta.has_hash(wanted.hash) {
                return Step::Again;
            }
            context.header(row); // ROWS-3
            if let Err(error) = context.table.erase(change, row, &mut self.undo) {
                return Step::Failed(error.into());
            }
            let view = Row::stored(&*context.table, found.slot);
            self.entries.note_gone(context, row, &view);
            self.rows.hide(context.table.id(), row);
        } else {
            let own = self.own_write(context, row);
            // Note the row's keys in the indexes before it is deleted.
            let mut entries = std::mem::take(&mut self.entries);
            entries.mark_gone();
            let is_it = || meta.has_hash(wanted.hash);
            let read = self.read_row(engine, context, found, &is_it, |view| {
                entries.rewind_gone();
                entries.note_gone(context, row, view);
            });
            self.entries = entries;
            match self.note_absence(engine, context, wanted.hash, read) {
                Step::Done(true) => {}
                other => return other,
            }
            let asked = self.ask_write_of(engine, context, found, wanted.hash, false);
            if let Err(conflict) = asked {
                self.entries.rewind_gone();
                return Step::Conflict(conflict);
            }
            let what = match own {
                Some((_, What::Add)) => What::Nothing,
                Some((_, What::Return)) => What::Stay,
                _ => What::Remove,
            };
            let mut edits = self.edits.borrow_mut();
            let at = match own {
                Some((at, _)) => at,
                None => edits.add(context.table.id(), row, what),
            };
            edits.set_what(at, what);
        }
        self.rows.delete(Named { table: context.table.id(), row, hash: wanted.hash });
        Step::Done(true)
    }
}
