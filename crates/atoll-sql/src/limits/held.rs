//! Accounting of the memory that a result holds.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use atoll::Snapshot;
use atoll::machine::fork::Here;
use datafusion::arrow::array::{Array, ArrayData};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use super::exhausted;
use crate::error::SqlError;

/// The query memory that a result holds; its last clone returns it.
#[derive(Clone)]
pub struct QueryMemory(Arc<Here<MemoryReservation>>);

impl QueryMemory {
    /// Bytes that count.
    pub fn bytes(&self) -> usize {
        self.0.size()
    }

    /// Takes more, for data derived from the result.
    ///
    /// # Errors
    /// Not enough memory is left.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), SqlError> {
        self.0.try_grow(bytes).map_err(|_| exhausted("the rows to be inserted need"))
    }
}

impl std::fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

/// Counts the batches of a result as they come.
pub(crate) struct Ledger {
    snapshot: Snapshot,
    memory: Here<MemoryReservation>,
    /// Addresses of the counted buffers: batches share them.
    counted: HashSet<usize>,
}

impl Ledger {
    /// For a result with batches that may refer to bytes of a snapshot.
    pub(crate) fn new(snapshot: Snapshot, context: &TaskContext) -> Self {
        let memory = MemoryConsumer::new("the result").register(context.memory_pool());
        Self { snapshot, memory: Here::new(memory), counted: HashSet::new() }
    }

    /// Counts a batch.
    ///
    /// # Errors
    /// Not enough query memory is left.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let bytes: usize =
            batch.columns().iter().map(|column| self.of_array(&column.to_data())).sum();
        self.memory.try_grow(bytes).map_err(|_| exhausted("the rows that the query returns take"))
    }

    fn of_array(&mut self, array: &ArrayData) -> usize {
        let nulls = array.nulls().map(|nulls| nulls.inner().inner());
        let own: usize =
            array.buffers().iter().chain(nulls).map(|buffer| self.of_buffer(buffer)).sum();
        own + array.child_data().iter().map(|child| self.of_array(child)).sum::<usize>()
    }

    fn of_buffer(&mut self, buffer: &Buffer) -> usize {
        let address = buffer.data_ptr().as_ptr() as usize;
        let is_new = self.counted.insert(address) && !self.snapshot.is_stored_at(address);
        if is_new { buffer.capacity() } else { 0 }
    }

    /// The memory that the result holds.
    pub(crate) fn close(self) -> QueryMemory {
        QueryMemory(Arc::new(self.memory))
    }
}
