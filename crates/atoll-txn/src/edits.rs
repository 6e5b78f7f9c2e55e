//! The write set of a transaction that stores at commit: rows, and their new values as plain bytes.
//!
//! Each row has a chain of cells from the newest to the oldest, so a column that was set twice has
//! the value that was set last. Rows, cells and bytes are in three growing lists; the next
//! transaction uses their memory again.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use atoll_storage::image::Plain;
use atoll_storage::{RowId, TableId};

use crate::place::PlaceHasher;

/// Up to this many rows, a lookup scans the list; beyond, it uses a hash table.
const SCAN_MAX: usize = 32;
/// A larger write set frees its memory when it is cleared, so that a transaction over a whole table
/// does not leave its state with the memory of a whole table.
const KEPT_MAX: usize = 4096;
/// A write set with more cells than this for each of [`KEPT_MAX`] rows is larger, too.
const CELLS_PER_ROW: usize = 4;
const NONE: usize = usize::MAX;

/// How the transaction changes a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It updates some columns.
    Change,
    /// It inserts the row into a new slot, which holds all columns already. (If the transaction has
    /// lost the row to another one, and so cannot commit, the slot may hold the other's values.)
    Add,
    /// It inserts a row that was deleted into its old slot, with all columns.
    Return,
    /// It deletes the row and inserts it again, with all columns.
    Replace,
    /// It deletes the row.
    Remove,
    /// It inserted the row and deleted it again: an [`What::Add`] that was taken back.
    Nothing,
    /// A [`What::Return`] that was taken back: the slot still holds the values from before the
    /// deletion.
    Stay,
}

impl What {
    /// Whether the row was present before.
    pub fn was_present(self) -> bool {
        matches!(self, Self::Change | Self::Replace | Self::Remove)
    }

    /// Whether the row was absent before and is absent afterwards.
    pub fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing | Self::Stay)
    }

    /// Whether all columns are set.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Add | Self::Return | Self::Replace)
    }
}

/// A row of the write set.
#[derive(Debug, Clone, Copy)]
pub struct EditedRow {
    /// Its table.
    pub table: TableId,
    /// The row.
    pub row: RowId,
    /// How it is changed.
    pub what: What,
    newest: usize,
    /// Whether a column may have been put twice.
    repeats: bool,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    older: usize,
    /// All values together may exceed 4 GiB; a single value does not.
    start: usize,
    len: u32,
    column: u16,
    valid: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Edits {
    rows: Vec<EditedRow>,
    cells: Vec<Cell>,
    bytes: Vec<u8>,
    /// A Bloom filter of the rows: most rows that are looked up are not in the write set.
    filter: u64,
    /// A bit for each column put since the newest savepoint, by its position modulo 64: most
    /// columns that are looked up were not put.
    fresh: u64,
    /// Not all rows were added by [`Edits::change`] alone, each with the cell at its position.
    is_mixed: bool,
    by_row: HashMap<(u32, u64), usize, BuildHasherDefault<PlaceHasher>>,
}

#[inline]
fn bit(table: TableId, row: RowId) -> u64 {
    1 << (row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 ^ u64::from(table.0 & 7))
}

impl Edits {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows, in the order in which they were added.
    pub fn rows(&self) -> &[EditedRow] {
        &self.rows
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are neither rows nor cells; a failed update leaves cells without a row.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.rows.is_empty() && self.cells.is_empty()
    }

    /// Removes all rows and cells.
    pub fn clear(&mut self) {
        let lists = self.rows.capacity().max(self.cells.capacity() / CELLS_PER_ROW);
        if lists > KEPT_MAX || self.bytes.capacity() > KEPT_MAX * 128 {
            *self = Self::default();
        }
        self.rows.clear();
        self.cells.clear();
        self.bytes.clear();
        self.by_row.clear();
        (self.filter, self.fresh, self.is_mixed) = (0, 0, false);
    }

    /// The position of a row.
    #[inline(always)]
    pub fn find(&self, table: TableId, row: RowId) -> Option<usize> {
        if self.filter & bit(table, row) == 0 { None } else { self.search(table, row) }
    }

