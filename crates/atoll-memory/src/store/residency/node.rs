//! A cold tier on a node of slower memory: unused pages of a store in memory move there, and are
//! accessed there.
//!
//! The kernel moves pages while threads use them. It moves only pages that are in this process's
//! page table, so the second hand maps pages for a move and unmaps them after it. So the page table
//! still records which pages are used.
//!
//! This module records on which node each page is, because the kernel does not tell that of
//! unmapped pages. It asks the kernel about all mapped pages of a chunk before the first hand
//! unmaps them. A page with an outdated record has been accessed since, so it is mapped and will be
//! asked about: for example in a chunk that was freed and committed again, or if the kernel has
//! moved the page, or has allocated it on another node because the nearest one was full.
//!
//! How often a page is used is counted in *turns* of its chunk: a bit for each of the last eight
//! turns says whether the page was accessed in it. A page that was accessed in two turns in a row
//! is hot.
//!
//! - `COLD-1`: the records decide only which moves are tried. After a move, the kernel is asked on
//!   which node the page is.

use super::{
    CHUNK_BYTES, ColdTier, Need, PageTable, RUN_CHUNKS, Resident, Sorted, Spares, Store, add_page,
};
use crate::error::MemoryError;
use atoll_machine::{MachineError, NodeId, move_pages, nodes_of, room_on};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A turn of a chunk lasts until the second hand comes, but at least this long: under pressure the
/// hands come often, and too short a turn says little about use.
const TURN: Duration = Duration::from_millis(200);
/// The most pages of a chunk: the smallest page has 4 KiB.
const PAGES_MAX: usize = (CHUNK_BYTES / 4096) as usize;

/// A cold node, and the records about the pages of a store.
#[derive(Debug)]
pub(super) struct OnNode {
    table: PageTable,
    cold: NodeId,
    /// The nodes to which pages return; empty where there is no other node.
    dram: Vec<NodeId>,
    known: Mutex<BTreeMap<u64, Chunk>>,
}

/// How often a page is used: a bit for each of the last eight turns of its chunk, the highest bit
/// for the current turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Heat(u8);

impl Heat {
    fn touch(&mut self) {
        self.0 |= 1 << 7;
    }

    fn turn(&mut self) {
        self.0 >>= 1;
    }

    fn times(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the page was accessed in both of the last two turns.
    fn is_hot(self) -> bool {
        self.0 >> 6 == 3
    }

    fn is_spared(self, spares: Spares) -> bool {
        match spares {
            Spares::MoreOftenThan(times) => self.times() > times,
            Spares::Lately => self.0 >> 6 != 0,
        }
    }
}

/// The records about a chunk.
#[derive(Debug)]
struct Chunk {
    /// Pages on the cold node.
    cold: PageSet,
    heat: [Heat; PAGES_MAX],
    /// When its current turn began.
    turn: Instant,
    /// Pages that the second hand has left in the page table.
    left: PageSet,
    /// The index in [`OnNode::dram`] of the node to which its pages return.
    home: usize,
    /// The result of `Ledger::life` when the records began.
    life: u32,
}

impl Chunk {
    fn new(life: u32) -> Self {
        let (cold, left) = Default::default();
        Self { cold, heat: [Heat::default(); PAGES_MAX], turn: Instant::now(), left, home: 0, life }
    }
}

/// Some of the pages of a chunk.
#[derive(Debug, Default)]
struct PageSet([u64; PAGES_MAX / 64]);

impl PageSet {
    fn has(&self, page: usize) -> bool {
        self.0[page / 64] & 1 << (page % 64) != 0
    }

