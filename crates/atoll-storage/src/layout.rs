//! The layout of the directory: the only description of the shared format.
//!
//! The directory is a tree of nodes in the store; a root offset leads to it. A node consists of
//! 8-byte little-endian words; a pointer is an offset in the store, and 0 is the null pointer.
//! Every node except the root begins with its birth, the epoch in which it was allocated (the root
//! has its birth in the third word). A writer copies a frozen node, and the path above it, before
//! it changes the node.
//!
//! ```text
//! root      magic | format | birth | slots | capacity | next serial | table node × capacity
//! table     birth | serial | definition | its bytes | segments | mid node × 59
//! mid       birth | leaf node × 255
//! leaf      birth | segment node × 255
//! segment   birth | filled | columns | presence | its birth | capacity | 2 unused | columns
//! columns   for each: values | birth | validity | birth | heap list | birth | min | max
//! heap list entries | capacity | (block, bytes) × capacity
//! definition schema, see crate::schema_codec | options, which the layer above encodes
//! ```
//!
//! A table has a slot of the root; the position of the slot is the table's number ([`TableId`]). A
//! slot with a null pointer is free, and gets another table later. The serial number
//! ([`TableSerial`]) tells tables apart that had the same slot one after the other.
//!
//! The segments of a table are numbered from 0; segment `n` is entry `n % 255` of leaf `n / 255 %
//! 255` of mid node `n / 255 / 255`.

/// The most rows of a segment: one Arrow record batch.
pub const SEGMENT_ROWS: usize = 8192;
/// Rows of the smallest segment, and the factor by which segments grow.
const SEGMENT_ROWS_FIRST: usize = 128;
const SEGMENT_GROWTH: usize = 8;
/// Bits of a slot within a row id.
pub const SLOT_BITS: u32 = SEGMENT_ROWS.trailing_zeros();
/// Bytes of a bitmap with a bit for each slot of the largest segment.
pub const BITMAP_BYTES: u64 = bitmap_bytes(SEGMENT_ROWS as u64);

/// "ATOLLDIR", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLDIR");
/// Version number of this format; a reader refuses any other.
pub const FORMAT: u64 = 4;

/// Bytes of a word.
pub const WORD: u64 = 8;

/// Words of the root before its table pointers.
pub const ROOT_HEADER_WORDS: u64 = 6;
/// Slots of the first root. A root that is full is replaced by one of twice the capacity.
pub const ROOT_TABLES_FIRST: u64 = 250;
/// Most tables of a database at a time.
pub const TABLES_MAX: u64 = 65_536;

/// Words of the table node before its mid pointers.
pub const TABLE_HEADER_WORDS: u64 = 5;
/// Bytes of a table node.
pub const TABLE_NODE_BYTES: u64 = 64 * WORD;
/// Mid nodes of a table.
pub const TABLE_MIDS: u64 = 59;

/// Pointers in a mid or leaf node.
pub const FANOUT: u64 = 255;
/// Bytes of a mid or leaf node.
pub const FAN_NODE_BYTES: u64 = 256 * WORD;
/// Most segments of a table.
pub const SEGMENTS_MAX: u64 = TABLE_MIDS * FANOUT * FANOUT;

/// Bytes of a segment node before its columns, and bytes of each column's line.
pub const SEGMENT_LINE_BYTES: u64 = 8 * WORD;

/// Offsets within the root, in bytes.
pub mod root {
    use super::WORD;
    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// [`super::FORMAT`].
    pub const FORMAT: u64 = WORD;
    /// Birth of the root.
    pub const BIRTH: u64 = 2 * WORD;
    /// Slots that have ever been used.
    pub const SLOTS: u64 = 3 * WORD;
    /// Capacity: slots that fit.
    pub const CAPACITY: u64 = 4 * WORD;
    /// The serial number of the next table.
    pub const NEXT_SERIAL: u64 = 5 * WORD;
}

/// Offsets within a table node, in bytes.
pub mod table {
    use super::WORD;
    /// Serial number of the table, and [`HIDDEN`].
    pub const SERIAL: u64 = WORD;
    /// The transaction that makes the table has not committed, so no reader sees the table.
    pub const HIDDEN: u64 = 1 << 63;
    /// Its definition: its schema, and behind it its options.
    pub const DEFINITION: u64 = 2 * WORD;
    /// Bytes of the schema, and in the upper 32 bits those of the options.
    pub const DEFINITION_BYTES: u64 = 3 * WORD;
    /// Segments in use.
    pub const SEGMENTS: u64 = 4 * WORD;
}

