//! A transaction as an embedding program sees it.

use std::marker::PhantomData;
use std::sync::Arc;

use atoll_machine::Native;
use atoll_storage::Value;
use atoll_txn::{AbortReason, Engine, NoWait, Stop, Worker};

use crate::database::{Inner, Table};
use crate::error::TxnResult;

/// The engine, compiled for the scheme of the database and this machine.
pub(crate) type Core = Engine<NoWait, Native>;
/// Its workers.
pub(crate) type CoreWorker = Worker<NoWait, Native>;

/// A serializable transaction. Dropping it rolls it back.
///
/// It belongs to one thread: a worker is at work for it.
pub struct Transaction {
    inner: Arc<Inner>,
    worker: Option<CoreWorker>,
    /// An error ended it: trying again would only meet the same error.
    failed: bool,
    _not_send: PhantomData<*const ()>,
}

impl Transaction {
    pub(crate) fn new(inner: Arc<Inner>, mut worker: CoreWorker) -> Self {
        worker.begin();
        Self { inner, worker: Some(worker), failed: false, _not_send: PhantomData }
    }

    /// Does something and keeps in mind whether it failed for good.
    fn with<R>(&mut self, body: impl FnOnce(&mut CoreWorker) -> Result<R, Stop>) -> TxnResult<R> {
        let worker =
            self.worker.as_mut().expect("a transaction has its worker until it is dropped");
        let done = body(worker);
        self.failed |=
            matches!(&done, Err(stop) if !matches!(stop, Stop::Abort(_))) && !worker.is_open();
        Ok(done?)
    }

    /// Inserts a row, its values in the order of the columns.
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError); [`Error::DuplicateKey`](crate::Error), or
    /// [`Error::Storage`](crate::Error) for values that do not fit: nothing has changed then;
    /// [`Error::Memory`](crate::Error): the transaction has been rolled back.
    pub fn insert(&mut self, table: &Table, row: &[Value]) -> TxnResult<()> {
        self.with(|worker| worker.insert(&table.0, row))
    }

    /// Reads the row with this primary key; `None` when there is none.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn read(&mut self, table: &Table, key: &[Value]) -> TxnResult<Option<Vec<Value>>> {
        let columns = 0..table.schema().columns().len();
        self.with(|worker| worker.read(&table.0, key, columns))
    }

    /// Reads some columns of the row with this primary key.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn read_columns(
        &mut self,
        table: &Table,
        key: &[Value],
        columns: &[usize],
    ) -> TxnResult<Option<Vec<Value>>> {
        self.with(|worker| worker.read(&table.0, key, columns.iter().copied()))
    }

    /// Changes columns of the row with this primary key; false when there is none.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; [`Error::KeyUpdate`](crate::Error).
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn update(
        &mut self,
        table: &Table,
        key: &[Value],
        changes: &[(usize, Value)],
    ) -> TxnResult<bool> {
        self.with(|worker| worker.update(&table.0, key, changes))
    }

    /// Deletes the row with this primary key; false when there is none.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn delete(&mut self, table: &Table, key: &[Value]) -> TxnResult<bool> {
        self.with(|worker| worker.delete(&table.0, key))
    }

    /// Commits.
    ///
    /// # Errors
    /// [`TxnError::Abort`](crate::TxnError): it has been rolled back.
    pub fn commit(mut self) -> TxnResult<()> {
        self.commit_in_place()
    }

    pub(crate) fn commit_in_place(&mut self) -> TxnResult<()> {
        self.with(CoreWorker::commit)
    }

    /// Begins again after an abort; false when it would be in vain.
    pub(crate) fn restart(&mut self) -> bool {
        if let Some(worker) = self.worker.as_mut().filter(|_| !self.failed) {
            worker.begin();
        }
        !self.failed
    }

    /// Rolls back, as dropping does.
    pub fn rollback(self) {}

    /// Whether it can go on: it has not been rolled back by an abort or an error.
    pub fn is_open(&self) -> bool {
        self.worker.as_ref().is_some_and(Worker::is_open)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            worker.abort(AbortReason::Requested);
            self.inner.give_back(worker);
        }
    }
}
