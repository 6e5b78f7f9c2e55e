//! Engines and workers behind trait objects, for a scheme that is chosen at run time.
//!
//! A call of a worker is one dynamic dispatch; the code behind it is compiled for the scheme.

use std::ops::ControlFlow;
use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::Memory;
use atoll_storage::undo::Entry;
use atoll_storage::{Directory, Schema, StorageError, Table, TableId, Value};

use crate::describe::Description;
use crate::engine::{Engine, EngineOptions};
use crate::error::OpError;
use crate::journal::Journal;
use crate::registry::{Counts, Taking};
use crate::row::{Row, RowEdit};
use crate::scheme::{AbortReason, Scheme};
use crate::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use crate::tables::{IndexSpec, TableOptions};
use crate::worker::{
    Begin, Buffers, Committed, Range, RowAccess, RowOp, RowPrefetch, Visitor, Want, Worker,
};

/// An engine of any scheme; [`Engine`] documents the calls.
pub trait AnyEngine<M: Machine>: Send + Sync {
    /// [`Engine::memory`].
    fn memory(&self) -> &Arc<Memory>;
    /// [`Engine::create_table`].
    ///
    /// # Errors
    /// As there.
    fn create_table(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError>;
    /// [`Engine::table`].
    ///
    /// # Errors
    /// As there.
    fn table(&self, name: &str) -> Result<Arc<Table<M>>, StorageError>;
    /// [`Engine::index`].
    ///
    /// # Errors
    /// As there.
    fn index(&self, table: &Table<M>, name: &str) -> Result<usize, OpError>;
    /// [`Engine::indexes`].
    fn indexes(&self, table: TableId) -> Vec<IndexSpec>;
    /// [`Engine::record_to`].
    fn record_to(&self, journal: Arc<dyn Journal>);
    /// [`Engine::restore_table`].
    ///
    /// # Errors
    /// As there.
    fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, OpError>;
    /// [`Engine::adopt`].
    fn adopt(&self, table: TableId, segments: std::ops::Range<u64>) -> Option<String>;
    /// [`Engine::table_options`].
    fn table_options(&self, table: TableId) -> TableOptions;
    /// [`Engine::all_tables`].
    fn all_tables(&self) -> Vec<Arc<Table<M>>>;
    /// [`Engine::has_garbage`].
    fn has_garbage(&self) -> bool;
    /// [`Engine::partition`].
    fn partition(&self, key: &[Value]) -> u32;
    /// [`Engine::worker`].
    ///
    /// # Errors
    /// As there.
    fn any_worker(self: Arc<Self>) -> Result<Box<dyn AnyWorker<M>>, OpError>;
    /// [`Engine::counts`].
    fn counts(&self) -> Counts;
    /// [`Engine::taking`].
    fn taking(&self) -> Taking<'_, M>;
    /// [`Engine::open_at`].
    fn open_at(&self, taking: &Taking<'_, M>, epoch: u64) -> Vec<Entry>;
}

/// A worker of any scheme; [`Worker`] documents the calls and their errors.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait AnyWorker<M: Machine>: Send {
    fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError>;
    fn is_open(&self) -> bool;
    fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&Row<'_, M>),
    ) -> Result<bool, OpError>;
    fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<bool, OpError>;
    fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, OpError>;
    fn insert(&mut self, table: &Table<M>, row: &[Value]) -> Result<(), OpError>;
    fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, OpError>;
    fn scan(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError>;
    fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool;
    fn prefetch_index_for_insert(&mut self, table: &Table<M>, keys: &[Value]);
    fn prefetch_rows<'c>(&mut self, wanted: &[RowPrefetch<'_, 'c, M>]);
    fn apply(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        ops: &[RowOp],
        buffers: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError>;
    fn access(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowAccess),
    ) -> Result<(), OpError>;
    fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), OpError>;
    fn check_consistent(&mut self) -> Result<(), OpError>;
    fn committed(&self) -> Committed;
    fn commit(&mut self) -> Result<(), OpError>;
    fn abort(&mut self, reason: AbortReason);
    fn pause(&mut self, pause: &mut dyn FnMut());
    fn compact(&mut self, table: &Table<M>, most: usize);
    fn collect_garbage(&mut self, most: usize);
    fn has_garbage(&self) -> bool;
}

impl<S: Scheme<M>, M: Machine> AnyEngine<M> for Engine<S, M> {
    fn memory(&self) -> &Arc<Memory> {
        self.memory()
    }

