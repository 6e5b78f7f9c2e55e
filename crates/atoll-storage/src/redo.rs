//! Redo records: the changes of a transaction as bytes in a log.
//!
//! The counterpart of [`crate::undo`]. A change is physical in its position (table, segment, slot)
//! and logical in its values, so recovery can apply it without other information and any number of
//! times, as long as it applies the changes of a row in their order.
//!
//! ```text
//! change = serial | row | kind (1 byte) | bytes of all cells | cell × n     of a delete: no cells
//! cell   = column | 0 for NULL, else 1 + bytes | bytes        plain bytes, see crate::image
//! ```
//! Numbers are unsigned LEB128. Threads that share the work of recovery skip the changes of the
//! other threads, therefore a change states the bytes of its cells. All bytes come from a medium,
//! so decoding trusts nothing.

use crate::image::Plain;
use crate::layout::{RowId, TableSerial};
use crate::schema_codec;
use crate::types::Column;

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The row is present; the change gives all its columns.
    Put,
    /// Some columns changed.
    Update,
    /// The row was deleted.
    Delete,
    /// A segment was loaded as a whole. The row is the first one of the segment, and the only cell
    /// holds all rows ([`crate::segment::SegmentImage::encode`]).
    Segment,
    /// The table has got a column, behind the others. There is no row; the first cell describes the
    /// column ([`crate::schema_codec::encode_column`]), the second is its value in all rows.
    Column,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::Update => 2,
            Self::Delete => 3,
            Self::Segment => 4,
            Self::Column => 5,
        }
    }
}

/// The changes of a transaction, separate for each tablespace. It reuses its buffers.
#[derive(Debug, Default)]
pub struct Redo {
    parts: Vec<Part>,
    used: usize,
}

/// Changes of tables of one tablespace.
#[derive(Debug, Default)]
pub struct Part {
    /// Number of the tablespace.
    pub tablespace: u32,
    /// The changes.
    pub bytes: Vec<u8>,
}

/// A buffer of more bytes than this is freed: a transaction over a whole table must not leave its
/// worker with memory of the table's size.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl Redo {
    /// Removes all changes.
    pub fn clear(&mut self) {
        for part in &mut self.parts[..self.used] {
            if part.bytes.capacity() > KEPT_BYTES_MAX {
                part.bytes = Vec::new();
            }
            part.bytes.clear();
        }
        self.used = 0;
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of all changes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.bytes.len()).sum()
    }

    /// The parts, in ascending order of tablespaces.
    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.used]
    }

    /// The bytes of a tablespace.
    pub fn part(&mut self, tablespace: u32) -> &mut Vec<u8> {
        let used = &self.parts[..self.used];
        let at = used.iter().position(|part| part.tablespace >= tablespace).unwrap_or(self.used);
        if at == self.used || self.parts[at].tablespace != tablespace {
            if self.used == self.parts.len() {
                self.parts.push(Part::default());
            }
            self.parts[self.used].tablespace = tablespace;
            self.parts[at..=self.used].rotate_right(1);
            self.used += 1;
        }
        &mut self.parts[at].bytes
    }
}

/// A change that is being written: the position at which its cells begin.
#[derive(Debug)]
#[must_use = "a change ends with `end`"]
pub struct Begun(usize);

/// Bytes that are reserved for the length of all cells; they hold 14 bits.
const LEN_BYTES: usize = 2;

/// Begins a change that puts or updates a row. Cells follow, and [`end`].
pub fn begin(out: &mut Vec<u8>, table: TableSerial, row: RowId, kind: Kind) -> Begun {
    head(out, table, row, kind);
    out.extend([0; LEN_BYTES]);
    Begun(out.len())
}

/// Writes that a table has got a column, in which all rows have this value.
pub fn column(out: &mut Vec<u8>, table: TableSerial, at: usize, column: &Column, plain: Plain<'_>) {
    let begun = begin(out, table, RowId(0), Kind::Column);
    cell(out, at, Some(&schema_codec::encode_column(column)));
    cell(out, at, plain);
    end(out, begun);
}

/// Writes the deletion of a row.
pub fn delete(out: &mut Vec<u8>, table: TableSerial, row: RowId) {
    head(out, table, row, Kind::Delete);
}

fn head(out: &mut Vec<u8>, table: TableSerial, row: RowId, kind: Kind) {
    number(out, table.0);
    number(out, row.0);
    out.push(kind.byte());
}

/// Writes a cell.
pub fn cell(out: &mut Vec<u8>, column: usize, plain: Plain<'_>) {
    number(out, column as u64);
    match plain {
        None => number(out, 0),
        Some(bytes) => {
            number(out, bytes.len() as u64 + 1);
            out.extend_from_slice(bytes);
        }
    }
}

