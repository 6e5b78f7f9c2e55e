//! Rows on their way into a segment, column by column, in the format of the segment.
//!
//! A bulk load fills a buffer outside the table memory and then stores it as a whole. So it checks
//! nothing per row that a transaction would have to, and copies columns of numbers as bytes.

use crate::image::{self, HeapPlace, INLINE_BYTES_MAX, Plain, heap_view};
use crate::layout::{BITMAP_BYTES, RowId, SEGMENT_ROWS, TableSerial};
use crate::redo::{self, Kind};
use crate::types::{DataType, Schema, Value};
use crate::zone;

use super::heap::BLOCK_BYTES_MAX;
use super::segment_image::{ColumnImage, SegmentImage};

/// The rows of a segment; see the module. The values fit the schema.
pub struct SegmentBuffer {
    columns: Box<[ColumnBuffer]>,
}

/// The values of a column of consecutive rows.
pub struct ColumnBuffer {
    data_type: DataType,
    nullable: bool,
    rows: usize,
    /// As in the segment: a `bool` has one bit.
    values: Vec<u8>,
    /// Empty as long as no value is NULL.
    validity: Vec<u8>,
    heap: Vec<HeapBlock>,
    zone: (u64, u64),
}

/// A block of long values, and the bytes of these values without what aligns them.
#[derive(Default)]
struct HeapBlock {
    bytes: Vec<u8>,
    live: u64,
}

/// Presence bits of a full segment.
static PRESENT: [u8; BITMAP_BYTES as usize] = [!0; BITMAP_BYTES as usize];

fn set_bit(bits: &mut Vec<u8>, at: usize, on: bool) {
    if bits.len() <= at / 8 {
        bits.resize(at / 8 + 1, 0);
    }
    bits[at / 8] |= u8::from(on) << (at % 8);
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

impl SegmentBuffer {
    /// A buffer without rows.
    pub fn new(schema: &Schema) -> Self {
        let column = |column: &crate::types::Column| ColumnBuffer {
            data_type: column.data_type,
            nullable: column.nullable,
            rows: 0,
            values: Vec::new(),
            validity: Vec::new(),
            heap: Vec::new(),
            zone: (zone::EMPTY_MIN, zone::EMPTY_MAX),
        };
        Self { columns: schema.columns().iter().map(column).collect() }
    }

    /// Number of rows, at most those of a segment.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.rows)
    }

    /// How many rows it still takes.
    pub fn room(&self) -> usize {
        SEGMENT_ROWS - self.rows()
    }

    /// The columns. The caller appends the same number of values to each.
    pub fn columns_mut(&mut self) -> &mut [ColumnBuffer] {
        &mut self.columns
    }

    /// Appends a row that fits the schema.
    pub fn push(&mut self, row: &[Value]) {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(image::plain(value, &mut [0; 16]));
        }
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(ColumnBuffer::clear);
    }

    /// Passes the plain bytes of a value to `body`.
    pub fn show<R>(&self, row: usize, column: usize, body: impl FnOnce(Plain<'_>) -> R) -> R {
        body(self.columns[column].plain(row, &mut [0]))
    }

    /// A value.
    pub fn value(&self, row: usize, column: usize) -> Value {
        let column = &self.columns[column];
        image::value_of_plain(column.data_type, column.plain(row, &mut [0]))
            .expect("a buffer holds values of its columns")
    }

    /// The little-endian bytes of a column of integers that cannot be NULL.
    pub(crate) fn numbers(&self, column: usize) -> &[u8] {
        &self.columns[column].values
    }

    /// Appends a redo record by which recovery loads the rows as a segment of a table.
    pub fn write_down(&self, table: TableSerial, number: u64, out: &mut Vec<u8>) {
        let begun = redo::begin(out, table, RowId::new(number, 0), Kind::Segment);
        let mut image = Vec::new();
        self.image(&mut Vec::new()).encode(&mut image);
        redo::cell(out, 0, Some(&image));
        redo::end(out, begun);
    }

    /// The live bytes of each heap block of a column.
    pub(crate) fn live(&self, column: usize) -> impl Iterator<Item = u64> {
        self.columns[column].heap.iter().map(|block| block.live)
    }

    /// The image of the segment. `bits` is a buffer for bits.
    pub(crate) fn image<'b>(&'b self, bits: &'b mut Vec<u8>) -> SegmentImage<'b> {
        let filled = self.rows();
        bits.clear();
        bits.extend_from_slice(&PRESENT[..filled.div_ceil(8)]);
        if let (Some(last), 1..) = (bits.last_mut(), filled % 8) {
            *last = !0 >> (8 - filled % 8);
        }
        let (presence, all) = (&bits[..], &bits[..]);
        let columns = self.columns.iter().map(|column| ColumnImage {
            values: &column.values,
            validity: column.nullable.then_some(if column.validity.is_empty() {
                all
            } else {
                &column.validity
            }),
            heap: column.heap.iter().map(|block| &block.bytes[..]).collect(),
            zone: column.zone,
        });
        SegmentImage { filled, presence, columns: columns.collect() }
    }
}

