//! Residency: keeps the part of a store that is in DRAM within a budget, with a two-handed clock.
//!
//! Evicted pages go to a [`ColdTier`]: the file of the store ([`file`]), or a node of slower
//! memory, the *cold node* ([`node`]). This module holds what both share: when which pages leave.
//!
//! Pages are in DRAM because a thread has accessed them, and the kernel evicts them only when the
//! machine is full. This module evicts the least used ones earlier. The page table serves as the
//! reference bits of the clock: a page that was unmapped and is mapped again has been accessed in
//! between. So accesses to the store need no bookkeeping.
//!
//! While more is resident than the budget allows, two hands go round the store, region by region (a
//! region is a chunk):
//! 1. The *first hand* unmaps the pages of a region. They stay in memory.
//! 2. The *second hand* comes to the region a quarter of the resident regions later, and not before
//!    [`AGE_MIN`] has passed. Pages that are mapped again were accessed and stay. The others leave,
//!    except those that were accessed often enough in earlier turns, which is known only with a
//!    cold node. The hand works on several regions at once, so that a medium has several writes in
//!    flight.
//! 3. A round of the second hand that did not evict enough raises the *pressure*: the hands move
//!    closer together, so fewer pages are accessed between them, and a page has to be accessed more
//!    often to stay. At [`PRESS_MAX`] accesses no longer count: when the working set does not fit,
//!    no page is better than another. A round that evicted enough lowers the pressure by one.
//!
//! A page on the file comes back when it is accessed. A page on the cold node is accessed there,
//! and has to be brought back. So, within the budget, the hands *stroll* on, a few regions at a
//! time:
//! 1. A page that was accessed in two turns in a row returns, as far as the budget allows; a page
//!    that was accessed in neither of the last two turns leaves, as far as room is wanted.
//! 2. A round that had no room for more pages than left raises the pressure; a round that had room
//!    for all lowers it. So the pages that are accessed between the hands come to be about those
//!    that fit: the most used ones.
//!
//! The kernel maps up to 16 neighbours of a page that is read and in memory ("fault-around"), and
//! may keep pages together that it has read together: this bounds the resolution.
//!
//! Invariants:
//! - `RESIDENT-1`: eviction changes and loses no byte of the store. Page tables of a shared mapping
//!   hold no bytes; a page that leaves the page cache is clean, so its bytes are on the file; the
//!   kernel moves pages between nodes.
//! - `RESIDENT-2`: no page that another process has mapped leaves, and on a file no page that is
//!   mapped at all, since an access may come between the look and the eviction. The kernel skips
//!   pages that are mapped, dirty or being written, so after a race the page stays.
//! - `RESIDENT-3`: no call here needs space: pages that are written had their space reserved before
//!   they were accessed (`STORE-2`), and chunks without space are not accessed.
//!
//! A thread enforces the budget after the fact, so memory use exceeds it for short times; and for
//! longer while other processes have pages mapped, while pages are dirtied faster than the medium
//! writes, or while the cold node is full.

mod file;
mod node;

use super::{CHUNK_BYTES, Store, read_u64};
use crate::error::MemoryError;
use atoll_machine::NodeId;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The minimum time between the hands, in which an access keeps a page.
const AGE_MIN: Duration = Duration::from_millis(10);
/// The greatest pressure. Each step halves the time and the distance between the hands, and a page
/// has to be accessed once more to stay; at the greatest pressure no access keeps a page.
const PRESS_MAX: u32 = 8;
/// Eviction ends this share of the budget below it, so that it does not begin again at once.
const SLACK_SHARE: u64 = 16;
/// The hands are this part of the resident regions apart.
const DISTANCE_SHARE: usize = 4;
/// The most regions that the second hand works on at once.
const BATCH_MAX: usize = 8;
/// Chunks per `mincore` call.
const RUN_CHUNKS: u64 = 32;
/// Bytes of an entry of the page map, and its bit for a page that is in the page table.
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;

/// The result of a call of [`Residency::tend`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Bytes that left DRAM.
    pub evicted_bytes: u64,
    /// Bytes that were brought back to it.
    pub returned_bytes: u64,
    /// The time spent on finding the resident pages; zero if that was not necessary.
    pub measuring: Duration,
    /// Pages that were unmapped within the budget, to see whether they are used: the next access to
    /// each takes a page fault.
    pub faults: u64,
    /// Whether too much is resident although no page was spared: pages come back as fast as they
    /// leave, other processes have them mapped, or the cold tier is full. The caller should wait,
    /// since another call at once would only slow down other threads.
    pub is_stuck: bool,
}