/// Ends a change: writes the length of its cells.
pub fn end(out: &mut Vec<u8>, Begun(cells): Begun) {
    let len = out.len() - cells;
    let place = cells - LEN_BYTES..cells;
    if len < 1 << (7 * LEN_BYTES) {
        out[place].copy_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]);
        return;
    }
    let mut long = Vec::new();
    number(&mut long, len as u64);
    out.splice(place, long);
}

/// Writes a number.
pub fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The head of a change: the row, and the kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The table.
    pub table: TableSerial,
    /// The row.
    pub row: RowId,
    /// What happened.
    pub kind: Kind,
}

/// A column and its new value.
pub type Cell<'b> = (usize, Plain<'b>);

/// A change that has been decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'b> {
    /// The row and the kind of change.
    pub head: Head,
    /// The new values.
    pub cells: Vec<Cell<'b>>,
}

/// A decoder of consecutive changes.
#[derive(Debug)]
pub struct Changes<'b>(Input<'b>);

impl<'b> Changes<'b> {
    /// A decoder of the changes in `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(Input(bytes))
    }

    /// Reads the next change for which `wanted` holds and appends its cells to `cells`;
    /// `Some(None)` at the end, `None` for bytes that are not a change.
    #[inline]
    pub fn read(
        &mut self,
        cells: &mut Vec<Cell<'b>>,
        wanted: impl Fn(Head) -> bool,
    ) -> Option<Option<Head>> {
        while !self.0.0.is_empty() {
            let (head, mut rest) = self.step()?;
            if wanted(head) {
                while !rest.0.is_empty() {
                    cells.push(rest.cell()?);
                }
                return Some(Some(head));
            }
        }
        Some(None)
    }

    /// Skips the next change; returns its head and its cells.
    #[inline]
    fn step(&mut self) -> Option<(Head, Input<'b>)> {
        let input = &mut self.0;
        let table = TableSerial(input.number()?);
        let row = RowId(input.number()?);
        let kind = match input.take(1)?[0] {
            1 => Kind::Put,
            2 => Kind::Update,
            4 => Kind::Segment,
            5 => Kind::Column,
            3 => return Some((Head { table, row, kind: Kind::Delete }, Input(&[]))),
            _ => return None,
        };
        let len = input.number()?;
        Some((Head { table, row, kind }, Input(input.take(len.try_into().ok()?)?)))
    }
}

/// Bytes of the complete changes at the beginning of `bytes`; behind them is the beginning of
/// another one, or something else.
pub fn complete_bytes(bytes: &[u8]) -> usize {
    let mut changes = Changes::new(bytes);
    let mut complete = 0;
    while !changes.0.0.is_empty() && changes.step().is_some() {
        complete = bytes.len() - changes.0.0.len();
    }
    complete
}

impl<'b> Iterator for Changes<'b> {
    /// `None` for bytes that are not a change; the iterator ends after it.
    type Item = Option<Change<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let mut cells = Vec::new();
        let read = self.read(&mut cells, |_| true).flatten();
        if read.is_none() {
            self.0.0 = &[];
        }
        Some(read.map(|head| Change { head, cells }))
    }
}

/// The rest of the bytes that are being decoded.
#[derive(Debug, Clone)]
pub struct Input<'b>(pub &'b [u8]);

impl<'b> Input<'b> {
    /// Takes `len` bytes; `None` if fewer are left.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    /// Takes a number as [`number`] encodes it.
    #[inline(always)]
    pub fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 0x80 {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        self.long_number()
    }

