//! An engine behind a trait object.

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::Memory;
use atoll_storage::{Schema, StorageError, Table, TableId, TableSerial, Value};

use crate::any_txn::AnyTxn;
use crate::bulk::{Loaded, RowSource};
use crate::describe::Description;
#[cfg(doc)]
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::Journal;
use crate::registry::{Counts, Taking};
use crate::tables::{IndexSpec, ResidentBytes, TableOptions};
use crate::worker::Impatience;
#[cfg(doc)]
use crate::worker::Pool;

/// An engine of any scheme, with a pool; [`Engine`] and [`Pool`] document the calls.
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
    /// [`Engine::create_hidden`].
    ///
    /// # Errors
    /// As there.
    fn create_hidden(
        &self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> Result<Arc<Table<M>>, OpError>;
    /// [`Engine::drop_hidden`].
    ///
    /// # Errors
    /// As there.
    fn drop_hidden(&self, table: &Table<M>) -> Result<(), OpError>;
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
    /// [`Engine::drop_table`].
    ///
    /// # Errors
    /// As there.
    fn drop_table(&self, table: &Table<M>) -> Result<(), OpError>;
    /// [`Engine::add_index`].
    ///
    /// # Errors
    /// As there.
    fn add_index(&self, table: &Table<M>, spec: &IndexSpec) -> Result<usize, OpError>;
    /// [`Engine::add_columns`].
    ///
    /// # Errors
    /// As there.
    fn add_columns(
        &self,
        table: &Table<M>,
        schema: &Schema,
        added: &[Value],
    ) -> Result<bool, OpError>;
    /// [`Engine::drop_indexes`].
    fn drop_indexes(&self, table: &Table<M>, numbers: &[usize]);
    /// [`Engine::give_up_index`].
    fn give_up_index(&self, table: &Table<M>, number: usize);
    /// [`Engine::show_index`].
    ///
    /// # Errors
    /// As there.
    fn show_index(&self, table: &Table<M>, number: usize) -> Result<(), OpError>;
    /// [`Engine::build_index`].
    ///
    /// # Errors
    /// As there.
    fn build_index(&self, table: &Table<M>, number: usize, threads: usize) -> Result<(), OpError>;
    /// [`Pool::fill_index`].
    ///
    /// # Errors
    /// As there.
    fn fill_index(
        self: Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError>;
    /// [`Pool::check_unique`].
    ///
    /// # Errors
    /// As there.
    fn check_unique(
        self: Arc<Self>,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError>;
    /// [`Engine::alter_restored`].
    ///
    /// # Errors
    /// As there.
    fn alter_restored(&self, table: &Table<M>, described: Description) -> Result<(), OpError>;
    /// [`Engine::free_dropped`].
    fn free_dropped(&self);
    /// [`Engine::record_to`].
    fn record_to(&self, journal: Arc<dyn Journal>);
    /// [`Engine::restore_table`].
    ///
    /// # Errors
    /// As there.
    fn restore_table(&self, described: Description) -> Result<Arc<Table<M>>, OpError>;
    /// [`Engine::next_serial`].
    fn next_serial(&self) -> TableSerial;
    /// [`Engine::raise_serial`].
    ///
    /// # Errors
    /// As there.
    fn raise_serial(&self, serial: TableSerial) -> Result<(), StorageError>;
    /// [`Engine::index_restored`].
    ///
    /// # Errors
    /// As there.
    fn index_restored(
        &self,
        table: TableId,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), String>;
    /// [`Engine::load`].
    ///
    /// # Errors
    /// As there.
    fn load(
        &self,
        table: &Table<M>,
        source: &dyn RowSource,
        threads: usize,
    ) -> Result<Loaded, OpError>;
    /// [`Engine::table_options`].
    fn table_options(&self, table: &Table<M>) -> TableOptions;
    /// [`Engine::resident_bytes`].
    fn resident_bytes(&self) -> ResidentBytes;
    /// [`Engine::resident_bytes_of`].
    fn resident_bytes_of(&self, table: &Table<M>) -> ResidentBytes;
    /// [`Engine::all_tables`].
    fn all_tables(&self) -> Vec<Arc<Table<M>>>;
    /// [`Pool::collect_garbage`].
    fn collect_garbage(&self, most: usize);
    /// [`Pool::compact`].
    fn compact(self: Arc<Self>, table: &Table<M>, most: usize);
    /// [`Pool::idle_workers`].
    fn idle_workers(&self) -> (usize, usize);
    /// [`Engine::partition`].
    fn partition(&self, key: &[Value]) -> u32;
    /// [`Pool::txn`].
    ///
    /// # Errors
    /// As there.
    fn any_txn(self: Arc<Self>) -> Result<Box<dyn AnyTxn<M>>, OpError>;
    /// [`Engine::counts`].
    fn counts(&self) -> Counts;
    /// [`Engine::taking`].
    fn taking(&self) -> Taking<'_, M>;
}
