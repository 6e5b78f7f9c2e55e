//! Accounting of the memory that a result holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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

/// Counts the batches of a result as they come, each buffer once as long as any of them has it.
pub(crate) struct Ledger {
    snapshot: Option<Snapshot>,
    memory: Here<MemoryReservation>,
    /// The buffers by their addresses: batches share them.
    buffers: HashMap<usize, Held>,
}

/// A buffer of the result.
struct Held {
    bytes: usize,
    /// Uses by batches.
    uses: usize,
}

/// The buffers of a batch, by their addresses.
pub(crate) struct Counted(Vec<usize>);

impl Ledger {
    /// For a result with batches that may refer to bytes of a snapshot.
    pub(crate) fn new(snapshot: Option<Snapshot>, context: &TaskContext) -> Self {
        let memory = MemoryConsumer::new("the result").register(context.memory_pool());
        Self { snapshot, memory: Here::new(memory), buffers: HashMap::new() }
    }

    /// Counts a batch.
    ///
    /// # Errors
    /// Not enough query memory is left.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<Counted, SqlError> {
        let mut counted = Counted(Vec::new());
        let columns = batch.columns().iter();
        let bytes = columns.map(|column| self.of_array(&column.to_data(), &mut counted)).sum();
        let has_room = self.memory.try_grow(bytes);
        has_room.map_err(|_| exhausted("the rows that the query returns take"))?;
        Ok(counted)
    }

    /// Returns the memory of a batch that is no longer kept.
    pub(crate) fn release(&mut self, counted: Counted) {
        let mut bytes = 0;
        for address in counted.0 {
            let Entry::Occupied(mut held) = self.buffers.entry(address) else { continue };
            held.get_mut().uses -= 1;
            if held.get().uses == 0 {
                bytes += held.remove().bytes;
            }
        }
        self.memory.shrink(bytes);
    }

    fn of_array(&mut self, array: &ArrayData, counted: &mut Counted) -> usize {
        let nulls = array.nulls().map(|nulls| nulls.inner().inner());
        let buffers = array.buffers().iter().chain(nulls);
        let own: usize = buffers.map(|buffer| self.of_buffer(buffer, counted)).sum();
        let children = array.child_data().iter();
        own + children.map(|child| self.of_array(child, counted)).sum::<usize>()
    }

    fn of_buffer(&mut self, buffer: &Buffer, counted: &mut Counted) -> usize {
        let address = buffer.data_ptr().as_ptr() as usize;
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.is_stored_at(address)) {
            return 0;
        }
        counted.0.push(address);
        let held = self.buffers.entry(address).or_insert(Held { bytes: 0, uses: 0 });
        held.uses += 1;
        // The address may be that of a smaller one, which the reader has dropped since.
        let more = buffer.capacity().saturating_sub(held.bytes);
        held.bytes += more;
        more
    }

    /// The memory of the batches, which are kept.
    pub(crate) fn close(&mut self) -> QueryMemory {
        QueryMemory(Arc::new(Here::new(self.memory.take())))
    }
}
