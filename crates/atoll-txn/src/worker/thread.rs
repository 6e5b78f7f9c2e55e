//! What a thread needs to execute transactions, any of them and one after the other.

use atoll_memory::Member;
use atoll_storage::undo::Backwards;
use atoll_storage::{Change, Filling, KeyRun, RowId, StorageError, Table, TableId, Value};

use super::range::ScanBuffers;
use super::store_buffer::StoreBuffer;
use crate::garbage::Garbage;
use crate::scheme::Scheme;
use crate::tables::TableContext;
use atoll_machine::Machine;

/// The state of a worker, see [`super`].
pub(super) struct Thread {
    pub(super) member: Member,
    /// The newest epoch that this thread knows to be sealed.
    pub(super) sealed: u64,
    pub(super) garbage: Garbage,
    pub(super) fillings: Fillings,
    /// A buffer for keys.
    pub(super) keys: Vec<Value>,
    pub(super) store_buffer: StoreBuffer,
    pub(super) scan_buffers: ScanBuffers,
    pub(super) backwards: Backwards,
}

/// The segments that a thread fills with new rows, and the key runs that they add to the key
/// predictors of their tables; by table.
#[derive(Default)]
pub(super) struct Fillings {
    segments: Vec<Filling>,
    runs: Vec<KeyRun>,
}

impl Thread {
    pub(super) fn new(member: Member) -> Self {
        Self {
            member,
            sealed: 0,
            garbage: Garbage::default(),
            fillings: Fillings::default(),
            keys: Vec::new(),
            store_buffer: StoreBuffer::default(),
            scan_buffers: ScanBuffers::default(),
            backwards: Backwards::default(),
        }
    }
}

/// The element for a table; the list grows as tables are used.
fn of_table<T: Default + Clone>(list: &mut Vec<T>, table: TableId) -> &mut T {
    let at = table.0 as usize;
    if list.len() <= at {
        std::hint::cold_path();
        list.resize(at + 1, T::default());
    }
    &mut list[at]
}

impl Fillings {
    /// Claims a slot for a new row.
    pub(super) fn claim<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
    ) -> Result<RowId, StorageError> {
        context.table.claim(change, of_table(&mut self.segments, context.table.id()))
    }

    /// Makes room for new rows, if the segment that the thread fills is small.
    #[inline]
    pub(super) fn make_room<M: Machine>(
        &mut self,
        table: &Table<M>,
        member: &mut Member,
        slots: usize,
    ) -> Result<(), StorageError> {
        let filling = of_table(&mut self.segments, table.id());
        if filling.lacks_room(slots) { table.make_room(member, filling, slots) } else { Ok(()) }
    }

    /// Trains the key predictor with a new row.
    pub(super) fn train<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        hash: u64,
        row: RowId,
    ) {
        context.table.train(of_table(&mut self.runs, context.table.id()), hash, row);
    }
}
