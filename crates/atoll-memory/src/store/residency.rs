//! How much of a store on a file lies in memory: a budget, and two hands that keep to it.
//!
//! Pages of the file are in memory because somebody touched them, and the kernel takes them away
//! only when the machine is full. Here the least used ones go earlier. The page table tells which
//! are used: a page that was taken out of it and is in it again has been touched. So nothing that
//! touches the store does anything for it.
//!
//! Two hands go round the store, region by region (a region is a chunk), while more is resident
//! than the budget allows:
//! 1. The *first hand* takes a region's pages out of the page table. They stay in the page cache.
//! 2. The *second hand* comes to the region a quarter of the resident regions later, and not before
//!    [`AGE_MIN`]. Pages that are mapped again were touched since and stay. Of the others, runs are
//!    written to the file and taken out of the page cache. It works on several regions at once, so
//!    that the medium has several writes to do.
//! 3. A round of the second hand that did not find enough *presses* on: the hands come closer
//!    together, so less is touched between them, up to [`PRESS_MAX`], where it no longer counts
//!    what was touched. Where all is in use and does not fit, no page is better than another. A
//!    round that did find enough lets go by as much.
//!
//! The kernel maps up to 16 neighbours of a page that is read and in memory ("fault-around"), and
//! may keep pages together that it has read together: that is how finely use is known. A page that
//! is missing is read alone, unless somebody said that the rest is needed too
//! ([`Store::will_need`]).
//!
//! Invariants:
//! - `RESIDENT-1`: no byte of the store changes by this, and none is lost. Page tables of a shared
//!   mapping hold no bytes; what leaves the page cache is clean, so it lies on the file.
//! - `RESIDENT-2`: no page that is mapped leaves memory, whoever has mapped it: a reader in another
//!   process, or an access that came between look and eviction. It is the kernel that passes over
//!   pages that are mapped, dirty or being written, so a race ends with a page that stays.
//! - `RESIDENT-3`: no call here needs space: what is written was reserved before it was touched
//!   (`STORE-2`).
//! - `RESIDENT-4`: when a write to the file has failed, nothing is taken out of memory any more,
//!   and what was to be written is dirty again. What the kernel wrote on its own and failed with
//!   it takes for written, so the failure is kept, and who makes anything durable from the store
//!   looks at it first ([`Residency::check`]).
//!
//! The budget is kept by a thread that comes after the fact, so it is passed for moments, and for
//! longer by what is mapped in other processes, or when pages are dirtied faster than the medium
//! writes; the kernel then slows down those who dirty them. On tmpfs nothing is ever evicted.

use super::{CHUNK_BYTES, Store, read_u64, sys};
use crate::error::MemoryError;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The second hand gives a page at least so long to be touched.
const AGE_MIN: Duration = Duration::from_millis(10);
/// Each step of pressing halves the time and the distance between the hands; after so many of them
/// what was touched leaves memory too.
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
    /// Bytes that left memory.
    pub evicted_bytes: u64,
    /// How long it took to find out what is resident; zero if there was no need to.
    pub measuring: Duration,
    /// Whether too much is left although nothing was spared: it comes back as fast as it goes, or
    /// others have it mapped. Going on at once would only be in their way.
    pub is_stuck: bool,
}

/// Keeps a store on a file within a budget of memory; see the module.
#[derive(Debug)]
pub struct Residency {
    store: Arc<Store>,
    /// What this process's page table holds.
    pagemap: File,
    page_bytes: u64,
    budget_bytes: u64,
    evicted_bytes: AtomicU64,
    /// Number of the error that ended eviction; 0 if none has.
    failed: AtomicI32,
    hands: Mutex<Hands>,
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
}

/// What lies in memory.
struct Resident {
    /// The chunks of which anything does, ascending.
    chunks: Vec<u64>,
    bytes: u64,
}

impl Residency {
    /// A budget for a store that this process has made on a file.
    ///
    /// # Errors
    /// [`MemoryError::ReadOnly`] for a store of another process, [`MemoryError::System`] where it
    /// is not told what lies in memory, as without `/proc`.
    pub fn new(store: Arc<Store>, budget_bytes: u64) -> Result<Residency, MemoryError> {
        if !store.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        let pagemap = File::open("/proc/self/pagemap");
        let residency = Residency {
            store,
            pagemap: pagemap.map_err(system("open(/proc/self/pagemap)"))?,
            page_bytes: atoll_machine::page_bytes() as u64,
            budget_bytes,
            evicted_bytes: AtomicU64::new(0),
            failed: AtomicI32::new(0),
            hands: Mutex::default(),
        };
        // Rather now than in the middle of the work.
        residency.find(0, true, &mut Vec::new())?;
        Ok(residency)
    }

