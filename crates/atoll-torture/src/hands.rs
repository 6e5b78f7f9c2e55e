//! The operations of a transaction on the one table of a torture run; rows consist of integers.
//!
//! Only this module depends on the interface of the transaction layer.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use atoll::machine::Machine;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::undo::Was;
use atoll_storage::{Column, DataType, Directory, Schema, Table, Value, reader};
use atoll_txn::any::{AnyEngine, AnyTxn};
use atoll_txn::{
    AbortReason, Begin, Buffers, Engine, EngineOptions, IndexSpec, OpError, Pool, Range,
    Row as View, RowOp, Scheme, TableOptions, Visit, Want,
};

use super::workload::{Plan, Walk};

/// Column of the key.
pub const ID: usize = 0;
/// Column of the row's version.
pub const VERSION: usize = 1;
/// Column of the second index.
pub const PLACE: usize = 2;
/// Column of a number that follows from version and place; it reveals a torn row.
pub const MARK: usize = 3;
/// Column of a number that is written by itself: a version and the amount.
pub const AMOUNT: usize = 4;
/// Column that is written without being read.
pub const STAMP: usize = 5;
/// Column of the name; names are unique.
pub const NAME: usize = 6;
/// Column of the version in which the row got its name, with the name.
pub const NAMED: usize = 7;
/// Number of columns.
pub const COLUMNS: usize = 8;

/// A row.
pub type Row = [i64; COLUMNS];

/// The way in which operations are passed to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// In one call.
    Together,
    /// Each in a call of its own.
    Alone,
    /// One after the other, in one access.
    OneByOne,
}

/// The reason why a transaction ended early.
#[derive(Debug)]
pub enum Halt {
    /// A conflict rolled it back.
    Conflict,
    /// It was rolled back because another row has the name.
    Taken,
    /// An error that must not occur.
    Error(String),
}

impl From<OpError> for Halt {
    fn from(stop: OpError) -> Self {
        match stop {
            OpError::Abort(reason) if reason.is_conflict() => Self::Conflict,
            OpError::DuplicateIndexKey { .. } => Self::Taken,
            other => Self::Error(other.to_string()),
        }
    }
}

/// The index of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByName {
    /// There is no index, and names need not be unique.
    Missing,
    /// Names are unique.
    Unique,
    /// A planted fault: the index does not check whether a name exists.
    Unchecked,
}

/// A database with one table.
pub struct Ground<M: Machine> {
    pub(super) engine: Arc<dyn AnyEngine<M>>,
    table: Arc<Table<M>>,
}

/// Creates the engine of a run.
pub type Maker<M> = Box<dyn FnOnce(Arc<Directory>, EngineOptions) -> Arc<dyn AnyEngine<M>>>;

/// Creates an engine with this scheme.
pub fn with_scheme<S: Scheme<M>, M: Machine>(scheme: S) -> Maker<M> {
    Box::new(|directory, options| Pool::new(Arc::new(Engine::new(scheme, directory, options))))
}

fn row_of<M: Machine>(view: &View<'_, M>) -> Row {
    std::array::from_fn(|at| view.i64(at))
}

/// Memory for the tables of a run.
///
/// # Errors
/// An error of the system.
pub fn directory() -> Result<Directory, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let swing = SwingConfig { buddy_bytes: 1 << 28, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&swing),
        limit_bytes: 192 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("torture", &options).map_err(|e| text(&e))?);
    let swing = SwingMalloc::create(Arc::clone(&store), &swing).map_err(|e| text(&e))?;
    Directory::create(Arc::new(Memory::new(store, swing))).map_err(|e| text(&e))
}