impl ColumnBuffer {
    /// Its type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.values.clear();
        self.validity.clear();
        self.heap.clear();
        self.zone = (zone::EMPTY_MIN, zone::EMPTY_MAX);
    }

    /// Appends a value that fits the column.
    #[inline]
    pub fn push(&mut self, plain: Plain<'_>) {
        let at = self.rows;
        self.rows += 1;
        if self.nullable {
            self.note_validity(at, 1, plain.is_some());
        }
        if self.data_type == DataType::Bool {
            return set_bit(&mut self.values, at, plain.is_some_and(|bytes| bytes[0] != 0));
        }
        let mut room = [0; 16];
        match image::of_plain(self.data_type, plain, &mut room) {
            Ok(image) => {
                self.values.extend_from_slice(image);
                if plain.is_some() {
                    self.widen(image);
                }
            }
            Err(long) => {
                let view = self.add_long(long);
                self.values.extend_from_slice(&view);
            }
        }
    }

    /// Appends values of fixed width, none of them NULL, as little-endian bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let width = self.data_type.width();
        let rows = bytes.len() / width;
        debug_assert!(!self.data_type.is_view() && bytes.len().is_multiple_of(width));
        if self.nullable {
            self.note_validity(self.rows, rows, true);
        }
        self.rows += rows;
        self.values.extend_from_slice(bytes);
        if self.data_type.has_zone() {
            let words = bytes.chunks_exact(width);
            let words = words.filter_map(|image| zone::word(self.data_type, image));
            let (min, max) = &mut self.zone;
            words.for_each(|word| (*min, *max) = ((*min).min(word), (*max).max(word)));
        }
    }

    fn widen(&mut self, image: &[u8]) {
        if let Some(word) = zone::word(self.data_type, image) {
            self.zone = (self.zone.0.min(word), self.zone.1.max(word));
        }
    }

    fn note_validity(&mut self, from: usize, rows: usize, valid: bool) {
        if self.validity.is_empty() {
            if valid {
                return;
            }
            self.validity.extend_from_slice(&PRESENT[..from.div_ceil(8)]);
            if let (Some(last), 1..) = (self.validity.last_mut(), from % 8) {
                *last = !0 >> (8 - from % 8);
            }
        }
        (from..from + rows).for_each(|at| set_bit(&mut self.validity, at, valid));
    }

    /// Appends a long value to the last heap block, or to a new one.
    fn add_long(&mut self, bytes: &[u8]) -> [u8; 16] {
        let has_room =
            |block: &HeapBlock| block.bytes.len() + bytes.len() <= BLOCK_BYTES_MAX as usize;
        if !self.heap.last().is_some_and(has_room) {
            self.heap.push(HeapBlock::default());
        }
        let number = self.heap.len() - 1;
        let block = &mut self.heap[number];
        let (len, offset) = (bytes.len() as u32, block.bytes.len() as u32);
        block.live += u64::from(len);
        block.bytes.extend_from_slice(bytes);
        // As in a heap that transactions fill.
        block.bytes.resize(block.bytes.len().next_multiple_of(8), 0);
        heap_view(bytes, HeapPlace { len, block: number as u32, offset })
    }

    fn plain<'b>(&'b self, row: usize, room: &'b mut [u8; 1]) -> Plain<'b> {
        if !self.validity.is_empty() && !bit(&self.validity, row) {
            return None;
        }
        if self.data_type == DataType::Bool {
            *room = [bit(&self.values, row).into()];
            return Some(room);
        }
        let width = self.data_type.width();
        let image = &self.values[row * width..][..width];
        if !self.data_type.is_view() {
            return Some(image);
        }
        match image::heap_place(image) {
            None => Some(
                &image[4..]
                    [..u32::from_le_bytes([image[0], image[1], image[2], image[3]]) as usize],
            ),
            Some(HeapPlace { len, block, offset }) => {
                Some(&self.heap[block as usize].bytes[offset as usize..][..len as usize])
            }
        }
    }
}

const _: () = assert!(INLINE_BYTES_MAX == 12, "a view holds its length and 12 bytes");