/// Keeps a store within a budget of DRAM; see the module.
#[derive(Debug)]
pub struct Residency {
    store: Arc<Store>,
    place: Box<dyn ColdTier>,
    budget_bytes: u64,
    evicted_bytes: AtomicU64,
    returned_bytes: AtomicU64,
    hands: Mutex<Hands>,
}

/// The tier that holds evicted pages of a store, and how pages move there and back.
trait ColdTier: std::fmt::Debug + Send + Sync {
    /// Finds which part of the store is in DRAM.
    fn resident(&self) -> Result<Resident, MemoryError>;

    /// The first hand: unmaps the pages of a chunk. May return how many were mapped.
    fn unmap(&self, chunk: u64) -> Result<u64, MemoryError>;

    /// The second hand: evicts pages of these chunks that `need` does not spare, and brings others
    /// back.
    fn sort(&self, chunks: &[u64], need: Need) -> Result<Sorted, MemoryError>;

    /// Whether the tier holds pages that do not come back on access.
    fn holds_any(&self) -> bool {
        false
    }

    /// Checks that eviction has lost no page.
    fn check(&self) -> Result<(), MemoryError> {
        Ok(())
    }
}

/// The part of a store that is in DRAM.
struct Resident {
    /// The chunks that the hands visit, ascending.
    chunks: Vec<u64>,
    bytes: u64,
}

/// What the second hand has to achieve in a few chunks.
#[derive(Clone, Copy)]
struct Need {
    /// About how many bytes have to leave.
    evict_bytes: u64,
    spares: Spares,
    /// How many bytes may come back in addition to as many as leave.
    room_bytes: u64,
}

/// Which pages stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spares {
    /// Pages that were accessed in more than this many of the last turns. On a file, where only the
    /// last turn is known: pages that were accessed in it, unless the number is [`PRESS_MAX`].
    MoreOftenThan(u32),
    /// Pages that were accessed in one of the last two turns.
    Lately,
}

/// What the second hand has done.
#[derive(Clone, Copy, Default)]
struct Sorted {
    evicted_bytes: u64,
    returned_bytes: u64,
    /// Bytes that were to come back and for which there was no room.
    turned_away_bytes: u64,
    /// Whether the cold tier has no room for more.
    is_full: bool,
}

/// The positions of the hands.
#[derive(Debug, Default)]
struct Hands {
    /// The next chunk of the first hand.
    first: u64,
    /// The chunks between the hands, the second hand's next one in front, and when the first hand
    /// visited each.
    between: VecDeque<(u64, Instant)>,
    /// The pressure, up to [`PRESS_MAX`].
    press: u32,
    /// Chunks that the second hand has visited in this round of strolling.
    strolled: usize,
    /// In this round, bytes that could not return because there was no room.
    turned_away_bytes: u64,
    /// In this round, bytes that left.
    sent_away_bytes: u64,
}

/// The distance between the hands.
struct Gap {
    /// Chunks that the first hand is ahead, before the second one takes its batch.
    ahead: usize,
    batch: usize,
    age: Duration,
}

impl Gap {
    fn new(press: u32, chunks: usize) -> Gap {
        let distance = ((chunks / DISTANCE_SHARE) >> press).max(1);
        let batch = distance.min(BATCH_MAX);
        Gap { ahead: (distance + batch).min(chunks), batch, age: AGE_MIN / (1 << press) }
    }
}

impl Residency {
    /// Sets a budget for a store that this process has created on a file; the file holds the pages
    /// beyond the budget.
    ///
    /// # Errors
    /// [`MemoryError::ReadOnly`] for a store of another process, [`MemoryError::System`] where the
    /// system does not tell which pages are in memory, for example without `/proc`.
    pub fn on_file(store: Arc<Store>, budget_bytes: u64) -> Result<Residency, MemoryError> {
        let place = file::OnFile::new(Arc::clone(&store))?;
        Ok(Residency::new(store, Box::new(place), budget_bytes))
    }

    /// Sets a budget for a store of [`Store::create_moving`]. Pages beyond it move to the node
    /// `cold`, and come back to one of `dram`: the node that they were on if that is known, else
    /// the first.
    ///
    /// # Errors
    /// [`MemoryError::ReadOnly`] and [`MemoryError::System`] as with a file,
    /// [`MemoryError::ColdNode`] if pages cannot be moved there.
    pub fn on_node(
        store: Arc<Store>,
        budget_bytes: u64,
        cold: NodeId,
        dram: Vec<NodeId>,
    ) -> Result<Residency, MemoryError> {
        let place = node::OnNode::new(Arc::clone(&store), cold, dram)?;
        Ok(Residency::new(store, Box::new(place), budget_bytes))
    }

