//! Bulk load: many rows into a table that no transaction has used, and the indexes of restored
//! tables.
//!
//! A transaction that inserts a row looks its key up, locks the row, writes an undo entry and a row
//! header, and adds one entry to each index. A load of many rows into a table that is empty needs
//! none of this: threads build the segments column by column, then the index part by part, and one
//! section of the gate publishes everything. If the load fails, the table is as it was.
//!
//! - `LOAD-1`: a load succeeds only if no transaction has found a key of the table absent before
//!   the load is published, and none can find one absent while it is being published
//!   ([`TableContext::keep_untouched`]). So no transaction has read anything that the load changes,
//!   and the load may have any position in the serial order; a snapshot shows all of it or nothing.
//!   No scheme takes part.
//! - `LOAD-2`: from the claim to the end of the load no transaction can insert into the table
//!   (`BULK-1`). It is told to try again.

use std::sync::Arc;

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_storage::index::{HashedRows, IndexBuild};
use atoll_storage::redo::Redo;
use atoll_storage::table::hash_buffered;
use atoll_storage::{
    BulkSegments, Change, KeyRun, RowId, SEGMENT_ROWS, Schema, SegmentBuffer, Slot, Table, TableId,
    Value,
};

use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::{Commit, JournalError, Recorder};
use crate::row::Row;
use crate::scheme::{AbortReason, Scheme};
use crate::tables::TableContext;
use crate::worker::Committed;

/// The rows of a load; threads share it.
pub trait RowSource: Sync {
    /// Fills an empty buffer with the rows of a segment and returns the segment's number; `None` at
    /// the end. The calls return each number from 0 on once. The values fit the table.
    ///
    /// # Errors
    /// [`Stopped`], after which the load fails; the source knows why.
    fn next(&self, rows: &mut SegmentBuffer) -> Result<Option<u64>, Stopped>;
}

/// The source has no more rows to give, because of an error or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The end of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// The rows are in the table.
    Rows {
        /// Their number.
        rows: u64,
        /// What must be durable before the load may be acknowledged.
        committed: Committed,
    },
    /// A transaction has used the table, or uses it; the caller has to insert the rows.
    Used,
}

/// The log of a load.
struct LoadLog {
    recorder: Box<dyn Recorder>,
    redo: Redo,
    has_spilled: bool,
}

impl LoadLog {
    /// Writes a segment to the log, ahead of the commit.
    fn write(
        &mut self,
        tablespace: u32,
        (table, number): (TableId, u64),
        rows: &SegmentBuffer,
    ) -> Result<(), JournalError> {
        rows.write_down(table, number, self.redo.part(tablespace));
        let done = self.recorder.spill(&self.redo);
        self.redo.clear();
        self.has_spilled = true;
        done
    }
}

