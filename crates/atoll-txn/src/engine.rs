//! The engine: tables with a scheme's states beside their rows.
//!
//! The life of a transaction, which [`crate::worker`] carries out:
//! *begin* → *find* (index) → *read* and *write* (ask the scheme; store at once with an undo entry,
//! or keep it in the write set) → *commit* (`validated`, stored, then `visible` when the scheme
//! lets go) or *abort* (undo in reverse, let go).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atoll_machine::Machine;
use atoll_machine::huge_pages::{self, Array};
use atoll_memory::Memory;
use atoll_storage::ordered::encode::KeyColumn;
use atoll_storage::ordered::{GuardId, OrderedIndex};
use atoll_storage::stable::{PerRow, StableVec};
use atoll_storage::types::COLUMNS_MAX;
use atoll_storage::undo::Entry;
use atoll_storage::{
    Change, Directory, RowId, SEGMENT_ROWS, Schema, StorageError, Table, TableId, Value,
};

use crate::accounting::SAMPLE_EVERY;
use crate::describe::{self, Description};
use crate::error::Stop;
use crate::journal::{Journal, Recorder};
use crate::registry::{Counts, Registry, Taking};
use crate::row::{ColumnSet, Row};
use crate::rows::Meta;
use crate::scheme::{Guarded, Place, Scheme, States};
use crate::worker::{Graves, Worker, key_of};

/// Most workers at a time; a place at the gate is kept for upkeep.
pub const WORKERS_MAX: usize = atoll_memory::gate::MEMBERS_MAX - 1;
/// Stripes of a table's hashes, see [`Guarded::Gap`].
const STRIPES: usize = 1 << 12;
/// Guards of an ordered index are kept in lists of this many.
const GUARDS: u64 = 1 << 10;
/// Most indexes of a table.
pub const INDEXES_MAX: usize = 64;

/// Settings of an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Partitions that a partitioned scheme knows; at least one.
    pub partitions: u32,
    /// Whether it is measured where the time goes.
    pub accounting: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { partitions: 1, accounting: true }
    }
}

/// An ordered index that a table is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// Its name, unique in the table.
    pub name: String,
    /// Names of its columns, in the order in which rows are to be sorted.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in them. NULL is no value.
    pub unique: bool,
}

/// What else a new table is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Ordered indexes.
    pub indexes: Vec<IndexSpec>,
    /// The table belongs to every partition: it is read in any of them, and writing it needs them
    /// all.
    pub replicated: bool,
    /// Number of its tablespace, whose log its changes go to; by default one after the other.
    pub tablespace: Option<u32>,
}

/// An ordered index of a table.
pub struct Ordered<S: Scheme<M>, M: Machine> {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) key: Vec<KeyColumn>,
    pub(crate) unique: bool,
    /// All its columns are of the primary key, so an update never moves a row in it.
    pub(crate) fixed: bool,
    pub(crate) index: OrderedIndex<M>,
    gaps: StableVec<Box<[S::Gap]>>,
}

/// A table, what lies beside its rows, and its indexes.
pub struct Guard<S: Scheme<M>, M: Machine> {
    table_id: TableId,
    pub(crate) table: Arc<Table<M>>,
    pub(crate) rows: PerRow<Meta<S, M>>,
    stripes: Array<S::Gap>,
    pub(crate) indexes: Vec<Ordered<S, M>>,
    pub(crate) replicated: bool,
    pub(crate) tablespace: u32,
    /// The greatest GSN of a commit that deleted a row, or moved one in an index.
    gone: GoneGsn,
    /// Columns with which an update moves a row in an index.
    pub(crate) moving: ColumnSet,
    /// Its columns whose long values lie elsewhere.
    pub(crate) views: ColumnSet,
}

/// On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct GoneGsn(AtomicU64);

/// The tables by number.
pub struct Tables<S: Scheme<M>, M: Machine>(StableVec<Guard<S, M>>);