    fn new(store: Arc<Store>, place: Box<dyn ColdTier>, budget_bytes: u64) -> Residency {
        let (evicted_bytes, returned_bytes) = Default::default();
        let hands = Mutex::default();
        Residency { store, place, budget_bytes, evicted_bytes, returned_bytes, hands }
    }

    /// Bytes of the store that may be in DRAM.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes that have left DRAM so far; a page that comes back and leaves again counts again.
    #[must_use]
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were brought back from a node so far; pages that come back from a file are not
    /// counted.
    #[must_use]
    pub fn returned_bytes(&self) -> u64 {
        self.returned_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the store that are in DRAM now, whichever process has accessed them. Looks at each
    /// page, which takes microseconds per MiB.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn resident_bytes(&self) -> Result<u64, MemoryError> {
        Ok(self.place.resident()?.bytes)
    }

    /// Checks that eviction has lost no page (`SPILL-1`).
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`].
    pub fn check(&self) -> Result<(), MemoryError> {
        self.place.check()
    }

    /// If more is resident than the budget allows, moves the hands until it is less, until the
    /// second hand has visited every chunk once, or until `stop` returns true. Otherwise, if the
    /// cold tier holds pages to bring back, moves the hands a few steps. It sleeps and waits for
    /// the medium, so the caller is a thread of its own.
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`], also in all later calls; [`MemoryError::System`].
    pub fn tend(&self, stop: impl Fn() -> bool) -> Result<Tended, MemoryError> {
        self.check()?;
        let mut tended = Tended::default();
        if self.store.committed_bytes() <= self.budget_bytes && !self.place.holds_any() {
            return Ok(tended);
        }
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let resident = self.place.resident()?;
        tended.measuring = begin.elapsed();
        if resident.bytes > self.budget_bytes {
            self.make_room(&mut hands, &resident, &stop, &mut tended)?;
        } else if self.place.holds_any() {
            self.stroll(&mut hands, &resident, &mut tended)?;
        }
        Ok(tended)
    }

    /// Bytes at which eviction ends.
    fn target_bytes(&self) -> u64 {
        self.budget_bytes - self.budget_bytes / SLACK_SHARE
    }

    fn make_room(
        &self,
        hands: &mut Hands,
        resident: &Resident,
        stop: &impl Fn() -> bool,
        tended: &mut Tended,
    ) -> Result<(), MemoryError> {
        let wanted = resident.bytes - self.target_bytes();
        let press = hands.press;
        let spares = Spares::MoreOftenThan(press);
        let gap = Gap::new(press, resident.chunks.len());
        let (mut looked_at, mut is_full) = (0, false);
        while tended.evicted_bytes < wanted
            && looked_at < resident.chunks.len()
            && !is_full
            && !stop()
        {
            self.advance(hands, resident, gap.ahead)?;
            if let Some((_, youngest)) = hands.between.get(gap.batch - 1) {
                std::thread::sleep(gap.age.saturating_sub(youngest.elapsed()));
            }
            let evict_bytes = wanted - tended.evicted_bytes;
            let need = Need { evict_bytes, spares, room_bytes: 0 };
            is_full = self.sort(hands, gap.batch, need, tended)?.is_full;
            looked_at += gap.batch;
        }
        if tended.evicted_bytes >= wanted {
            hands.press = press.saturating_sub(1);
        } else {
            hands.press = (press + 1).min(PRESS_MAX);
            tended.is_stuck = is_full || press == PRESS_MAX;
        }
        Ok(())
    }

    fn stroll(
        &self,
        hands: &mut Hands,
        resident: &Resident,
        tended: &mut Tended,
    ) -> Result<(), MemoryError> {
        // Accesses always count here.
        let press = hands.press.min(PRESS_MAX - 1);
        let gap = Gap::new(press, resident.chunks.len());
        let begin = Instant::now();
        // Not all at once: threads that use the pages have to map them again.
        let ahead = gap.ahead.min(hands.between.len() + 2 * gap.batch);
        tended.faults = self.advance(hands, resident, ahead)?;
        tended.measuring += begin.elapsed();
        let youngest = hands.between.get(gap.batch - 1);
        if hands.between.len() < gap.ahead || youngest.is_none_or(|(_, at)| at.elapsed() < gap.age)
        {
            return Ok(());
        }
        // Makes room for the pages that were turned away.
        let target_bytes = self.target_bytes().saturating_sub(hands.turned_away_bytes);
        let need = Need {
            evict_bytes: resident.bytes.saturating_sub(target_bytes),
            spares: Spares::Lately,
            room_bytes: self.budget_bytes - resident.bytes,
        };
        let sorted = self.sort(hands, gap.batch, need, tended)?;
        hands.strolled += gap.batch;
        hands.turned_away_bytes += sorted.turned_away_bytes;
        hands.sent_away_bytes += sorted.evicted_bytes;
        if hands.strolled >= resident.chunks.len() {
            if hands.turned_away_bytes == 0 {
                hands.press = press.saturating_sub(1);
            } else if hands.turned_away_bytes > hands.sent_away_bytes {
                hands.press = (press + 1).min(PRESS_MAX - 1);
            }
            (hands.strolled, hands.turned_away_bytes, hands.sent_away_bytes) = (0, 0, 0);
        }
        Ok(())
    }

    /// Moves the first hand until there are `ahead` chunks between the hands. Returns how many
    /// pages it unmapped.
    fn advance(
        &self,
        hands: &mut Hands,
        resident: &Resident,
        ahead: usize,
    ) -> Result<u64, MemoryError> {
        let mut unmapped = 0;
        while hands.between.len() < ahead {
            let chunk = next_from(&resident.chunks, hands.first);
            unmapped += self.place.unmap(chunk)?;
            hands.first = chunk + 1;
            hands.between.push_back((chunk, Instant::now()));
        }
        Ok(unmapped)
    }

    /// Moves the second hand by a batch.
    fn sort(
        &self,
        hands: &mut Hands,
        batch: usize,
        need: Need,
        tended: &mut Tended,
    ) -> Result<Sorted, MemoryError> {
        let chunks: Vec<u64> = hands.between.drain(..batch).map(|(chunk, _)| chunk).collect();
        let sorted = self.place.sort(&chunks, need)?;
        tended.evicted_bytes += sorted.evicted_bytes;
        tended.returned_bytes += sorted.returned_bytes;
        self.evicted_bytes.fetch_add(sorted.evicted_bytes, Ordering::Relaxed);
        self.returned_bytes.fetch_add(sorted.returned_bytes, Ordering::Relaxed);
        Ok(sorted)
    }
}