    fn put(&mut self, page: usize, is_in: bool) {
        let bit = 1 << (page % 64);
        if is_in { self.0[page / 64] |= bit } else { self.0[page / 64] &= !bit }
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl OnNode {
    pub(super) fn new(
        store: Arc<Store>,
        cold: NodeId,
        dram: Vec<NodeId>,
    ) -> Result<OnNode, MemoryError> {
        let place = OnNode { table: PageTable::new(store)?, cold, dram, known: Mutex::default() };
        // Moves the page of the header, so that a system without support fails here and not during
        // eviction. A node that is full now may have room later, so that is no error.
        let header = 0..place.table.page_bytes;
        place.table.mapped_pages(0)?;
        place.store().map_committed(0, &[header])?;
        place.send(&[(0, 0)], cold)?;
        place.ask(&mut place.known(), &[(0, 0)])?;
        Ok(place)
    }

    fn store(&self) -> &Store {
        &self.table.store
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Chunk>> {
        // Nothing under the lock panics half-way through a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records about a chunk, made if there are none.
    fn chunk<'k>(&self, known: &'k mut BTreeMap<u64, Chunk>, at: u64) -> &'k mut Chunk {
        known.entry(at).or_insert_with(|| Chunk::new(self.store().ledger.life(at)))
    }

    fn offset(&self, (chunk, page): (u64, usize)) -> u64 {
        chunk * CHUNK_BYTES + page as u64 * self.table.page_bytes
    }

    fn addresses(&self, pages: &[(u64, usize)]) -> Vec<*const u8> {
        let base = self.store().base();
        pages.iter().map(|page| base.wrapping_add(self.offset(*page) as usize)).collect()
    }

    /// Asks the kernel on which nodes pages are, and records that for mapped ones. Returns how many
    /// are on the cold node, and how many on others.
    fn ask(
        &self,
        known: &mut BTreeMap<u64, Chunk>,
        pages: &[(u64, usize)],
    ) -> Result<(u64, u64), MemoryError> {
        let nodes = nodes_of(&self.addresses(pages)).map_err(|source| self.refused(source))?;
        let (mut cold, mut elsewhere) = (0, 0);
        for ((chunk, page), node) in pages.iter().zip(nodes) {
            let Some(node) = node else { continue };
            let chunk = self.chunk(known, *chunk);
            chunk.cold.put(*page, node == self.cold);
            *if node == self.cold { &mut cold } else { &mut elsewhere } += 1;
            if let Some(home) = self.dram.iter().position(|dram| *dram == node) {
                chunk.home = home;
            }
        }
        Ok((cold, elsewhere))
    }

    fn refused(&self, source: MachineError) -> MemoryError {
        MemoryError::ColdNode { node: self.cold, source }
    }

    /// Moves mapped pages to a node, as far as it has room. Returns whether it had room for all.
    fn send(&self, pages: &[(u64, usize)], node: NodeId) -> Result<bool, MemoryError> {
        move_pages(&self.addresses(pages), node).map_err(|source| self.refused(source))
    }

    /// As many of these pages as a node has room for. On a full node the kernel would search for
    /// memory for seconds.
    fn fitting<'p>(&self, pages: &'p [(u64, usize)], node: NodeId) -> &'p [(u64, usize)] {
        if pages.is_empty() {
            return pages;
        }
        // A machine that does not report the room has only one node.
        let room = room_on(node).unwrap_or(u64::MAX) / self.table.page_bytes;
        &pages[..pages.len().min(room as usize)]
    }

    /// Moves pages, in ascending order, to the cold node, as far as it has room. Returns how many
    /// are there now, and whether there was room for all.
    fn send_away(
        &self,
        known: &mut BTreeMap<u64, Chunk>,
        wanted: &[(u64, usize)],
    ) -> Result<(u64, bool), MemoryError> {
        let pages = self.fitting(wanted, self.cold);
        let mut runs: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for page in pages {
            let runs = runs.entry(page.0).or_default();
            add_page(runs, self.offset(*page), self.table.page_bytes);
        }
        runs.iter().try_for_each(|(chunk, runs)| self.store().map_committed(*chunk, runs))?;
        let had_room = self.send(pages, self.cold)? && pages.len() == wanted.len();
        let (cold, _) = self.ask(known, pages)?;
        for run in runs.values().flatten() {
            self.store().mapping.unmap_pages(run.start, run.end - run.start)?;
        }
        Ok((cold, had_room))
    }

    /// Moves pages back to the nodes of their chunks, as far as there is room. Returns how many are
    /// back.
    fn bring_back(
        &self,
        known: &mut BTreeMap<u64, Chunk>,
        pages: &[(u64, usize)],
    ) -> Result<u64, MemoryError> {
        let mut homes: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for page in pages {
            let home = known.get(&page.0).map_or(0, |chunk| chunk.home);
            homes.entry(home).or_default().push(*page);
        }
        let mut back = 0;
        for (home, pages) in homes {
            let Some(node) = self.dram.get(home) else { continue };
            let fitting = self.fitting(&pages, *node);
            let had_room = self.send(fitting, *node)? && fitting.len() == pages.len();
            back += self.ask(known, fitting)?.1;
            for (chunk, _) in pages.iter().filter(|_| !had_room) {
                // Next time another node is tried.
                self.chunk(known, *chunk).home = (home + 1) % self.dram.len();
            }
        }
        Ok(back)
    }
}

impl ColdTier for OnNode {
    /// All chunks that have space: used pages have to be found on any node.
    fn resident(&self) -> Result<Resident, MemoryError> {
        let all = 0..self.store().capacity_bytes() / CHUNK_BYTES;
        let runs = self.store().ledger.runs(all, true, RUN_CHUNKS);
        let chunks: Vec<u64> = runs.into_iter().flatten().collect();
        let mut known = self.known();
        known.retain(|at, chunk| {
            chunks.binary_search(at).is_ok() && chunk.life == self.store().ledger.life(*at)
        });
        let cold: u64 = known.values().map(|chunk| chunk.cold.len()).sum();
        let bytes = chunks.len() as u64 * CHUNK_BYTES - cold * self.table.page_bytes;
        Ok(Resident { chunks, bytes })
    }

