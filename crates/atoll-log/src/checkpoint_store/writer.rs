//! Writing what a checkpoint has changed.
//!
//! Who writes says what the checkpoint before has shown of a part, and where that lies. What is the
//! same is not written again. Of a block of which few lines have changed, only those are, if the
//! checkpoint is to be a step; when more of them have gathered than are worth it, the block is
//! written whole. A map, which begins a chain of steps anew, leaves no lines behind.

use std::collections::HashMap;

use super::map::{BlockRef, Map, Part};
use super::step::{Line, Lines, PartName};
use super::store::CheckpointStore;
use super::{BLOCK_BYTES, LINE_BYTES};
use crate::error::LogError;

/// Blocks that are written at once, at most.
const RUN_BLOCKS_MAX: usize = 256;
/// A block is written whole when more of its lines than this have been, since it was last.
pub(super) const LINES_MAX: u32 = 16;
/// Lines of a step take no more memory than this.
const LINE_BYTES_MAX: usize = 64 << 20;

/// A segment, by its table and its number.
pub type SegmentId = (u32, u32);

/// Blocks of which lines have been written in steps, with how many, by segment.
pub type Waiting = HashMap<SegmentId, HashMap<(PartName, u32), u32>>;

/// What a checkpoint has changed of [`Waiting`]: lines of a block, none when it is whole again.
pub type Changed = Vec<(SegmentId, (PartName, u32), u32)>;

/// What is known of a part: where the checkpoint before has it, and the bytes that it showed.
pub type Before<'b> = (&'b Part, &'b [u8]);

/// See the module.
pub struct Writer<'h> {
    store: &'h CheckpointStore,
    free: Free,
    /// Blocks that follow each other and have not been written yet.
    run: Vec<u8>,
    run_start: u64,
    blocks: u64,
    waiting: &'h Waiting,
    is_step: bool,
    /// The segment that is being written, and its lines.
    segment: SegmentId,
    lines: Lines,
    line_bytes: usize,
    changed: Changed,
}

/// Blocks that no kept checkpoint names.
struct Free {
    /// A bit for each block that is used.
    used: Vec<u64>,
    /// All before this one are used.
    next: u64,
}

impl Free {
    fn new(maps: &[&Map]) -> Self {
        let mut free = Self { used: Vec::new(), next: 0 };
        maps.iter().flat_map(|map| map.blocks()).for_each(|block| free.set(block.number));
        free
    }

    fn set(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        self.used[word] |= 1 << (number % 64);
    }

    fn take(&mut self) -> u64 {
        loop {
            let word = (self.next / 64) as usize;
            let bits = self.used.get(word).copied().unwrap_or(0);
            if bits == u64::MAX {
                self.next = (self.next / 64 + 1) * 64;
                continue;
            }
            let number = self.next;
            self.next += 1;
            if bits >> (number % 64) & 1 == 0 {
                self.set(number);
                return number;
            }
        }
    }
}

impl CheckpointStore {
    /// Begins a checkpoint; blocks of these maps are not written. Lines of those blocks are waiting
    /// to be written with them. A step may write lines; anything else leaves none waiting.
    pub fn writer<'h>(&'h self, kept: &[&Map], waiting: &'h Waiting, is_step: bool) -> Writer<'h> {
        Writer {
            store: self,
            free: Free::new(kept),
            run: Vec::new(),
            run_start: 0,
            blocks: 0,
            waiting,
            is_step,
            segment: (0, 0),
            lines: Lines::new(),
            line_bytes: 0,
            changed: Changed::new(),
        }
    }
}

