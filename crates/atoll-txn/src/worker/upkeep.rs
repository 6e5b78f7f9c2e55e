//! Heap compaction: moves long values out of sparse blocks by storing them again.

use atoll_machine::Machine;
use atoll_storage::{Change, RowId, Table, Value};

use super::call::{Begin, Call};
use super::found::Found;
use super::step::Step;
use super::txn::{Phase, TxnState};
use crate::edits::What;
use crate::engine::{Engine, partition_of};
use crate::error::OpError;
use crate::scheme::{AbortReason, Scheme};
use crate::tables::TableContext;

/// Values that one transaction stores again under a partitioned scheme, where all other
/// transactions of the partition wait for each such transaction, and it waits for them.
const TOGETHER: usize = 16;

/// A long value in a sparse block.
struct Kept {
    row: RowId,
    column: usize,
    /// The partition of the row; `None` if the transaction has to name all partitions or none.
    partition: Option<u32>,
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Stores at most `most` long values of a table's sparse blocks again, so that the blocks
    /// become free. It does so in transactions that change nothing else, each with one value or
    /// with a few values of one partition. It skips a transaction that meets a conflict.
    pub fn compact(&mut self, table: &Table<M>, most: usize) {
        if self.txn.phase == Phase::Open {
            return;
        }
        let _compacting = self.engine.compacting.take_patiently();
        if self.engine.check_table(table).is_err() {
            return;
        }
        let values = table.sparse_values(&mut self.thread.member, most);
        let (is_part, mut any) = (values.len() == most, false);
        let mut values: Vec<Kept> =
            values.into_iter().map(|(row, column)| self.kept(table, row, column)).collect();
        values.sort_by_key(|value| value.partition);
        let together = if S::PARTITIONED { TOGETHER } else { 1 };
        for values in values.chunk_by(|one, next| one.partition == next.partition) {
            for values in values.chunks(together) {
                if table.is_leaving() {
                    return;
                }
                self.txn.upkeep = true;
                let is_done = self.store_again(table, values).is_ok();
                self.abort(AbortReason::Requested);
                self.txn.upkeep = false;
                any |= is_done;
                if S::PARTITIONED && !is_done {
                    break; // Another transaction probably holds the partition.
                }
            }
        }
        // If no value could be stored, for example on OOM, a further call would fail, too.
        if is_part && any {
            table.stays_sparse();
        }
    }

    fn kept(&mut self, table: &Table<M>, row: RowId, column: usize) -> Kept {
        let context = self.engine.tables.context(table.id());
        let is_in_one = S::PARTITIONED && !context.replicated;
        let partition = is_in_one.then(|| {
            let _section = self.thread.member.enter();
            partition_of_row(table, row, self.engine.partitions())
        });
        Kept { row, column, partition }
    }

    /// Stores values of one partition again, in one transaction.
    fn store_again(&mut self, table: &Table<M>, values: &[Kept]) -> Result<(), OpError> {
        let partition = values.first().and_then(|value| value.partition);
        // Hurried: this thread has other duties and must not wait for a long transaction.
        self.begin(Begin { partitions: partition.as_slice(), read_only: false, hurried: true })?;
        for value in values {
            self.until_done(table, |txn, (engine, context, change)| {
                txn.store_again(engine, context, change, value)
            })?;
        }
        self.commit()
    }
}

/// The partition of a stored row. Inside the gate.
fn partition_of_row<M: Machine>(table: &Table<M>, row: RowId, partitions: u32) -> u32 {
    let first = table.schema().primary_key().first();
    partition_of(first.map(|column| table.value(row, *column)).as_ref(), partitions)
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    fn store_again(
        &mut self,
        engine: &Engine<S, M>,
        context: &TableContext<S, M>,
        change: Change,
        &Kept { row, column, partition }: &Kept,
    ) -> Step<()> {
        let found = Found::new(context, row);
        let meta = found.meta;
        // The slot may hold another row by now.
        let is_elsewhere =
            |partition| partition != partition_of_row(&context.table, row, engine.partitions());
        if !meta.is_named() || partition.is_some_and(is_elsewhere) {
            return Step::Done(());
        }
        self.rows.forget_if(true);
        if Self::IN_PLACE {
            if let Err(conflict) = self.ask_write(engine, context, found, true) {
                return Step::Conflict(conflict);
            }
            if !context.table.is_present(row) {
                return Step::Done(());
            }
            let value = context.table.value(row, column);
            let mut buffer = [0; 16];
            let plain = atoll_storage::image::plain(&value, &mut buffer);
            return match context.table.store(change, found.slot, column, plain, &mut self.undo) {
                Ok(()) => Step::Done(()),
                Err(error) => Step::Failed(error.into()),
            };
        }
        let mut value = Value::Null;
        let read = self.read_row(engine, context, found, &|| meta.is_named(), |view| {
            value = view.value(column);
        });
        match read {
            Step::Done(true) => {}
            Step::Conflict(conflict) => return Step::Conflict(conflict),
            _ => return Step::Done(()),
        }
        if let Err(conflict) = self.ask_write(engine, context, found, true) {
            return Step::Conflict(conflict);
        }
        let mut buffer = [0; 16];
        let mut edits = self.edits.borrow_mut();
        let at = edits.add(context.table.id(), row, What::Change);
        let savepoint = edits.savepoint();
        edits.put(column, atoll_storage::image::plain(&value, &mut buffer));
        edits.give(savepoint, at);
        Step::Done(())
    }
}
