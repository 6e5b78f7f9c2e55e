//! Maps: what a checkpoint of a tablespace holds, and in which blocks of the store.
//!
//! ```text
//! map     = "ATOLLMAP" | tables | table × n
//! table   = serial | description bytes | description | segments | segment × n
//! segment = filled | columns | presence part | column × n
//! column  = values part | 0, or 1 and a validity part | heap blocks | part × n | min | max
//! part    = bytes | (block − previous block − 1, as a signed number | CRC32C, 4 bytes) × blocks
//! ```
//! Numbers are as in [`atoll_storage::redo`]; signed numbers are zigzag-encoded. The checksum of
//! the map is in the control file, or in the step that follows it. Its file has these bytes twice.

use std::sync::Arc;

use atoll_storage::redo::{Input, number};

use super::BLOCK_BYTES;

/// The greatest number of blocks in a store.
const BLOCKS_MAX: u64 = 1 << 44;
const MAGIC: &[u8; 8] = b"ATOLLMAP";
/// The greatest size of a part; a heap block holds a value of at most 256 MiB.
pub(super) const PART_BYTES_MAX: u64 = 1 << 32;

/// The tables of a tablespace in a checkpoint, with the blocks that hold them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// The tables.
    pub tables: Vec<TableMap>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// Its serial number, see [`atoll_storage::TableSerial`].
    pub serial: u64,
    /// See [`atoll_txn::describe`].
    pub description: Vec<u8>,
    /// Its segments; unchanged ones are shared with the previous map.
    pub segments: Vec<Arc<SegmentMap>>,
}

/// A segment, see [`atoll_storage::segment::SegmentImage`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentMap {
    /// Number of slots up to the last row.
    pub filled: u32,
    /// Presence bits.
    pub presence: Part,
    /// Its columns.
    pub columns: Vec<ColumnMap>,
}

/// A column of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap {
    /// Values.
    pub values: Part,
    /// Validity bits, for columns that can be NULL.
    pub validity: Option<Part>,
    /// Heap blocks by number.
    pub heap: Vec<Part>,
    /// The zone: minimum and maximum.
    pub zone: (u64, u64),
}

/// A byte string that is stored in blocks; the last block is padded with zeroes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Its length in bytes.
    pub bytes: u64,
    /// The blocks.
    pub blocks: Vec<BlockRef>,
}

/// A block of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Its number.
    pub number: u64,
    /// CRC32C of its bytes.
    pub crc: u32,
}

impl SegmentMap {
    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let columns = self.columns.iter().flat_map(|column| {
            let own = std::iter::once(&column.values).chain(&column.validity);
            own.chain(&column.heap)
        });
        std::iter::once(&self.presence).chain(columns)
    }
}

impl Map {
    /// All blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &BlockRef> {
        let segments = self.tables.iter().flat_map(|table| &table.segments);
        segments.flat_map(|segment| segment.parts()).flat_map(|part| &part.blocks)
    }

    /// Encodes the map.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        number(&mut out, self.tables.len() as u64);
        for table in &self.tables {
            number(&mut out, table.serial);
            number(&mut out, table.description.len() as u64);
            out.extend_from_slice(&table.description);
            number(&mut out, table.segments.len() as u64);
            for segment in &table.segments {
                number(&mut out, segment.filled.into());
                number(&mut out, segment.columns.len() as u64);
                segment.presence.encode(&mut out);
                segment.columns.iter().for_each(|column| column.encode(&mut out));
            }
        }
        out
    }

    /// Decodes a map; `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Input(bytes.strip_prefix(MAGIC)?);
        let mut map = Self::default();
        for _ in 0..input.number()? {
            let serial = input.number()?;
            let len = input.number()?.try_into().ok()?;
            let description = input.take(len)?.to_vec();
            let mut segments = Vec::new();
            for _ in 0..input.number()? {
                let filled = input.number()?.try_into().ok()?;
                let columns = input.number()?;
                let presence = Part::decode(&mut input)?;
                let columns = (0..columns).map(|_| ColumnMap::decode(&mut input));
                let columns = columns.collect::<Option<_>>()?;
                segments.push(Arc::new(SegmentMap { filled, presence, columns }));
            }
            map.tables.push(TableMap { serial, description, segments });
        }
        input.0.is_empty().then_some(map)
    }
}