    fn search(&self, table: TableId, row: RowId) -> Option<usize> {
        if self.rows.len() <= SCAN_MAX {
            return self.rows.iter().position(|one| one.row == row && one.table == table);
        }
        self.by_row.get(&(table.0, row.0)).copied()
    }

    /// The row at a position.
    pub fn row(&self, at: usize) -> EditedRow {
        self.rows[at]
    }

    /// Adds a row that is not in the write set yet.
    #[inline]
    pub fn add(&mut self, table: TableId, row: RowId, what: What) -> usize {
        self.is_mixed = true;
        self.push(EditedRow { table, row, what, newest: NONE, repeats: false })
    }

    #[inline(always)]
    fn push(&mut self, row: EditedRow) -> usize {
        self.filter |= bit(row.table, row.row);
        self.rows.push(row);
        let at = self.rows.len() - 1;
        if at >= SCAN_MAX {
            self.hash(at);
        }
        at
    }

    /// Adds the newest row to the hash table; when the table is first needed, adds all rows.
    #[cold]
    fn hash(&mut self, at: usize) {
        let from = if at == SCAN_MAX { 0 } else { at };
        let new = self.rows[from..].iter().zip(from..);
        self.by_row.extend(new.map(|(one, at)| ((one.table.0, one.row.0), at)));
    }

    /// Sets how a row is changed in the end.
    pub fn set_what(&mut self, at: usize, what: What) {
        self.is_mixed = true;
        self.rows[at].what = what;
    }

    /// A savepoint before the cells that will not belong to a row until [`Edits::give`].
    #[inline]
    pub fn savepoint(&mut self) -> Savepoint {
        self.fresh = 0;
        Savepoint { cells: self.cells.len(), bytes: self.bytes.len() }
    }

    /// Bytes of the values that were put since a savepoint.
    #[inline]
    pub fn bytes_since(&self, savepoint: Savepoint) -> usize {
        self.bytes.len() - savepoint.bytes
    }

    /// Removes the cells that were put since the newest savepoint.
    #[inline]
    pub fn rewind(&mut self, savepoint: Savepoint) {
        self.fresh = 0;
        self.cells.truncate(savepoint.cells);
        self.bytes.truncate(savepoint.bytes);
    }

    /// Puts a cell that belongs to no row yet.
    #[inline]
    pub fn put(&mut self, column: usize, plain: Plain<'_>) {
        let bytes = plain.unwrap_or_default();
        let (start, len) = (self.bytes.len(), bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        let valid = plain.is_some();
        self.is_mixed = true;
        self.fresh |= 1 << (column % 64);
        self.cells.push(Cell { older: NONE, column: column as u16, valid, start, len });
    }

    /// Adds the cells that were put since a savepoint to a row.
    #[inline]
    pub fn give(&mut self, savepoint: Savepoint, at: usize) {
        let EditedRow { newest, repeats, .. } = &mut self.rows[at];
        let columns = self.fresh.count_ones() as usize; // a lower bound
        *repeats |= *newest != NONE || self.cells.len() - savepoint.cells != columns;
        for (cell, number) in self.cells[savepoint.cells..].iter_mut().zip(savepoint.cells..) {
            cell.older = std::mem::replace(newest, number);
        }
    }

    /// Adds a row that is not in the write set yet, with an update of one column.
    #[inline(always)]
    pub fn change(&mut self, table: TableId, row: RowId, column: usize, bytes: &[u8]) {
        let (start, len) = (self.bytes.len(), bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        let (what, newest) = (What::Change, self.cells.len());
        self.push(EditedRow { table, row, what, newest, repeats: false });
        self.cells.push(Cell { older: NONE, column: column as u16, valid: true, start, len });
    }

    /// The table, row, column and new value of each change, if [`Edits::change`] has made all of
    /// them.
    #[inline]
    pub fn changes(&self) -> Option<impl Iterator<Item = (TableId, RowId, usize, &[u8])>> {
        (!self.is_mixed).then(|| {
            debug_assert_eq!(self.rows.len(), self.cells.len());
            self.rows.iter().zip(&self.cells).map(|(row, cell)| {
                let bytes = &self.bytes[cell.start..][..cell.len as usize];
                (row.table, row.row, usize::from(cell.column), bytes)
            })
        })
    }

    /// Whether a column may be among the cells put since the newest savepoint.
    #[inline]
    pub fn may_have_since(&self, column: usize) -> bool {
        self.fresh >> (column % 64) & 1 == 1
    }

    /// The value of a column among the cells put since the newest savepoint, if it was set.
    #[inline]
    pub fn get_since(&self, savepoint: Savepoint, column: usize) -> Option<Plain<'_>> {
        if !self.may_have_since(column) {
            return None;
        }
        let since = self.cells[savepoint.cells..].iter();
        let cell = since.rev().find(|cell| usize::from(cell.column) == column)?;
        Some(self.plain(cell))
    }

    #[inline]
    fn plain(&self, cell: &Cell) -> Plain<'_> {
        cell.valid.then(|| &self.bytes[cell.start..][..cell.len as usize])
    }

