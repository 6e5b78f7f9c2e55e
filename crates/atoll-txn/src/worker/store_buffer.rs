//! A store buffer: values that were put and are not stored yet.
//!
//! A store in place reads the value that it replaces, and would wait for its cache line. So the
//! last few puts of a [cursor](super::cursor) are kept here while their cache lines arrive.

use atoll_storage::{PlainColumn, RowId};

/// Puts that are kept. The cache lines of a put have arrived after one or two more puts.
const KEPT: usize = 4;

/// Length of the longest value that is kept.
const BYTES_MAX: usize = 128;

/// See the module.
pub(super) struct StoreBuffer {
    /// Two rings: the rows, or [`NO_ROW`], and the values that are put into them.
    rows: [RowId; KEPT],
    puts: Vec<Put>,
    oldest: usize,
    len: usize,
}

/// An id that no row has.
const NO_ROW: RowId = RowId(u64::MAX);

/// A value for a row that the transaction holds exclusively.
struct Put {
    column: PlainColumn,
    bytes: [u8; BYTES_MAX],
}

impl Default for StoreBuffer {
    fn default() -> Self {
        Self { rows: [NO_ROW; KEPT], puts: Vec::new(), oldest: 0, len: 0 }
    }
}

impl StoreBuffer {
    /// Whether values of a column are short enough to be kept.
    #[inline]
    pub(super) fn takes(column: PlainColumn) -> bool {
        column.width() <= BYTES_MAX
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the oldest put must be stored before there is room for another one.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == KEPT
    }

    /// Whether a value of the row is kept.
    #[inline]
    pub(super) fn has(&self, row: RowId) -> bool {
        self.rows.contains(&row)
    }

    /// Keeps a value of the column's width. The buffer must [take](StoreBuffer::takes) the column
    /// and must not be full.
    #[inline]
    pub(super) fn push(&mut self, row: RowId, column: PlainColumn, bytes: &[u8]) {
        if self.puts.len() < KEPT {
            self.puts.resize_with(KEPT, || Put { column, bytes: [0; BYTES_MAX] });
        }
        let at = (self.oldest + self.len) % KEPT;
        self.rows[at] = row;
        let put = &mut self.puts[at];
        put.column = column;
        put.bytes[..bytes.len()].copy_from_slice(bytes);
        self.len += 1;
    }

    /// The oldest put.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(RowId, PlainColumn, &[u8])> {
        if self.is_empty() {
            return None;
        }
        let Put { column, bytes } = &self.puts[self.oldest];
        Some((self.rows[self.oldest], *column, &bytes[..column.width()]))
    }

    /// Removes the oldest put, which has been stored.
    #[inline]
    pub(super) fn remove_oldest(&mut self) {
        self.rows[self.oldest] = NO_ROW;
        (self.oldest, self.len) = ((self.oldest + 1) % KEPT, self.len - 1);
    }

    /// Discards all puts.
    pub(super) fn clear(&mut self) {
        self.rows = [NO_ROW; KEPT];
        self.len = 0;
    }
}