/// See the module.
pub struct Engine<S: Scheme<M>, M: Machine> {
    pub(crate) scheme: S,
    directory: Arc<Directory>,
    pub(crate) tables: Tables<S, M>,
    names: Mutex<Vec<Arc<Table<M>>>>,
    pub(crate) registry: Registry<M>,
    partitions: u32,
    pub(crate) sample_every: u32,
    workers: Mutex<Numbers>,
    /// What workers that are gone have left to be taken away.
    left: Mutex<Vec<Graves>>,
    journal: OnceLock<Arc<dyn Journal>>,
}

/// Numbers of workers; the smallest free one is given out.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    used: u32,
}

impl<S: Scheme<M>, M: Machine> Tables<S, M> {
    /// A table and what lies beside it.
    #[inline]
    pub(crate) fn guard(&self, table: TableId) -> &Guard<S, M> {
        self.0.get(u64::from(table.0)).expect("a table id comes from this engine")
    }

    /// A table.
    pub fn table(&self, table: TableId) -> &Arc<Table<M>> {
        &self.guard(table).table
    }

    /// Finds tables one after the other, most of them the same as the one before.
    #[inline]
    pub(crate) fn in_turn<'t>(&'t self) -> impl FnMut(TableId) -> &'t Guard<S, M> {
        let mut latest: Option<&Guard<S, M>> = None;
        move |table| match latest {
            Some(guard) if guard.table_id == table => guard,
            _ => latest.insert(self.guard(table)),
        }
    }
}

impl<S: Scheme<M>, M: Machine> States<S::State, S::Gap> for Tables<S, M> {
    #[inline]
    fn row(&self, place: Place) -> &S::State {
        let Guarded::Row(row) = place.what() else { panic!("{place:?} is no row") };
        &self.guard(place.table()).rows.get(RowId(row)).state
    }

    #[inline]
    fn rows<'s>(&'s self) -> impl FnMut(Place) -> &'s S::State
    where
        S::State: 's,
    {
        let mut guard = self.in_turn();
        move |place| {
            let Guarded::Row(row) = place.what() else { panic!("{place:?} is no row") };
            &guard(place.table()).rows.get(RowId(row)).state
        }
    }

    fn gap(&self, place: Place) -> &S::Gap {
        let Guarded::Gap(index, guard) = place.what() else { panic!("{place:?} is no gap") };
        self.guard(place.table()).gap(index, guard)
    }
}

impl<S: Scheme<M>, M: Machine> Guard<S, M> {
    /// The indexes of a new table.
    fn indexes(
        schema: &Schema,
        options: &TableOptions,
    ) -> Result<Vec<Ordered<S, M>>, StorageError> {
        let mut indexes: Vec<Ordered<S, M>> = Vec::new();
        for spec in &options.indexes {
            if indexes.iter().any(|index| index.name == spec.name) {
                let message = format!("there are two indexes with the name \"{}\"", spec.name);
                return Err(StorageError::Schema(message));
            }
            indexes.push(Ordered::new(schema, spec)?);
        }
        if indexes.len() > INDEXES_MAX {
            let message = format!("a table has {INDEXES_MAX} indexes at most");
            return Err(StorageError::Schema(message));
        }
        Ok(indexes)
    }

    fn new(table: Arc<Table<M>>, indexes: Vec<Ordered<S, M>>, options: &TableOptions) -> Self {
        let mut moving = ColumnSet::default();
        let in_indexes = indexes.iter().flat_map(|index| &index.columns);
        let moves = |at: &&usize| !table.schema().is_in_key(**at);
        in_indexes.filter(moves).for_each(|at| moving.add(*at));
        let mut views = ColumnSet::default();
        let columns = table.schema().columns().iter().enumerate();
        columns.filter(|(_, one)| one.data_type.is_view()).for_each(|(at, _)| views.add(at));
        Self {
            table_id: table.id(),
            table,
            views,
            rows: PerRow::default(),
            stripes: huge_pages::collect(STRIPES, |_| S::Gap::default()),
            indexes,
            replicated: options.replicated,
            tablespace: options.tablespace.unwrap_or(0),
            gone: GoneGsn::default(),
            moving,
        }
    }

