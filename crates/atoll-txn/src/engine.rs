//! The engine: tables, and the scheme's states of their rows.
//!
//! [`crate::worker`] executes a transaction in these steps: *begin* → *find* (index) → *read* and
//! *write* (ask the scheme; store at once with an undo entry, or add the change to the write set) →
//! *commit* (`validated`, stored, `logged`, then `visible` when the scheme unlocks the rows) or
//! *abort* (undo in reverse order, unlock).

use std::sync::{Arc, OnceLock};

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_memory::Memory;
use atoll_storage::{Change, Directory, Schema, Shown, StorageError, Table, TableSerial, Value};

use crate::accounting::SAMPLE_EVERY;
use crate::describe::{self, Description};
use crate::error::OpError;
use crate::index_set::IndexSet;
use crate::journal::{Definition, Journal, Recorder};
use crate::registry::{Counts, Registry, Taking};
use crate::scheme::{Scheme, TXNS_MAX};
use crate::tables::{
    Dropped, IndexSpec, ResidentBytes, STRIPES, TableContext, TableOptions, Tables,
};

/// Settings of an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Partitions that a partitioned scheme knows; at least one.
    pub partitions: u32,
    /// Whether workers measure how transactions spend their time.
    pub accounting: bool,
    /// Most rows that a commit stores in one section of the gate; at least one. A cut waits for
    /// sections to end, so this bounds how long a large write set delays it.
    pub rows_in_section: usize,
    /// Gaps of a hash index, a power of two up to 4,096: a scan of a whole table reads all of them.
    pub stripes: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { partitions: 1, accounting: true, rows_in_section: 256, stripes: STRIPES as u32 }
    }
}

/// See the module.
pub struct Engine<S: Scheme<M>, M: Machine> {
    pub(crate) scheme: S,
    directory: Arc<Directory>,
    pub(crate) tables: Tables<S, M>,
    /// Held while a table is created or dropped, which may wait for the disk.
    pub(crate) defining: Latch<M>,
    /// Held while heap blocks are compacted.
    pub(crate) compacting: Latch<M>,
    /// The tables in the order of their creation.
    pub(crate) names: Latch<M, Vec<Arc<TableContext<S, M>>>>,
    /// The tables of transactions that have not committed.
    pub(crate) hidden: Latch<M, Vec<Arc<TableContext<S, M>>>>,
    pub(crate) dropped: Latch<M, Vec<Dropped<S, M>>>,
    /// Held while the memory of dropped tables is freed.
    pub(crate) freeing: Latch<M>,
    pub(crate) registry: Registry<M>,
    partitions: u32,
    pub(crate) rows_in_section: usize,
    stripes: u32,
    pub(crate) sample_every: u32,
    /// Numbers of transactions that have been given out.
    txns: M::Word,
    /// Number of definitions that have shown indexes (`INDEXES-3`).
    pub(crate) shown: M::Word,
    journal: OnceLock<Arc<dyn Journal>>,
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// An engine without tables over a directory.
    pub fn new(scheme: S, directory: Arc<Directory>, options: EngineOptions) -> Self {
        Self {
            scheme,
            directory,
            tables: Tables::default(),
            defining: Latch::default(),
            compacting: Latch::default(),
            names: Latch::default(),
            hidden: Latch::default(),
            dropped: Latch::default(),
            freeing: Latch::default(),
            registry: Registry::default(),
            partitions: options.partitions.max(1),
            rows_in_section: options.rows_in_section.max(1),
            stripes: options.stripes,
            sample_every: if options.accounting { SAMPLE_EVERY } else { 0 },
            txns: M::Word::new(0),
            shown: M::Word::new(0),
            journal: OnceLock::new(),
        }
    }

    /// Records all transactions from now on. The caller calls this once, before the first
    /// transaction.
    ///
    /// # Panics
    /// When it has been called before, or after the first transaction.
    pub fn record_to(&self, journal: Arc<dyn Journal>) {
        let txns = self.txns.load(Ordering::Relaxed);
        assert!(txns == 0, "transactions before the journal would not be recorded");
        assert!(self.journal.set(journal).is_ok(), "an engine has one journal");
    }

    /// The access of one transaction or load to the log, if there is one.
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

    /// The number of partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The partition of a key; its first column decides, see [`partition_of`].
    pub fn partition(&self, key: &[Value]) -> u32 {
        partition_of(key.first(), self.partitions)
    }