/// Encodes a block as its distance from `next`, which becomes the number after it.
pub(super) fn encode_block(out: &mut Vec<u8>, next: &mut u64, block: &BlockRef) {
    let step = block.number.wrapping_sub(*next) as i64;
    number(out, (step << 1 ^ step >> 63) as u64);
    out.extend(block.crc.to_le_bytes());
    *next = block.number + 1;
}

pub(super) fn decode_block(input: &mut Input<'_>, next: &mut u64) -> Option<BlockRef> {
    let zigzag = input.number()?;
    let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let number = next.wrapping_add_signed(step);
    if number >= BLOCKS_MAX {
        return None;
    }
    *next = number + 1;
    Some(BlockRef { number, crc: u32::from_le_bytes(input.take(4)?.try_into().ok()?) })
}

impl ColumnMap {
    fn encode(&self, out: &mut Vec<u8>) {
        self.values.encode(out);
        number(out, self.validity.is_some().into());
        self.validity.iter().for_each(|part| part.encode(out));
        number(out, self.heap.len() as u64);
        self.heap.iter().for_each(|part| part.encode(out));
        number(out, self.zone.0);
        number(out, self.zone.1);
    }

    fn decode(input: &mut Input<'_>) -> Option<Self> {
        let values = Part::decode(input)?;
        let validity = match input.number()? {
            0 => None,
            1 => Some(Part::decode(input)?),
            _ => return None,
        };
        let heap = (0..input.number()?).map(|_| Part::decode(input)).collect::<Option<_>>()?;
        Some(Self { values, validity, heap, zone: (input.number()?, input.number()?) })
    }
}

impl Part {
    fn encode(&self, out: &mut Vec<u8>) {
        number(out, self.bytes);
        let mut next = 0;
        self.blocks.iter().for_each(|block| encode_block(out, &mut next, block));
    }

    fn decode(input: &mut Input<'_>) -> Option<Self> {
        let bytes = input.number()?;
        if bytes > PART_BYTES_MAX {
            return None;
        }
        let mut next = 0u64;
        let blocks = bytes.div_ceil(BLOCK_BYTES as u64);
        let blocks = (0..blocks).map(|_| decode_block(input, &mut next));
        Some(Self { bytes, blocks: blocks.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part(bytes: u64, numbers: &[u64]) -> Part {
        let block = |number: &u64| BlockRef { number: *number, crc: *number as u32 ^ 0xffff };
        Part { bytes, blocks: numbers.iter().map(block).collect() }
    }

    fn sample() -> Map {
        let column = ColumnMap {
            values: part(9000, &[7, 8, 3]),
            validity: Some(part(10, &[1 << 40])),
            heap: vec![part(0, &[]), part(1, &[0])],
            zone: (u64::MAX, 0),
        };
        let segment = SegmentMap { filled: 80, presence: part(10, &[2]), columns: vec![column; 3] };
        let table = TableMap {
            serial: 4,
            description: b"a table".to_vec(),
            segments: vec![Arc::new(segment.clone()), Arc::new(segment)],
        };
        Map { tables: vec![table; 2] }
    }

    #[test]
    fn a_map_comes_back_as_it_was() {
        assert_eq!(Map::decode(&sample().encode()).unwrap(), sample());
        assert_eq!(sample().blocks().count(), 4 * (1 + 3 * 5));
    }

    #[test]
    fn bytes_cut_short_or_changed_end_without_a_panic() {
        let bytes = sample().encode();
        for len in 0..bytes.len() {
            assert!(Map::decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = Map::decode(&damaged);
            }
        }
    }
}