    /// Takes a cell: a column and its value.
    #[inline]
    fn cell(&mut self) -> Option<Cell<'b>> {
        let column = usize::try_from(self.number()?).ok()?;
        let plain = match self.number()?.checked_sub(1) {
            None => None,
            Some(len) => Some(self.take(len.try_into().ok()?)?),
        };
        Some((column, plain))
    }

    /// A number of several bytes. Nearly all have at most eight bytes, which are decoded together:
    /// a loop would end at a byte that the processor cannot predict.
    #[inline]
    fn long_number(&mut self) -> Option<u64> {
        const LAST: u64 = 0x8080_8080_8080_8080;
        let Some(word) = self.0.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return self.longest_number();
        };
        let ends = !word & LAST;
        if ends == 0 {
            return self.longest_number();
        }
        // Keeps the bits up to the last byte of the number, then moves the groups of 7 bits
        // together.
        let word = word & (ends ^ (ends - 1)) & !LAST;
        let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
        let word = word & 0x0000_0000_0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4;
        self.0 = &self.0[ends.trailing_zeros() as usize / 8 + 1..];
        Some(word)
    }

    /// A number of more than eight bytes, or one near the end of the input.
    #[cold]
    fn longest_number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * at);
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        let put = begin(&mut out, TableSerial(300), RowId(u64::MAX), Kind::Put);
        cell(&mut out, 0, Some(b"eight by"));
        cell(&mut out, 255, None);
        cell(&mut out, 2, Some(b""));
        end(&mut out, put);
        delete(&mut out, TableSerial(0), RowId(0));
        let update = begin(&mut out, TableSerial(1), RowId(9), Kind::Update);
        cell(&mut out, 7, Some(&[5; 300]));
        end(&mut out, update);
        out
    }

    #[test]
    fn changes_come_back_as_they_were() {
        let bytes = sample();
        let changes: Vec<_> = Changes::new(&bytes).map(Option::unwrap).collect();
        assert_eq!(changes.len(), 3);
        let first = &changes[0];
        assert_eq!(
            first.head,
            Head { table: TableSerial(300), row: RowId(u64::MAX), kind: Kind::Put }
        );
        assert_eq!(first.cells, [(0, Some(&b"eight by"[..])), (255, None), (2, Some(&b""[..]))]);
        assert_eq!((changes[1].head.kind, changes[1].cells.len()), (Kind::Delete, 0));
        assert_eq!(changes[2].cells, [(7, Some(&[5; 300][..]))]);
    }

    #[test]
    fn the_complete_changes_of_any_beginning_are_counted() {
        let bytes = sample();
        let ends: Vec<usize> = (0..=bytes.len()).map(|len| complete_bytes(&bytes[..len])).collect();
        assert_eq!((ends[0], ends[bytes.len()]), (0, bytes.len()));
        for (len, end) in ends.iter().enumerate() {
            let whole = Changes::new(&bytes[..*end]).map(Option::unwrap).count();
            let read = Changes::new(&bytes[..len]).take_while(Option::is_some).count();
            assert_eq!(whole, read, "of {len} bytes");
        }
    }

    #[test]
    fn numbers_of_any_length_come_back_wherever_the_bytes_end() {
        for value in (0..64).flat_map(|bits| [1 << bits, (1 << bits) - 1, u64::MAX >> bits]) {
            for behind in 0..12 {
                let mut out = Vec::new();
                number(&mut out, value);
                out.extend(vec![0xff; behind]);
                let mut input = Input(&out);
                assert_eq!((input.number(), input.0.len()), (Some(value), behind));
            }
        }
        for len in 0..14 {
            assert_eq!(Input(&vec![0x80; len]).number(), None, "no end");
        }
        let mut large = [0xff; 10];
        large[9] = 2;
        assert_eq!(Input(&large).number(), None, "65 bits");
    }

    #[test]
    fn cells_of_any_length_come_back_and_are_stepped_over() {
        for len in [0, 1, 120, 130, 16_370, 16_380, 16_390, 3_000_000] {
            let (value, mut out) = (vec![6; len], Vec::new());
            for row in 0..3 {
                let begun = begin(&mut out, TableSerial(1), RowId(row), Kind::Put);
                cell(&mut out, 7, Some(&value));
                cell(&mut out, 8, None);
                end(&mut out, begun);
            }
            let (mut changes, mut cells) = (Changes::new(&out), Vec::new());
            for row in [0, 2] {
                let head = changes.read(&mut cells, |head| head.row.0 % 2 == 0);
                assert_eq!(head.unwrap().unwrap().row, RowId(row));
                assert_eq!(cells, [(7, Some(&value[..])), (8, None)]);
                cells.clear();
            }
            assert_eq!(changes.read(&mut cells, |_| true), Some(None));
        }
    }

    #[test]
    fn bytes_cut_short_or_changed_end_without_a_panic() {
        let bytes = sample();
        for len in 0..bytes.len() {
            let read = Changes::new(&bytes[..len]).count();
            assert!(read <= 3);
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                assert!(Changes::new(&damaged).count() <= damaged.len());
            }
        }
    }

    #[test]
    fn tablespaces_are_kept_apart_and_in_order() {
        let mut redo = Redo::default();
        for round in 0..2 {
            for tablespace in [3, 1, 2, 1, 3, 0] {
                redo.part(tablespace).push(tablespace as u8);
            }
            let parts: Vec<_> =
                redo.parts().iter().map(|part| (part.tablespace, part.bytes.len())).collect();
            assert_eq!(parts, [(0, 1), (1, 2), (2, 1), (3, 2)], "round {round}");
            assert_eq!(redo.len(), 6);
            redo.clear();
            assert!(redo.is_empty());
        }
    }
}
