//! Engines and transactions behind trait objects, for a scheme that is chosen at run time.
//!
//! A call of a transaction is one dynamic dispatch; the code behind it is compiled for the scheme.

use std::ops::ControlFlow;
use std::sync::Arc;

use atoll_machine::{Machine, Native};
use atoll_memory::Memory;
use atoll_storage::{Directory, Schema, StorageError, Table, TableId, TableSerial, Value};

pub use crate::any_engine::AnyEngine;
pub use crate::any_txn::AnyTxn;
use crate::bulk::{Loaded, RowSource};
use crate::describe::Description;
use crate::engine::{Engine, EngineOptions};
use crate::error::OpError;
use crate::journal::Journal;
use crate::registry::{Counts, Taking, TxnContext};
use crate::row::{Row, RowEdit};
use crate::scheme::{AbortReason, Scheme};
use crate::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use crate::tables::{IndexSpec, ResidentBytes, TableOptions};
use crate::worker::{
    Begin, Buffers, Call, Committed, Define, Impatience, Patience, Pool, Range, RowCursor, RowOp,
    Txn, Visitor, Want, Worker,
};

impl<S: Scheme<M>, M: Machine> AnyEngine<M> for Pool<S, M> {
    fn memory(&self) -> &Arc<Memory> {
        self.engine().memory()
    }

    fn create_table(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        self.engine().create_table(name, schema, options)
    }

    fn create_hidden(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        self.engine().create_hidden(name, schema, options)
    }

    fn drop_hidden(&self, table: &Table<M>) -> Result<(), OpError> {
        self.engine().drop_hidden(table)
    }

    fn table(&self, name: &str) -> Result<Arc<Table<M>>, StorageError> {
        self.engine().table(name)
    }

    fn index(&self, table: &Table<M>, name: &str) -> Result<usize, OpError> {
        self.engine().index(table, name)
    }

    fn record_to(&self, journal: Arc<dyn Journal>) {
        self.engine().record_to(journal);
    }

    fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, OpError> {
        self.engine().restore_table(described)
    }

    fn next_serial(&self) -> TableSerial {
        self.engine().next_serial()
    }

    fn raise_serial(&self, serial: TableSerial) -> Result<(), StorageError> {
        self.engine().raise_serial(serial)
    }

    fn index_restored(
        &self,
        table: TableId,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), String> {
        self.engine().index_restored(table, threads, progress)
    }

    fn load(
        &self,
        table: &Table<M>,
        source: &dyn RowSource,
        threads: usize,
    ) -> Result<Loaded, OpError> {
        self.engine().load(table, source, threads)
    }

    fn drop_table(&self, table: &Table<M>) -> Result<(), OpError> {
        self.engine().drop_table(table)
    }

    fn add_index(&self, table: &Table<M>, spec: &IndexSpec) -> Result<usize, OpError> {
        self.engine().add_index(table, spec)
    }

    fn add_columns(
        &self,
        table: &Table<M>,
        schema: &Schema,
        added: &[Value],
    ) -> Result<bool, OpError> {
        self.engine().add_columns(table, schema, added)
    }

    fn drop_indexes(&self, table: &Table<M>, numbers: &[usize]) {
        self.engine().drop_indexes(table, numbers);
    }

    fn give_up_index(&self, table: &Table<M>, number: usize) {
        self.engine().give_up_index(table, number);
    }

    fn show_index(&self, table: &Table<M>, number: usize) -> Result<(), OpError> {
        self.engine().show_index(table, number)
    }

    fn build_index(&self, table: &Table<M>, number: usize, threads: usize) -> Result<(), OpError> {
        self.engine().build_index(table, number, threads)
    }

    fn fill_index(
        self: Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        Self::fill_index(&self, table, number, gives_up)
    }

    fn check_unique(
        self: Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        Self::check_unique(&self, table, number, gives_up)
    }

    fn alter_restored(&self, table: &Table<M>, described: Description) -> Result<(), OpError> {
        self.engine().alter_restored(table, described)
    }

    fn free_dropped(&self) {
        self.engine().free_dropped();
    }

    fn table_options(&self, table: &Table<M>) -> TableOptions {
        self.engine().table_options(table)
    }

    fn resident_bytes(&self) -> ResidentBytes {
        self.engine().resident_bytes()
    }

    fn resident_bytes_of(&self, table: &Table<M>) -> ResidentBytes {
        self.engine().resident_bytes_of(table)
    }

    fn all_tables(&self) -> Vec<Arc<Table<M>>> {
        self.engine().all_tables()
    }

    fn collect_garbage(&self, most: usize) {
        self.collect_garbage(most);
    }

    fn compact(self: Arc<Self>, table: &Table<M>, most: usize) {
        Self::compact(&self, table, most);
    }

    fn idle_workers(&self) -> (usize, usize) {
        self.idle_workers()
    }

    fn partition(&self, key: &[Value]) -> u32 {
        self.engine().partition(key)
    }

    fn any_txn(self: Arc<Self>) -> Result<Box<dyn AnyTxn<M>>, OpError> {
        Ok(Box::new(Attached::new(&self)?))
    }

    fn counts(&self) -> Counts {
        self.engine().counts()
    }

    fn taking(&self) -> Taking<'_, M> {
        self.engine().taking()
    }
}

/// A transaction, and its worker from the first call until it is parked.
pub struct Attached<S: Scheme<M>, M: Machine> {
    txn: Txn<S, M>,
    worker: Option<Worker<S, M>>,
}

