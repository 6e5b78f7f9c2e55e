//! Moving long values out of sparse blocks: a value is stored again, as it is.

use atoll_machine::Machine;
use atoll_storage::{Change, RowId, Table, Value};

use super::step::{Found, Step};
use super::{Begin, State, Txn, Worker};
use crate::edits::What;
use crate::engine::Engine;
use crate::error::Stop;
use crate::scheme::{AbortReason, Scheme};
use crate::tables::Guard;

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Stores again the long values that keep sparse blocks of a table alive, each in a transaction
    /// of its own that changes nothing else; those that meet a conflict are left for another time.
    pub fn compact(&mut self, table: &Table<M>, most: usize) {
        if self.state == State::Open {
            return;
        }
        let values = table.sparse_values(&mut self.member, most);
        let (is_part, mut any) = (values.len() == most, false);
        for (row, column) in values {
            self.upkeep = true;
            any |= self.store_again(table, row, column).is_ok();
            self.abort(AbortReason::Requested);
            self.upkeep = false;
        }
        // Where none could be, as with no memory left, the next would not either.
        if is_part && any {
            table.stays_sparse();
        }
    }

    fn store_again(&mut self, table: &Table<M>, row: RowId, column: usize) -> Result<(), Stop> {
        self.begin(Begin::default())?;
        self.until_done(table, |engine, txn, guard, change| {
            txn.store_again(engine, guard, change, row, column)
        })?;
        self.commit()
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    fn store_again(
        &mut self,
        engine: &Engine<S, M>,
        guard: &Guard<S, M>,
        change: Change,
        row: RowId,
        column: usize,
    ) -> Step<()> {
        let found = Found::new(guard, row);
        let meta = found.meta;
        if !meta.is_named() {
            return Step::Done(());
        }
        self.forget = true;
        if Self::IN_PLACE {
            if let Err(refusal) = self.ask_write(engine, guard, found, true) {
                return Step::Refused(refusal);
            }
            if !guard.table.is_present(row) {
                return Step::Done(());
            }
            let value = guard.table.value(row, column);
            let mut room = [0; 16];
            let plain = atoll_storage::image::plain(&value, &mut room);
            return match guard.table.store(change, found.slot, column, plain, &mut self.undo) {
                Ok(()) => Step::Done(()),
                Err(error) => Step::Failed(error.into()),
            };
        }
        let mut value = Value::Null;
        let read = self.read_row(engine, guard, found, &|| meta.is_named(), |view| {
            value = view.value(column);
        });
        match read {
            Step::Done(true) => {}
            Step::Refused(refusal) => return Step::Refused(refusal),
            _ => return Step::Done(()),
        }
        if let Err(refusal) = self.ask_write(engine, guard, found, true) {
            return Step::Refused(refusal);
        }
        let mut room = [0; 16];
        let mut edits = self.edits.borrow_mut();
        let at = edits.add(guard.table.id(), row, What::Change);
        let mark = edits.mark();
        edits.put(column, atoll_storage::image::plain(&value, &mut room));
        edits.give(mark, at);
        Step::Done(())
    }
}