impl<M: Machine> Ground<M> {
    /// An empty table of a new engine.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new(make: Maker<M>, options: EngineOptions, by_name: ByName) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let engine = make(Arc::new(directory()?), options);
        let names = ["id", "version", "place", "mark", "amount", "stamp", "name", "named"];
        let columns = names.map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.to_vec(), &["id"]).map_err(|e| text(&e))?;
        let index = |name: &str, column: &str, unique| {
            let (name, columns) = (name.to_owned(), vec![column.to_owned()]);
            IndexSpec { name, columns, unique, nulls_not_distinct: false }
        };
        let mut indexes = vec![index("by_id", "id", false), index("by_place", "place", false)];
        if by_name != ByName::Missing {
            indexes.push(index("by_name", "name", by_name == ByName::Unique));
        }
        let options = TableOptions { indexes, ..TableOptions::default() };
        let table = engine.create_table("t", schema, &options).map_err(|e| text(&e))?;
        Ok(Self { engine, table })
    }

    /// A transaction for one thread.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn hands(&self) -> Result<Hands<M>, String> {
        let (engine, table) = (Arc::clone(&self.engine), Arc::clone(&self.table));
        let txn = Arc::clone(&engine).any_txn().map_err(|stop| stop.to_string())?;
        Ok(Hands { engine, table, txn })
    }

    /// The rows that a snapshot taken now shows, in any order. With `patched`, as it must be,
    /// changes that had not committed are undone.
    ///
    /// # Errors
    /// An error that prevents reading the snapshot.
    pub fn snapshot(&self, patched: bool, mut pause: impl FnMut()) -> Result<Vec<Row>, String> {
        let memory = self.engine.memory();
        let taking = self.engine.taking();
        pause();
        let cut = memory.cut();
        pause();
        let mut patch = taking.collect(cut.epoch);
        patch.truncate(if patched { usize::MAX } else { 0 });
        drop(taking);
        pause();
        let rows = self.shown(cut.root, &patch).map_err(|error| error.to_string());
        memory.release(cut.epoch);
        rows
    }

    fn shown(
        &self,
        root: u64,
        patch: &[atoll_storage::undo::Entry],
    ) -> Result<Vec<Row>, atoll_storage::StorageError> {
        let view = self.engine.memory().access().view();
        let mut rows = Vec::new();
        for table in &reader::tables(view, root)? {
            for number in 0..table.segments {
                let segment = table.segment(view, number)?;
                let mut columns = [0; COLUMNS];
                for (at, place) in columns.iter_mut().enumerate() {
                    *place = table.column(view, &segment, at)?.values.offset;
                }
                for slot in 0..segment.filled as u64 {
                    let word = view.load_u64(segment.presence.offset + slot / 64 * 8);
                    let mut is_present = word >> (slot % 64) & 1 == 1;
                    let mut row = columns.map(|place| view.load_u64(place + slot * 8) as i64);
                    let undone = patch.iter().filter(|entry| {
                        entry.table == table.id
                            && entry.row.segment() == number
                            && entry.row.slot() as u64 == slot
                    });
                    for entry in undone {
                        match &entry.was {
                            Was::Presence(present) => is_present = *present,
                            Was::Value { column, image, .. } => {
                                let bytes = image.first_chunk().copied().unwrap_or_default();
                                row[usize::from(*column)] = i64::from_le_bytes(bytes);
                            }
                        }
                    }
                    if is_present {
                        rows.push(row);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Frees extents that wait only until no worker reads them.
    pub fn reclaim(&self) {
        self.engine.memory().reclaim();
    }

    /// Bytes and leases that snapshots still hold.
    pub fn kept(&self) -> (u64, u64) {
        let memory = self.engine.memory();
        (memory.kept_bytes_all(), memory.leases())
    }

    /// Whether the slot of a key has an exact prediction.
    #[cfg(test)]
    pub(super) fn is_exact(&self, key: i64) -> bool {
        self.table.locate_exact(&[key.into()]).is_some()
    }
}

/// The transactions of one thread.
pub struct Hands<M: Machine> {
    engine: Arc<dyn AnyEngine<M>>,
    table: Arc<Table<M>>,
    txn: Box<dyn AnyTxn<M>>,
}

impl<M: Machine> Hands<M> {
    /// Begins a transaction that accesses only these keys; `None`: any keys.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn begin(&mut self, keys: Option<&[i64]>, plan: &Plan) -> Result<(), Halt> {
        let keys = keys.unwrap_or_default().iter();
        let partitions: Vec<u32> =
            keys.map(|key| self.engine.partition(&[(*key).into()])).collect();
        Ok(self.txn.begin(Begin {
            partitions: &partitions,
            read_only: plan.read_only,
            hurried: plan.hurried,
        })?)
    }

    /// Lets go of the worker until the next operation.
    pub fn park(&mut self) {
        self.txn.park();
    }

    /// Collects up to `most` entries of the garbage queue of each worker that is not in use, the
    /// own one among them; called between transactions.
    pub fn collect_garbage(&mut self, most: usize) {
        self.txn.park();
        self.engine.collect_garbage(most);
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn commit(&mut self) -> Result<(), Halt> {
        Ok(self.txn.commit()?)
    }

    /// Rolls back; does nothing when the transaction has ended.
    pub fn roll_back(&mut self) {
        self.txn.abort(AbortReason::Requested);
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn read(&mut self, key: i64) -> Result<Option<Row>, Halt> {
        let mut row = None;
        let found = self.txn.read_with(&self.table, &[key.into()], &mut |view| {
            row = Some(row_of(view));
        })?;
        Ok(row.filter(|_| found))
    }

    /// Changes columns without reading them. Returns false when there is no such row.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn update(&mut self, key: i64, changes: &[(usize, i64)]) -> Result<bool, Halt> {
        let changes: Vec<(usize, Value)> =
            changes.iter().map(|(column, number)| (*column, (*number).into())).collect();
        Ok(self.txn.update(&self.table, &[key.into()], &changes)?)
    }

    /// Changes columns depending on the old row, with one lookup; returns the old row.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn edit(
        &mut self,
        key: i64,
        change: impl Fn(&Row) -> Vec<(usize, i64)>,
    ) -> Result<Option<Row>, Halt> {
        let mut before = None;
        let found = self.txn.update_with(&self.table, &[key.into()], &mut |edit| {
            let row = row_of(edit);
            change(&row).into_iter().for_each(|(column, number)| edit.set_i64(column, number));
            before = Some(row);
        })?;
        Ok(before.filter(|_| found))
    }

    /// Visits rows together: `change` receives each row with its position and returns the new
    /// values; returns the old rows. Rows without `changes` are only read.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn visit(
        &mut self,
        keys: &[i64],
        changes: impl Fn(usize) -> bool,
        change: impl Fn(usize, &Row) -> Vec<(usize, i64)>,
    ) -> Result<Vec<Option<Row>>, Halt> {
        let mut before = vec![None; keys.len()];
        let keys: Vec<Value> = keys.iter().map(|key| (*key).into()).collect();
        let wants = |at| Want { columns: &[VERSION, PLACE], update: changes(at) };
        self.txn.visit(&self.table, &keys, &wants, &mut |at, visit| {
            before[at] = match visit {
                Visit::Absent => None,
                Visit::Read(view) => Some(row_of(view)),
                Visit::Update(edit) => {
                    let row = row_of(edit);
                    let numbers = change(at, &row).into_iter();
                    numbers.for_each(|(column, number)| edit.set_i64(column, number));
                    Some(row)
                }
            };
        })?;
        Ok(before)
    }

    /// Reads all columns of each row and puts numbers into some of them, by operations that are
    /// passed as `how` says; returns the old rows. `Err`: a row was present for one of its
    /// operations and absent for another; such a transaction must not commit.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn apply(
        &mut self,
        keys: &[i64],
        how: How,
        puts: impl Fn(usize) -> Vec<(usize, i64)>,
    ) -> Result<Result<Vec<Option<Row>>, String>, Halt> {
        let (mut wanted, mut ops, mut of) = (Vec::new(), Vec::new(), Vec::new());
        let mut input = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let to = |column| (at * COLUMNS + column) * 8;
            ops.extend((0..COLUMNS).map(|column| RowOp::Get { column, to: to(column) }));
            for (column, number) in puts(at) {
                ops.push(RowOp::Put { column, from: input.len() });
                input.extend(number.to_le_bytes());
            }
            of.resize(ops.len(), at);
            wanted.resize_with(ops.len(), || Value::from(*key));
        }
        let mut output = vec![0; keys.len() * COLUMNS * 8];
        let mut absent = vec![0; keys.len()];
        if how == How::OneByOne {
            self.access(&wanted, &ops, (&input, &mut output), &mut |at| absent[of[at]] += 1)?;
        } else {
            let of_a_call = if how == How::Together { ops.len().max(1) } else { 1 };
            let calls = wanted.chunks(of_a_call).zip(ops.chunks(of_a_call));
            for ((wanted, ops), of) in calls.zip(of.chunks(of_a_call)) {
                let buffers = Buffers { input: &input, output: &mut output };
                let mut note = |operation: usize| absent[of[operation]] += 1;
                self.txn.apply(&self.table, wanted, ops, buffers, &mut note)?;
            }
        }
        let rows = output.as_chunks::<8>().0.as_chunks::<COLUMNS>().0.iter().enumerate();
        Ok(rows
            .map(|(at, row)| match absent[at] {
                0 => Ok(Some(row.map(i64::from_le_bytes))),
                some if some == of.iter().filter(|one| **one == at).count() => Ok(None),
                some => Err(format!("row {} was absent for {some} of its operations", keys[at])),
            })
            .collect())
    }

    /// Performs operations one after the other, inside the gate for all of them if possible; calls
    /// `absent` with the position of an operation on a missing row.
    fn access(
        &mut self,
        keys: &[Value],
        ops: &[RowOp],
        (input, output): (&[u8], &mut [u8]),
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError> {
        let mut done = Ok(());
        self.txn.cursor(&self.table, &mut |rows| {
            let mut operations = keys.chunks(1).zip(ops).enumerate();
            done = operations.try_for_each(|(at, (key, op))| {
                let is_there = match *op {
                    RowOp::Get { column, to } => rows.get(key, column, &mut output[to..])?,
                    RowOp::Put { column, from } => rows.put(key, column, &input[from..])?,
                };
                if !is_there {
                    absent(at);
                }
                Ok(())
            });
        })?;
        done
    }

    /// Inserts a row. Returns false when its key exists.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn insert(&mut self, row: &Row) -> Result<bool, Halt> {
        match self.txn.insert(&self.table, &row.map(Value::from)) {
            Ok(()) => Ok(true),
            Err(OpError::DuplicateKey { .. }) => Ok(false),
            Err(stop) => Err(stop.into()),
        }
    }

    /// Inserts rows in one call, up to the first with a key that exists; returns their number.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn insert_rows(&mut self, rows: &[Row]) -> Result<usize, Halt> {
        let values: Vec<Value> = rows.iter().flatten().map(|value| Value::from(*value)).collect();
        match self.txn.insert(&self.table, &values) {
            Ok(()) => Ok(rows.len()),
            Err(OpError::DuplicateKey { key, .. }) => {
                let name = &self.table.schema().columns()[ID].name;
                let taken = rows.iter().position(|row| format!("{name} = {}", row[ID]) == key);
                taken.ok_or_else(|| Halt::Error(format!("{key} was not to be inserted")))
            }
            Err(stop) => Err(stop.into()),
        }
    }

    /// Deletes a row. Returns false when there is no such row.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn delete(&mut self, key: i64) -> Result<bool, Halt> {
        Ok(self.txn.delete(&self.table, &[key.into()])?)
    }

    /// The rows of a range of a column's index in the order of the walk.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn scan(&mut self, column: usize, walk: &Walk) -> Result<Vec<Row>, Halt> {
        let index = [ID, PLACE, NAME].iter().position(|indexed| *indexed == column);
        let index = index.expect("the indexes are over these columns");
        let (from, to) = ([walk.from.into()], [walk.to.into()]);
        let range = Range {
            from: Bound::Included(&from[..]),
            to: Bound::Included(&to[..]),
            descending: walk.descending,
        };
        let (mut rows, seen) = (Vec::new(), Cell::new([0; COLUMNS]));
        let look: &mut dyn FnMut(&View<'_, M>) = &mut |view| seen.set(row_of(view));
        self.txn.scan(&self.table, index, &range, look, &mut || {
            rows.push(seen.get());
            match rows.len() == walk.limit {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(rows)
    }

    /// Reads all rows, in no order.
    ///
    /// # Errors
    /// [`Halt`].
    pub fn scan_heap(&mut self) -> Result<Vec<Row>, Halt> {
        let (mut rows, seen) = (Vec::new(), Cell::new([0; COLUMNS]));
        let look: &mut dyn FnMut(&View<'_, M>) = &mut |view| seen.set(row_of(view));
        self.txn.scan_heap(&self.table, look, &mut || {
            rows.push(seen.get());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}
