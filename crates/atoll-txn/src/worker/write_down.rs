//! Redo logging: writes the changes of a transaction to the log, if there is one.
//!
//! Before the section in which a transaction commits, the worker encodes its changes as redo
//! records and waits until the log has room for them ([`Call::write_down`]). A large transaction
//! writes most of its records to the log at this point. In the section of the commit, the
//! transaction gets its position in the log (`TxnState::record`), see [`crate::journal`].
//!
//! Changes of a table that the transaction drops are left out: the log may lack the columns that
//! the transaction has added to it.
//!
//! If the scheme stores in place, the undo list says what has changed, and the new values are in
//! the rows, which the transaction holds exclusively. If it stores at commit, both are in the write
//! set.

use atoll_machine::Machine;
use atoll_storage::redo::{self, Kind};
use atoll_storage::undo::Replaced;
use atoll_storage::{RowId, TableId};

use super::call::Call;
use super::defined::Define;
use super::redo::RedoWriter;
use super::thread::Thread;
use super::txn::TxnState;
use crate::edits::What;
use crate::engine::Engine;
use crate::error::OpError;
use crate::scheme::{AbortReason, Scheme};
use crate::tables::TableContext;
use crate::work;

/// Changes that are encoded in one section of the gate.
const CHANGES_IN_SECTION: usize = 256;
/// Redo records of more than this many bytes are written to the log before the commit.
const SPILL_BYTES: usize = 256 << 10;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Encodes the changes of the transaction, and waits until the log has room for them.
    pub(super) fn write_down(&mut self) -> Result<(), OpError> {
        let Some(mut record) = self.txn.log.take_writer() else { return Ok(()) };
        let done = self.write_down_to(&mut record);
        self.txn.log.put_back(record, *done.as_ref().unwrap_or(&false));
        done.map(|_| ()).inspect_err(|_| self.abort(AbortReason::Finished))
    }

    /// Returns whether the log has some of the records.
    fn write_down_to(&mut self, record: &mut RedoWriter) -> Result<bool, OpError> {
        record.redo.clear();
        let changes = if TxnState::<S, M>::IN_PLACE {
            self.txn.undo.len()
        } else {
            self.txn.edits.get_mut().rows().len()
        };
        let mut list = Vec::new();
        if TxnState::<S, M>::IN_PLACE && changes > CHANGES_IN_SECTION {
            self.txn.undo.each(|table, row, replaced| list.push((table, row, replaced)));
        }
        let dropped = self.txn.definitions.iter().filter_map(|definition| match &definition.what {
            Define::Drop(table) => Some(table.id()),
            _ => None,
        });
        let dropped: Vec<TableId> = dropped.collect();
        let mut has_spilled = false;
        for definition in &self.txn.definitions {
            let mut records = definition.records();
            records.try_for_each(|one| record.recorder.spill_definition(one))?;
            has_spilled = true;
            // Before the rows that have values in the columns.
            for (at, column, plain) in definition.added_columns() {
                let table = definition.what.table();
                let part = record.redo.part(self.engine.tables.context(table.id()).tablespace);
                redo::column(part, table.serial(), at, column, plain);
            }
        }
        for from in (0..changes).step_by(CHANGES_IN_SECTION) {
            let to = changes.min(from + CHANGES_IN_SECTION);
            let Self { engine, thread: Thread { member, .. }, txn } = self;
            let len = record.redo.len();
            let section = member.enter();
            if !TxnState::<S, M>::IN_PLACE {
                (from..to).for_each(|at| txn.write_down_edit(engine, record, (at, &dropped)));
            } else if list.is_empty() {
                txn.write_down_all(engine, record, &dropped);
            } else {
                for change in list[from..to].iter().filter(|(table, ..)| !dropped.contains(table)) {
                    write_down_stored(engine, record, *change);
                }
            }
            drop(section);
            M::work(work::copy(record.redo.len() - len));
            if record.redo.len() > SPILL_BYTES {
                record.recorder.spill(&record.redo)?;
                record.redo.clear();
                has_spilled = true;
            }
        }
        if !record.redo.is_empty() || has_spilled {
            // Spilled records need a commit record, even one without changes.
            record.recorder.admit(&record.redo)?;
        }
        Ok(has_spilled)
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Assigns the transaction its position in the log, and raises the GSN of everything that it
    /// has changed. In the section in which it commits, before the scheme unlocks its places.
    #[inline]
    pub(super) fn record(&mut self, engine: &Engine<S, M>, epoch: u64) {
        if self.log.is_present() {
            self.record_commit(engine, epoch);
        }
    }

    fn record_commit(&mut self, engine: &Engine<S, M>, epoch: u64) {
        let gsn = self.log.commit(epoch);
        let tables = engine.tables();
        let raise = |table: TableId, row: RowId, is_gone: bool| {
            let context = tables.context(table);
            context.table.slot(row).raise_gsn(gsn);
            if is_gone {
                context.raise_gone(gsn);
            }
        };
        if Self::IN_PLACE {
            self.undo.each(|table, row, replaced| {
                raise(table, row, replaced == Replaced::Presence(true));
            });
        } else {
            for edited in self.edits.get_mut().rows() {
                raise(edited.table, edited.row, edited.what == What::Remove);
            }
        }
        for entry in &self.entries.gone {
            raise(entry.table, entry.row, true);
        }
    }

    fn write_down_all(
        &mut self,
        engine: &Engine<S, M>,
        record: &mut RedoWriter,
        dropped: &[TableId],
    ) {
        self.undo.each(|table, row, replaced| {
            if !dropped.contains(&table) {
                write_down_stored(engine, record, (table, row, replaced));
            }
        });
    }

    /// Encodes the change of a row of the write set.
    fn write_down_edit(
        &mut self,
        engine: &Engine<S, M>,
        record: &mut RedoWriter,
        (at, dropped): (usize, &[TableId]),
    ) {
        let edits = self.edits.get_mut();
        let edited = edits.row(at);
        if edited.what.is_nothing() || dropped.contains(&edited.table) {
            return;
        }
        let context = engine.tables.context(edited.table);
        let RedoWriter { redo, value, .. } = record;
        let (out, serial) = (redo.part(context.tablespace), context.table.serial());
        if edited.what == What::Remove {
            return redo::delete(out, serial, edited.row);
        }
        let is_whole = edited.what.is_whole();
        let kind = if is_whole { Kind::Put } else { Kind::Update };
        let begun = redo::begin(out, serial, edited.row, kind);
        if is_whole {
            // Columns that the write set lacks are in the slot.
            for column in 0..context.table.schema().columns().len() {
                match edits.get(at, column) {
                    Some(plain) => redo::cell(out, column, plain),
                    None => put_stored(context, edited.row, column, value, out),
                }
            }
        } else {
            let columns = context.table.schema().columns().len();
            for (column, plain) in edits.cells(at).filter(|(column, _)| *column < columns) {
                redo::cell(out, column, plain);
            }
        }
        redo::end(out, begun);
    }
}