    /// What whoever finds something absent has seen.
    #[inline]
    pub(crate) fn gone_gsn(&self) -> u64 {
        self.gone.0.load(Ordering::Acquire)
    }

    pub(crate) fn raise_gone(&self, gsn: u64) {
        self.gone.0.fetch_max(gsn, Ordering::AcqRel);
    }

    pub(crate) fn gap(&self, index: u16, guard: u32) -> &S::Gap {
        if index == 0 {
            return &self.stripes[guard as usize];
        }
        let gaps = &self.indexes[usize::from(index) - 1].gaps;
        let (list, at) = (u64::from(guard) / GUARDS, u64::from(guard) % GUARDS);
        let make = || (0..GUARDS).map(|_| S::Gap::default()).collect();
        &gaps.get_or_init(list, make)[at as usize]
    }

    /// The stripe of a hash.
    #[inline]
    pub(crate) fn stripe(&self, hash: u64) -> (Place, &S::Gap) {
        let number = (hash >> 20) as u32 & (STRIPES as u32 - 1);
        (self.gap_place(0, number), &self.stripes[number as usize])
    }

    /// The guard of a leaf of an ordered index.
    pub(crate) fn leaf(&self, index: usize, guard: GuardId) -> (Place, &S::Gap) {
        let number = index as u16 + 1;
        (self.gap_place(number, guard.0), self.gap(number, guard.0))
    }

    fn gap_place(&self, index: u16, guard: u32) -> Place {
        Place::gap(self.table_id, index, guard)
    }

    /// A row as a place.
    #[inline]
    pub(crate) fn place(&self, row: RowId) -> Place {
        Place::row(self.table_id, row.0)
    }

    /// Position of an index.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|index| index.name == name)
    }
}

impl<S: Scheme<M>, M: Machine> Ordered<S, M> {
    fn new(schema: &Schema, spec: &IndexSpec) -> Result<Self, StorageError> {
        atoll_storage::types::check_name("index", &spec.name)?;
        let mut columns = Vec::new();
        for name in &spec.columns {
            let unknown = || {
                let index = &spec.name;
                StorageError::Schema(format!("index \"{index}\": there is no column \"{name}\""))
            };
            columns.push(schema.position(name).ok_or_else(unknown)?);
        }
        if columns.is_empty() {
            let message = format!("index \"{}\" has no columns; name at least one", spec.name);
            return Err(StorageError::Schema(message));
        }
        if columns.len() > COLUMNS_MAX {
            let message = format!("index \"{}\" has {COLUMNS_MAX} columns at most", spec.name);
            return Err(StorageError::Schema(message));
        }
        let described = columns.iter().map(|at| &schema.columns()[*at]);
        let key = described
            .map(|column| KeyColumn { data_type: column.data_type, nullable: column.nullable });
        Ok(Self {
            name: spec.name.clone(),
            key: key.collect(),
            unique: spec.unique,
            fixed: columns.iter().all(|column| schema.is_in_key(*column)),
            columns,
            index: OrderedIndex::default(),
            gaps: StableVec::default(),
        })
    }
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// An engine without tables over a directory.
    pub fn new(scheme: S, directory: Arc<Directory>, options: EngineOptions) -> Self {
        Self {
            scheme,
            directory,
            tables: Tables(StableVec::default()),
            names: Mutex::default(),
            registry: Registry::default(),
            partitions: options.partitions.max(1),
            sample_every: if options.accounting { SAMPLE_EVERY } else { 0 },
            workers: Mutex::default(),
            left: Mutex::default(),
            journal: OnceLock::new(),
        }
    }

    /// From now on transactions are recorded. To be called once, before there are workers.
    ///
    /// # Panics
    /// When it has been called before.
    pub fn record_to(&self, journal: Arc<dyn Journal>) {
        assert!(self.journal.set(journal).is_ok(), "an engine has one journal");
    }

    pub(crate) fn recorder(&self) -> Option<Box<dyn Recorder>> {
        self.journal.get().map(|journal| Arc::clone(journal).recorder())
    }

