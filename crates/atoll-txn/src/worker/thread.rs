//! What a thread needs to execute transactions, any of them and one after the other.

use atoll_memory::Member;
use atoll_storage::undo::Backwards;
use atoll_storage::{Change, Filling, KeyRun, RowId, StorageError, Table, TableSerial, Value};

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
pub(super) struct Fillings(Vec<OfTable>);

/// What a thread has of the table with this serial number.
#[derive(Clone, Default)]
struct OfTable {
    serial: TableSerial,
    filling: Filling,
    run: KeyRun,
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

impl Fillings {
    /// What the thread has of a table; the list grows as tables are used.
    #[inline]
    fn of<M: Machine>(&mut self, table: &Table<M>) -> &mut OfTable {
        let at = table.id().0 as usize;
        if self.0.len() <= at {
            std::hint::cold_path();
            self.0.resize(at + 1, OfTable::default());
        }
        let of = &mut self.0[at];
        if of.serial != table.serial() {
            std::hint::cold_path();
            *of = OfTable { serial: table.serial(), ..OfTable::default() };
        }
        of
    }

    /// Claims a slot for a new row.
    pub(super) fn claim<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        change: Change,
    ) -> Result<RowId, StorageError> {
        context.table.claim(change, &mut self.of(&context.table).filling)
    }

    /// Makes room for new rows, if the segment that the thread fills is small.
    #[inline]
    pub(super) fn make_room<M: Machine>(
        &mut self,
        table: &Table<M>,
        member: &mut Member,
        slots: usize,
    ) -> Result<(), StorageError> {
        let filling = &mut self.of(table).filling;
        if filling.lacks_room(slots) { table.make_room(member, filling, slots) } else { Ok(()) }
    }

    /// Trains the key predictor with a new row.
    pub(super) fn train<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        hash: u64,
        row: RowId,
    ) {
        context.table.train(&mut self.of(&context.table).run, hash, row);
    }
}
