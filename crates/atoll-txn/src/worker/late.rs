//! Values that were put and are not stored yet.
//!
//! A store in place reads what it replaces, and would wait for that. So the last few puts of an
//! [access](super::access) are kept here while the cache lines that they need are on their way.

use atoll_storage::{PlainColumn, RowId};

/// Puts that are kept. By the next one or two the lines have come.
const KEPT: usize = 4;

/// Bytes of the longest value that is kept.
const BYTES_MAX: usize = 128;

/// See the module.
pub(super) struct Late {
    /// Rings: the rows, [`NO_ROW`] where nothing is kept, and what is put into them.
    rows: [RowId; KEPT],
    puts: Vec<Put>,
    oldest: usize,
    len: usize,
}

/// No table has so many.
const NO_ROW: RowId = RowId(u64::MAX);

/// A value, in a row that is the transaction's.
struct Put {
    column: PlainColumn,
    bytes: [u8; BYTES_MAX],
}

impl Default for Late {
    fn default() -> Self {
        Self { rows: [NO_ROW; KEPT], puts: Vec::new(), oldest: 0, len: 0 }
    }
}

impl Late {
    /// Whether one of these columns can be kept.
    #[inline]
    pub(super) fn takes(column: PlainColumn) -> bool {
        column.width() <= BYTES_MAX
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the oldest has to go before there is room for another.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == KEPT
    }

    /// Whether it keeps a value of the row.
    #[inline]
    pub(super) fn has(&self, row: RowId) -> bool {
        self.rows.contains(&row)
    }

    /// Keeps a value of the column's width, if it [takes](Late::takes) that and is not full.
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

    /// Takes the oldest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(RowId, PlainColumn, &[u8])> {
        if self.is_empty() {
            return None;
        }
        let row = std::mem::replace(&mut self.rows[self.oldest], NO_ROW);
        let Put { column, bytes } = &self.puts[self.oldest];
        (self.oldest, self.len) = ((self.oldest + 1) % KEPT, self.len - 1);
        Some((row, *column, &bytes[..column.width()]))
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.rows = [NO_ROW; KEPT];
        self.len = 0;
    }
}
