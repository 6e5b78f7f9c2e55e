//! Columns that a table gets while it has rows: all rows have one value in a new column, and all
//! segments share the extents that hold it.
//!
//! - `SHARED-1`: an extent that segments share has the birth [`SHARED`] in their nodes. A worker
//!   copies it before it stores into it, as if it were frozen, and never retires it. So it is the
//!   same for all rows that have the value still, until the table is freed.
//! - `SHARED-2`: in the lists of the table such an extent has that birth, too, as an outgrown one
//!   has, so no store takes the fast path. Its segment grows as any other; the shared extent has
//!   room for the largest.

use atoll_machine::{Machine, Ordering, Word};
use atoll_memory::{Extent, MemoryError, Purpose, Retired};

use super::extents::OUTGROWN;
use super::node::{Slotted, validity_of, values_of};
use super::{Barrier, Segment};
use crate::directory::Change;
use crate::image::{self, Plain};
use crate::layout::{SEGMENT_ROWS, column, column_line, segment, segment_node_bytes};
use crate::types::Column;
use crate::zone;

/// The birth of an extent that segments share.
pub(super) const SHARED: u64 = OUTGROWN;

/// The extents of a column in which no row has another value than this one.
pub(crate) struct Constant {
    /// Plain bytes.
    value: Option<Box<[u8]>>,
    values: Extent,
    validity: Option<Extent>,
    zone: (u64, u64),
}

impl Constant {
    /// Its value.
    pub(crate) fn plain(&self) -> Plain<'_> {
        self.value.as_deref()
    }

    fn extents(&self, at: usize, width: usize) -> impl Iterator<Item = (Slotted, Extent)> {
        let validity = self.validity.map(|extent| (validity_of(at), extent));
        std::iter::once((values_of(at, width), self.values)).chain(validity)
    }
}

