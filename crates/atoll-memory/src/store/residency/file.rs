//! A cold tier on the file of a store: unused pages are evicted to the file and come back when they
//! are accessed.
//!
//! The second hand writes runs of pages to the file and removes them from the page cache. A missing
//! page is read alone, unless a caller has prefetched its range ([`Store::will_need`]). On tmpfs no
//! page is ever evicted.
//!
//! - `SPILL-1`: after a write to the file has failed, no page is evicted any more, and the pages
//!   that were to be written are dirty again. If the kernel's own writeback fails, the kernel marks
//!   the page clean all the same. So the failure is recorded, and code that makes anything from the
//!   store durable checks for it first ([`OnFile::check`]).

use super::{
    CHUNK_BYTES, ColdTier, Need, PRESS_MAX, PageTable, RUN_CHUNKS, Resident, Sorted, Spares, Store,
    add_page,
};
use crate::error::MemoryError;
use crate::store::sys;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The file of a store.
#[derive(Debug)]
pub(super) struct OnFile {
    table: PageTable,
    /// The number of the error that ended eviction; 0 if there was none.
    failed: AtomicI32,
}

impl OnFile {
    pub(super) fn new(store: Arc<Store>) -> Result<OnFile, MemoryError> {
        let place = OnFile { table: PageTable::new(store)?, failed: AtomicI32::new(0) };
        // Fails here, and not during eviction, where the system does not support this.
        place.find(0, true, &mut Vec::new())?;
        Ok(place)
    }

    fn store(&self) -> &Store {
        &self.table.store
    }

    /// Evicts the resident pages of these chunks, except accessed ones if `spares_touched`. Returns
    /// the bytes that have left memory.
    fn evict(&self, chunks: &[u64], spares_touched: bool) -> Result<u64, MemoryError> {
        let mut runs = Vec::new();
        for chunk in chunks {
            self.find(*chunk, spares_touched, &mut runs)?;
        }
        let fd = self.store().fd();
        let write_out = |wait: bool| {
            runs.iter().try_for_each(|run| sys::write_out(fd, run.start, run.end - run.start, wait))
        };
        // All writes are started before the first is waited for.
        if let Err(error) = write_out(false).and_then(|()| write_out(true)) {
            // SPILL-1: the kernel marks pages clean that it could not write; dirty them again.
            let mapping = &self.store().mapping;
            runs.iter().for_each(|run| mapping.populate(run.start, run.end - run.start));
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            self.failed.store(errno, Ordering::Release);
            return Err(MemoryError::SpillFailed { source: error });
        }
        if !spares_touched {
            chunks.iter().try_for_each(|chunk| self.unmap(*chunk).map(drop))?;
        }
        let mut left = 0;
        for run in &runs {
            sys::drop_cached(fd, run.start, run.end - run.start);
            let mut pages = vec![0; ((run.end - run.start) / self.table.page_bytes) as usize];
            self.store().mapping.resident_pages(run.start, &mut pages)?;
            let gone = pages.iter().filter(|page| **page & 1 == 0).count() as u64;
            left += gone * self.table.page_bytes;
        }
        Ok(left)
    }

    /// Appends the runs of a chunk's bytes that are in memory, without mapped pages if
    /// `spares_touched`.
    fn find(
        &self,
        chunk: u64,
        spares_touched: bool,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), MemoryError> {
        let mut at = chunk * CHUNK_BYTES;
        let mut resident = vec![0; self.table.pages_per_chunk()];
        self.store().mapping.resident_pages(at, &mut resident)?;
        for (page, is_mapped) in resident.iter().zip(self.table.mapped_pages(chunk)?) {
            if page & 1 != 0 && !(spares_touched && is_mapped) {
                add_page(runs, at, self.table.page_bytes);
            }
            at += self.table.page_bytes;
        }
        Ok(())
    }
}

impl ColdTier for OnFile {
    /// Looks at all chunks that have space; the hands need not visit those without a resident page.
    fn resident(&self) -> Result<Resident, MemoryError> {
        let mut resident = Resident { chunks: Vec::new(), bytes: 0 };
        let all = 0..self.store().capacity_bytes() / CHUNK_BYTES;
        let mut pages = Vec::new();
        for run in self.store().ledger.runs(all, true, RUN_CHUNKS) {
            pages.resize((run.end - run.start) as usize * self.table.pages_per_chunk(), 0);
            self.store().mapping.resident_pages(run.start * CHUNK_BYTES, &mut pages)?;
            for (chunk, pages) in run.zip(pages.chunks(self.table.pages_per_chunk())) {
                let count = pages.iter().filter(|page| **page & 1 != 0).count() as u64;
                if count > 0 {
                    resident.chunks.push(chunk);
                    resident.bytes += count * self.table.page_bytes;
                }
            }
        }
        Ok(resident)
    }

