//! Steps: what a checkpoint has changed since the previous one. A step contains the changed lines
//! of blocks with few changes, and the new numbers of all other changed blocks.
//!
//! Without steps, a change of eight bytes would rewrite a whole block and the map of the whole
//! tablespace. So a checkpoint that changes little writes a step: a file with the differences from
//! the previous checkpoint. That may be a step as well; the chain ends at a map. A checkpoint holds
//! what its map says, with the steps of the chain applied in their order.
//!
//! ```text
//! step    = "ATOLLSTP" | bytes and CRC32C of the previous file | tables | table × n
//! table   = serial | description bytes | description | segments | changed | segment × changed
//!           or serial | 0, if the table was dropped
//! segment = number | filled | columns | presence change | column × columns
//! column  = 0, if it has not changed, or 1 | parts | min | max, or 2 | parts, if its zone has not
//!           changed, or 3 | parts | min | max, each XORed with its previous value
//! parts   = values change | 0, or 1 and a validity change | heap blocks | change × n
//! change  = bytes | blocks | (index − previous index − 1 | number, as in a map | CRC32C) × blocks
//!                 | lines  | (index − previous index − 1 | 64 bytes) × lines
//! ```
//! Numbers are as in [`super::map`]. A line is the new content of 64 bytes of a part; the last line
//! of a part is padded with zeroes. A block that a step lists has a new number, and lines of that
//! block from earlier steps are dropped.
//!
//! - `STEP-1`: a block that the previous checkpoint does not have is listed, never changed by
//!   lines.
//! - `STEP-2`: every step names the file that it follows by size and checksum, so a chain is read
//!   completely or not at all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use atoll_storage::redo::{Input, number};

use super::map::{
    BlockRef, ColumnMap, Map, PART_BYTES_MAX, Part, SegmentMap, TableMap, decode_block,
    encode_block,
};
use super::{BLOCK_BYTES, LINE_BYTES};

const MAGIC: &[u8; 8] = b"ATOLLSTP";
/// Kinds of a column entry.
const SAME: u64 = 0;
const WITH_ZONE: u64 = 1;
const PARTS_ONLY: u64 = 2;
const ZONE_CHANGE: u64 = 3;
/// The greatest number of segments of a table; decoding rejects a greater one before it allocates.
const SEGMENTS_MAX: u64 = 1 << 32;

/// The bytes of a line.
pub type Line = [u8; LINE_BYTES];

/// A map or a step, as the following step or the control file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileRef {
    /// Size of the map (one copy) or of the step, in bytes.
    pub bytes: u64,
    /// CRC32C of these bytes.
    pub crc: u32,
}

/// Names a part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartName {
    /// Presence bits.
    Presence,
    /// Values of a column.
    Values(u32),
    /// Validity bits of a column.
    Validity(u32),
    /// A heap block of a column.
    Heap(u32, u32),
}

/// A segment, by the serial number of its table and its own number.
pub type SegmentId = (u64, u32);

/// Lines of the parts of a segment by their index; each replaces bytes of a block.
pub type Lines = BTreeMap<PartName, BTreeMap<u32, Line>>;

/// What a checkpoint of a tablespace holds: blocks, and lines that replace bytes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holding {
    /// The blocks.
    pub map: Map,
    /// Lines by table and segment.
    pub lines: HashMap<SegmentId, Lines>,
}

/// Encodes a step.
#[derive(Debug)]
pub struct StepBytes {
    out: Vec<u8>,
}

impl StepBytes {
    /// Begins a step that follows a file and has entries for `tables` tables.
    pub fn new(follows: FileRef, tables: usize) -> Self {
        let mut out = MAGIC.to_vec();
        number(&mut out, follows.bytes);
        number(&mut out, follows.crc.into());
        number(&mut out, tables as u64);
        Self { out }
    }

    /// Begins the entry of a table with `changed` changed segments.
    pub fn table(&mut self, table: &TableMap, changed: usize) {
        debug_assert!(!table.description.is_empty(), "it stands for a table that was dropped");
        number(&mut self.out, table.serial);
        number(&mut self.out, table.description.len() as u64);
        self.out.extend_from_slice(&table.description);
        number(&mut self.out, table.segments.len() as u64);
        number(&mut self.out, changed as u64);
    }

    /// Adds the entry of a table that was dropped.
    pub fn dropped(&mut self, serial: u64) {
        number(&mut self.out, serial);
        number(&mut self.out, 0);
    }

