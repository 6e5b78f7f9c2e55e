//! The directory as a snapshot shows it, read from a root in any process.
//!
//! The bytes may come from another process, so the reader trusts nothing: it checks every offset
//! against the store before it uses it and every count against its limit. A damaged directory ends
//! in [`StorageError::Corrupt`]. What a snapshot shows does not change while its lease lasts
//! (`MEMORY-1`), so reads need no lock and a caller can keep the results.

use atoll_memory::View;

use crate::error::StorageError;
use crate::layout::{
    FAN_NODE_BYTES, FANOUT, FORMAT, MAGIC, ROOT_HEADER_WORDS, SEGMENTS_MAX, TABLE_HEADER_WORDS,
    TABLE_NODE_BYTES, TABLES_MAX, TableId, TableSerial, WORD, bitmap_bytes, column, column_line,
    heap_list, heap_list_bytes, is_capacity, root, segment, segment_node_bytes, table,
    values_bytes,
};
use crate::schema_codec;
use crate::types::{COLUMNS_MAX, DECLARED_BYTES_MAX, DataType, NAME_BYTES_MAX, Schema, Value};
use crate::zone;

/// Largest schema that a reader accepts, in bytes.
const SCHEMA_BYTES_MAX: u64 = (COLUMNS_MAX * (NAME_BYTES_MAX + 32) + DECLARED_BYTES_MAX) as u64;
/// Largest options, in bytes.
const OPTIONS_BYTES_MAX: u64 = 1 << 24;

/// A table of a snapshot.
#[derive(Debug, Clone)]
pub struct TableView {
    /// Its number.
    pub id: TableId,
    /// Its serial number.
    pub serial: TableSerial,
    /// Its name.
    pub name: String,
    /// Its columns and primary key.
    pub schema: Schema,
    /// Its options, see [`crate::Directory::add_table`].
    pub options: Vec<u8>,
    /// Its segments.
    pub segments: u64,
    node: u64,
}

/// An extent of a snapshot: offset in the store and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A segment of a snapshot.
#[derive(Debug, Clone)]
pub struct SegmentView {
    /// Slots that have ever been filled, at most the capacity.
    pub filled: usize,
    /// Slots for which the extents have room.
    pub capacity: usize,
    /// Presence bitmap.
    pub presence: Span,
    node: u64,
}

/// A column of a segment of a snapshot.
#[derive(Debug, Clone)]
pub struct ColumnView {
    /// Values, for all slots.
    pub values: Span,
    /// Validity bitmap, for columns that can be NULL.
    pub validity: Option<Span>,
    /// Heap blocks by number; an empty span for a block that was freed.
    pub heap: Vec<Span>,
}

fn corrupt(what: &'static str, offset: u64) -> StorageError {
    StorageError::Corrupt { what, offset }
}

/// Checks that bytes are within the store and begin at an aligned offset.
fn check(view: &View, what: &'static str, offset: u64, bytes: u64) -> Result<u64, StorageError> {
    let fits = offset != 0 && offset.is_multiple_of(WORD) && view.contains(offset, bytes);
    fits.then_some(offset).ok_or_else(|| corrupt(what, offset))
}

/// The serial number of the next table, as a root shows it.
///
/// # Errors
/// [`StorageError::Corrupt`].
pub fn next_serial(view: &View, top: u64) -> Result<TableSerial, StorageError> {
    check(view, "root", top, ROOT_HEADER_WORDS * WORD)?;
    Ok(TableSerial(view.load_u64(top + root::NEXT_SERIAL)))
}

/// The tables that a root leads to, in the order of their numbers.
///
/// # Errors
/// [`StorageError::Corrupt`].
pub fn tables(view: &View, top: u64) -> Result<Vec<TableView>, StorageError> {
    check(view, "root", top, ROOT_HEADER_WORDS * WORD)?;
    if view.load_u64(top + root::MAGIC) != MAGIC || view.load_u64(top + root::FORMAT) != FORMAT {
        return Err(corrupt("root of this format", top));
    }
    let count = view.load_u64(top + root::SLOTS);
    if count > TABLES_MAX || count > view.load_u64(top + root::CAPACITY) {
        return Err(corrupt("number of slots", top));
    }
    check(view, "root", top, (ROOT_HEADER_WORDS + count) * WORD)?;
    let node = |at| view.load_u64(top + (ROOT_HEADER_WORDS + at) * WORD);
    let used = (0..count).filter(|at| node(*at) != 0);
    used.filter_map(|at| table_view(view, node(at), at).transpose()).collect()
}

