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

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_storage::index::{BuiltIndex, HashedRows, IndexBuild};
use atoll_storage::key;
use atoll_storage::ordered::{BuiltTree, EntryRun};
use atoll_storage::redo::Redo;
use atoll_storage::table::hash_buffered;
use atoll_storage::{
    BulkSegments, Change, KeyRun, RowId, Schema, SegmentBuffer, Slot, Table, TableId, TableSerial,
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

impl Drop for LoadLog {
    fn drop(&mut self) {
        // Does nothing after the commit.
        self.recorder.withdraw();
    }
}

impl LoadLog {
    /// Writes a segment to the log, ahead of the commit.
    fn write(
        &mut self,
        tablespace: u32,
        (table, number): (TableSerial, u64),
        rows: &SegmentBuffer,
    ) -> Result<(), JournalError> {
        rows.write_down(table, number, self.redo.part(tablespace));
        let done = self.recorder.spill(&self.redo);
        self.redo.clear();
        self.has_spilled = true;
        done
    }
}

/// Runs `body` on several threads, fewer if the system has no more; returns all results, or the
/// first error.
pub(crate) fn each<R: Send, E: Send>(
    threads: usize,
    body: impl Fn() -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, &body).ok();
        let others: Vec<_> = (1..threads.max(1)).map_while(spawn).collect();
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
        self.check_table(table)?;
        let context = self.tables.context(table.id());
        let Some(bulk) = table.begin_bulk().filter(|_| context.is_untouched()) else {
            return Ok(Loaded::Used);
        };
        let log = self.recorder().map(|recorder| LoadLog {
            recorder,
            redo: Redo::default(),
            has_spilled: false,
        });
        self.load_claimed(context, bulk, source, &Latch::new(log), threads)
    }

    fn load_claimed(
        &self,
        context: &TableContext<S, M>,
        mut bulk: BulkSegments<'_, M>,
        source: &dyn RowSource,
        log: &Latch<M, Option<LoadLog>>,
        threads: usize,
    ) -> Result<Loaded, OpError> {
        let (rows, has_failed) = (M::Word::new(0), M::Word::new(0));
        let gathered = each(threads, || {
            let built = build_segments(context, &bulk, source, log, (&rows, &has_failed));
            has_failed.fetch_max(built.is_err().into(), Ordering::Relaxed);
            built
        })?;
        let rows = rows.load(Ordering::Relaxed);
        bulk.sort();
        let segments = bulk.len() as u64;
        let built = build_indexes(context, gathered, &bulk.reader(), threads)?;
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
        let BuiltIndexes { hash, ordered } = built;
        let change = Change::forward(inside);
        bulk.publish(change, hash, || {
            if let Some(LoadLog { recorder, redo, has_spilled: true }) = &mut *log {
                gsn = recorder.record(redo, Commit { epoch: inside.epoch, seen });
            }
            context.note_loaded(segments);
            // Before a transaction can find a row, and change its entries.
            ordered.adopt();
            gsn
        })?;
        drop(untouched);
        drop(section);
        self.registry.count_load();
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
        let gather = || {
            let mut gathered = Gathered::new(context);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= segments {
                    return Ok::<_, String>(gathered);
                }
                self.gather_stored(context, number, &mut gathered);
                progress(1);
            }
        };
        let gathered = each(threads, gather)?;
        let built = build_indexes(context, gathered, &|row| table.slot(row), threads);
        let BuiltIndexes { hash, ordered } = built.map_err(|error| match error {
            OpError::DuplicateKey { key, .. } => key,
            other => other.to_string(),
        })?;
        context.note_loaded(segments);
        table.index().adopt(hash);
        ordered.adopt();
        Ok(())
    }

    /// Gathers the keys of the rows of a restored segment.
    fn gather_stored(&self, context: &TableContext<S, M>, number: u64, gathered: &mut Gathered) {
        let Gathered { hashed, run, entries, key } = gathered;
        let table = &*context.table;
        let mut member = self.memory().join();
        let _section = member.as_mut().map(|member| member.enter());
        for row in table.slots_of(number) {
            if !table.is_present(row) {
                continue;
            }
            let slot = table.slot(row);
            let hash = table.hash_stored(slot);
            hashed.add(hash, row);
            table.train(run, hash, row);
            for ((_, ordered), entries) in context.indexes().iter().zip(&mut *entries) {
                // Whether keys are unique was checked when the rows were inserted.
                ordered.key_of(&Row::stored(table, slot), key);
                entries.add(key, row, true);
            }
        }
    }
}

/// What a thread gathers for the indexes.
struct Gathered {
    hashed: HashedRows,
    run: KeyRun,
    /// One for each ordered index.
    entries: Vec<EntryRun>,
    /// A buffer.
    key: Vec<u8>,
}