impl<M: Machine> Barrier<M> {
    /// The extents of a column with one value; `None` for one that needs the heap.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn constant(
        &self,
        described: &Column,
        plain: Plain<'_>,
    ) -> Result<Option<Constant>, MemoryError> {
        let mut room = [0; 16];
        let Ok(image) = image::of_plain(described.data_type, plain, &mut room) else {
            return Ok(None);
        };
        let rows = SEGMENT_ROWS as u64;
        let width = described.data_type.width();
        let bytes = match width {
            0 => vec![if image[0] == 0 { 0 } else { !0 }; values_of(0, 0).bytes(rows) as usize],
            _ => image.repeat(SEGMENT_ROWS),
        };
        let extent = |bytes: &[u8]| -> Result<Extent, MemoryError> {
            let extent = self.memory().allocate(bytes.len() as u64, Purpose::Ordinary)?;
            self.access().write(extent.offset, bytes);
            Ok(extent)
        };
        let values = extent(&bytes)?;
        let bits =
            || vec![if plain.is_some() { !0 } else { 0 }; validity_of(0).bytes(rows) as usize];
        let validity = match described.nullable.then(|| extent(&bits())).transpose() {
            Ok(validity) => validity,
            Err(error) => {
                self.memory().discard(values.offset);
                return Err(error);
            }
        };
        let word = plain.and_then(|_| zone::word(described.data_type, image));
        let zone = word.map_or((zone::EMPTY_MIN, zone::EMPTY_MAX), |word| (word, word));
        Ok(Some(Constant { value: plain.map(Into::into), values, validity, zone }))
    }

    /// Retires the extents of a constant. No segment has them any more.
    pub(crate) fn retire_constant(constant: &Constant, retire: &mut impl FnMut(Retired)) {
        for Extent { offset, size_bytes } in
            std::iter::once(constant.values).chain(constant.validity)
        {
            // No node says how old it is: any snapshot may show it.
            retire(Retired { offset, size_bytes, birth: 0 });
        }
    }

    /// The value with which a later column began.
    pub(crate) fn constant_of(&self, at: usize) -> Option<&Constant> {
        self.constants.get(at.checked_sub(self.columns.first())? as u64)
    }

    /// The values with which later columns began.
    pub(crate) fn constants(&self) -> impl Iterator<Item = &Constant> {
        (0..).map_while(|at| self.constants.get(at))
    }

    /// Writes the line of a column with one value into a node that belongs to the caller.
    pub(super) fn put_constant(&self, node: u64, at: usize) {
        let constant = self.constant_of(at).expect("a later column has a constant");
        let (access, width) = (self.access(), self.columns[at].data_type.width());
        let line = node + column_line(at);
        access.store_u64(line + column::MIN, constant.zone.0);
        access.store_u64(line + column::MAX, constant.zone.1);
        for (what, extent) in constant.extents(at, width) {
            access.store_u64(node + what.place, extent.offset);
            access.store_u64(node + what.birth, SHARED);
        }
    }

    /// Adds a column behind the others; its segments get it by [`Barrier::widen_segment`].
    pub(crate) fn add_column(&self, described: &Column, constant: Constant) {
        let at = self.columns.len();
        self.extents.add(at);
        self.constants.get_or_init((at - self.columns.first()) as u64, || constant);
        self.columns.add(at, || described.clone());
    }

    /// Gives a segment the columns that it lacks. No other thread uses the segment.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]; the segment is unchanged.
    pub(crate) fn widen_segment(
        &self,
        change: Change,
        target: &Segment<M>,
    ) -> Result<(), MemoryError> {
        let (before, after) = (target.columns(), self.columns.len());
        if before == after {
            return Ok(());
        }
        self.memory().seal(change.inside.epoch); // before the latch, see `Directory::latch`
        let _latch = target.latch.take();
        let (access, old) = (self.access(), target.node());
        let [from, to] = [before, after].map(segment_node_bytes);
        let node = self.memory().allocate(to, change.purpose)?.offset;
        access.copy(old, node, from);
        access.fill(node + from, 0, to - from);
        let birth = access.load_u64(old);
        access.store_u64(node, change.inside.epoch);
        access.store_u64(node + segment::COLUMNS, after as u64);
        let directory = self.directory();
        (before..after).for_each(|at| self.put_constant(node, at));
        if let Err(error) = directory.replace_segment(change, self.table(), target.number, node) {
            self.memory().discard(node);
            return Err(error);
        }
        self.note(target.number, node, before..after);
        (before..after).for_each(|at| _ = target.heaps.add(at, Default::default));
        target.node.store(node, Ordering::Release);
        let retired = Retired { offset: old, size_bytes: from, birth };
        self.memory().retire(retired, change.inside.epoch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use atoll_machine::Native;
    use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};

    use crate::directory::{Directory, Shown};
    use crate::layout::{RowId, TableSerial};
    use crate::table::Table;
    use crate::types::{Column, DataType, Schema, Value};

    use super::*;

    #[test]
    fn a_segment_that_is_growing_grows_on_when_it_has_got_a_column() {
        let config = SwingConfig { buddy_bytes: 64 << 20, ..SwingConfig::default() };
        let capacity_bytes = SwingMalloc::capacity_for(&config);
        let options = StoreOptions { capacity_bytes, limit_bytes: 64 << 20, huge_pages: false };
        let store = Arc::new(Store::create_memfd("atoll-test", &options).unwrap());
        let swing = SwingMalloc::create(Arc::clone(&store), &config).unwrap();
        let memory = Arc::new(Memory::new(store, swing));
        let directory = Arc::new(Directory::create(Arc::clone(&memory)).unwrap());
        let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
        let mut member = memory.join().unwrap();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let of = (TableSerial(0), Shown::Yes);
        let table: Table<Native> =
            Table::create(&directory, change, of, "t", (schema, &[])).unwrap();
        let number = table.add_segment(change, 128).unwrap();
        drop(section);
        let segment = table.slot(RowId::new(number, 0)).segment();
        let barrier = table.barrier();
        // It has begun to grow, and had no memory to end that.
        memory.advance_after(|epoch| barrier.begin_growth(segment, 1024, epoch));
        let section = member.enter();
        let change = Change::forward(section.inside());
        table.add_columns(&[(Column::new("n", DataType::Int64), Value::Int64(7))]).unwrap();
        table.widen(change, 0).unwrap();
        drop(section);
        assert!(barrier.extents.values[0].is_outgrown(number), "its extents are small still");
        memory.advance_after(|epoch| barrier.begin_growth(segment, 1024, epoch));
        let section = member.enter();
        let change = Change::forward(section.inside());
        assert!(barrier.finish_growth(change, segment).unwrap());
        assert_eq!(segment.capacity(), 1024);
        assert!(!barrier.extents.values[0].is_outgrown(number));
        assert_eq!(table.value(RowId::new(number, 1000), 1), Value::Int64(7));
        drop(section);
    }
}
