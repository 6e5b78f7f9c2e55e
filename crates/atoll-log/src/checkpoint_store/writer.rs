//! Writing a checkpoint: only what has changed.
//!
//! For each part, the caller passes the bytes and the blocks of the previous checkpoint. Unchanged
//! blocks are not written again. If the checkpoint is a step and few lines of a block have changed,
//! only these lines are written; once steps would contain more than `LINES_MAX` lines of a block,
//! the block is written whole. A map begins a new chain of steps, so all blocks with lines in steps
//! are written whole then.

use std::collections::HashMap;

use super::map::{BlockRef, Map, Part};
use super::step::{Line, Lines, PartName, SegmentId};
use super::store::CheckpointStore;
use super::{BLOCK_BYTES, LINE_BYTES};
use crate::error::LogError;

/// The most blocks that are written in one request.
const RUN_BLOCKS_MAX: usize = 256;
/// The most lines of a block that steps contain before the block is written whole.
pub(super) const LINES_MAX: u32 = 16;
/// The most bytes of lines in one step.
const LINE_BYTES_MAX: usize = 64 << 20;

/// By segment: the blocks with lines in steps, and how many lines each has.
pub type Waiting = HashMap<SegmentId, HashMap<(PartName, u32), u32>>;

/// The changes of a checkpoint to [`Waiting`]: the new number of lines of a block, 0 for a block
/// that was written whole.
pub type Changed = Vec<(SegmentId, (PartName, u32), u32)>;

/// A part in the previous checkpoint: its blocks and its bytes.
pub type Before<'b> = (&'b Part, &'b [u8]);

/// Writes one checkpoint of a tablespace; see the module.
pub struct Writer<'h> {
    store: &'h CheckpointStore,
    free: Free,
    /// The bytes of consecutive blocks that have not been written yet.
    run: Vec<u8>,
    run_start: u64,
    blocks: u64,
    waiting: &'h Waiting,
    is_step: bool,
    /// The segment that is being written.
    segment: SegmentId,
    /// Its lines.
    lines: Lines,
    line_bytes: usize,
    changed: Changed,
}

/// Blocks that no kept checkpoint names.
struct Free {
    /// A bit for each block, set if the block is used.
    used: Vec<u64>,
    /// All blocks before this one are used.
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
    /// Begins a checkpoint. It does not overwrite blocks of the `kept` maps. `waiting` lists the
    /// blocks with lines in steps; a step may add lines, and a map writes all these blocks whole.
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
    /// Begins a segment; the parts that follow belong to it.
    pub fn begin_segment(&mut self, segment: SegmentId) {
        debug_assert!(self.lines.is_empty(), "the lines of a segment are taken");
        self.segment = segment;
    }

    /// Takes the lines of the segment for its step.
    pub fn take_lines(&mut self) -> Lines {
        std::mem::take(&mut self.lines)
    }

    /// Whether an unchanged segment (or one column of it) can be skipped. It cannot if this
    /// checkpoint is a map and blocks of it have lines in steps.
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
                    // The last block is padded, so it is unchanged only if its length is, too.
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
        // Through the page cache: opening the database again finds the blocks there.
        self.store.file().write_at(self.run_start * BLOCK_BYTES as u64, &self.run)?;
        self.run.clear();
        Ok(())
    }

    /// Makes the blocks durable. Returns the bytes written, and the changes to apply to [`Waiting`]
    /// once the checkpoint is valid.
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

/// Applies the changes of a checkpoint that has become valid.
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
