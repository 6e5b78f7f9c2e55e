//! Entries of ordered indexes that a transaction adds, and that it removes when it ends.
//!
//! An entry says that a row may have a key; the row itself decides. So a transaction adds entries
//! while it runs, and entries are removed when no transaction can need them: those of a row's old
//! key after a commit, those of its new key after an abort. A scan compares the key of an entry
//! with the row, unless the table has index-only validity
//! ([`Table::is_index_only`](atoll_storage::Table::is_index_only)).

use atoll_machine::Machine;
use atoll_storage::image::plain;
use atoll_storage::ordered::{Spot, encode};
use atoll_storage::{RowId, TableId, Value};

use crate::column_set::ColumnSet;
use crate::kept::{KEPT_BYTES_MAX, KEPT_MAX};
use crate::row::Row;
use crate::scheme::Scheme;
use crate::tables::TableContext;

/// An entry; its key is in [`Entries`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) table: TableId,
    pub(super) row: RowId,
    pub(super) index: usize,
    start: usize,
    len: usize,
    /// No other row may have the key.
    pub(super) unique: bool,
    /// The likely position of the entry, if a prefetch has found it.
    pub(super) spot: Option<Spot>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entries {
    keys: Vec<u8>,
    /// Entries of rows that are about to be inserted: for each row, one for each index.
    coming: Vec<Entry>,
    coming_keys: Vec<u8>,
    /// Entries that the transaction adds; the first `added` are in their indexes.
    pub(super) made: Vec<Entry>,
    pub(super) added: usize,
    /// Entries to be removed when the transaction commits.
    pub(super) gone: Vec<Entry>,
    gone_mark: usize,
    /// The old keys of the row that is being changed, by index.
    before: Vec<(usize, Vec<u8>)>,
    before_len: usize,
    moves: Vec<Move>,
    moves_len: usize,
}

/// A change of a row's key in an index.
#[derive(Debug, Default)]
struct Move {
    index: usize,
    old: Vec<u8>,
    new: Vec<u8>,
    unique: bool,
}

impl Entries {
    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        let entries = self.made.capacity().max(self.gone.capacity());
        if entries > KEPT_MAX || self.keys.capacity() > KEPT_BYTES_MAX {
            (self.keys, self.made, self.gone) = (Vec::new(), Vec::new(), Vec::new());
        }
        self.keys.clear();
        self.made.clear();
        self.gone.clear();
        self.added = 0;
        self.before_len = 0;
        self.moves_len = 0;
    }

    /// Whether there are entries that are not in their indexes yet.
    #[inline]
    pub(super) fn has_new(&self) -> bool {
        self.added < self.made.len()
    }

    pub(super) fn key(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.start..entry.start + entry.len]
    }

    fn entry(
        &mut self,
        table: TableId,
        row: RowId,
        index: usize,
        key: &[u8],
        unique: bool,
    ) -> Entry {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        Entry { table, row, index, start, len: key.len(), unique, spot: None }
    }

    /// Computes the keys of rows that are about to be inserted, and prefetches their leaves.
    pub(super) fn prefetch_leaves<'r, S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        rows: impl Iterator<Item = &'r [Value]>,
    ) {
        self.coming.clear();
        self.coming_keys.clear();
        let (table, row) = (context.table.id(), RowId(0));
        for values in rows {
            for (index, ordered) in context.indexes().iter() {
                let (start, mut unique) = (self.coming_keys.len(), ordered.unique);
                for (column, key) in ordered.columns.iter().zip(&ordered.key) {
                    let mut buffer = [0; 16];
                    let plain = plain(&values[*column], &mut buffer);
                    unique &= plain.is_some() || ordered.nulls_not_distinct;
                    encode::encode_plain(*key, plain, &mut self.coming_keys);
                }
                let key = &self.coming_keys[start..];
                let (len, spot) = (key.len(), ordered.index.prefetch_leaf(key));
                self.coming.push(Entry { table, row, index, start, len, unique, spot });
            }
        }
    }

    /// Notes an entry in each index for a row that has been inserted; `at` is its position among
    /// the rows of [`Entries::prefetch_leaves`].
    pub(super) fn note_made<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        at: usize,
        row: RowId,
    ) {
        let count = context.indexes().len();
        for entry in &self.coming[at * count..][..count] {
            let start = self.keys.len();
            self.keys.extend_from_slice(&self.coming_keys[entry.start..][..entry.len]);
            self.made.push(Entry { row, start, ..*entry });
        }
    }

    fn scratch(&mut self) -> &mut (usize, Vec<u8>) {
        if self.before.is_empty() {
            self.before.push((0, Vec::new()));
        }
        &mut self.before[0]
    }

    /// Marks the position to which [`Entries::rewind_gone`] returns.
    pub(super) fn mark_gone(&mut self) {
        self.gone_mark = self.gone.len();
    }

    /// Removes what [`Entries::note_gone`] has noted since the mark.
    pub(super) fn rewind_gone(&mut self) {
        self.gone.truncate(self.gone_mark);
    }

    /// Notes the entries of a row that is deleted.
    pub(super) fn note_gone<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        id: RowId,
        row: &Row<'_, M>,
    ) {
        let mut key = std::mem::take(&mut self.scratch().1);
        for (index, ordered) in context.indexes().iter() {
            ordered.key_of(row, &mut key);
            let entry = self.entry(context.table.id(), id, index, &key, false);
            self.gone.push(entry);
        }
        self.scratch().1 = key;
    }

    /// Notes the old keys of a row before a change that may move it in indexes.
    pub(super) fn note_before<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        row: &Row<'_, M>,
    ) {
        context.table.invalidate_index_only();
        self.before_len = 0;
        self.moves_len = 0;
        for (index, ordered) in context.indexes().iter().filter(|(_, one)| !one.fixed) {
            if self.before.len() == self.before_len {
                self.before.push((0, Vec::new()));
            }
            let (at, key) = &mut self.before[self.before_len];
            *at = index;
            ordered.key_of(row, key);
            self.before_len += 1;
        }
    }

    /// Computes in which indexes the change moves the row.
    pub(super) fn note_after<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        row: &Row<'_, M>,
        changed: ColumnSet,
    ) {
        self.moves_len = 0;
        for (index, before) in &self.before[..self.before_len] {
            let ordered = &context.indexes()[*index];
            if !changed.may_have_any(&ordered.columns) {
                continue;
            }
            if self.moves.len() == self.moves_len {
                self.moves.push(Move::default());
            }
            let one = &mut self.moves[self.moves_len];
            one.unique = ordered.key_of(row, &mut one.new);
            if one.new != *before {
                one.index = *index;
                one.old.clear();
                one.old.extend_from_slice(before);
                self.moves_len += 1;
            }
        }
    }

    /// Turns the moves noted last into entries to add and to remove.
    pub(super) fn take_moves<S: Scheme<M>, M: Machine>(
        &mut self,
        context: &TableContext<S, M>,
        id: RowId,
    ) {
        let moves = std::mem::take(&mut self.moves);
        for Move { index, old, new, unique } in &moves[..self.moves_len] {
            let old = self.entry(context.table.id(), id, *index, old, false);
            self.gone.push(old);
            let new = self.entry(context.table.id(), id, *index, new, *unique);
            self.made.push(new);
        }
        self.moves = moves;
        self.moves_len = 0;
    }
}
