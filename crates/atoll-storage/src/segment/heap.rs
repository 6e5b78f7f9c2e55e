//! The heap of a column of a segment: its texts and binaries of more than 12 bytes.
//!
//! Values are appended to blocks and never change, so a block needs no copy on write: a snapshot
//! keeps showing its part of the block, and later values follow behind that part. The heap list,
//! which maps numbers to blocks, is an extent like any other. A block without live values is
//! retired, and its number is used again. So that a few values do not keep many blocks alive, a
//! transaction stores the values of a mostly dead block again in another block
//! ([`Barrier::sparse_blocks`] finds such blocks).
//!
//! Invariants
//! - `HEAP-1`: bytes between a block's start and `used` never change while the block is in the heap
//!   list.
//! - `HEAP-2`: `live` counts the bytes of values that a row shows or that an open transaction may
//!   restore. A value is released when the transaction that replaced it commits, or when the
//!   transaction that wrote it aborts. A block is dropped when `live` reaches 0.

use std::hint::cold_path;

use atoll_machine::{Machine, Ordering};
use atoll_memory::{Extent, Memory, MemoryError, Retired};

use super::table_memory::TableMemory;
use super::{Barrier, Segment};
use crate::directory::Change;
use crate::image::{HeapPlace, heap_view};
use crate::layout::{column, heap_list, heap_list_bytes};

const BLOCK_BYTES_FIRST: u64 = 4 << 10;
pub(super) const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// A block is sparse when at most one in this many of its written bytes is live.
const SPARSE_SHARE: u64 = 3;
const LIST_CAPACITY_FIRST: u64 = 7;
/// Values up to this size are passed to a callback without an allocation.
const SHOWN_BYTES: usize = 256;
/// Most values are no larger than this, and a smaller buffer takes less time to clear.
const SHOWN_OFTEN_BYTES: usize = 64;

/// The owner's state of a column's blocks.
#[derive(Default)]
pub struct Heap {
    blocks: Vec<Option<Block>>,
    current: Option<usize>,
}

struct Block {
    extent: Extent,
    birth: u64,
    used: u64,
    live: u64,
}

impl<M: Machine> Barrier<M> {
    /// Appends a long value to the heap of a column; returns its view.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]; nothing is appended then.
    pub fn heap_append(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        bytes: &[u8],
    ) -> Result<[u8; 16], MemoryError> {
        self.memory().seal(change.inside.epoch); // before the latches, see `Directory::latch`
        let mut heap = target.heap(at).take();
        let number = match heap.current_with_room(bytes.len() as u64) {
            Some(number) => number,
            None => self.add_block(change, target, at, &mut heap, bytes.len() as u64)?,
        };
        let block = heap.blocks[number].as_mut().expect("the current block is listed");
        let place =
            HeapPlace { len: bytes.len() as u32, block: number as u32, offset: block.used as u32 };
        self.access().write(block.extent.offset + block.used, bytes);
        // Aligns values, so that a value does not extend into another line by a few bytes.
        block.used += (bytes.len() as u64).next_multiple_of(8);
        block.live += bytes.len() as u64;
        Ok(heap_view(bytes, place))
    }

    /// Releases a value in the heap, which no transaction needs any more. Never fails: without
    /// memory for the change, the block stays.
    pub fn heap_release(&self, change: Change, target: &Segment<M>, at: usize, place: HeapPlace) {
        self.memory().seal(change.inside.epoch);
        let mut heap = target.heap(at).take();
        let number = place.block as usize;
        let Some(block) = heap.blocks.get_mut(number).and_then(Option::as_mut) else { return };
        block.live -= u64::from(place.len);
        if block.live > 0 || heap.current == Some(number) {
            return;
        }
        self.drop_block(change, target, at, &mut heap, number);
    }