    fn create_table(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError> {
        self.create_table(name, schema, options)
    }

    fn table(&self, name: &str) -> Result<Arc<Table<M>>, StorageError> {
        self.table(name)
    }

    fn index(&self, table: &Table<M>, name: &str) -> Result<usize, OpError> {
        self.index(table, name)
    }

    fn indexes(&self, table: TableId) -> Vec<IndexSpec> {
        self.indexes(table)
    }

    fn record_to(&self, journal: Arc<dyn Journal>) {
        self.record_to(journal);
    }

    fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, OpError> {
        self.restore_table(described)
    }

    fn adopt(&self, table: TableId, segments: std::ops::Range<u64>) -> Option<String> {
        self.adopt(table, segments)
    }

    fn table_options(&self, table: TableId) -> TableOptions {
        self.table_options(table)
    }

    fn all_tables(&self) -> Vec<Arc<Table<M>>> {
        self.all_tables()
    }

    fn has_garbage(&self) -> bool {
        self.has_garbage()
    }

    fn partition(&self, key: &[Value]) -> u32 {
        self.partition(key)
    }

    fn any_worker(self: Arc<Self>) -> Result<Box<dyn AnyWorker<M>>, OpError> {
        Ok(Box::new(self.worker()?))
    }

    fn counts(&self) -> Counts {
        self.counts()
    }

    fn taking(&self) -> Taking<'_, M> {
        self.taking()
    }

    fn open_at(&self, taking: &Taking<'_, M>, epoch: u64) -> Vec<Entry> {
        self.open_at(taking, epoch)
    }
}

impl<S: Scheme<M>, M: Machine> AnyWorker<M> for Worker<S, M> {
    fn begin(&mut self, how: Begin<'_>) -> Result<(), OpError> {
        self.begin(how)
    }

    fn is_open(&self) -> bool {
        self.is_open()
    }

    fn read_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&Row<'_, M>),
    ) -> Result<bool, OpError> {
        self.read_with(table, key, body)
    }

    fn update_with(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        body: &mut dyn FnMut(&mut RowEdit<'_, M>),
    ) -> Result<bool, OpError> {
        self.update_with(table, key, body)
    }

    fn update(
        &mut self,
        table: &Table<M>,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> Result<bool, OpError> {
        self.update(table, key, changes)
    }

    fn insert(&mut self, table: &Table<M>, row: &[Value]) -> Result<(), OpError> {
        self.insert(table, row)
    }

    fn delete(&mut self, table: &Table<M>, key: &[Value]) -> Result<bool, OpError> {
        self.delete(table, key)
    }

    fn scan(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        look: &mut dyn FnMut(&Row<'_, M>),
        take: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        self.scan(table, index, range, look, take)
    }

    fn prefetch_index(&mut self, table: &Table<M>, keys: &[Value]) -> bool {
        self.prefetch_index(table, keys)
    }

    fn prefetch_index_for_insert(&mut self, table: &Table<M>, keys: &[Value]) {
        self.prefetch_index_for_insert(table, keys);
    }

    fn prefetch_rows<'c>(&mut self, wanted: &[RowPrefetch<'_, 'c, M>]) {
        self.prefetch_rows(wanted);
    }

    fn apply(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        ops: &[RowOp],
        buffers: Buffers<'_>,
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), OpError> {
        self.apply(table, keys, ops, buffers, absent)
    }

    fn access(
        &mut self,
        table: &Table<M>,
        body: &mut dyn FnMut(&mut dyn RowAccess),
    ) -> Result<(), OpError> {
        self.access(table, body)
    }

    fn visit<'c>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        wants: &dyn Fn(usize) -> Want<'c>,
        body: Visitor<'_, M>,
    ) -> Result<(), OpError> {
        self.visit(table, keys, wants, body)
    }

    fn check_consistent(&mut self) -> Result<(), OpError> {
        self.check_consistent()
    }

    fn committed(&self) -> Committed {
        self.committed()
    }

    fn commit(&mut self) -> Result<(), OpError> {
        self.commit()
    }

    fn abort(&mut self, reason: AbortReason) {
        self.abort(reason);
    }

    fn pause(&mut self, pause: &mut dyn FnMut()) {
        self.pause(pause);
    }

    fn compact(&mut self, table: &Table<M>, most: usize) {
        self.compact(table, most);
    }

    fn collect_garbage(&mut self, most: usize) {
        self.collect_garbage(most);
    }

    fn has_garbage(&self) -> bool {
        self.has_garbage()
    }
}

/// Creates an engine with a scheme of this kind.
pub fn engine<M: Machine>(
    kind: SchemeKind,
    scheme: &SchemeOptions,
    directory: Arc<Directory>,
    accounting: bool,
) -> Arc<dyn AnyEngine<M>> {
    struct Make {
        directory: Arc<Directory>,
        options: EngineOptions,
    }

    impl<M: Machine> SchemeVisitor<M> for Make {
        type Output = Arc<dyn AnyEngine<M>>;

        fn visit<S: Scheme<M>>(self, scheme: S) -> Self::Output {
            Arc::new(Engine::new(scheme, self.directory, self.options))
        }
    }

    let partitions = scheme.partitions;
    let options = EngineOptions { partitions, accounting, ..EngineOptions::default() };
    kind.visit(scheme, Make { directory, options })
}
