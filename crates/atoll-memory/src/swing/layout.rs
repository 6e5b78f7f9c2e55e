//! The layout of the allocator's parts in a store, and the header that describes it.
//!
//! From the front: the header of the store, the header of the allocator, the table of large blocks,
//! the top of the buddy tree (nodes of 2 MiB and more), the bottoms of the buddy tree (32 KiB for
//! every 2 MiB of data), the reserved region, the data of the buddy part, the large blocks. All but
//! the headers, the table and the top use space only where they are used.
//!
//! Header, little-endian: magic (8), version (4), number of classes (4), buddy bytes (8), reserved
//! bytes (8), then size and count (8 + 8) of each class, then FNV-1a of all before it (8).

use super::SwingConfig;
use crate::error::MemoryError;
use crate::store::{CHUNK_BYTES, HEADER_BYTES, fnv1a, read_u32, read_u64};

/// log2 of the smallest extent: 128 B.
pub(super) const MIN_ORDER: u32 = 7;
/// log2 of a block: 2 MiB, a chunk. Each block has a tree bottom of its own.
pub(super) const BLOCK_ORDER: u32 = 21;
/// log2 of the largest extent of the buddy part: 512 MiB.
pub(super) const MAX_ORDER: u32 = 29;
/// log2 of the largest buddy part: 128 GiB, so that a node's state fits in five bits.
pub(super) const MAX_ROOT_ORDER: u32 = 37;
/// Bytes of one bottom of the tree: twice the leaves of a block.
pub(super) const BOTTOM_BYTES: u64 = 1 << (BLOCK_ORDER - MIN_ORDER + 1);
/// Bytes of one entry of the table of large blocks.
pub(super) const ENTRY_BYTES: u64 = 8;

/// Offset of the allocator's header.
pub(super) const SWING_AT: u64 = HEADER_BYTES;
/// Bytes of the allocator's header.
pub(super) const SWING_BYTES: u64 = 4096;
/// Offset of the table of large blocks.
pub(super) const TABLE_AT: u64 = SWING_AT + SWING_BYTES;

const MAGIC: [u8; 8] = *b"ATOLLSWG";
/// The version of the allocator's metadata that this program writes and reads.
pub(super) const VERSION: u32 = 1;
const MAX_CLASSES: usize = 64;
const MAX_BLOCKS: u64 = 1 << 16;

/// One size of large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Size of a block in bytes.
    pub(super) size: u64,
    /// How many.
    pub(super) count: u64,
    /// Offset of the first one.
    pub(super) data_at: u64,
    /// Index of the first one's entry in the table.
    pub(super) first_entry: u64,
}

/// The offsets of all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// log2 of the buddy part's bytes.
    pub(super) root_order: u32,
    /// Offset of the top of the tree.
    pub(super) top_at: u64,
    /// Offset of the bottoms of the tree; a multiple of the chunk size.
    pub(super) bottoms_at: u64,
    /// Offset of the reserved region.
    pub(super) reserved_at: u64,
    /// Its length in bytes.
    pub(super) reserved_bytes: u64,
    /// Offset of the data of the buddy part; a multiple of the chunk size.
    pub(super) data_at: u64,
    /// Large blocks, ascending by size.
    pub(super) classes: Vec<Class>,
    /// The end of the last part.
    pub(super) capacity_bytes: u64,
}

impl Layout {
    /// Lays out the parts that `config` asks for.
    pub(super) fn new(config: &SwingConfig) -> Result<Layout, MemoryError> {
        let buddy = config.buddy_bytes;
        let range = 1 << BLOCK_ORDER..=1 << MAX_ROOT_ORDER;
        if !buddy.is_power_of_two() || !range.contains(&buddy) {
            return Err(MemoryError::InvalidOption {
                option: "buddy_bytes",
                value: buddy,
                need: "it must be a power of two from 2 MiB to 128 GiB",
            });
        }
        let root_order = buddy.trailing_zeros();
        let blocks = checked_blocks(&config.large_blocks)?;
        let too_large = |value| MemoryError::InvalidOption {
            option: "the allocator's total size in bytes",
            value,
            need: "all its parts together must stay below 2^63 bytes",
        };
        let entries: u64 = blocks.iter().map(|(_, count)| count).sum();
        let top_at = (TABLE_AT + entries * ENTRY_BYTES).next_multiple_of(4096);
        let top_end = top_at + (2 << (root_order - BLOCK_ORDER));
        let bottoms_at = top_end.next_multiple_of(CHUNK_BYTES);
        let bottoms = (buddy >> BLOCK_ORDER) * BOTTOM_BYTES;
        let reserved_at = (bottoms_at + bottoms).next_multiple_of(CHUNK_BYTES);
        let reserved_bytes = config
            .reserved_bytes
            .checked_next_multiple_of(CHUNK_BYTES)
            .filter(|bytes| *bytes < 1 << 62)
            .ok_or(too_large(config.reserved_bytes))?;
        let data_at = reserved_at + reserved_bytes;
        let mut at = data_at + buddy;
        let mut first_entry = 0;
        let mut classes = Vec::with_capacity(blocks.len());
        for (size, count) in blocks {
            classes.push(Class { size, count, data_at: at, first_entry });
            first_entry += count;
            at = size
                .checked_mul(count)
                .and_then(|bytes| at.checked_add(bytes))
                .filter(|end| i64::try_from(*end).is_ok())
                .ok_or(too_large(size))?;
        }
        let capacity_bytes = at;
        Ok(Layout {
            root_order,
            top_at,
            bottoms_at,
            reserved_at,
            reserved_bytes,
            data_at,
            classes,
            capacity_bytes,
        })
    }