    fn unmap(&self, chunk: u64) -> Result<u64, MemoryError> {
        let mapped = self.table.mapped_pages(chunk)?.into_iter().enumerate();
        let pages: Vec<_> = mapped.filter(|(_, is)| *is).map(|(page, _)| (chunk, page)).collect();
        let mut known = self.known();
        self.ask(&mut known, &pages)?;
        self.store().mapping.unmap_pages(chunk * CHUNK_BYTES, CHUNK_BYTES)?;
        // Accesses since the second hand came count only if that was less than a turn ago.
        let chunk = self.chunk(&mut known, chunk);
        if chunk.turn.elapsed() < TURN {
            let touched = pages.iter().filter(|(_, page)| !chunk.left.has(*page));
            touched.for_each(|(_, page)| chunk.heat[*page].touch());
        }
        Ok(pages.len() as u64)
    }

    fn sort(&self, chunks: &[u64], need: Need) -> Result<Sorted, MemoryError> {
        let mut known = self.known();
        let (mut leaving, mut returning) = (Vec::new(), Vec::new());
        // A chunk that has lost its space since the first hand visited it has no pages to move.
        for at in chunks.iter().filter(|at| self.store().ledger.has(**at)) {
            let chunk = self.chunk(&mut known, *at);
            if chunk.turn.elapsed() >= TURN {
                chunk.heat.iter_mut().for_each(Heat::turn);
                chunk.turn = Instant::now();
            }
            for (page, is_touched) in self.table.mapped_pages(*at)?.into_iter().enumerate() {
                chunk.left.put(page, is_touched);
                let heat = &mut chunk.heat[page];
                if is_touched {
                    heat.touch();
                }
                match chunk.cold.has(page) {
                    true if is_touched && heat.is_hot() => returning.push((*at, page)),
                    false if !heat.is_spared(need.spares) => leaving.push((*heat, (*at, page))),
                    _ => {}
                }
            }
        }
        let page_bytes = self.table.page_bytes;
        leaving.sort_by_key(|(heat, _)| heat.times());
        leaving.truncate((need.evict_bytes / page_bytes) as usize);
        let mut leaving: Vec<_> = leaving.into_iter().map(|(_, page)| page).collect();
        leaving.sort_unstable();
        let (left, had_room) = self.send_away(&mut known, &leaving)?;
        let room = (need.room_bytes / page_bytes + left) as usize;
        let turned_away = returning.len().saturating_sub(room);
        returning.truncate(room);
        let returned = self.bring_back(&mut known, &returning)?;
        Ok(Sorted {
            evicted_bytes: left * page_bytes,
            returned_bytes: returned * page_bytes,
            turned_away_bytes: turned_away as u64 * page_bytes,
            is_full: !had_room,
        })
    }

    fn holds_any(&self) -> bool {
        !self.dram.is_empty() && self.known().values().any(|chunk| chunk.cold.len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_counts_the_turns_in_which_a_page_was_touched() {
        let of = |turns: &[bool]| {
            turns.iter().fold(Heat::default(), |mut heat, is_touched| {
                heat.turn();
                if *is_touched {
                    heat.touch();
                    heat.touch();
                }
                heat
            })
        };
        let (often, once) = (of(&[true, false, true, true, false]), of(&[true]));
        assert_eq!((often.times(), once.times()), (3, 1));
        assert!(often.is_spared(Spares::MoreOftenThan(2)));
        assert!(!often.is_spared(Spares::MoreOftenThan(3)));
        assert!(of(&[true, false]).is_spared(Spares::Lately));
        assert!(!of(&[true, false, false]).is_spared(Spares::Lately));
        assert!(of(&[false, true, true]).is_hot() && !of(&[true, false, true]).is_hot());
        assert!(!of(&[true, true, false]).is_hot());
        let forgotten = of(&[[true].as_slice(), &[false; 8]].concat());
        assert_eq!(forgotten, Heat::default());
        assert!(!of(&[true; 9]).is_spared(Spares::MoreOftenThan(super::super::PRESS_MAX)));
    }
}