impl Writer<'_> {
    /// The parts that follow are of this segment.
    pub fn begin_segment(&mut self, segment: SegmentId) {
        debug_assert!(self.lines.is_empty(), "the lines of a segment are taken");
        self.segment = segment;
    }

    /// Lines that were written of the segment.
    pub fn take_lines(&mut self) -> Lines {
        std::mem::take(&mut self.lines)
    }

    /// Whether the segment can stay as it was, if nothing of it has changed: no lines of it must be
    /// written with their blocks now. Of a column, if one is given.
    pub fn may_stay(&self, column: Option<u32>) -> bool {
        let waiting = self.waiting.get(&self.segment);
        let is_of = |name: &PartName| column.is_none() || name.column() == column;
        self.is_step || waiting.is_none_or(|blocks| !blocks.keys().any(|(name, _)| is_of(name)))
    }

    fn waiting(&self, name: PartName, block: u32) -> u32 {
        let blocks = self.waiting.get(&self.segment);
        blocks.and_then(|blocks| blocks.get(&(name, block)).copied()).unwrap_or(0)
    }

    /// Writes a part.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn part(
        &mut self,
        name: PartName,
        bytes: &[u8],
        before: Option<Before<'_>>,
    ) -> Result<Part, LogError> {
        let mut part = Part { bytes: bytes.len() as u64, blocks: Vec::new() };
        for (at, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let place = match before.and_then(|(known, old)| Some((*known.blocks.get(at)?, old))) {
                None => self.whole(name, at, block)?,
                Some((known, old)) => {
                    // The last block is filled up, so it is the same only if it ends at the same
                    // place.
                    let old = old.get(at * BLOCK_BYTES..).unwrap_or_default();
                    let old = &old[..old.len().min(BLOCK_BYTES)];
                    self.changed_block(name, at, (block, old), known)?
                }
            };
            part.blocks.push(place);
        }
        let known = before.map_or(0, |(known, _)| known.blocks.len());
        for gone in part.blocks.len()..known {
            self.note(name, gone, 0);
        }
        Ok(part)
    }

    fn changed_block(
        &mut self,
        name: PartName,
        at: usize,
        (block, old): (&[u8], &[u8]),
        known: BlockRef,
    ) -> Result<BlockRef, LogError> {
        let waiting = self.waiting(name, at as u32);
        if block == old {
            return if waiting == 0 || self.is_step {
                Ok(known)
            } else {
                self.whole(name, at, block)
            };
        }
        let changed = block.chunks(LINE_BYTES).enumerate().filter(|(line, now)| {
            let old = old.get(line * LINE_BYTES..).unwrap_or_default();
            old[..old.len().min(LINE_BYTES)] != **now
        });
        let count = changed.clone().count() as u32;
        let fits = self.is_step && self.line_bytes < LINE_BYTES_MAX;
        if !fits || waiting + count > LINES_MAX {
            return self.whole(name, at, block);
        }
        let first = at * (BLOCK_BYTES / LINE_BYTES);
        let own = self.lines.entry(name).or_default();
        for (line, bytes) in changed {
            let mut whole: Line = [0; LINE_BYTES];
            whole[..bytes.len()].copy_from_slice(bytes);
            own.insert((first + line) as u32, whole);
        }
        self.line_bytes += count as usize * LINE_BYTES;
        self.note(name, at, waiting + count);
        Ok(known)
    }

    fn whole(&mut self, name: PartName, at: usize, block: &[u8]) -> Result<BlockRef, LogError> {
        self.note(name, at, 0);
        self.block(block)
    }

    fn note(&mut self, name: PartName, at: usize, lines: u32) {
        if lines != self.waiting(name, at as u32) {
            self.changed.push((self.segment, (name, at as u32), lines));
        }
    }

    fn block(&mut self, bytes: &[u8]) -> Result<BlockRef, LogError> {
        let number = self.free.take();
        let run_blocks = self.run.len() / BLOCK_BYTES;
        if number != self.run_start + run_blocks as u64 || run_blocks == RUN_BLOCKS_MAX {
            self.write_run()?;
            self.run_start = number;
        }
        let start = self.run.len();
        self.run.extend_from_slice(bytes);
        self.run.resize(start + BLOCK_BYTES, 0);
        self.blocks += 1;
        Ok(BlockRef { number, crc: crc32c::crc32c(&self.run[start..]) })
    }

    fn write_run(&mut self) -> Result<(), LogError> {
        if self.run.is_empty() {
            return Ok(());
        }
        // Through the system's cache: whoever opens the database again finds it there.
        self.store.file().write_at(self.run_start * BLOCK_BYTES as u64, &self.run)?;
        self.run.clear();
        Ok(())
    }

    /// Makes the blocks durable; returns their bytes, and what it means for the lines that wait,
    /// once the checkpoint counts.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn finish(mut self) -> Result<(u64, Changed), LogError> {
        self.write_run()?;
        if self.blocks > 0 {
            self.store.file().sync()?;
        }
        Ok((self.blocks * BLOCK_BYTES as u64, self.changed))
    }
}

/// The checkpoint that made the changes counts.
pub fn apply(waiting: &mut Waiting, changed: Changed) {
    for (segment, block, lines) in changed {
        let blocks = waiting.entry(segment).or_default();
        if lines > 0 {
            blocks.insert(block, lines);
        } else {
            blocks.remove(&block);
        }
        if blocks.is_empty() {
            waiting.remove(&segment);
        }
    }
}