/// The page table of this process, for a store that it has created.
#[derive(Debug)]
struct PageTable {
    store: Arc<Store>,
    map: File,
    page_bytes: u64,
}

impl PageTable {
    fn new(store: Arc<Store>) -> Result<PageTable, MemoryError> {
        if !store.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        let map = File::open("/proc/self/pagemap").map_err(system("open(/proc/self/pagemap)"))?;
        Ok(PageTable { store, map, page_bytes: atoll_machine::page_bytes() as u64 })
    }

    fn pages_per_chunk(&self) -> usize {
        (CHUNK_BYTES / self.page_bytes) as usize
    }

    /// For each page of a chunk, whether it is in the page table.
    fn mapped_pages(&self, chunk: u64) -> Result<Vec<bool>, MemoryError> {
        let mut entries = vec![0; self.pages_per_chunk() * ENTRY_BYTES];
        let first_page = (self.store.base() as u64 + chunk * CHUNK_BYTES) / self.page_bytes;
        let read = self.map.read_exact_at(&mut entries, first_page * ENTRY_BYTES as u64);
        read.map_err(system("read(/proc/self/pagemap)"))?;
        let entries = entries.chunks_exact(ENTRY_BYTES);
        Ok(entries.map(|entry| read_u64(entry, 0) & PRESENT != 0).collect())
    }
}

/// Appends a page to runs of bytes, which are built in ascending order.
fn add_page(runs: &mut Vec<std::ops::Range<u64>>, at: u64, page_bytes: u64) {
    match runs.last_mut() {
        Some(run) if run.end == at => run.end += page_bytes,
        _ => runs.push(at..at + page_bytes),
    }
}

/// The first chunk at or after `from`, cyclically. `chunks` is not empty.
fn next_from(chunks: &[u64], from: u64) -> u64 {
    let at = chunks.partition_point(|chunk| *chunk < from);
    chunks[if at == chunks.len() { 0 } else { at }]
}

fn system(call: &'static str) -> impl Fn(io::Error) -> MemoryError {
    move |source| MemoryError::System { call, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hand_goes_round() {
        let chunks = [2, 5, 9];
        let mut at = 3;
        let mut next = || {
            let chunk = next_from(&chunks, at);
            at = chunk + 1;
            chunk
        };
        assert_eq!([next(), next(), next(), next()], [5, 9, 2, 5]);
    }

    #[test]
    fn the_second_hand_always_has_a_batch_between_the_hands() {
        for press in 0..=PRESS_MAX {
            for chunks in 1..200 {
                let gap = Gap::new(press, chunks);
                assert!(gap.batch >= 1 && gap.batch <= gap.ahead && gap.ahead <= chunks);
            }
        }
    }
}