    /// The memory of the database.
    pub fn memory(&self) -> &Arc<Memory> {
        self.directory.memory()
    }

    /// The scheme.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// The tables by number.
    pub fn tables(&self) -> &Tables<S, M> {
        &self.tables
    }

    /// Partitions that the scheme knows.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The partition of a key: of its first column, see [`partition_of`].
    pub fn partition(&self, key: &[Value]) -> u32 {
        partition_of(key.first(), self.partitions)
    }

    /// Adds a table; it is there at once and for all, outside any transaction.
    ///
    /// # Errors
    /// [`StorageError::TableExists`], [`StorageError::Schema`], [`StorageError::Memory`].
    pub fn create_table(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, Stop> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|table| table.name() == name) {
            return Err(StorageError::TableExists(name.to_owned()).into());
        }
        // Everything that can be wrong is found before anything is recorded.
        atoll_storage::types::check_name("table", name)?;
        let indexes = Guard::<S, M>::indexes(&schema, options)?;
        let mut options = options.clone();
        let TableOptions { tablespace, .. } = &mut options;
        let mut recorder = self.recorder();
        let mut description = Vec::new();
        if let Some(recorder) = &mut recorder {
            let id = names.len() as u32;
            let tablespace = *tablespace.get_or_insert(id % recorder.tablespaces());
            recorder.check_tablespace(tablespace)?;
            description = describe::encode(id, name, &schema, &options);
            recorder.admit_table(&description)?;
        }
        let mut member = self.memory().upkeep();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let created = Table::create(&self.directory, change, name, schema);
        let table = match created {
            Ok(table) => Arc::new(table),
            Err(error) => {
                if let Some(recorder) = &mut recorder {
                    recorder.withdraw();
                }
                return Err(error.into());
            }
        };
        let mut gsn = 0;
        if let Some(recorder) = &mut recorder {
            // Whoever uses the table comes after it.
            gsn = recorder.record_table(&description, section.inside().epoch);
        }
        drop(section);
        drop(member);
        let guard = Guard::new(Arc::clone(&table), indexes, &options);
        guard.raise_gone(gsn);
        self.tables.0.get_or_init(u64::from(table.id().0), || guard);
        names.push(Arc::clone(&table));
        Ok(table)
    }

    /// Adds a table that a log or a home has described, without rows. Tables come in the order of
    /// their numbers.
    ///
    /// # Errors
    /// As [`Engine::create_table`].
    pub fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, Stop> {
        let Description { name, schema, options, .. } = described;
        self.create_table(&name, schema, &options)
    }

    /// Gives the rows of some segments of a restored table their entries in its indexes. Nobody
    /// else uses the table, but for others who do the same with other segments. A key that two rows
    /// have is returned.
    pub fn adopt(&self, table: TableId, segments: std::ops::Range<u64>) -> Option<String> {
        /// Rows whose lines of the index are on their way while others are added.
        const TOGETHER: usize = 32;
        let guard = self.tables.guard(table);
        let table = &guard.table;
        let mut keys = vec![Vec::new(); TOGETHER];
        let mut hashed = Vec::with_capacity(TOGETHER);
        let mut entry = Vec::new();
        let slots = |number| (0..SEGMENT_ROWS).map(move |slot| RowId::new(number, slot));
        let mut rows = segments.flat_map(slots).filter(|row| table.is_present(*row));
        loop {
            hashed.clear();
            for row in rows.by_ref().take(TOGETHER) {
                let key = &mut keys[hashed.len()];
                key.clear();
                key.extend(table.schema().primary_key().iter().map(|at| table.value(row, *at)));
                let hash = table.hash(key);
                M::touch(table.index().home(hash).line(), 1);
                hashed.push((row, hash));
            }
            if hashed.is_empty() {
                return None;
            }
            for ((row, hash), key) in hashed.iter().copied().zip(&keys) {
                let meta = guard.rows.get(row);
                self.scheme.adopt(&meta.state);
                let is_same = |other: RowId| {
                    guard.rows.get(other).has_hash(hash)
                        && (table.is_exact(hash) || table.has_key(other, key))
                };
                let named = || meta.set_hash(hash);
                if table.index().insert(hash, row, is_same, named).is_some() {
                    return Some(table.display_key(key));
                }
                let view = Row::stored(&**table, table.slot(row));
                for ordered in &guard.indexes {
                    key_of(ordered, &view, &mut entry);
                    // Nobody watches a gap yet, so any part of one may be guarded by any guard.
                    ordered.index.insert(&entry, row, &mut |_, _| true);
                }
            }
        }
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<Arc<Table<M>>, StorageError> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.iter().find(|table| table.name() == name);
        found.cloned().ok_or_else(|| StorageError::UnknownTable(name.to_owned()))
    }

    /// Position of an ordered index of a table.
    ///
    /// # Errors
    /// [`Stop::UnknownIndex`].
    pub fn index(&self, table: &Table<M>, name: &str) -> Result<usize, Stop> {
        let unknown =
            || Stop::UnknownIndex { table: table.name().to_owned(), index: name.to_owned() };
        self.tables.guard(table.id()).position(name).ok_or_else(unknown)
    }

    /// The ordered indexes of a table.
    pub fn indexes(&self, table: TableId) -> Vec<IndexSpec> {
        let guard = self.tables.guard(table);
        let columns = guard.table.schema().columns();
        let specs = guard.indexes.iter().map(|index| IndexSpec {
            name: index.name.clone(),
            columns: index.columns.iter().map(|at| columns[*at].name.clone()).collect(),
            unique: index.unique,
        });
        specs.collect()
    }

    /// What a table was made with.
    pub fn table_options(&self, table: TableId) -> TableOptions {
        let guard = self.tables.guard(table);
        let (replicated, tablespace) = (guard.replicated, Some(guard.tablespace));
        TableOptions { indexes: self.indexes(table), replicated, tablespace }
    }

    /// All tables in the order of creation.
    pub fn all_tables(&self) -> Vec<Arc<Table<M>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A worker; for one thread at a time.
    ///
    /// # Errors
    /// [`Stop::TooManyWorkers`].
    pub fn worker(self: &Arc<Self>) -> Result<Worker<S, M>, Stop> {
        let member = self.memory().join().ok_or(Stop::TooManyWorkers(WORKERS_MAX))?;
        let mut numbers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.used += 1;
            numbers.used - 1
        });
        drop(numbers);
        Ok(Worker::new(Arc::clone(self), member, number))
    }

    /// A worker is gone and could not take this away.
    pub(crate) fn leave(&self, graves: Graves) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(graves);
    }

    /// Something that another worker has left.
    pub(crate) fn take_left(&self) -> Graves {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// A worker is gone.
    pub(crate) fn take_back(&self, number: u32) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).free.push(number);
    }

    /// Transactions ended so far.
    pub fn counts(&self) -> Counts {
        self.registry.counts()
    }

    /// A snapshot is going to be taken, see [`Registry::taking`].
    pub fn taking(&self) -> Taking<'_, M> {
        self.registry.taking()
    }

    /// What a snapshot of `epoch` must undo on its side, see [`Taking::collect`].
    pub fn open_at(&self, taking: &Taking<'_, M>, epoch: u64) -> Vec<Entry> {
        taking.collect(epoch, |table, column| self.tables.guard(table).table.image_bytes(column))
    }
}

/// The partition of a value: integers one after the other, anything else by its hash.
pub fn partition_of(first: Option<&Value>, partitions: u32) -> u32 {
    let number = match first {
        Some(Value::Int16(value)) => *value as u64,
        Some(Value::Int32(value) | Value::Date(value)) => *value as u64,
        Some(Value::Int64(value) | Value::Timestamp(value)) => *value as u64,
        Some(other) => atoll_storage::key::hash(std::slice::from_ref(other)),
        None => 0,
    };
    let partitions = u64::from(partitions);
    // Mostly a power of two, and a division for every access is dear.
    let is_mask = partitions.is_power_of_two();
    (if is_mask { number & (partitions - 1) } else { number % partitions }) as u32
}
