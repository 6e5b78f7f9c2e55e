//! The owner's side of the directory: it adds nodes, and copies the path to a node that changes.
//!
//! Invariants
//! - `DIR-1`: only a worker that is inside the gate changes a node, under the latch of this module
//!   (a segment node: under the latch of its segment), and only if the node is not frozen in the
//!   worker's epoch.
//! - `DIR-2`: a node that is not frozen has no frozen node above it: when a node is allocated, its
//!   whole path is not frozen, and a lease that is taken later holds an epoch that is newer than
//!   all of them.
//! - `SERIAL-1`: the root has the serial number of the next table, and it only rises. A snapshot
//!   shows the one of its cut, and a checkpoint keeps it. So no serial number is given twice, even
//!   after the newest tables were dropped.
//!
//! A failed allocation leaves the directory unchanged, except that nodes on the path may have been
//! replaced by identical copies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_memory::{Inside, Memory, MemoryError, Purpose, Retired};

use crate::error::StorageError;
use crate::layout::{
    FAN_NODE_BYTES, FANOUT, FORMAT, MAGIC, ROOT_HEADER_WORDS, ROOT_TABLES_FIRST, SEGMENTS_MAX,
    TABLE_HEADER_WORDS, TABLE_MIDS, TABLE_NODE_BYTES, TABLES_MAX, TableId, TableSerial, WORD, root,
    table,
};

/// See the module.
pub struct Directory {
    memory: Arc<Memory>,
    /// Holds the slots of dropped tables.
    latch: Mutex<Vec<TableId>>,
}

/// The context of a change: the section of the gate and the purpose of allocations.
#[derive(Clone, Copy)]
pub struct Change {
    /// Epoch and frontier, which the gate has given to the worker.
    pub inside: Inside,
    /// The purpose of the memory.
    pub purpose: Purpose,
}

impl Change {
    /// A change of a transaction that is not rolling back.
    pub fn forward(inside: Inside) -> Self {
        Self { inside, purpose: Purpose::Ordinary }
    }

    /// A change that undoes another.
    pub fn rollback(inside: Inside) -> Self {
        Self { inside, purpose: Purpose::Rollback }
    }
}

/// Whether snapshots show a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// They do.
    Yes,
    /// The transaction that makes the table has not committed.
    No,
}

/// The definition of a table that has been replaced by another.
#[derive(Debug)]
pub(crate) struct OldDefinition {
    offset: u64,
    lengths: u64,
}

impl OldDefinition {
    /// Its memory. No node says how old it is: any snapshot may show it.
    pub(crate) fn retired(&self) -> Retired {
        let size_bytes = (self.lengths & u64::from(u32::MAX)) + (self.lengths >> 32);
        Retired { offset: self.offset, size_bytes, birth: 0 }
    }
}

fn root_bytes(capacity: u64) -> u64 {
    (ROOT_HEADER_WORDS + capacity) * WORD
}