    /// Allocates and fills the blocks of a column that has none.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub(crate) fn fill_heap(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        blocks: &[&[u8]],
    ) -> Result<(), MemoryError> {
        let mut heap = target.heap(at).take();
        for (number, bytes) in blocks.iter().enumerate() {
            if bytes.is_empty() {
                heap.blocks.push(None);
                continue;
            }
            let extent = self.memory().allocate(bytes.len() as u64, change.purpose)?;
            let access = self.access();
            access.write(extent.offset, bytes);
            self.list_block(change, target, at, number, &extent)?;
            let (birth, used) = (change.inside.epoch, bytes.len() as u64);
            heap.blocks.push(Some(Block { extent, birth, used, live: 0 }));
        }
        Ok(())
    }

    /// Counts the bytes of live values in the blocks of a column; false if a place is outside the
    /// blocks.
    pub(crate) fn count_heap(&self, target: &Segment<M>, at: usize, places: &[HeapPlace]) -> bool {
        let mut heap = target.heap(at).take();
        places.iter().all(|place| {
            let block = heap.blocks.get_mut(place.block as usize).and_then(Option::as_mut);
            let Some(block) = block else { return false };
            block.live += u64::from(place.len);
            u64::from(place.offset) + u64::from(place.len) <= block.used
        })
    }

    /// Numbers of the sparse blocks of a column: most of their bytes belong to released values.
    pub fn sparse_blocks(&self, target: &Segment<M>, at: usize) -> Vec<u32> {
        let heap = target.heap(at).take();
        let numbered = heap.blocks.iter().enumerate();
        let sparse = numbered.filter(|(number, block)| {
            heap.current != Some(*number)
                && block.as_ref().is_some_and(|block| block.live * SPARSE_SHARE <= block.used)
        });
        sparse.map(|(number, _)| number as u32).collect()
    }

    /// Reads the bytes of a value in the heap; `None` if the place is not in the heap list.
    pub fn heap_read(&self, target: &Segment<M>, at: usize, place: HeapPlace) -> Option<Vec<u8>> {
        let offset = self.heap_offset(target, at, place)?;
        let mut out = vec![0; place.len as usize];
        self.access().read(offset, &mut out);
        Some(out)
    }

    /// Passes the bytes of a value in the heap to `body`; `None` if the place is not in the heap
    /// list.
    pub fn heap_show<R>(
        &self,
        target: &Segment<M>,
        at: usize,
        place: HeapPlace,
        body: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let len = place.len as usize;
        if len <= SHOWN_OFTEN_BYTES {
            return self.heap_show_in([0; SHOWN_OFTEN_BYTES], target, at, place, body);
        }
        if len <= SHOWN_BYTES {
            return self.heap_show_in([0; SHOWN_BYTES], target, at, place, body);
        }
        cold_path();
        body(self.heap_read(target, at, place).as_deref())
    }

    /// As [`Barrier::heap_show`], for a value that fits in `room`.
    #[inline(always)]
    fn heap_show_in<R, const N: usize>(
        &self,
        mut room: [u8; N],
        target: &Segment<M>,
        at: usize,
        place: HeapPlace,
        body: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let Some(offset) = self.heap_offset(target, at, place) else { return body(None) };
        let shown = &mut room[..place.len as usize];
        self.access().read(offset, shown);
        body(Some(shown))
    }

    /// Offset in the store of a value in the heap.
    #[inline(always)]
    fn heap_offset(&self, target: &Segment<M>, at: usize, place: HeapPlace) -> Option<u64> {
        let access = self.access();
        let line = target.node() + crate::layout::column_line(at);
        let list = access.load_acquire(line + column::HEAP);
        offset_of(access, list, place)
    }

    /// Address and size of a value in the heap, for a prefetch.
    #[inline(always)]
    pub fn place_in_heap(
        &self,
        target: &Segment<M>,
        at: usize,
        place: HeapPlace,
    ) -> Option<(*const u8, usize)> {
        let offset = self.heap_offset(target, at, place)?;
        let address = self.access().address(offset, place.len.into())?;
        Some((address, place.len as usize))
    }

    fn add_block(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        heap: &mut Heap,
        bytes: u64,
    ) -> Result<usize, MemoryError> {
        let number = heap.blocks.iter().position(Option::is_none).unwrap_or(heap.blocks.len());
        let usual = (BLOCK_BYTES_FIRST << number.min(8)).min(BLOCK_BYTES_MAX);
        let extent =
            self.memory().allocate(usual.max(bytes.next_multiple_of(8)), change.purpose)?;
        if let Err(error) = self.list_block(change, target, at, number, &extent) {
            self.memory().discard(extent.offset);
            return Err(error);
        }
        if number == heap.blocks.len() {
            heap.blocks.push(None);
        }
        let birth = change.inside.epoch;
        heap.blocks[number] = Some(Block { extent, birth, used: 0, live: 0 });
        let before = heap.current.replace(number);
        if let Some(before) = before
            && heap.blocks[before].as_ref().is_some_and(|block| block.live == 0)
        {
            self.drop_block(change, target, at, heap, before);
        }
        Ok(number)
    }

    fn list_block(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        number: usize,
        extent: &Extent,
    ) -> Result<(), MemoryError> {
        self.with_heap_line(change, target, at, |line| {
            let list = self.own_list(change, line, number as u64 + 1)?;
            let access = self.access();
            let pair = list + heap_list::FIRST + number as u64 * heap_list::PAIR;
            access.store_u64(pair, extent.offset);
            access.store_u64(pair + 8, extent.size_bytes);
            let entries = access.load_u64(list + heap_list::ENTRIES).max(number as u64 + 1);
            access.store_u64(list + heap_list::ENTRIES, entries);
            Ok(())
        })
    }

    /// Drops a block without live values. If the heap list cannot be copied (out of memory), the
    /// block stays.
    fn drop_block(
        &self,
        change: Change,
        target: &Segment<M>,
        at: usize,
        heap: &mut Heap,
        number: usize,
    ) {
        let unlisted = self.with_heap_line(change, target, at, |line| {
            let list = self.own_list(change, line, heap.blocks.len() as u64)?;
            let pair = list + heap_list::FIRST + number as u64 * heap_list::PAIR;
            self.access().store_u64(pair, 0);
            self.access().store_u64(pair + 8, 0);
            Ok(())
        });
        if unlisted.is_ok()
            && let Some(block) = heap.blocks[number].take()
        {
            retire(self.memory(), change, &block);
        }
    }

    /// The heap list of a column's line, not frozen and with capacity for `entries`; allocated or
    /// copied first if need be.
    fn own_list(&self, change: Change, line: u64, entries: u64) -> Result<u64, MemoryError> {
        let memory = self.memory();
        let access = self.access();
        let epoch = change.inside.epoch;
        let old = access.load_u64(line + column::HEAP);
        if old == 0 {
            let capacity = LIST_CAPACITY_FIRST.max(entries);
            let list = memory.allocate(heap_list_bytes(capacity), change.purpose)?;
            access.fill(list.offset, 0, heap_list_bytes(capacity));
            access.store_u64(list.offset + heap_list::CAPACITY, capacity);
            access.store_u64(line + column::HEAP_BIRTH, epoch);
            access.store_release(line + column::HEAP, list.offset);
            return Ok(list.offset);
        }
        let birth = access.load_u64(line + column::HEAP_BIRTH);
        let capacity = access.load_u64(old + heap_list::CAPACITY);
        if !change.inside.is_frozen(birth) && entries <= capacity {
            return Ok(old);
        }
        let (bytes, room) = (heap_list_bytes(capacity), capacity.max(entries.next_power_of_two()));
        let list = memory.allocate(heap_list_bytes(room), change.purpose)?;
        access.fill(list.offset, 0, heap_list_bytes(room));
        access.copy(old, list.offset, bytes);
        access.store_u64(list.offset + heap_list::CAPACITY, room);
        access.store_u64(line + column::HEAP_BIRTH, epoch);
        access.store_release(line + column::HEAP, list.offset);
        memory.retire(Retired { offset: old, size_bytes: bytes, birth }, epoch);
        Ok(list.offset)
    }
}