impl Gathered {
    fn new<S: Scheme<M>, M: Machine>(context: &TableContext<S, M>) -> Self {
        let entries = context.indexes().iter().map(|_| EntryRun::default()).collect();
        let (hashed, run) = (HashedRows::default(), KeyRun::default());
        Self { hashed, run, entries, key: Vec::new() }
    }
}

/// The indexes of a load.
struct BuiltIndexes<'t, S: Scheme<M>, M: Machine> {
    hash: BuiltIndex<M>,
    ordered: BuiltTrees<'t, S, M>,
}

/// The ordered indexes of a load. Dropping it frees those that were not adopted.
struct BuiltTrees<'t, S: Scheme<M>, M: Machine> {
    context: &'t TableContext<S, M>,
    trees: Vec<BuiltTree>,
}

impl<S: Scheme<M>, M: Machine> BuiltTrees<'_, S, M> {
    fn adopt(mut self) {
        for ((_, ordered), tree) in self.context.indexes().iter().zip(self.trees.drain(..)) {
            ordered.index.adopt(tree);
        }
    }
}

impl<S: Scheme<M>, M: Machine> Drop for BuiltTrees<'_, S, M> {
    fn drop(&mut self) {
        for ((_, ordered), tree) in self.context.indexes().iter().zip(self.trees.drain(..)) {
            ordered.index.discard(tree);
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
    (count, has_failed): (&M::Word, &M::Word),
) -> Result<Gathered, OpError> {
    let table = bulk.table();
    let mut gathered = Gathered::new(context);
    let Gathered { hashed, run, entries, key } = &mut gathered;
    let (mut rows, mut hashes, mut bits) =
        (SegmentBuffer::new(table.schema()), Vec::new(), Vec::new());
    loop {
        if has_failed.load(Ordering::Relaxed) != 0 {
            return Ok(gathered); // Another thread returns the error.
        }
        rows.clear();
        let next = source.next(&mut rows).map_err(|Stopped| AbortReason::Requested)?;
        let Some(number) = next else { return Ok(gathered) };
        table.hash_buffered(&rows, &mut hashes);
        bulk.build(number, &rows, (&hashes, run), &mut bits)?;
        for (slot, hash) in hashes.iter().enumerate() {
            hashed.add(*hash, RowId::new(number, slot));
        }
        for ((_, ordered), entries) in context.indexes().iter().zip(&mut *entries) {
            for slot in 0..rows.rows() {
                let is_unique = ordered.key_of_buffered(&rows, slot, key);
                ordered.check_key_len(key)?;
                entries.add(key, RowId::new(number, slot), !is_unique);
            }
        }
        if let Some(log) = &mut *log.take() {
            log.write(context.tablespace, (table.serial(), number), &rows)?;
        }
        count.fetch_add(rows.rows() as u64, Ordering::Relaxed);
    }
}

/// Builds all indexes of a table; `slot` finds the slots of its rows.
fn build_indexes<'t, 'r, S: Scheme<M>, M: Machine>(
    context: &'t TableContext<S, M>,
    gathered: Vec<Gathered>,
    slot: &(impl Fn(RowId) -> Slot<'r, M> + Sync),
    threads: usize,
) -> Result<BuiltIndexes<'t, S, M>, OpError> {
    let table = &*context.table;
    let name = || table.name().to_owned();
    let values = |columns: &[usize], row| -> Vec<_> {
        columns.iter().map(|at| table.value_in(slot(row), *at)).collect()
    };
    let mut hashed = Vec::with_capacity(gathered.len());
    let mut runs: Vec<Vec<EntryRun>> = context.indexes().iter().map(|_| Vec::new()).collect();
    for Gathered { hashed: own, entries, .. } in gathered {
        hashed.push(own);
        runs.iter_mut().zip(entries).for_each(|(runs, own)| runs.push(own));
    }
    let build = IndexBuild::<M>::new(hashed);
    let key = table.schema().primary_key();
    let is_same = |one, other| values(key, one) == values(key, other);
    let steps = || {
        while build.step(&is_same)? {}
        Ok(())
    };
    each(threads, steps).map(|_: Vec<()>| ()).map_err(|(_, row): (RowId, RowId)| {
        OpError::DuplicateKey { table: name(), key: table.display_key(&values(key, row)) }
    })?;
    let hash = build.end();
    let mut ordered = BuiltTrees { context, trees: Vec::new() };
    for ((_, index), runs) in context.indexes().iter().zip(runs) {
        let tree = index.tree_of(runs, threads).map_err(|row| OpError::DuplicateIndexKey {
            table: name(),
            index: index.name.clone(),
            key: key::display(table.schema(), &index.columns, &values(&index.columns, row)),
        });
        ordered.trees.push(tree?);
    }
    Ok(BuiltIndexes { hash, ordered })
}