    /// Bytes of the buddy part.
    pub(super) fn buddy_bytes(&self) -> u64 {
        1 << self.root_order
    }

    /// Bytes at the front that are always committed: headers, table, top of the tree.
    pub(super) fn front_bytes(&self) -> u64 {
        self.top_at + (2 << (self.root_order - BLOCK_ORDER))
    }

    /// log2 of the largest extent of the buddy part.
    pub(super) fn max_order(&self) -> u32 {
        self.root_order.min(MAX_ORDER)
    }

    /// The largest extent of all, in bytes.
    pub(super) fn largest_bytes(&self) -> u64 {
        let large = self.classes.last().map_or(0, |class| class.size);
        large.max(1 << self.max_order())
    }

    /// The header that describes this layout.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SWING_BYTES as usize);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.classes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.buddy_bytes().to_le_bytes());
        out.extend_from_slice(&self.reserved_bytes.to_le_bytes());
        for class in &self.classes {
            out.extend_from_slice(&class.size.to_le_bytes());
            out.extend_from_slice(&class.count.to_le_bytes());
        }
        let sum = fnv1a(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes and verifies the header in a store of `capacity_bytes`.
    pub(super) fn decode(bytes: &[u8], capacity_bytes: u64) -> Result<Layout, MemoryError> {
        if bytes.len() < SWING_BYTES as usize || bytes[..8] != MAGIC {
            return Err(MemoryError::BadMagic { what: "a store with an allocator in it" });
        }
        let version = read_u32(bytes, 8);
        if version != VERSION {
            let what = "the allocator";
            return Err(MemoryError::ForeignVersion { what, found: version, expected: VERSION });
        }
        let classes = read_u32(bytes, 12) as usize;
        if classes > MAX_CLASSES {
            return Err(MemoryError::Corrupt { what: "the allocator has too many block sizes" });
        }
        let end = 32 + classes * 16;
        if read_u64(bytes, end) != fnv1a(&bytes[..end]) {
            return Err(MemoryError::Corrupt {
                what: "the checksum of the allocator's header is wrong",
            });
        }
        let large_blocks = (0..classes)
            .map(|n| {
                let count = u32::try_from(read_u64(bytes, 40 + n * 16)).unwrap_or(u32::MAX);
                (read_u64(bytes, 32 + n * 16), count)
            })
            .collect();
        let config = SwingConfig {
            buddy_bytes: read_u64(bytes, 16),
            large_blocks,
            reserved_bytes: read_u64(bytes, 24),
        };
        let layout = Layout::new(&config)
            .map_err(|_| MemoryError::Corrupt { what: "the allocator's header is impossible" })?;
        if layout.capacity_bytes > capacity_bytes {
            return Err(MemoryError::Truncated {
                size_bytes: capacity_bytes,
                need_bytes: layout.capacity_bytes,
            });
        }
        Ok(layout)
    }
}

/// The block sizes and counts, ascending by size, empty classes left out.
fn checked_blocks(blocks: &[(u64, u32)]) -> Result<Vec<(u64, u64)>, MemoryError> {
    let mut sorted: Vec<(u64, u64)> = Vec::new();
    for (size, count) in blocks {
        if *size == 0 || !size.is_multiple_of(CHUNK_BYTES) {
            return Err(MemoryError::InvalidOption {
                option: "the size of a large block",
                value: *size,
                need: "it must be a multiple of 2 MiB",
            });
        }
        if *count > 0 {
            sorted.push((*size, u64::from(*count)));
        }
    }
    sorted.sort_unstable();
    let total: u64 = sorted.iter().map(|(_, count)| count).sum();
    if sorted.len() > MAX_CLASSES || total > MAX_BLOCKS {
        return Err(MemoryError::InvalidOption {
            option: "the number of large blocks",
            value: total,
            need: "there may be at most 64 sizes and 65536 blocks",
        });
    }
    Ok(sorted)
}