/// Encodes what has been stored in place.
fn write_down_stored<S: Scheme<M>, M: Machine>(
    engine: &Engine<S, M>,
    record: &mut RedoWriter,
    (table, row, replaced): (TableId, RowId, Replaced),
) {
    let context = engine.tables.context(table);
    let (is_present, serial) = (context.table.is_present(row), context.table.serial());
    let RedoWriter { redo, value, .. } = record;
    match replaced {
        // The transaction may have taken back a column that it had added.
        Replaced::Value { column, .. }
            if is_present && usize::from(column) < context.table.schema().columns().len() =>
        {
            let out = redo.part(context.tablespace);
            let begun = redo::begin(out, serial, row, Kind::Update);
            put_stored(context, row, column.into(), value, out);
            redo::end(out, begun);
        }
        Replaced::Presence(_) if is_present => {
            let out = redo.part(context.tablespace);
            let begun = redo::begin(out, serial, row, Kind::Put);
            for column in 0..context.table.schema().columns().len() {
                put_stored(context, row, column, value, out);
            }
            redo::end(out, begun);
        }
        Replaced::Presence(true) => {
            redo::delete(redo.part(context.tablespace), serial, row);
        }
        // The row is absent in the end; the undo entry of its deletion records that.
        Replaced::Presence(false) | Replaced::Value { .. } => {}
    }
}

fn put_stored<S: Scheme<M>, M: Machine>(
    context: &TableContext<S, M>,
    row: RowId,
    column: usize,
    value: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    value.clear();
    let valid = context.table.plain_into(context.table.slot(row), column, value);
    redo::cell(out, column, valid.then_some(&value[..]));
}