    /// Adds a changed segment.
    pub fn segment(&mut self, at: u32, old: Option<&SegmentMap>, new: &SegmentMap, lines: &Lines) {
        let none = SegmentMap::default();
        let old = old.unwrap_or(&none);
        number(&mut self.out, at.into());
        number(&mut self.out, new.filled.into());
        number(&mut self.out, new.columns.len() as u64);
        self.change(PartName::Presence, &old.presence, &new.presence, lines);
        let none = ColumnMap::default();
        for (at, column) in new.columns.iter().enumerate() {
            let before = old.columns.get(at);
            let at = at as u32;
            let has_lines = || lines.keys().any(|name| name.column() == Some(at));
            if before == Some(column) && !has_lines() {
                number(&mut self.out, SAME);
                continue;
            }
            let (kind, zone) = match before.map(|before| before.zone) {
                None => (WITH_ZONE, column.zone),
                Some(known) if known == column.zone => (PARTS_ONLY, known),
                Some((min, max)) => (ZONE_CHANGE, (min ^ column.zone.0, max ^ column.zone.1)),
            };
            number(&mut self.out, kind);
            let before = before.unwrap_or(&none);
            self.change(PartName::Values(at), &before.values, &column.values, lines);
            number(&mut self.out, column.validity.is_some().into());
            if let Some(validity) = &column.validity {
                let empty = Part::default();
                let old = before.validity.as_ref().unwrap_or(&empty);
                self.change(PartName::Validity(at), old, validity, lines);
            }
            number(&mut self.out, column.heap.len() as u64);
            for (block, part) in column.heap.iter().enumerate() {
                let empty = Part::default();
                let old = before.heap.get(block).unwrap_or(&empty);
                self.change(PartName::Heap(at, block as u32), old, part, lines);
            }
            if kind != PARTS_ONLY {
                number(&mut self.out, zone.0);
                number(&mut self.out, zone.1);
            }
        }
    }

    fn change(&mut self, name: PartName, old: &Part, new: &Part, lines: &Lines) {
        let out = &mut self.out;
        number(out, new.bytes);
        let numbered = new.blocks.iter().enumerate();
        let moved: Vec<(usize, &BlockRef)> =
            numbered.filter(|(at, block)| old.blocks.get(*at) != Some(block)).collect();
        number(out, moved.len() as u64);
        let (mut next_index, mut next_block) = (0, 0);
        for (at, block) in moved {
            number(out, (at - next_index) as u64);
            encode_block(out, &mut next_block, block);
            next_index = at + 1;
        }
        let none = BTreeMap::new();
        let lines = lines.get(&name).unwrap_or(&none);
        number(out, lines.len() as u64);
        let mut next_index = 0;
        for (at, line) in lines {
            number(out, (at - next_index).into());
            out.extend_from_slice(line);
            next_index = at + 1;
        }
    }

    /// Returns the encoded step.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// The file that a step follows; `None` if the bytes are not a step.
pub fn follows(bytes: &[u8]) -> Option<FileRef> {
    follows_of(&mut Input(bytes.strip_prefix(MAGIC)?))
}

fn follows_of(input: &mut Input<'_>) -> Option<FileRef> {
    Some(FileRef { bytes: input.number()?, crc: input.number()?.try_into().ok()? })
}

impl PartName {
    /// The column of the part; `None` for the presence bits.
    pub fn column(self) -> Option<u32> {
        match self {
            Self::Presence => None,
            Self::Values(column) | Self::Validity(column) | Self::Heap(column, _) => Some(column),
        }
    }
}

impl SegmentMap {
    /// The part with a name, if the segment has it.
    pub fn part(&self, name: PartName) -> Option<&Part> {
        let column = |at: u32| self.columns.get(at as usize);
        match name {
            PartName::Presence => Some(&self.presence),
            PartName::Values(at) => Some(&column(at)?.values),
            PartName::Validity(at) => column(at)?.validity.as_ref(),
            PartName::Heap(at, block) => column(at)?.heap.get(block as usize),
        }
    }
}

impl Holding {
    /// Applies a step; `None` if its bytes are malformed or do not fit what is held.
    pub fn apply(&mut self, bytes: &[u8]) -> Option<()> {
        let mut input = Input(bytes.strip_prefix(MAGIC)?);
        follows_of(&mut input)?;
        for _ in 0..input.number()? {
            self.apply_table(&mut input)?;
        }
        input.0.is_empty().then_some(())
    }