impl<S: Scheme<M>, M: Machine> Attached<S, M> {
    /// A transaction that has not begun.
    ///
    /// # Errors
    /// [`OpError::TooManyTxns`].
    pub fn new(pool: &Arc<Pool<S, M>>) -> Result<Self, OpError> {
        Ok(Self { txn: pool.txn()?, worker: None })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<S, M>> {
        self.txn.pool()
    }

    #[inline]
    fn call(&mut self) -> Result<Call<'_, S, M>, OpError> {
        if self.worker.is_none() {
            self.worker = Some(self.take_worker()?);
        }
        let worker = self.worker.as_mut().expect("it was taken above");
        Ok(self.txn.on(worker))
    }

    #[cold]
    fn take_worker(&self) -> Result<Worker<S, M>, OpError> {
        self.txn.pool().worker(self.txn.is_open())
    }
}

impl<S: Scheme<M>, M: Machine> AnyTxn<M> for Attached<S, M> {
    fn attach(&mut self) -> Result<(), OpError> {
        self.call().map(|_| ())
    }

    fn park(&mut self) {
        self.worker = None;
    }

    fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError> {
        self.call()?.begin(how)
    }

    fn is_open(&self) -> bool {
        self.txn.is_open()
    }

    fn context(&self) -> &Arc<TxnContext<M>> {
        self.txn.context()
    }

    fn define(&mut self, what: Define<M>) -> Result<(), OpError> {
        self.call()?.define(what)
    }

    fn has_changes(&mut self) -> Result<bool, OpError> {
        Ok(self.call()?.has_changes())
    }

    fn own_index(&mut self, table: &Table<M>, number: usize) -> Result<(), OpError> {
        self.call()?.own_index(table, number);
        Ok(())
    }

    fn gives_up(&mut self, is_first: bool) -> Result<bool, OpError> {
        Ok(self.call()?.gives_up(is_first))
    }

    fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&Row<'_, M>),
    ) -> Result<bool, OpError> {
        self.call()?.read_with(table, key, body)
    }

    fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<bool, OpError> {
        self.call()?.update_with(table, key, body)
    }

    fn try_update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<Option<bool>, OpError> {
        self.call()?.try_update_with(table, key, body)
    }

    fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, OpError> {
        self.call()?.update(table, key, changes)
    }

    fn insert(&mut self, table: &Table<M>, row: &[Value]) -> Result<(), OpError> {
        self.call()?.insert(table, row)
    }

    fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, OpError> {
        self.call()?.delete(table, key)
    }

    fn scan(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        self.call()?.scan(table, index, range, look, take)
    }

    fn scan_heap(
        &mut self,
        table: &Table<M>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        self.call()?.scan_heap(table, look, take)
    }

    fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool {
        self.call().is_ok_and(|mut call| call.prefetch_index(table, keys))
    }

    fn prefetch_index_for_insert(&mut self, table: &Table<M>, keys: &[Value]) {
        if let Ok(mut call) = self.call() {
            call.prefetch_index_for_insert(table, keys);
        }
    }

    fn prefetch_rows<'c>(&mut self, table: &Table<M>, columns: &dyn Fn(usize) -> &'c [usize]) {
        if let Ok(mut call) = self.call() {
            call.prefetch_rows(table, columns);
        }
    }

    fn apply(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        ops: &[RowOp],
        buffers: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError> {
        self.call()?.apply(table, keys, ops, buffers, absent)
    }

    fn cursor(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowCursor),
    ) -> Result<(), OpError> {
        self.call()?.cursor(table, body)
    }

    fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), OpError> {
        self.call()?.visit(table, keys, wants, body)
    }

    fn release_reads(&mut self) -> Result<bool, OpError> {
        Ok(self.call()?.release_reads())
    }

    fn keep_reads(&mut self) -> Result<(), OpError> {
        self.call()?.keep_reads();
        Ok(())
    }

    fn read_past(&mut self, is_on: bool) -> Result<Option<u64>, OpError> {
        Ok(self.call()?.read_past(is_on))
    }

    fn await_passed(&mut self) -> Result<(), OpError> {
        self.call()?.await_passed()
    }

    fn set_patience(&mut self, patience: Option<Patience>) -> Result<(), OpError> {
        self.call()?.set_patience(patience);
        Ok(())
    }

    fn check_consistent(&mut self) -> Result<(), OpError> {
        self.call()?.check_consistent()
    }

    fn committed(&self) -> Committed {
        self.txn.committed()
    }

    fn commit(&mut self) -> Result<(), OpError> {
        self.call()?.commit()
    }

    fn abort(&mut self, reason: AbortReason) {
        match self.call() {
            Ok(mut call) => call.abort(reason),
            Err(_) => self.txn.roll_back(),
        }
    }

    fn pause(&mut self, pause: &mut dyn FnMut()) {
        self.txn.pause(pause);
    }
}

/// Creates an engine with a scheme of this kind.
pub fn engine<M: Machine>(
    kind: SchemeKind,
    scheme: &SchemeOptions,
    directory: Arc<Directory>,
    options: EngineOptions,
) -> Arc<dyn AnyEngine<M>> {
    struct Make {
        directory: Arc<Directory>,
        options: EngineOptions,
    }

    impl<M: Machine> SchemeVisitor<M> for Make {
        type Output = Arc<dyn AnyEngine<M>>;

        fn visit<S: Scheme<M>>(self, scheme: S) -> Self::Output {
            Pool::new(Arc::new(Engine::new(scheme, self.directory, self.options)))
        }
    }

    kind.visit(scheme, Make { directory, options })
}

/// [`engine`] on this machine. It is not generic, so the ten schemes are compiled with this crate,
/// and not once more with each crate that creates engines.
#[inline(never)]
pub fn native_engine(
    kind: SchemeKind,
    scheme: &SchemeOptions,
    directory: Arc<Directory>,
    options: EngineOptions,
) -> Arc<dyn AnyEngine<Native>> {
    engine(kind, scheme, directory, options)
}
