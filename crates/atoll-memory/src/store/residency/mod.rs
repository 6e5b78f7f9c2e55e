//! How much of a store lies in DRAM: a budget, and two hands that keep to it.
//!
//! Where the rest waits is a [`ColdTier`]: on the file that the store lies on ([`file`]), or on a
//! node of slower memory, the *cold node* ([`node`]). Here is what both have in common: when which
//! pages go.
//!
//! Pages are in DRAM because somebody touched them, and the kernel takes them away only when the
//! machine is full. Here the least used ones go earlier. The page table tells which are used: a
//! page that was taken out of it and is in it again has been touched. So nothing that touches the
//! store does anything for it.
//!
//! Two hands go round the store, region by region (a region is a chunk), while more is resident
//! than the budget allows:
//! 1. The *first hand* takes a region's pages out of the page table. They stay where they are.
//! 2. The *second hand* comes to the region a quarter of the resident regions later, and not before
//!    [`AGE_MIN`]. Pages that are mapped again were touched since and stay. The others leave,
//!    unless they have been touched at other times: of pages in memory it is known how often. It
//!    works on several regions at once, so that a medium has several writes to do.
//! 3. A round of the second hand that did not find enough *presses* on: the hands come closer
//!    together, so less is touched between them, and pages have to be touched more often to stay,
//!    up to [`PRESS_MAX`], where it no longer counts what was touched. Where all is in use and does
//!    not fit, no page is better than another. A round that did find enough lets go by as much.
//!
//! What lies on a file comes back when it is touched. What lies on a node is read there, and
//! somebody has to bring it back: within the budget the hands *stroll* on, a few regions at a time.
//! 1. A page that the second hand has found touched twice in a row returns, as far as the budget
//!    allows; one that it has found untouched twice in a row leaves, as far as room is wanted.
//! 2. A round in which more pages were turned away than left presses, one that turned none away
//!    lets go. So what is touched between the hands comes to be about what fits: what is used most.
//!
//! The kernel maps up to 16 neighbours of a page that is read and in memory ("fault-around"), and
//! may keep pages together that it has read together: that is how finely use is known.
//!
//! Invariants:
//! - `RESIDENT-1`: no byte of the store changes by this, and none is lost. Page tables of a shared
//!   mapping hold no bytes; what leaves the page cache is clean, so it lies on the file; what moves
//!   to another node the kernel moves.
//! - `RESIDENT-2`: no page that another process has mapped leaves, and on a file none that is
//!   mapped at all: an access may come between look and eviction. It is the kernel that passes over
//!   pages that are mapped, dirty or being written, so a race ends with a page that stays.
//! - `RESIDENT-3`: no call here needs space: what is written was reserved before it was touched
//!   (`STORE-2`), and what has no space is not touched.
//!
//! The budget is kept by a thread that comes after the fact, so it is passed for moments, and for
//! longer by what is mapped in other processes, when pages are dirtied faster than a medium writes,
//! or when the cold node is full.

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

/// The second hand gives a page at least so long to be touched.
const AGE_MIN: Duration = Duration::from_millis(10);
/// Each step of pressing halves the time and the distance between the hands, and a page needs to be
/// touched once more to stay; after so many of them nothing is enough.
const PRESS_MAX: u32 = 8;
/// Share of the budget below which eviction ends, so that it does not begin again at once.
const SLACK_SHARE: u64 = 16;
/// The hands are this part of the resident regions apart.
const DISTANCE_SHARE: usize = 4;
/// Most regions that the second hand works on at once.
const BATCH_MAX: usize = 8;
/// Chunks asked about in one call.
const RUN_CHUNKS: u64 = 32;
/// An entry of the page map: bytes, and the bit that says that the page is in the page table.
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;

/// What a call of [`Residency::tend`] has found and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Bytes that left DRAM.
    pub evicted_bytes: u64,
    /// Bytes that were brought back to it.
    pub returned_bytes: u64,
    /// How long it took to find out what is resident; zero if there was no need to.
    pub measuring: Duration,
    /// Pages taken out of the page table without need, to see whether they are used: whoever uses
    /// them pays for a fault.
    pub faults: u64,
    /// Whether too much is left although nothing was spared: it comes back as fast as it goes,
    /// others have it mapped, or there is no room for it. Going on at once would only be in their
    /// way.
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

/// Where pages of a store wait that are not used, and how they come there.
trait ColdTier: std::fmt::Debug + Send + Sync {
    /// What lies in DRAM and what does not.
    fn resident(&self) -> Result<Resident, MemoryError>;

    /// The first hand: takes a chunk's pages out of the page table. May return how many were in it.
    fn unmap(&self, chunk: u64) -> Result<u64, MemoryError>;

    /// The second hand: sends pages of these chunks away that `need` does not spare, and brings
    /// others back.
    fn sort(&self, chunks: &[u64], need: Need) -> Result<Sorted, MemoryError>;