/// Offsets within a segment node, in bytes.
pub mod segment {
    use super::WORD;
    /// Slots that have ever been filled.
    pub const FILLED: u64 = WORD;
    /// Columns: those of the schema, and perhaps further ones.
    pub const COLUMNS: u64 = 2 * WORD;
    /// Presence bitmap.
    pub const PRESENCE: u64 = 3 * WORD;
    /// Its birth.
    pub const PRESENCE_BIRTH: u64 = 4 * WORD;
    /// Capacity: slots for which each extent has room. Extents may be larger.
    pub const CAPACITY: u64 = 5 * WORD;
}

/// Offsets within a column's line of a segment node, in bytes.
pub mod column {
    use super::WORD;
    /// Values.
    pub const VALUES: u64 = 0;
    /// Their birth.
    pub const VALUES_BIRTH: u64 = WORD;
    /// Validity bitmap, 0 when the column cannot be NULL.
    pub const VALIDITY: u64 = 2 * WORD;
    /// Its birth.
    pub const VALIDITY_BIRTH: u64 = 3 * WORD;
    /// Heap list; 0 as long as no value has been longer than 12 bytes.
    pub const HEAP: u64 = 4 * WORD;
    /// Its birth.
    pub const HEAP_BIRTH: u64 = 5 * WORD;
    /// Word of the smallest value ever stored; see [`crate::zone`].
    pub const MIN: u64 = 6 * WORD;
    /// Word of the greatest value ever stored; it follows the smallest.
    pub const MAX: u64 = 7 * WORD;
}

/// Offsets within a heap list, in bytes.
pub mod heap_list {
    use super::WORD;
    /// Entries in use, empty ones included.
    pub const ENTRIES: u64 = 0;
    /// Capacity: blocks that fit.
    pub const CAPACITY: u64 = WORD;
    /// First (block, bytes) pair.
    pub const FIRST: u64 = 2 * WORD;
    /// Bytes of a pair.
    pub const PAIR: u64 = 2 * WORD;
}

/// Bytes of a segment node.
pub const fn segment_node_bytes(columns: usize) -> u64 {
    SEGMENT_LINE_BYTES * (1 + columns as u64)
}

/// Offset of a column's line within its segment's node.
#[inline]
pub const fn column_line(column: usize) -> u64 {
    SEGMENT_LINE_BYTES * (1 + column as u64)
}

/// The capacity of a segment for so many rows, at most [`SEGMENT_ROWS`].
pub const fn capacity_for(rows: usize) -> usize {
    let mut capacity = SEGMENT_ROWS_FIRST;
    while capacity < rows && capacity < SEGMENT_ROWS {
        capacity *= SEGMENT_GROWTH;
    }
    capacity
}
const _: () = assert!(capacity_for(SEGMENT_ROWS) == SEGMENT_ROWS, "the last step is a whole one");

/// Whether a segment can have this capacity.
pub const fn is_capacity(rows: u64) -> bool {
    rows <= SEGMENT_ROWS as u64 && rows == capacity_for(rows as usize) as u64
}

/// Bytes of a bitmap with a bit for each of these slots, a multiple of 64.
pub const fn bitmap_bytes(slots: u64) -> u64 {
    slots / 8
}

/// Bytes of a column's values in a segment with room for `rows`; `width` is 0 for a bit.
pub const fn values_bytes(width: usize, rows: u64) -> u64 {
    if width == 0 { bitmap_bytes(rows) } else { rows * width as u64 }
}

/// Bytes of a heap list for `capacity` blocks.
pub const fn heap_list_bytes(capacity: u64) -> u64 {
    heap_list::FIRST + capacity * heap_list::PAIR
}

/// The position of a row in its table: segment and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u64);

impl RowId {
    /// The row in a slot of a segment.
    pub const fn new(segment: u64, slot: usize) -> Self {
        Self(segment << SLOT_BITS | slot as u64)
    }

    /// Number of its segment.
    #[inline]
    pub const fn segment(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// Its slot in the segment.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & (SEGMENT_ROWS as u64 - 1)) as usize
    }
}

/// Number of a table, its slot in the root. After the table has been dropped, another one gets the
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// Serial number of a table: no other table that the database has or had has the same. Logs and
/// checkpoints name tables so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableSerial(pub u64);

impl TableSerial {
    /// Serial numbers are less than this, so that a decoded one can be added to.
    pub const END: u64 = 1 << 62;

    /// The serial number of the table that is created next.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