/// The table of a node, if it is shown.
fn table_view(view: &View, node: u64, at: u64) -> Result<Option<TableView>, StorageError> {
    check(view, "table", node, TABLE_NODE_BYTES)?;
    if view.load_u64(node + table::SERIAL) & table::HIDDEN != 0 {
        return Ok(None);
    }
    let segments = view.load_u64(node + table::SEGMENTS);
    let bytes = view.load_u64(node + table::DEFINITION_BYTES);
    let serial = TableSerial(view.load_u64(node + table::SERIAL));
    if serial.0 >= TableSerial::END || segments > SEGMENTS_MAX {
        return Err(corrupt("table", node));
    }
    let (bytes, options_bytes) = (bytes & u64::from(u32::MAX), bytes >> 32);
    if bytes > SCHEMA_BYTES_MAX || options_bytes > OPTIONS_BYTES_MAX {
        return Err(corrupt("schema", node));
    }
    let text = view.load_u64(node + table::DEFINITION);
    let text = check(view, "schema", text, bytes + options_bytes)?;
    let mut encoded = vec![0; bytes as usize];
    view.read(text, &mut encoded);
    let mut options = vec![0; options_bytes as usize];
    view.read(text + bytes, &mut options);
    let (name, schema) = schema_codec::decode(&encoded).ok_or_else(|| corrupt("schema", text))?;
    let id = TableId(at as u32);
    Ok(Some(TableView { id, serial, name, schema, options, segments, node }))
}

impl SegmentView {
    /// Offset of its node. If two snapshots of a database are held at the same time and show the
    /// same node, they show the same segment.
    pub fn node(&self) -> u64 {
        self.node
    }
}

impl TableView {
    /// A segment of the table.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`], also for a number that is not below `segments`.
    pub fn segment(&self, view: &View, number: u64) -> Result<SegmentView, StorageError> {
        if number >= self.segments {
            return Err(corrupt("segment number", number));
        }
        let (leaf_number, entry) = (number / FANOUT, number % FANOUT);
        let mid_place = self.node + (TABLE_HEADER_WORDS + leaf_number / FANOUT) * WORD;
        let mid = check(view, "mid node", view.load_u64(mid_place), FAN_NODE_BYTES)?;
        let leaf_place = mid + (1 + leaf_number % FANOUT) * WORD;
        let leaf = check(view, "leaf node", view.load_u64(leaf_place), FAN_NODE_BYTES)?;
        let columns = self.schema.columns().len();
        let node = view.load_u64(leaf + (1 + entry) * WORD);
        check(view, "segment", node, segment_node_bytes(columns))?;
        let filled = view.load_u64(node + segment::FILLED);
        let capacity = view.load_u64(node + segment::CAPACITY);
        let is_sound = is_capacity(capacity)
            && filled <= capacity
            && view.load_u64(node + segment::COLUMNS) >= columns as u64;
        if !is_sound {
            return Err(corrupt("segment", node));
        }
        let offset = view.load_u64(node + segment::PRESENCE);
        let bytes = bitmap_bytes(capacity);
        let offset = check(view, "presence bitmap", offset, bytes)?;
        let presence = Span { offset, bytes };
        Ok(SegmentView { filled: filled as usize, capacity: capacity as usize, presence, node })
    }

    /// The extents of a column of a segment.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`].
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn column(
        &self,
        view: &View,
        segment: &SegmentView,
        at: usize,
    ) -> Result<ColumnView, StorageError> {
        let described = &self.schema.columns()[at];
        let line = segment.node + column_line(at);
        let capacity = segment.capacity as u64;
        let bytes = values_bytes(described.data_type.width(), capacity);
        let span = |what, offset, bytes| {
            check(view, what, offset, bytes).map(|offset| Span { offset, bytes })
        };
        let values = span("values", view.load_u64(line + column::VALUES), bytes)?;
        let validity = described
            .nullable
            .then(|| {
                span("validity", view.load_u64(line + column::VALIDITY), bitmap_bytes(capacity))
            })
            .transpose()?;
        let list = view.load_u64(line + column::HEAP);
        let heap =
            if described.data_type.is_view() && list != 0 { heap(view, list)? } else { Vec::new() };
        Ok(ColumnView { values, validity, heap })
    }

    /// The zone of a column of a segment as words, see [`crate::zone`].
    pub fn zone_words(&self, view: &View, segment: &SegmentView, at: usize) -> (u64, u64) {
        let line = segment.node + column_line(at);
        (view.load_u64(line + column::MIN), view.load_u64(line + column::MAX))
    }

    /// The smallest and the greatest value that a column of a segment has ever held; `None` if the
    /// zone is empty or unknown.
    pub fn zone(&self, view: &View, segment: &SegmentView, at: usize) -> Option<(Value, Value)> {
        let data_type: DataType = self.schema.columns().get(at)?.data_type;
        let line = segment.node + column_line(at);
        let min = view.load_u64(line + column::MIN);
        let max = view.load_u64(line + column::MAX);
        if !data_type.has_zone() || min > max {
            return None;
        }
        Some((zone::value(data_type, min)?, zone::value(data_type, max)?))
    }
}

fn heap(view: &View, list: u64) -> Result<Vec<Span>, StorageError> {
    check(view, "heap list", list, heap_list_bytes(0))?;
    let entries = view.load_u64(list + heap_list::ENTRIES);
    if entries > u64::from(u32::MAX) || !view.contains(list, heap_list_bytes(entries)) {
        return Err(corrupt("heap list", list));
    }
    (0..entries)
        .map(|number| {
            let pair = list + heap_list::FIRST + number * heap_list::PAIR;
            let (offset, bytes) = (view.load_u64(pair), view.load_u64(pair + WORD));
            if offset == 0 {
                return Ok(Span { offset: 0, bytes: 0 });
            }
            check(view, "heap block", offset, bytes).map(|offset| Span { offset, bytes })
        })
        .collect()
}