impl Heap {
    /// A heap of filled blocks, each with its birth, the bytes that are used, and those of values.
    pub(super) fn of(blocks: impl Iterator<Item = (Extent, u64, u64, u64)>) -> Self {
        let block = |(extent, birth, used, live)| Some(Block { extent, birth, used, live });
        Self { blocks: blocks.map(block).collect(), current: None }
    }

    /// Removes all blocks and passes them to `retire`.
    pub(super) fn retire_blocks(&mut self, retire: &mut impl FnMut(Retired)) {
        for Block { extent: Extent { offset, size_bytes }, birth, .. } in
            self.blocks.drain(..).flatten()
        {
            retire(Retired { offset, size_bytes, birth });
        }
        self.current = None;
    }

    /// Bytes of its blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().flatten().map(|block| block.extent.size_bytes).sum()
    }

    /// Whether it has never had a block.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn current_with_room(&self, bytes: u64) -> Option<usize> {
        let number = self.current?;
        let block = self.blocks[number].as_ref()?;
        (block.used + bytes <= block.extent.size_bytes).then_some(number)
    }
}

fn retire(memory: &Memory, change: Change, block: &Block) {
    let Extent { offset, size_bytes } = block.extent;
    let retired = Retired { offset, size_bytes, birth: block.birth };
    memory.retire(retired, change.inside.epoch);
}

/// Offset in the store of the bytes at a place; `None` if the place is not in the heap list.
#[inline(always)]
fn offset_of<M: Machine>(access: TableMemory<'_, M>, list: u64, place: HeapPlace) -> Option<u64> {
    if list == 0 || u64::from(place.block) >= access.load_u64(list + heap_list::ENTRIES) {
        return None;
    }
    let pair = list + heap_list::FIRST + u64::from(place.block) * heap_list::PAIR;
    let [block, bytes] = access.pair(pair).map(|word| word.load(Ordering::Relaxed));
    let end = u64::from(place.offset) + u64::from(place.len);
    (block != 0 && end <= bytes).then_some(block + u64::from(place.offset))
}