/// Runs `body` on several threads; returns all results, or the first error.
fn each<R: Send, E: Send>(
    threads: usize,
    body: impl Fn() -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(&body)).collect();
        let own = body();
        let others = others.into_iter().map(|thread| thread.join().expect("no panic in a thread"));
        std::iter::once(own).chain(others.collect::<Vec<_>>()).collect()
    })
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// Loads the rows of a source into a table, with `threads` threads. All of them are in the
    /// table in the end or none is.
    ///
    /// # Errors
    /// [`OpError::DuplicateKey`], [`OpError::Storage`], [`OpError::Journal`],
    /// [`OpError::ForeignTable`]; [`OpError::Abort`] if the source has stopped.
    pub fn load(
        &self,
        table: &Table<M>,
        source: &dyn RowSource,
        threads: usize,
    ) -> Result<Loaded, OpError> {
        if !Arc::ptr_eq(table.memory(), self.memory()) {
            return Err(OpError::ForeignTable(table.name().to_owned()));
        }
        let context = self.tables.context(table.id());
        // Entries of ordered indexes would lead to rows that are not in the table yet.
        let is_possible = context.indexes.is_empty() && context.is_untouched();
        let Some(bulk) = table.begin_bulk().filter(|_| is_possible) else {
            return Ok(Loaded::Used);
        };
        let log = self.recorder().map(|recorder| LoadLog {
            recorder,
            redo: Redo::default(),
            has_spilled: false,
        });
        let mut log = Latch::<M, _>::new(log);
        let loaded = self.load_claimed(context, bulk, source, &log, threads);
        if !matches!(loaded, Ok(Loaded::Rows { .. }))
            && let Some(log) = log.get_mut()
        {
            log.recorder.withdraw();
        }
        loaded
    }

    fn load_claimed(
        &self,
        context: &TableContext<S, M>,
        mut bulk: BulkSegments<'_, M>,
        source: &dyn RowSource,
        log: &Latch<M, Option<LoadLog>>,
        threads: usize,
    ) -> Result<Loaded, OpError> {
        let rows = M::Word::new(0);
        let hashed = each(threads, || build_segments(context, &bulk, source, log, &rows))?;
        let rows = rows.load(Ordering::Relaxed);
        bulk.sort();
        let segments = bulk.len() as u64;
        let build = IndexBuild::<M>::new(hashed);
        {
            let slot = bulk.reader();
            build_parts(context, &build, &slot, threads, &|| ())?;
        }
        let index = build.end();
        let mut log = log.take();
        if let Some(LoadLog { recorder, redo, has_spilled: true }) = &mut *log {
            recorder.admit(redo)?;
        }
        let mut member = self.memory().upkeep();
        let section = member.enter();
        let inside = section.inside();
        self.memory().seal(inside.epoch);
        let Some(untouched) = context.keep_untouched() else { return Ok(Loaded::Used) };
        let seen = context.gone_gsn();
        let mut gsn = seen;
        bulk.publish(Change::forward(inside), index, || {
            if let Some(LoadLog { recorder, redo, has_spilled: true }) = &mut *log {
                gsn = recorder.record(redo, Commit { epoch: inside.epoch, seen });
            }
            context.note_loaded(segments);
            gsn
        })?;
        drop(untouched);
        drop(section);
        Ok(Loaded::Rows { rows, committed: Committed { gsn, has_changes: gsn > seen } })
    }

    /// Builds the indexes of a restored table, with `threads` threads; nothing else uses the table
    /// meanwhile. Calls `progress` with the number of segments that are done.
    ///
    /// # Errors
    /// A key that two rows have.
    pub fn index_restored(
        &self,
        table: TableId,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), String> {
        let context = self.tables.context(table);
        let table = &*context.table;
        let segments = table.segment_count();
        // A thread for a few rows would take longer than the rows.
        let threads = threads.min(segments.div_ceil(8) as usize);
        let next = M::Word::new(0);
        let hash_segments = || {
            let (mut hashed, mut run) = (HashedRows::default(), KeyRun::default());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= segments {
                    return Ok::<_, String>(hashed);
                }
                self.hash_stored(context, number, &mut hashed, &mut run);
                progress(1);
            }
        };
        let build = IndexBuild::<M>::new(each(threads, hash_segments)?);
        let slot = |row| table.slot(row);
        let built = build_parts(context, &build, &slot, threads, &|| ());
        built.map_err(|error| match error {
            OpError::DuplicateKey { key, .. } => key,
            other => other.to_string(),
        })?;
        context.note_loaded(segments);
        table.index().adopt(build.end());
        Ok(())
    }

    /// Hashes the rows of a restored segment and adds their entries to the ordered indexes.
    fn hash_stored(
        &self,
        context: &TableContext<S, M>,
        number: u64,
        hashed: &mut HashedRows,
        run: &mut KeyRun,
    ) {
        let table = &*context.table;
        let mut member = self.memory().join();
        let _section = member.as_mut().map(|member| member.enter());
        let mut entry = Vec::new();
        for row in (0..SEGMENT_ROWS).map(|slot| RowId::new(number, slot)) {
            if !table.is_present(row) {
                continue;
            }
            let slot = table.slot(row);
            let hash = table.hash_stored(slot);
            hashed.add(hash, row);
            table.train(run, hash, row);
            for ordered in &context.indexes {
                ordered.key_of(&Row::stored(table, slot), &mut entry);
                // No transaction has read a gap yet, so any guard may protect any part of one.
                ordered.index.insert(&entry, row, &mut |_, _| true);
            }
        }
    }
}