    fn apply_table(&mut self, input: &mut Input<'_>) -> Option<()> {
        let serial = input.number()?;
        let len = input.number()?.try_into().ok()?;
        let description = input.take(len)?.to_vec();
        let tables = &mut self.map.tables;
        if len == 0 {
            let at = tables.iter().position(|table| table.serial == serial)?;
            tables.remove(at);
            self.lines.retain(|(table, _), _| *table != serial);
            return Some(());
        }
        let at = tables.iter().position(|table| table.serial == serial).unwrap_or_else(|| {
            tables.push(TableMap { serial, description: Vec::new(), segments: Vec::new() });
            tables.len() - 1
        });
        let table = &mut tables[at];
        table.description = description;
        let (segments, changed) = (input.number()?, input.number()?);
        // Every added segment is a changed one, so the size of the input bounds their number.
        let added = segments.saturating_sub(table.segments.len() as u64);
        if segments > SEGMENTS_MAX || added > changed || changed > input.0.len() as u64 {
            return None;
        }
        table.segments.resize_with(segments as usize, Arc::default);
        for _ in 0..changed {
            let number: u32 = input.number()?.try_into().ok()?;
            let segment = Arc::make_mut(table.segments.get_mut(number as usize)?);
            let lines = self.lines.entry((serial, number)).or_default();
            apply_segment(segment, lines, input)?;
            if lines.is_empty() {
                self.lines.remove(&(serial, number));
            }
        }
        Some(())
    }
}

fn apply_segment(segment: &mut SegmentMap, lines: &mut Lines, input: &mut Input<'_>) -> Option<()> {
    segment.filled = input.number()?.try_into().ok()?;
    let columns = input.number()?;
    if columns > input.0.len() as u64 {
        return None;
    }
    apply_change(PartName::Presence, &mut segment.presence, lines, input)?;
    segment.columns.resize_with(columns as usize, ColumnMap::default);
    for (at, column) in segment.columns.iter_mut().enumerate() {
        let at = at as u32;
        let kind = match input.number()? {
            SAME => continue,
            kind @ (WITH_ZONE | PARTS_ONLY | ZONE_CHANGE) => kind,
            _ => return None,
        };
        apply_change(PartName::Values(at), &mut column.values, lines, input)?;
        match input.number()? {
            0 => {
                column.validity = None;
                lines.remove(&PartName::Validity(at));
            }
            1 => {
                let validity = column.validity.get_or_insert_default();
                apply_change(PartName::Validity(at), validity, lines, input)?;
            }
            _ => return None,
        }
        let blocks = input.number()?;
        if blocks > input.0.len() as u64 {
            return None;
        }
        column.heap.resize_with(blocks as usize, Part::default);
        lines.retain(|name, _| {
            !matches!(name, PartName::Heap(of, block)
            if *of == at && u64::from(*block) >= blocks)
        });
        for (block, part) in column.heap.iter_mut().enumerate() {
            apply_change(PartName::Heap(at, block as u32), part, lines, input)?;
        }
        if kind != PARTS_ONLY {
            let known = if kind == ZONE_CHANGE { column.zone } else { (0, 0) };
            column.zone = (known.0 ^ input.number()?, known.1 ^ input.number()?);
        }
    }
    Some(())
}

fn apply_change(
    name: PartName,
    part: &mut Part,
    lines: &mut Lines,
    input: &mut Input<'_>,
) -> Option<()> {
    let lines_of_block = (BLOCK_BYTES / LINE_BYTES) as u64;
    part.bytes = input.number()?;
    let blocks = part.bytes.div_ceil(BLOCK_BYTES as u64);
    if part.bytes > PART_BYTES_MAX {
        return None;
    }
    let known = part.blocks.len() as u64;
    part.blocks.truncate(blocks as usize);
    let mut own = lines.remove(&name).unwrap_or_default();
    own.retain(|line, _| u64::from(*line) < blocks * lines_of_block);
    let (mut next_index, mut next_block) = (0u64, 0);
    for _ in 0..input.number()? {
        let at = next_index.checked_add(input.number()?)?;
        let block = decode_block(input, &mut next_block)?;
        let end = part.blocks.len() as u64;
        if at < end {
            part.blocks[at as usize] = block;
        } else if at == end && at < blocks {
            part.blocks.push(block);
        } else {
            return None; // Added blocks follow each other without a gap.
        }
        own.retain(|line, _| u64::from(*line) / lines_of_block != at);
        next_index = at + 1;
    }
    if part.blocks.len() as u64 != blocks {
        return None; // STEP-1
    }
    let mut next_index = 0u64;
    for _ in 0..input.number()? {
        let at = next_index.checked_add(input.number()?)?;
        if at / lines_of_block >= blocks.min(known) {
            return None;
        }
        own.insert(at.try_into().ok()?, input.take(LINE_BYTES)?.try_into().ok()?);
        next_index = at + 1;
    }
    if !own.is_empty() {
        lines.insert(name, own);
    }
    Some(())
}