    /// The value of a column of a row, if it was set.
    #[inline]
    pub fn get(&self, at: usize, column: usize) -> Option<Plain<'_>> {
        let mut next = self.rows[at].newest;
        while next != NONE {
            let cell = &self.cells[next];
            if usize::from(cell.column) == column {
                return Some(self.plain(cell));
            }
            next = cell.older;
        }
        None
    }

    /// The columns of a row that are set, each once, with their values.
    #[inline]
    pub fn cells(&self, at: usize) -> impl Iterator<Item = (usize, Plain<'_>)> {
        self.numbered_cells(at).map(|(_, column, plain)| (column, plain))
    }

    /// As [`Edits::cells`], with their numbers.
    #[inline]
    pub fn numbered_cells(&self, at: usize) -> impl Iterator<Item = (usize, usize, Plain<'_>)> {
        let EditedRow { newest, repeats, .. } = self.rows[at];
        let mut next = newest;
        std::iter::from_fn(move || {
            loop {
                let number = next;
                let cell = self.cells.get(number)?; // NONE is none of them.
                next = cell.older;
                if !repeats || !self.has_between(newest, number, cell.column) {
                    return Some((number, usize::from(cell.column), self.plain(cell)));
                }
            }
        })
    }

    /// Whether a chain has a cell of a column between the cell `from` and the older cell `to`.
    #[inline]
    fn has_between(&self, from: usize, to: usize, column: u16) -> bool {
        let mut next = from;
        while next != to {
            let cell = &self.cells[next];
            if cell.column == column {
                return true;
            }
            next = cell.older;
        }
        false
    }

    /// The value of a cell by its number; empty for NULL.
    #[inline]
    pub fn bytes(&self, number: usize) -> &[u8] {
        self.plain(&self.cells[number]).unwrap_or_default()
    }
}

/// A position in the write set.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    cells: usize,
    bytes: usize,
}

#[cfg(test)]
mod tests {
    use atoll_storage::{RowId, TableId};

    use super::{Edits, What};

    #[test]
    fn a_row_has_the_values_that_were_set_last() {
        let mut edits = Edits::default();
        for number in 0..100u64 {
            let (table, row) = (TableId(number as u32 % 3), RowId(number));
            assert_eq!(edits.find(table, row), None);
            let at = edits.add(table, row, What::Change);
            let savepoint = edits.savepoint();
            edits.put(1, Some(&[number as u8]));
            edits.put(2, None);
            edits.put(1, Some(&[number as u8, 7]));
            edits.give(savepoint, at);
        }
        let at = edits.find(TableId(2), RowId(50)).expect("it was added");
        assert_eq!(edits.get(at, 1), Some(Some(&[50, 7][..])));
        assert_eq!((edits.get(at, 2), edits.get(at, 3)), (Some(None), None));
        let cells: Vec<_> = edits.cells(at).collect();
        assert_eq!(cells, [(1, Some(&[50, 7][..])), (2, None)]);
        edits.clear();
        assert_eq!(edits.find(TableId(2), RowId(50)), None);
    }