/// A row with the key of another one, among the rows of a source with this schema; `key` returns
/// the key of a row.
pub fn duplicate_key<M: Machine>(
    schema: &Schema,
    source: &dyn RowSource,
    key: &(impl Fn(RowId) -> Vec<Value> + Sync),
    threads: usize,
) -> Option<RowId> {
    let hash_rows = || {
        let (mut hashed, mut hashes) = (HashedRows::default(), Vec::new());
        let mut rows = SegmentBuffer::new(schema);
        while let Ok(Some(number)) = source.next(&mut rows) {
            hash_buffered(schema, &rows, &mut hashes);
            for (slot, hash) in hashes.iter().enumerate() {
                hashed.add(*hash, RowId::new(number, slot));
            }
            rows.clear();
        }
        Ok::<_, RowId>(hashed)
    };
    let build = each(threads, hash_rows).map(IndexBuild::<M>::new).ok()?;
    let is_same = |one, other| key(one) == key(other);
    let steps = || {
        while build.step(&is_same).map_err(|(_, row)| row)? {}
        Ok(())
    };
    each(threads, steps).err()
}

/// Builds segments until the source has no more rows.
fn build_segments<S: Scheme<M>, M: Machine>(
    context: &TableContext<S, M>,
    bulk: &BulkSegments<'_, M>,
    source: &dyn RowSource,
    log: &Latch<M, Option<LoadLog>>,
    count: &M::Word,
) -> Result<HashedRows, OpError> {
    let table = bulk.table();
    let (mut hashed, mut run) = (HashedRows::default(), KeyRun::default());
    let (mut rows, mut hashes, mut bits) =
        (SegmentBuffer::new(table.schema()), Vec::new(), Vec::new());
    loop {
        rows.clear();
        let next = source.next(&mut rows).map_err(|Stopped| AbortReason::Requested)?;
        let Some(number) = next else { return Ok(hashed) };
        table.hash_buffered(&rows, &mut hashes);
        bulk.build(number, &rows, (&hashes, &mut run), &mut bits)?;
        for (slot, hash) in hashes.iter().enumerate() {
            hashed.add(*hash, RowId::new(number, slot));
        }
        if let Some(log) = &mut *log.take() {
            log.write(context.tablespace, (table.id(), number), &rows)?;
        }
        count.fetch_add(rows.rows() as u64, Ordering::Relaxed);
    }
}

/// Builds the parts of an index; `slot` finds the slots of its rows.
fn build_parts<'t, S: Scheme<M>, M: Machine>(
    context: &TableContext<S, M>,
    build: &IndexBuild<M>,
    slot: &(impl Fn(RowId) -> Slot<'t, M> + Sync),
    threads: usize,
    progress: &(dyn Fn() + Sync),
) -> Result<(), OpError> {
    let table = &*context.table;
    let key = |row| -> Vec<_> {
        let columns = table.schema().primary_key().iter();
        columns.map(|at| table.value_in(slot(row), *at)).collect()
    };
    let is_same = |one, other| key(one) == key(other);
    let steps = || {
        while build.step(&is_same)? {
            progress();
        }
        Ok(())
    };
    each(threads, steps).map(|_: Vec<()>| ()).map_err(|(_, row): (RowId, RowId)| {
        OpError::DuplicateKey { table: table.name().to_owned(), key: table.display_key(&key(row)) }
    })
}