    /// Creates a table, outside any transaction: every transaction sees it at once.
    ///
    /// # Errors
    /// [`StorageError::TableExists`], [`StorageError::Schema`], [`StorageError::Memory`].
    pub fn create_table(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        self.add_table((None, Shown::Yes), name, schema, options)
    }

    /// Creates a table that is part of a transaction: it has no name and no snapshot shows it until
    /// the transaction commits ([`crate::worker::Call::define`]).
    ///
    /// # Errors
    /// As [`Engine::create_table`].
    pub fn create_hidden(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        self.add_table((None, Shown::No), name, schema, options)
    }

    /// Creates a table, with the next serial number if none is given.
    fn add_table(
        &self,
        (serial, shown): (Option<TableSerial>, Shown),
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        let _defining = self.defining.take_patiently();
        // A hidden one may get a name that its transaction takes from another. So may one that is
        // restored, since the definitions of a transaction follow one by one.
        if shown == Shown::Yes && serial.is_none() && self.table(name).is_ok() {
            return Err(StorageError::TableExists(name.to_owned()).into());
        }
        // Check everything that can fail before anything is recorded.
        atoll_storage::types::check_object_name(name, &schema)?;
        let indexes = IndexSet::<S, M>::new(&schema, options)?;
        let serial = serial.unwrap_or_else(|| self.directory.next_serial());
        let mut options = options.clone();
        let TableOptions { tablespace, .. } = &mut options;
        let mut recorder = self.recorder();
        let mut description = Vec::new();
        if let Some(recorder) = &mut recorder {
            let tablespaces = u64::from(recorder.tablespaces());
            let tablespace = *tablespace.get_or_insert((serial.0 % tablespaces) as u32);
            recorder.check_tablespace(tablespace)?;
            description = describe::encode(serial, name, &schema, &options);
        }
        // One that is part of a transaction is recorded with it.
        let mut recorder = recorder.filter(|_| shown == Shown::Yes);
        if let Some(recorder) = &mut recorder {
            recorder.admit_definition(Definition::Create(&description))?;
        }
        let encoded = describe::encode_options(&schema, &options);
        let mut member = self.memory().upkeep();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let created =
            Table::create(&self.directory, change, (serial, shown), name, (schema, &encoded));
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
            // Transactions that use the table get a greater GSN.
            let definition = Definition::Create(&description);
            gsn = recorder.record_definition(definition, section.inside().epoch);
        }
        drop(section);
        drop(member);
        let context = TableContext::new(Arc::clone(&table), indexes, &options, self.stripes);
        context.raise_gone(gsn);
        let context = Arc::new(context);
        self.tables.add(Arc::clone(&context));
        match shown {
            Shown::Yes => self.names.take().push(context),
            Shown::No => self.hidden.take().push(context),
        }
        Ok(table)
    }

    /// Creates a table, without rows, from its description in a log or a checkpoint store. The
    /// caller restores tables in the order of their serial numbers.
    ///
    /// # Errors
    /// As [`Engine::create_table`].
    pub fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, OpError> {
        let Description { serial, name, schema, options } = described;
        self.add_table((Some(serial), Shown::Yes), &name, schema, &options)
    }

    /// The serial number of the next table.
    pub fn next_serial(&self) -> TableSerial {
        self.directory.next_serial()
    }

    /// Makes sure that the next table gets at least this serial number: tables with smaller ones
    /// have been dropped.
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    pub fn raise_serial(&self, serial: TableSerial) -> Result<(), StorageError> {
        let _defining = self.defining.take_patiently();
        let mut member = self.memory().upkeep();
        let section = member.enter();
        Ok(self.directory.raise_serial(Change::forward(section.inside()), serial)?)
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<Arc<Table<M>>, StorageError> {
        let names = self.names.take();
        let found = names.iter().find(|context| context.table.name() == name);
        let table = found.map(|context| Arc::clone(&context.table));
        table.ok_or_else(|| StorageError::UnknownTable(name.to_owned()))
    }

    /// The context of a table, unless the table was dropped or belongs to another engine.
    #[inline]
    pub(crate) fn context_of(&self, table: &Table<M>) -> Option<&TableContext<S, M>> {
        self.tables.get(table.id()).filter(|context| std::ptr::eq(&*context.table, table))
    }

    /// Checks that a table belongs to this engine and was not dropped.
    #[inline]
    pub(crate) fn check_table(&self, table: &Table<M>) -> Result<(), OpError> {
        if Arc::ptr_eq(table.memory(), self.memory()) && !table.is_leaving() {
            return Ok(());
        }
        Err(self.misses(table))
    }

    #[cold]
    fn misses(&self, table: &Table<M>) -> OpError {
        let name = table.name().to_owned();
        if Arc::ptr_eq(table.memory(), self.memory()) {
            return StorageError::UnknownTable(name).into();
        }
        OpError::ForeignTable(name)
    }

    /// The position of an ordered index of a table.
    ///
    /// # Errors
    /// [`OpError::UnknownIndex`].
    pub fn index(&self, table: &Table<M>, name: &str) -> Result<usize, OpError> {
        let unknown =
            || OpError::UnknownIndex { table: table.name().to_owned(), index: name.to_owned() };
        let _names = self.names.take(); // TABLES-3
        let context = self.context_of(table);
        context.and_then(|context| context.position(name)).ok_or_else(unknown)
    }

    /// The options with which a table was created; the default if the table was dropped.
    pub fn table_options(&self, table: &Table<M>) -> TableOptions {
        let _names = self.names.take(); // TABLES-3
        let Some(context) = self.context_of(table) else { return TableOptions::default() };
        let columns = context.table.schema().columns();
        let specs = context.indexes().shown().map(|(_, index)| IndexSpec {
            name: index.name.clone(),
            columns: index.columns.iter().map(|at| columns[*at].name.clone()).collect(),
            unique: index.unique,
            nulls_not_distinct: index.nulls_not_distinct,
        });
        let (replicated, tablespace) = (context.replicated, Some(context.tablespace));
        TableOptions { indexes: specs.collect(), replicated, tablespace }
    }

    /// Bytes of all tables that are in memory, but neither in the store nor in the heap. Looks at
    /// every page of them.
    pub fn resident_bytes(&self) -> ResidentBytes {
        let contexts = self.names.take().clone(); // TABLES-3
        let each = contexts.iter().map(|context| context.resident_bytes());
        each.fold(ResidentBytes::default(), |sum, one| ResidentBytes {
            headers: sum.headers + one.headers,
            indexes: sum.indexes + one.indexes,
        })
    }

    /// The same of one table; nothing if it was dropped. Looks at every page of them.
    pub fn resident_bytes_of(&self, table: &Table<M>) -> ResidentBytes {
        let contexts = self.names.take().clone(); // TABLES-3
        let found = contexts.iter().find(|context| std::ptr::eq(&*context.table, table));
        found.map(|context| context.resident_bytes()).unwrap_or_default()
    }

    /// All tables in the order of creation.
    pub fn all_tables(&self) -> Vec<Arc<Table<M>>> {
        self.names.take().iter().map(|context| Arc::clone(&context.table)).collect()
    }

    /// A number below [`TXNS_MAX`] that no transaction has, if there is one.
    pub(crate) fn txn_number(&self) -> Option<u32> {
        let number = self.txns.fetch_add(1, Ordering::Relaxed);
        if number >= TXNS_MAX as u64 {
            self.txns.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(number as u32)
    }

    /// Counts of the transactions that have ended.
    pub fn counts(&self) -> Counts {
        self.registry.counts()
    }

    /// Announces that a snapshot is going to be taken, see [`Registry::taking`].
    pub fn taking(&self) -> Taking<'_, M> {
        self.registry.taking()
    }
}

/// The partition of a value: an integer modulo the number of partitions, or the hash of any other
/// value modulo that number.
#[inline]
pub fn partition_of(first: Option<&Value>, partitions: u32) -> u32 {
    let number = match first {
        Some(Value::Int16(value)) => *value as u64,
        Some(Value::Int32(value) | Value::Date(value)) => *value as u64,
        Some(Value::Int64(value) | Value::Timestamp(value)) => *value as u64,
        Some(other) => atoll_storage::key::hash(std::slice::from_ref(other)),
        None => 0,
    };
    let partitions = u64::from(partitions);
    // The number is mostly a power of two; a division for each access would be expensive.
    let is_mask = partitions.is_power_of_two();
    (if is_mask { number & (partitions - 1) } else { number % partitions }) as u32
}