    #[test]
    fn an_edit_of_a_row_sets_columns_anew_that_one_before_has_set() {
        let mut edits = Edits::default();
        let at = edits.add(TableId(0), RowId(1), What::Change);
        // 1 and 65 have the same bit.
        for (number, columns) in [[1, 2], [2, 65], [3, 4]].into_iter().enumerate() {
            let savepoint = edits.savepoint();
            columns.iter().for_each(|column| edits.put(*column, Some(&[number as u8])));
            edits.give(savepoint, at);
        }
        let cells = edits.cells(at).map(|(column, plain)| (column, plain.expect("it is set")[0]));
        let expected = [(4, 2), (3, 2), (65, 1), (2, 1), (1, 0)];
        assert_eq!(cells.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn changes_of_one_column_each_are_told_together_unless_anything_else_has_happened() {
        let (table, other) = (TableId(3), TableId(4));
        let changed = || {
            let mut edits = Edits::default();
            edits.change(table, RowId(9), 5, b"one");
            edits.change(other, RowId(2), 0, b"");
            edits.change(table, RowId(1), 5, b"three");
            edits
        };
        let told = [
            (table, RowId(9), 5, &b"one"[..]),
            (other, RowId(2), 0, b""),
            (table, RowId(1), 5, b"three"),
        ];
        assert!(changed().changes().expect("nothing else has happened").eq(told));
        let others: [fn(&mut Edits); 4] = [
            |edits| edits.put(1, None),
            |edits| edits.set_what(1, What::Remove),
            |edits| _ = edits.add(TableId(3), RowId(7), What::Add),
            |edits| {
                let savepoint = edits.savepoint();
                edits.put(6, Some(b"four"));
                edits.rewind(savepoint);
            },
        ];
        for other in others {
            let mut edits = changed();
            other(&mut edits);
            assert!(edits.changes().is_none());
            edits.clear();
            edits.change(table, RowId(9), 5, b"one");
            assert!(edits.changes().expect("it is empty again").eq(told.into_iter().take(1)));
        }
    }

    #[test]
    fn what_was_put_and_taken_back_is_gone() {
        let mut edits = Edits::default();
        let at = edits.add(TableId(0), RowId(1), What::Change);
        let savepoint = edits.savepoint();
        edits.put(4, Some(b"old"));
        assert_eq!(edits.get_since(savepoint, 4), Some(Some(&b"old"[..])));
        assert_eq!(
            (edits.get_since(savepoint, 5), edits.get_since(savepoint, 4 + 64)),
            (None, None)
        );
        edits.put(4 + 64, None);
        assert_eq!(edits.get_since(savepoint, 4 + 64), Some(None));
        edits.rewind(savepoint);
        assert_eq!(
            (edits.get_since(savepoint, 4), edits.get_since(savepoint, 4 + 64)),
            (None, None)
        );
        edits.put(5, Some(b"new"));
        edits.give(savepoint, at);
        assert_eq!((edits.get(at, 4), edits.get(at, 5)), (None, Some(Some(&b"new"[..]))));
    }

    #[test]
    fn values_behind_the_first_four_gib_are_their_own() {
        // Nothing of it is ever touched, so it takes no memory.
        let bytes = vec![0; (4 << 30) + 4096];
        let mut edits = Edits { bytes, ..Edits::default() };
        edits.bytes.truncate((4 << 30) + 5);
        let at = edits.add(TableId(0), RowId(1), What::Change);
        let savepoint = edits.savepoint();
        edits.put(3, Some(b"far"));
        assert_eq!(edits.get_since(savepoint, 3), Some(Some(&b"far"[..])));
        edits.give(savepoint, at);
        let cells: Vec<_> = edits.numbered_cells(at).collect();
        assert_eq!(cells, [(0, 3, Some(&b"far"[..]))]);
        assert_eq!(edits.bytes(0), b"far");
    }

    #[test]
    fn what_a_failed_edit_has_put_is_cleared_too() {
        let mut edits = Edits::default();
        assert!(edits.is_clear());
        edits.savepoint();
        edits.put(1, Some(&[7; 100]));
        assert!(edits.is_empty() && !edits.is_clear());
        edits.clear();
        assert!(edits.is_clear() && edits.bytes.is_empty());
    }
}