    /// Whether anything is there that comes back only if it is brought.
    fn holds_any(&self) -> bool {
        false
    }

    /// That nothing was lost on the way there.
    fn check(&self) -> Result<(), MemoryError> {
        Ok(())
    }
}

/// What lies in DRAM.
struct Resident {
    /// The chunks that the hands come to, ascending.
    chunks: Vec<u64>,
    bytes: u64,
}

/// What the second hand is to do with a few chunks.
#[derive(Clone, Copy)]
struct Need {
    /// About so many bytes have to leave.
    evict_bytes: u64,
    spares: Spares,
    /// So many bytes may come back, and as many as leave.
    room_bytes: u64,
}

/// Which pages stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spares {
    /// Those touched more than so many of the last times; of a file, where only the last is known,
    /// those touched then unless it is [`PRESS_MAX`].
    MoreOftenThan(u32),
    /// Those touched one of the last two times.
    Lately,
}

/// What the second hand has done.
#[derive(Clone, Copy, Default)]
struct Sorted {
    evicted_bytes: u64,
    returned_bytes: u64,
    /// Bytes that would have come back if there were room.
    turned_away_bytes: u64,
    /// Whether the place has no room for more.
    is_full: bool,
}

/// Where the hands are.
#[derive(Debug, Default)]
struct Hands {
    /// The chunk that the first hand comes to next.
    first: u64,
    /// What lies between the hands, the second hand's next one in front, and when the first hand
    /// was there.
    between: VecDeque<(u64, Instant)>,
    /// How much they press on, up to [`PRESS_MAX`].
    press: u32,
    /// Chunks that the second hand has come to in this round of strolling, what it turned away, and
    /// what it sent away.
    strolled: usize,
    turned_away_bytes: u64,
    sent_away_bytes: u64,
}

/// How far the hands are apart.
struct Gap {
    /// Chunks that the first hand is ahead, before the second takes its batch.
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
    /// A budget for a store that this process has made on a file; what is beyond it waits there.
    ///
    /// # Errors
    /// [`MemoryError::ReadOnly`] for a store of another process, [`MemoryError::System`] where it
    /// is not told what lies in memory, as without `/proc`.
    pub fn on_file(store: Arc<Store>, budget_bytes: u64) -> Result<Residency, MemoryError> {
        let place = file::OnFile::new(Arc::clone(&store))?;
        Ok(Residency::new(store, Box::new(place), budget_bytes))
    }

    /// A budget for a store of [`Store::create_moving`]; what is beyond it waits on the node
    /// `cold`, and comes back to one of `dram`, its own if that is known, else the first.
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

    /// Bytes of the store that may lie in DRAM.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes that have left DRAM so far; a page that comes back and leaves again counts again.
    #[must_use]
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were brought back from a node so far. What comes back from a file nobody counts.
    #[must_use]
    pub fn returned_bytes(&self) -> u64 {
        self.returned_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the store that lie in DRAM now, whoever has touched them. Takes a look at each
    /// page: microseconds for a MiB.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn resident_bytes(&self) -> Result<u64, MemoryError> {
        Ok(self.place.resident()?.bytes)
    }

    /// That nothing was lost on the way out of DRAM (`SPILL-1`).
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`].
    pub fn check(&self) -> Result<(), MemoryError> {
        self.place.check()
    }

    /// If more is resident than the budget allows, lets the hands go on until it is less, or the
    /// second hand has been everywhere once, or `stop` says so. Otherwise, if something has to be
    /// brought back, lets them stroll a few steps. Sleeps and waits for the medium, so it wants a
    /// thread of its own.
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`], then and ever after; [`MemoryError::System`].
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
        // What is touched always counts here.
        let press = hands.press.min(PRESS_MAX - 1);
        let gap = Gap::new(press, resident.chunks.len());
        let begin = Instant::now();
        // Not all at once: who uses the pages has to map them again.
        let ahead = gap.ahead.min(hands.between.len() + 2 * gap.batch);
        tended.faults = self.advance(hands, resident, ahead)?;
        tended.measuring += begin.elapsed();
        let youngest = hands.between.get(gap.batch - 1);
        if hands.between.len() < gap.ahead || youngest.is_none_or(|(_, at)| at.elapsed() < gap.age)
        {
            return Ok(());
        }
        // What was turned away is to have room the next time.
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

    /// Lets the first hand go on until so many chunks are between the hands.
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

    /// Lets the second hand go on by a batch.
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

/// What this process's page table holds of a store that it has made.
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

/// Adds a page to runs of bytes that are built in ascending order.
fn add_page(runs: &mut Vec<std::ops::Range<u64>>, at: u64, page_bytes: u64) {
    match runs.last_mut() {
        Some(run) if run.end == at => run.end += page_bytes,
        _ => runs.push(at..at + page_bytes),
    }
}

/// The first of these from `from` on, around the end. There is at least one.
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