    /// Bytes of the store that may lie in memory.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes that have left memory so far; a page that comes back and leaves again counts again.
    #[must_use]
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the store that lie in memory now, whoever has touched them. Takes a look at each
    /// page: microseconds for a MiB.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn resident_bytes(&self) -> Result<u64, MemoryError> {
        Ok(self.measure()?.bytes)
    }

    /// That nothing was lost on the way to the file (`RESIDENT-4`).
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`].
    pub fn check(&self) -> Result<(), MemoryError> {
        // The kernel writes on its own too, and tells whoever waits for any part of the file.
        if let Err(error) = sys::wait_for_writes(self.store.fd(), 0, self.page_bytes) {
            self.failed.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
        }
        match self.failed.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(MemoryError::SpillFailed { source: io::Error::from_raw_os_error(errno) }),
        }
    }

    /// If more is resident than the budget allows, lets the hands go on until it is less, or the
    /// second hand has been everywhere once, or `stop` says so. Sleeps and waits for the medium, so
    /// it wants a thread of its own.
    ///
    /// # Errors
    /// [`MemoryError::SpillFailed`], then and ever after; [`MemoryError::System`].
    pub fn tend(&self, stop: impl Fn() -> bool) -> Result<Tended, MemoryError> {
        self.check()?;
        let mut tended = Tended::default();
        if self.store.committed_bytes() <= self.budget_bytes {
            return Ok(tended);
        }
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let resident = self.measure()?;
        tended.measuring = begin.elapsed();
        if resident.bytes <= self.budget_bytes {
            return Ok(tended);
        }
        let wanted = resident.bytes - (self.budget_bytes - self.budget_bytes / SLACK_SHARE);
        let press = hands.press;
        let spares_touched = press < PRESS_MAX;
        let distance = ((resident.chunks.len() / DISTANCE_SHARE) >> press).max(1);
        let age_min = AGE_MIN / (1 << press);
        let batch_len = distance.min(BATCH_MAX);
        let mut looked_at = 0;
        while tended.evicted_bytes < wanted && looked_at < resident.chunks.len() && !stop() {
            let ahead = (distance + batch_len).min(resident.chunks.len());
            while hands.between.len() < ahead {
                let chunk = next_from(&resident.chunks, hands.first);
                self.unmap(chunk)?;
                hands.first = chunk + 1;
                hands.between.push_back((chunk, Instant::now()));
            }
            let batch: Vec<_> = hands.between.drain(..batch_len).collect();
            if let Some((_, youngest)) = batch.last() {
                std::thread::sleep(age_min.saturating_sub(youngest.elapsed()));
            }
            let chunks: Vec<u64> = batch.into_iter().map(|(chunk, _)| chunk).collect();
            tended.evicted_bytes += self.evict(&chunks, spares_touched)?;
            looked_at += chunks.len();
        }
        if tended.evicted_bytes >= wanted {
            hands.press = press.saturating_sub(1);
        } else {
            hands.press = (press + 1).min(PRESS_MAX);
            tended.is_stuck = !spares_touched;
        }
        Ok(tended)
    }

    /// Asks about all chunks that have space.
    fn measure(&self) -> Result<Resident, MemoryError> {
        let mut resident = Resident { chunks: Vec::new(), bytes: 0 };
        let all = 0..self.store.capacity_bytes() / CHUNK_BYTES;
        let mut pages = Vec::new();
        for run in self.store.ledger.runs(all, true, RUN_CHUNKS) {
            pages.resize(((run.end - run.start) * self.pages_per_chunk()) as usize, 0);
            self.store.mapping.resident_pages(run.start * CHUNK_BYTES, &mut pages)?;
            let of_chunks = pages.chunks(self.pages_per_chunk() as usize);
            for (chunk, pages) in run.zip(of_chunks) {
                let count = pages.iter().filter(|page| **page & 1 != 0).count() as u64;
                if count > 0 {
                    resident.chunks.push(chunk);
                    resident.bytes += count * self.page_bytes;
                }
            }
        }
        Ok(resident)
    }

    /// The first hand.
    fn unmap(&self, chunk: u64) -> Result<(), MemoryError> {
        self.store.mapping.unmap_pages(chunk * CHUNK_BYTES, CHUNK_BYTES)
    }

    /// The second hand. Returns the bytes that have left memory.
    fn evict(&self, chunks: &[u64], spares_touched: bool) -> Result<u64, MemoryError> {
        let mut runs = Vec::new();
        for chunk in chunks {
            self.find(*chunk, spares_touched, &mut runs)?;
        }
        let fd = self.store.fd();
        let write_out = |wait: bool| {
            runs.iter().try_for_each(|run| sys::write_out(fd, run.start, run.end - run.start, wait))
        };
        // All are under way before the first is waited for.
        if let Err(error) = write_out(false).and_then(|()| write_out(true)) {
            // RESIDENT-4: the kernel takes what it could not write for clean.
            runs.iter().for_each(|run| self.store.mapping.populate(run.start, run.end - run.start));
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            self.failed.store(errno, Ordering::Release);
            return Err(MemoryError::SpillFailed { source: error });
        }
        if !spares_touched {
            chunks.iter().try_for_each(|chunk| self.unmap(*chunk))?;
        }
        let mut left = 0;
        for run in &runs {
            sys::drop_cached(fd, run.start, run.end - run.start);
            let mut pages = vec![0; ((run.end - run.start) / self.page_bytes) as usize];
            self.store.mapping.resident_pages(run.start, &mut pages)?;
            let gone = pages.iter().filter(|page| **page & 1 == 0).count() as u64;
            left += gone * self.page_bytes;
        }
        self.evicted_bytes.fetch_add(left, Ordering::Relaxed);
        Ok(left)
    }

    /// Adds the runs of a chunk's bytes that are in memory, without those in the page table if
    /// what was touched is spared.
    fn find(
        &self,
        chunk: u64,
        spares_touched: bool,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), MemoryError> {
        let (start, count) = (chunk * CHUNK_BYTES, self.pages_per_chunk() as usize);
        let mut resident = vec![0; count];
        self.store.mapping.resident_pages(start, &mut resident)?;
        let mut entries = vec![0; count * ENTRY_BYTES];
        let first_page = (self.store.base() as u64 + start) / self.page_bytes;
        let read = self.pagemap.read_exact_at(&mut entries, first_page * ENTRY_BYTES as u64);
        read.map_err(system("read(/proc/self/pagemap)"))?;
        let mut at = start;
        for (page, entry) in resident.iter().zip(entries.chunks_exact(ENTRY_BYTES)) {
            let is_mapped = read_u64(entry, 0) & PRESENT != 0;
            if page & 1 != 0 && !(spares_touched && is_mapped) {
                match runs.last_mut() {
                    Some(run) if run.end == at => run.end += self.page_bytes,
                    _ => runs.push(at..at + self.page_bytes),
                }
            }
            at += self.page_bytes;
        }
        Ok(())
    }

    fn pages_per_chunk(&self) -> u64 {
        CHUNK_BYTES / self.page_bytes
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::access::Access;
    use crate::store::StoreOptions;

    /// A store of four chunks whose pages all hold their number; `None` where files lie in memory.
    fn filled() -> Option<(Arc<Store>, Access, Residency)> {
        let options = StoreOptions {
            capacity_bytes: 8 * CHUNK_BYTES,
            limit_bytes: 8 * CHUNK_BYTES,
            huge_pages: true,
        };
        // Beside the program of this test: the folder for temporary files may be in memory.
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let store = Arc::new(Store::create_unnamed(&folder, &options).unwrap());
        store.commit(CHUNK_BYTES, 3 * CHUNK_BYTES).unwrap();
        let access = Access::new(Arc::clone(&store));
        for at in (CHUNK_BYTES..4 * CHUNK_BYTES).step_by(4096) {
            access.store_u64(at, at);
        }
        let residency = Residency::new(Arc::clone(&store), CHUNK_BYTES).unwrap();
        residency.unmap(3).unwrap();
        if residency.evict(&[3], true).unwrap() == 0 {
            eprintln!("skipped: the files of {} lie in memory", folder.display());
            return None;
        }
        Some((store, access, residency))
    }

    fn resident(store: &Store, chunk: u64) -> Vec<bool> {
        let mut pages = vec![0; CHUNK_BYTES as usize / atoll_machine::page_bytes()];
        store.mapping.resident_pages(chunk * CHUNK_BYTES, &mut pages).unwrap();
        pages.into_iter().map(|page| page & 1 != 0).collect()
    }

    #[test]
    fn what_is_touched_between_the_hands_stays_and_the_rest_goes() {
        let Some((store, access, residency)) = filled() else { return };
        for chunk in [1, 2] {
            residency.unmap(chunk).unwrap();
            assert!(resident(&store, chunk).iter().all(|page| *page), "the first hand evicts not");
        }
        // A page read, a page written; the other chunk is left alone.
        let (read, written) = (CHUNK_BYTES + 100 * 4096, CHUNK_BYTES + 300 * 4096);
        assert_eq!(access.load_u64(read), read);
        access.store_u64(written, 7);
        let evicted = residency.evict(&[1, 2], true).unwrap();
        let left = resident(&store, 1);
        assert!(left[100 * 4096 / atoll_machine::page_bytes()], "read since");
        assert!(left[300 * 4096 / atoll_machine::page_bytes()], "written since");
        assert!(left.iter().filter(|page| **page).count() <= left.len() / 2, "the rest goes");
        assert!(resident(&store, 2).iter().all(|page| !page));
        assert!(evicted > CHUNK_BYTES && residency.evicted_bytes() >= evicted);
        for at in (CHUNK_BYTES..4 * CHUNK_BYTES).step_by(4096) {
            assert_eq!(access.load_u64(at), if at == written { 7 } else { at });
        }
    }

    #[test]
    fn what_is_not_taken_out_of_the_page_table_is_not_evicted() {
        let Some((store, _, residency)) = filled() else { return };
        assert_eq!(residency.evict(&[1, 2], true).unwrap(), 0);
        assert!(resident(&store, 1).iter().chain(&resident(&store, 2)).all(|page| *page));
        assert_eq!(residency.evict(&[1, 2], false).unwrap(), 2 * CHUNK_BYTES, "unless it must");
    }

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
}
