//! The engine: tables with a scheme's states beside their rows.
//!
//! The life of a transaction, which [`crate::worker`] carries out:
//! *begin* → *find* (index) → *read* (ask the scheme, look again, read) → *write* (ask the scheme,
//! write down what stood there, store through the barrier) → *commit* (`validated`, then `visible`
//! when the scheme lets go) or *abort* (restore in reverse, let go).

use std::sync::{Arc, Mutex, PoisonError};

use atoll_machine::Machine;
use atoll_memory::Memory;
use atoll_storage::chunked::Chunked;
use atoll_storage::undo::Entry;
use atoll_storage::{Change, Directory, RowId, SEGMENT_ROWS, Schema, StorageError, Table, TableId};

use crate::error::Stop;
use crate::registry::{Counts, Registry, Taking};
use crate::scheme::{Guarded, Place, Scheme, States};
use crate::worker::Worker;

/// Most workers at a time; a place at the gate is kept for upkeep.
pub const WORKERS_MAX: usize = atoll_memory::gate::MEMBERS_MAX - 1;
/// Stripes of a table's keys, see [`Guarded::Keys`].
const KEY_STRIPES: u64 = 1 << 12;

/// A table and the states of its rows.
pub struct Guard<S: Scheme<M>, M: Machine> {
    table: Arc<Table<M>>,
    rows: Chunked<Box<[S::State]>>,
    keys: Box<[S::State]>,
}

/// See the module.
pub struct Engine<S: Scheme<M>, M: Machine> {
    pub(crate) scheme: S,
    directory: Arc<Directory>,
    tables: Tables<S, M>,
    names: Mutex<Vec<Arc<Table<M>>>>,
    pub(crate) registry: Registry,
}

/// The tables by number.
pub struct Tables<S: Scheme<M>, M: Machine>(Chunked<Guard<S, M>>);

impl<S: Scheme<M>, M: Machine> Tables<S, M> {
    fn guard(&self, table: TableId) -> &Guard<S, M> {
        self.0.get(u64::from(table.0)).expect("a table id comes from this engine")
    }

    /// A table.
    pub fn table(&self, table: TableId) -> &Arc<Table<M>> {
        &self.guard(table).table
    }
}

impl<S: Scheme<M>, M: Machine> States<S::State> for Tables<S, M> {
    #[inline]
    fn state(&self, place: Place) -> &S::State {
        let guard = self.guard(place.table);
        match place.what {
            Guarded::Keys(stripe) => &guard.keys[stripe as usize],
            Guarded::Row(row) => {
                let row = RowId(row);
                let states = guard.rows.get_or_init(row.segment(), states::<S, M>);
                &states[row.slot()]
            }
        }
    }
}

fn states<S: Scheme<M>, M: Machine>() -> Box<[S::State]> {
    (0..SEGMENT_ROWS).map(|_| S::State::default()).collect()
}

/// The stripe that a key belongs to.
pub(crate) fn stripe(table: TableId, hash: u64) -> Place {
    Place { table, what: Guarded::Keys((hash >> 20 & (KEY_STRIPES - 1)) as u32) }
}

/// A row as a place.
pub(crate) fn row_place(table: TableId, row: RowId) -> Place {
    Place { table, what: Guarded::Row(row.0) }
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// An engine without tables over a directory.
    pub fn new(scheme: S, directory: Arc<Directory>) -> Self {
        Self {
            scheme,
            directory,
            tables: Tables(Chunked::default()),
            names: Mutex::default(),
            registry: Registry::default(),
        }
    }

    /// The memory of the database.
    pub fn memory(&self) -> &Arc<Memory> {
        self.directory.memory()
    }

    /// The tables by number.
    pub fn tables(&self) -> &Tables<S, M> {
        &self.tables
    }

    /// Adds a table; it is there at once and for all, outside any transaction.
    ///
    /// # Errors
    /// [`StorageError::TableExists`], [`StorageError::Schema`], [`StorageError::Memory`].
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<Arc<Table<M>>, Stop> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|table| table.name() == name) {
            return Err(StorageError::TableExists(name.to_owned()).into());
        }
        let mut member = self.memory().upkeep();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let table = Arc::new(Table::create(&self.directory, change, name, schema)?);
        drop(section);
        drop(member);
        self.tables.0.get_or_init(u64::from(table.id().0), || Guard {
            table: Arc::clone(&table),
            rows: Chunked::default(),
            keys: (0..KEY_STRIPES).map(|_| S::State::default()).collect(),
        });
        names.push(Arc::clone(&table));
        Ok(table)
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

    /// All tables in the order of creation.
    pub fn all_tables(&self) -> Vec<Arc<Table<M>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A worker; for one thread at a time.
    ///
    /// # Errors
    /// [`Stop::TooManyWorkers`].
    pub fn worker(self: &Arc<Self>) -> Result<Worker<S, M>, Stop> {
        Ok(Worker::new(Arc::clone(self), self.join()?))
    }

    fn join(&self) -> Result<atoll_memory::Member, Stop> {
        self.memory().join().ok_or(Stop::TooManyWorkers(WORKERS_MAX))
    }

    /// Transactions ended so far.
    pub fn counts(&self) -> Counts {
        self.registry.counts()
    }

    /// A snapshot is going to be taken, see [`Registry::taking`].
    pub fn taking(&self) -> Taking<'_> {
        self.registry.taking()
    }

    /// What a snapshot of `epoch` must undo on its side, see [`Taking::collect`].
    pub fn open_at(&self, taking: &Taking<'_>, epoch: u64) -> Vec<Entry> {
        taking.collect(epoch, |table, column| self.tables.guard(table).table.image_bytes(column))
    }
}