    fn unmap(&self, chunk: u64) -> Result<u64, MemoryError> {
        self.store().mapping.unmap_pages(chunk * CHUNK_BYTES, CHUNK_BYTES)?;
        Ok(0)
    }

    fn sort(&self, chunks: &[u64], need: Need) -> Result<Sorted, MemoryError> {
        let spares_touched = need.spares != Spares::MoreOftenThan(PRESS_MAX);
        let evicted_bytes = self.evict(chunks, spares_touched)?;
        Ok(Sorted { evicted_bytes, ..Sorted::default() })
    }

    fn check(&self) -> Result<(), MemoryError> {
        // A failure of the kernel's own writeback is reported to a wait for any part of the file.
        if let Err(error) = sys::wait_for_writes(self.store().fd(), 0, self.table.page_bytes) {
            self.failed.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
        }
        match self.failed.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(MemoryError::SpillFailed { source: io::Error::from_raw_os_error(errno) }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::access::Access;
    use crate::store::StoreOptions;

    /// A store of four chunks in which each page holds its offset; `None` where files are in
    /// memory.
    fn filled() -> Option<(Arc<Store>, Access, OnFile)> {
        let options = StoreOptions {
            capacity_bytes: 8 * CHUNK_BYTES,
            limit_bytes: 8 * CHUNK_BYTES,
            huge_pages: true,
        };
        // Beside the executable of this test, since the folder for temporary files may be in
        // memory.
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let store = Arc::new(Store::create_unnamed(&folder, &options).unwrap());
        store.commit(CHUNK_BYTES, 3 * CHUNK_BYTES).unwrap();
        let access = Access::new(Arc::clone(&store));
        for at in (CHUNK_BYTES..4 * CHUNK_BYTES).step_by(4096) {
            access.store_u64(at, at);
        }
        let place = OnFile::new(Arc::clone(&store)).unwrap();
        place.unmap(3).unwrap();
        if place.evict(&[3], true).unwrap() == 0 {
            crate::skipped::say(format!("the files of {} are in memory", folder.display()));
            return None;
        }
        Some((store, access, place))
    }

    fn resident(store: &Store, chunk: u64) -> Vec<bool> {
        let mut pages = vec![0; CHUNK_BYTES as usize / atoll_machine::page_bytes()];
        store.mapping.resident_pages(chunk * CHUNK_BYTES, &mut pages).unwrap();
        pages.into_iter().map(|page| page & 1 != 0).collect()
    }

    #[test]
    fn pages_touched_between_the_hands_stay_and_the_rest_is_evicted() {
        let Some((store, access, place)) = filled() else { return };
        for chunk in [1, 2] {
            place.unmap(chunk).unwrap();
            assert!(resident(&store, chunk).iter().all(|page| *page), "the first hand evicts not");
        }
        // One page is read, one is written; the other chunk is not accessed.
        let (read, written) = (CHUNK_BYTES + 100 * 4096, CHUNK_BYTES + 300 * 4096);
        assert_eq!(access.load_u64(read), read);
        access.store_u64(written, 7);
        let evicted = place.evict(&[1, 2], true).unwrap();
        let left = resident(&store, 1);
        assert!(left[100 * 4096 / atoll_machine::page_bytes()], "read since");
        assert!(left[300 * 4096 / atoll_machine::page_bytes()], "written since");
        assert!(left.iter().filter(|page| **page).count() <= left.len() / 2, "the rest goes");
        assert!(resident(&store, 2).iter().all(|page| !page));
        assert!(evicted > CHUNK_BYTES);
        for at in (CHUNK_BYTES..4 * CHUNK_BYTES).step_by(4096) {
            assert_eq!(access.load_u64(at), if at == written { 7 } else { at });
        }
    }

    #[test]
    fn what_is_not_taken_out_of_the_page_table_is_not_evicted() {
        let Some((store, _, place)) = filled() else { return };
        assert_eq!(place.evict(&[1, 2], true).unwrap(), 0);
        assert!(resident(&store, 1).iter().chain(&resident(&store, 2)).all(|page| *page));
        assert_eq!(place.evict(&[1, 2], false).unwrap(), 2 * CHUNK_BYTES, "unless it must");
    }
}