impl Directory {
    /// The directory of a new database: no tables.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn create(memory: Arc<Memory>) -> Result<Self, MemoryError> {
        let bytes = root_bytes(ROOT_TABLES_FIRST);
        let extent = memory.allocate(bytes, Purpose::Ordinary)?;
        let access = memory.access();
        access.fill(extent.offset, 0, bytes);
        access.store_u64(extent.offset + root::MAGIC, MAGIC);
        access.store_u64(extent.offset + root::FORMAT, FORMAT);
        access.store_u64(extent.offset + root::BIRTH, memory.epoch());
        access.store_u64(extent.offset + root::CAPACITY, ROOT_TABLES_FIRST);
        memory.set_root(extent.offset);
        Ok(Self { memory, latch: Mutex::default() })
    }

    /// The memory that the directory describes.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The serial number of the next table.
    pub fn next_serial(&self) -> TableSerial {
        TableSerial(self.memory.access().load_u64(self.memory.root() + root::NEXT_SERIAL))
    }

    /// Makes sure that the next table gets at least this serial number.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn raise_serial(&self, change: Change, serial: TableSerial) -> Result<(), MemoryError> {
        let _latch = self.latch(change);
        let access = self.memory.access();
        let place = self.own_root(change)? + root::NEXT_SERIAL;
        access.store_u64(place, access.load_u64(place).max(serial.0));
        Ok(())
    }

    /// Adds a table without segments, which snapshots show or not. No other table has its serial
    /// number; its name and schema are `schema` (see [`crate::schema_codec`]), and `options` is for
    /// the layer above.
    ///
    /// # Errors
    /// [`StorageError::Memory`]; [`StorageError::Schema`] when there are [`TABLES_MAX`] tables.
    pub fn add_table(
        &self,
        change: Change,
        (serial, shown): (TableSerial, Shown),
        (schema, options): (&[u8], &[u8]),
    ) -> Result<TableId, StorageError> {
        let mut free = self.latch(change);
        let access = self.memory.access();
        let mut top = self.own_root(change)?;
        let slots = access.load_u64(top + root::SLOTS);
        let slot = free.last().map_or(slots, |slot| slot.0.into());
        if slot == TABLES_MAX {
            return Err(StorageError::Schema(format!(
                "a database has {TABLES_MAX} tables at most"
            )));
        }
        if slot == access.load_u64(top + root::CAPACITY) {
            top = self.grow_root(change, top)?;
        }
        let bytes = (schema.len() + options.len()) as u64;
        let text = self.memory.allocate(bytes, change.purpose)?;
        let node = match self.memory.allocate(TABLE_NODE_BYTES, change.purpose) {
            Ok(node) => node.offset,
            Err(error) => {
                self.memory.discard(text.offset);
                return Err(error.into());
            }
        };
        access.write(text.offset, schema);
        access.write(text.offset + schema.len() as u64, options);
        access.fill(node, 0, TABLE_NODE_BYTES);
        access.store_u64(node, change.inside.epoch);
        let hidden = if shown == Shown::No { table::HIDDEN } else { 0 };
        access.store_u64(node + table::SERIAL, serial.0 | hidden);
        access.store_u64(node + table::DEFINITION, text.offset);
        let lengths = schema.len() as u64 | (options.len() as u64) << 32;
        access.store_u64(node + table::DEFINITION_BYTES, lengths);
        access.store_u64(top + (ROOT_HEADER_WORDS + slot) * WORD, node);
        access.store_u64(top + root::SLOTS, slots.max(slot + 1));
        let next = access.load_u64(top + root::NEXT_SERIAL).max(serial.next().0);
        access.store_u64(top + root::NEXT_SERIAL, next);
        free.pop();
        Ok(TableId(slot as u32))
    }

    /// Removes a table and frees its slot; returns its node, which the caller retires with all that
    /// it leads to. No thread changes the table any more.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn remove_table(&self, change: Change, table: TableId) -> Result<u64, MemoryError> {
        let mut free = self.latch(change);
        let access = self.memory.access();
        let place = self.own_root(change)? + (ROOT_HEADER_WORDS + u64::from(table.0)) * WORD;
        let node = access.load_u64(place);
        access.store_u64(place, 0);
        free.push(table);
        Ok(node)
    }

    /// Takes back [`Directory::remove_table`], in the same section.
    pub(crate) fn put_table_back(&self, change: Change, table: TableId, node: u64) {
        let mut free = self.latch(change);
        // The root is no longer frozen, so it need not be copied.
        let place = self.memory.root() + (ROOT_HEADER_WORDS + u64::from(table.0)) * WORD;
        self.memory.access().store_u64(place, node);
        free.retain(|slot| *slot != table);
    }

    /// Makes later snapshots show a table, or not.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]; not if the table was shown or hidden in the same section.
    pub(crate) fn show_table(
        &self,
        change: Change,
        table: TableId,
        shown: Shown,
    ) -> Result<(), MemoryError> {
        let _latch = self.latch(change);
        let access = self.memory.access();
        let place = self.own_table(change, table)? + table::SERIAL;
        let serial = access.load_u64(place) & !table::HIDDEN;
        let hidden = if shown == Shown::No { table::HIDDEN } else { 0 };
        access.store_u64(place, serial | hidden);
        Ok(())
    }

    /// Replaces the definition of a table, as in [`Directory::add_table`]; returns the old one.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn redefine_table(
        &self,
        change: Change,
        table: TableId,
        (schema, options): (&[u8], &[u8]),
    ) -> Result<OldDefinition, MemoryError> {
        let _latch = self.latch(change);
        let access = self.memory.access();
        let node = self.own_table(change, table)?;
        let bytes = (schema.len() + options.len()) as u64;
        let text = self.memory.allocate(bytes, change.purpose)?;
        access.write(text.offset, schema);
        access.write(text.offset + schema.len() as u64, options);
        let old = OldDefinition {
            offset: access.load_u64(node + table::DEFINITION),
            lengths: access.load_u64(node + table::DEFINITION_BYTES),
        };
        access.store_u64(node + table::DEFINITION, text.offset);
        let lengths = schema.len() as u64 | (options.len() as u64) << 32;
        access.store_u64(node + table::DEFINITION_BYTES, lengths);
        Ok(old)
    }

    /// Takes back [`Directory::redefine_table`], in the same section.
    pub(crate) fn put_definition_back(&self, change: Change, table: TableId, old: OldDefinition) {
        let _latch = self.latch(change);
        let access = self.memory.access();
        // The node is no longer frozen, so it need not be copied.
        let node =
            access.load_u64(self.memory.root() + (ROOT_HEADER_WORDS + u64::from(table.0)) * WORD);
        self.memory.discard(access.load_u64(node + table::DEFINITION));
        access.store_u64(node + table::DEFINITION, old.offset);
        access.store_u64(node + table::DEFINITION_BYTES, old.lengths);
    }

    /// Passes the node of a table that was removed, its definition, and the nodes between it and
    /// its segments to `retire`.
    pub(crate) fn retire_table(&self, node: u64, retire: &mut impl FnMut(Retired)) {
        let access = self.memory.access();
        let children = |node: u64, header: u64, count: u64| {
            let pointers = (header..header + count).map(move |at| node + at * WORD);
            pointers.map(|place| access.load_u64(place)).filter(|child| *child != 0)
        };
        let mut retire_node = |offset: u64, size_bytes: u64| {
            retire(Retired { offset, size_bytes, birth: access.load_u64(offset) });
        };
        for mid in children(node, TABLE_HEADER_WORDS, TABLE_MIDS) {
            children(mid, 1, FANOUT).for_each(|leaf| retire_node(leaf, FAN_NODE_BYTES));
            retire_node(mid, FAN_NODE_BYTES);
        }
        let definition = OldDefinition {
            offset: access.load_u64(node + table::DEFINITION),
            lengths: access.load_u64(node + table::DEFINITION_BYTES),
        };
        retire_node(node, TABLE_NODE_BYTES);
        retire(definition.retired());
    }

    /// Adds a segment to a table; returns its number.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]; `None` inside `Ok` when the table is full.
    pub fn add_segment(
        &self,
        change: Change,
        table: TableId,
        node: u64,
    ) -> Result<Option<u64>, MemoryError> {
        let _latch = self.latch(change);
        let access = self.memory.access();
        let table_node = self.own_table(change, table)?;
        let number = access.load_u64(table_node + table::SEGMENTS);
        if number == SEGMENTS_MAX {
            return Ok(None);
        }
        let place = self.own_leaf_entry(change, table_node, number)?;
        access.store_u64(place, node);
        access.store_u64(table_node + table::SEGMENTS, number + 1);
        Ok(Some(number))
    }

    /// Adds the first segments of a table that has none, all at once: a snapshot shows all of them
    /// or none.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]; the table has no segments then. `false` inside `Ok` when they
    /// are too many.
    pub(crate) fn add_first_segments(
        &self,
        change: Change,
        table: TableId,
        nodes: impl ExactSizeIterator<Item = u64>,
    ) -> Result<bool, MemoryError> {
        let _latch = self.latch(change);
        let access = self.memory.access();
        let table_node = self.own_table(change, table)?;
        let count = nodes.len() as u64;
        debug_assert_eq!(access.load_u64(table_node + table::SEGMENTS), 0);
        if count > SEGMENTS_MAX {
            return Ok(false);
        }
        for (number, node) in (0..count).zip(nodes) {
            let place = self.own_leaf_entry(change, table_node, number)?;
            access.store_u64(place, node);
        }
        access.store_u64(table_node + table::SEGMENTS, count);
        Ok(true)
    }

    /// Replaces the node of a segment by a copy.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn replace_segment(
        &self,
        change: Change,
        table: TableId,
        number: u64,
        node: u64,
    ) -> Result<(), MemoryError> {
        let _latch = self.latch(change);
        let table_node = self.own_table(change, table)?;
        let place = self.own_leaf_entry(change, table_node, number)?;
        self.memory.access().store_u64(place, node);
        Ok(())
    }

    /// Seals the epoch before it takes the latch. Sealing waits for workers of an older epoch, and
    /// such a worker may be waiting for the latch.
    fn latch(&self, change: Change) -> MutexGuard<'_, Vec<TableId>> {
        self.memory.seal(change.inside.epoch);
        self.latch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root, copied first if it is frozen.
    fn own_root(&self, change: Change) -> Result<u64, MemoryError> {
        let top = self.memory.root();
        let birth = self.memory.access().load_u64(top + root::BIRTH);
        if !change.inside.is_frozen(birth) {
            return Ok(top);
        }
        let access = self.memory.access();
        let bytes = root_bytes(access.load_u64(top + root::CAPACITY));
        let copy = self.memory.copy_extent(top, bytes, change.purpose)?;
        access.store_u64(copy.offset + root::BIRTH, change.inside.epoch);
        self.replace_root(change, top, copy.offset, birth, bytes);
        Ok(copy.offset)
    }

    fn grow_root(&self, change: Change, top: u64) -> Result<u64, MemoryError> {
        let access = self.memory.access();
        let capacity = access.load_u64(top + root::CAPACITY);
        let bytes = root_bytes(capacity);
        let grown = self.memory.allocate(root_bytes(capacity * 2), change.purpose)?;
        access.fill(grown.offset, 0, root_bytes(capacity * 2));
        access.copy(top, grown.offset, bytes);
        access.store_u64(grown.offset + root::CAPACITY, capacity * 2);
        access.store_u64(grown.offset + root::BIRTH, change.inside.epoch);
        let birth = access.load_u64(top + root::BIRTH);
        self.replace_root(change, top, grown.offset, birth, bytes);
        Ok(grown.offset)
    }

    fn replace_root(&self, change: Change, old: u64, new: u64, birth: u64, size_bytes: u64) {
        self.memory.set_root(new);
        self.memory.retire(Retired { offset: old, size_bytes, birth }, change.inside.epoch);
    }

    fn own_table(&self, change: Change, table: TableId) -> Result<u64, MemoryError> {
        let top = self.own_root(change)?;
        let place = top + (ROOT_HEADER_WORDS + u64::from(table.0)) * WORD;
        self.own_child(change, place, TABLE_NODE_BYTES)
    }

    /// Offset of a segment's pointer in its leaf. The path to it exists and is not frozen
    /// afterwards.
    fn own_leaf_entry(
        &self,
        change: Change,
        table_node: u64,
        number: u64,
    ) -> Result<u64, MemoryError> {
        let (leaf_number, entry) = (number / FANOUT, number % FANOUT);
        let mid_place = table_node + (TABLE_HEADER_WORDS + leaf_number / FANOUT) * WORD;
        let mid = self.own_child(change, mid_place, FAN_NODE_BYTES)?;
        let leaf_place = mid + (1 + leaf_number % FANOUT) * WORD;
        let leaf = self.own_child(change, leaf_place, FAN_NODE_BYTES)?;
        Ok(leaf + (1 + entry) * WORD)
    }

    /// The node that the pointer at `place` leads to: allocated if there is none, copied if it is
    /// frozen.
    fn own_child(&self, change: Change, place: u64, bytes: u64) -> Result<u64, MemoryError> {
        let access = self.memory.access();
        let node = access.load_u64(place);
        if node == 0 {
            let made = self.memory.allocate(bytes, change.purpose)?;
            access.fill(made.offset, 0, bytes);
            access.store_u64(made.offset, change.inside.epoch);
            access.store_u64(place, made.offset);
            return Ok(made.offset);
        }
        let birth = access.load_u64(node);
        if !change.inside.is_frozen(birth) {
            return Ok(node);
        }
        let copy = self.memory.copy_extent(node, bytes, change.purpose)?;
        access.store_u64(copy.offset, change.inside.epoch);
        access.store_u64(place, copy.offset);
        let retired = Retired { offset: node, size_bytes: bytes, birth };
        self.memory.retire(retired, change.inside.epoch);
        Ok(copy.offset)
    }
}
