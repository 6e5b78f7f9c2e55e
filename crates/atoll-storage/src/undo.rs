//! Undo lists: the before images of a transaction's stores.
//!
//! A worker that stores before its transaction commits first writes an undo entry with the old
//! value. A rollback applies the entries of the list from the last to the first. A snapshot that is
//! taken while the transaction is open shows its stores as well; therefore the snapshot copies the
//! part of the list that was written up to the cut, and its readers apply these entries to their
//! private copies.
//!
//! A list consists of 64-bit words in shared chunks, each twice as large as the one before up to a
//! limit, so that a long list has few of them and large ones go back to the system. The taker of a
//! snapshot keeps the chunks alive through their reference counts, so the worker does not wait for
//! a copy. The layout of an entry is
//!
//! ```text
//! epoch | table (32 bits), column (16), image words (13), kind (2), set (1) | row | image words
//! ```
//!
//! Invariants
//! - `UNDO-1`: the worker writes an entry in the same section of the gate as the store that it
//!   undoes, and before the store; the entry has the epoch of the section. When all workers have
//!   left an epoch, the entries of that epoch and of earlier ones are visible.
//! - `UNDO-2`: words below `len` never change while another thread holds the chunk.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use atoll_machine::huge_pages::{self, Array, Need};
use atoll_machine::{Machine, Ordering};

use crate::layout::{RowId, TableId};
use crate::types::FIXED_BINARY_BYTES_MAX;

/// Words of the first chunk: 4 KiB.
const CHUNK_WORDS: usize = 1 << 9;
/// Most words of a chunk, unless one entry needs more: 1 MiB.
const CHUNK_WORDS_MAX: usize = 1 << 17;
const HEADER_WORDS: usize = 3;

/// In the lowest bits of a header: the value was valid, or the slot was present.
const SET: u64 = 1;
const KIND_VALUE: u64 = 1 << 1;
const KIND_PRESENCE: u64 = 2 << 1;
const KIND: u64 = 3 << 1;
const IMAGE_SHIFT: u32 = 3;
const IMAGE_BITS: u32 = 13;
const _: () = assert!(FIXED_BINARY_BYTES_MAX as usize / 8 < 1 << IMAGE_BITS);
const _: () = assert!(KIND < 1 << IMAGE_SHIFT && IMAGE_SHIFT + IMAGE_BITS == 16);

/// The before image of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before<'i> {
    /// A value.
    Value {
        /// Position of its column.
        column: u16,
        /// Whether it was valid.
        valid: bool,
        /// Its image, see [`crate::image`].
        image: &'i [u8],
    },
    /// Whether the slot was present.
    Presence(bool),
}

/// An entry of an undo list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Epoch of the store.
    pub epoch: u64,
    /// Table of the row.
    pub table: TableId,
    /// The row.
    pub row: RowId,
    /// The before image.
    pub was: Was,
}

/// [`Before`], owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Was {
    /// A value.
    Value {
        /// Position of its column.
        column: u16,
        /// Whether it was valid.
        valid: bool,
        /// Its image, padded with zeroes to whole words.
        image: Vec<u8>,
    },
    /// Whether the slot was present.
    Presence(bool),
}

/// What a change of a committed transaction has replaced; see [`UndoList::each`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// A value.
    Value {
        /// Position of its column.
        column: u16,
        /// The first bytes of its image; a view is complete. If the image is narrower, the bytes
        /// behind its end have no meaning.
        start: [u8; 16],
    },
    /// Whether the slot was present.
    Presence(bool),
}

/// A chunk of a list; see the module.
pub struct Chunk {
    len: AtomicUsize,
    words: Array<AtomicU64>,
}

impl Chunk {
    fn with_room(words: usize) -> Arc<Self> {
        Arc::new(Self {
            len: AtomicUsize::new(0),
            words: huge_pages::defaults(Need::Passing, words),
        })
    }

    /// The words written so far.
    pub fn words(&self) -> Vec<u64> {
        let len = self.len.load(Ordering::Acquire);
        self.words[..len].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// The header word of the entry that begins at word `at`, and the number of words of its image.
    fn entry(&self, at: usize) -> (u64, usize) {
        let header = self.words[at + 1].load(Ordering::Relaxed);
        (header, image_words(header))
    }
}

/// The number of words of the image of an entry with this header. The entry itself says it, since a
/// taker of a snapshot may read it after its table was dropped.
#[inline(always)]
fn image_words(header: u64) -> usize {
    (header >> IMAGE_SHIFT) as usize & ((1 << IMAGE_BITS) - 1)
}

/// The undo list of a transaction. Only the thread that executes the transaction pushes; takers of
/// snapshots may hold its chunks.
pub struct UndoList<M> {
    chunks: Vec<Arc<Chunk>>,
    entries: usize,
    first_epoch: u64,
    machine: PhantomData<fn() -> M>,
}

impl<M> Default for UndoList<M> {
    fn default() -> Self {
        Self {
            chunks: vec![Chunk::with_room(CHUNK_WORDS)],
            entries: 0,
            first_epoch: 0,
            machine: PhantomData,
        }
    }
}

impl<M: Machine> UndoList<M> {
    /// Entries written.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Epoch of the first entry, 0 when there is none.
    pub fn first_epoch(&self) -> u64 {
        self.first_epoch
    }

    /// The chunks; the taker of a snapshot clones the references.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Writes an entry; returns whether a chunk was added.
    pub fn push(&mut self, epoch: u64, table: TableId, row: RowId, was: Before<'_>) -> bool {
        match was {
            Before::Value { column, valid, image } => {
                let image_words = image.len().div_ceil(8);
                let header = what(table, column, KIND_VALUE, valid, image_words);
                self.push_words([epoch, header, row.0], image_words, |words| {
                    for (word, bytes) in words.iter().zip(image.chunks(8)) {
                        word.store(padded(bytes), Ordering::Relaxed);
                    }
                })
            }
            Before::Presence(present) => {
                let header = what(table, 0, KIND_PRESENCE, present, 0);
                self.push_words([epoch, header, row.0], 0, |_| ())
            }
        }
    }

    /// Writes the entry of a value with an image of `bytes` bytes. `image` writes the image into
    /// the words that it receives and pads the last one with zeroes.
    #[inline(always)]
    pub(crate) fn push_value(
        &mut self,
        (epoch, table, row): (u64, TableId, RowId),
        (column, valid): (u16, bool),
        bytes: usize,
        image: impl FnOnce(&[AtomicU64]),
    ) -> bool {
        let image_words = bytes.div_ceil(8);
        let header = what(table, column, KIND_VALUE, valid, image_words);
        self.push_words([epoch, header, row.0], image_words, image)
    }

    #[inline(always)]
    fn push_words(
        &mut self,
        header: [u64; HEADER_WORDS],
        image_words: usize,
        image: impl FnOnce(&[AtomicU64]),
    ) -> bool {
        let needed = HEADER_WORDS + image_words;
        let added = !self.has_room(needed);
        if added {
            self.add_chunk(needed);
        }
        let chunk = self.chunks.last().expect("a list has a chunk");
        let at = chunk.len.load(Ordering::Relaxed);
        let words = &chunk.words[at..at + needed];
        M::write(words.as_ptr().cast(), size_of_val(words));
        let (words, images) = words.split_at(HEADER_WORDS);
        for (word, value) in words.iter().zip(header) {
            word.store(value, Ordering::Relaxed);
        }
        image(images);
        chunk.len.store(at + needed, Ordering::Release);
        if self.entries == 0 {
            [self.first_epoch, ..] = header;
        }
        self.entries += 1;
        added
    }

    #[inline]
    fn has_room(&self, words: usize) -> bool {
        let chunk = self.chunks.last().expect("a list has a chunk");
        chunk.words.len() - chunk.len.load(Ordering::Relaxed) >= words
    }

    #[cold]
    fn add_chunk(&mut self, words: usize) {
        let last = self.chunks.last().map_or(CHUNK_WORDS, |chunk| chunk.words.len());
        self.chunks.push(Chunk::with_room((2 * last).min(CHUNK_WORDS_MAX).max(words)));
    }

    /// Calls `body` with what each entry has replaced, in the order of writing. Allocates nothing.
    pub fn each(&self, mut body: impl FnMut(TableId, RowId, Replaced)) {
        for chunk in &self.chunks {
            let mut rest = &chunk.words[..chunk.len.load(Ordering::Acquire)];
            M::read(rest.as_ptr().cast(), size_of_val(rest));
            let word = |at: &AtomicU64| at.load(Ordering::Relaxed);
            while let [_epoch, header, row, tail @ ..] = rest {
                let (header, row) = (word(header), RowId(word(row)));
                let (table, column) = (TableId((header >> 32) as u32), (header >> 16) as u16);
                if header & KIND == KIND_PRESENCE {
                    body(table, row, Replaced::Presence(header & SET != 0));
                    rest = tail;
                    continue;
                }
                let mut start = [0; 16];
                for (bytes, image) in start.chunks_exact_mut(8).zip(tail) {
                    bytes.copy_from_slice(&word(image).to_le_bytes());
                }
                body(table, row, Replaced::Value { column, start });
                rest = &tail[image_words(header)..];
            }
        }
    }

    /// Removes the last entry, after its store has failed. It is always the last entry of its
    /// chunk.
    pub fn pop(&mut self, image_bytes: usize) {
        let chunk = self.chunks.last().expect("a list has a chunk");
        let len = chunk.len.load(Ordering::Relaxed) - HEADER_WORDS - image_bytes.div_ceil(8);
        chunk.len.store(len, Ordering::Release);
        self.entries -= 1;
        if self.entries == 0 {
            self.first_epoch = 0;
        }
    }

    /// Empties the list. A chunk that the taker of a snapshot still holds is not reused (`UNDO-2`).
    pub fn clear(&mut self) {
        self.chunks.truncate(1);
        if Arc::get_mut(&mut self.chunks[0]).is_none() {
            self.chunks[0] = Chunk::with_room(CHUNK_WORDS);
        }
        self.chunks[0].len.store(0, Ordering::Release);
        self.entries = 0;
        self.first_epoch = 0;
    }
}

/// A traversal of a list from the last entry to the first, for a rollback. It reuses its buffers.
#[derive(Debug, Default)]
pub struct Backwards {
    /// Chunk and first word of each entry that is still to be visited.
    left: Vec<(usize, usize)>,
    image: Vec<u8>,
}

/// A buffer for more entries than this is freed: a transaction over a whole table must not leave
/// its worker with memory of the table's size.
const KEPT_MAX: usize = 4096;

impl Backwards {
    /// Begins at the end of a list.
    pub fn begin<M>(&mut self, list: &UndoList<M>) {
        self.left.clear();
        for (number, chunk) in list.chunks.iter().enumerate() {
            let (mut at, len) = (0, chunk.len.load(Ordering::Acquire));
            while at < len {
                self.left.push((number, at));
                let (_, image_words) = chunk.entry(at);
                at += HEADER_WORDS + image_words;
            }
        }
    }

    /// The entry before the one that was returned last: its table, its row and the before image.
    pub fn step<M: Machine>(&mut self, list: &UndoList<M>) -> Option<(TableId, RowId, Before<'_>)> {
        let Some((number, at)) = self.left.pop() else {
            if self.left.capacity() > KEPT_MAX {
                self.left = Vec::new();
            }
            return None;
        };
        let chunk = &list.chunks[number];
        let (header, image_words) = chunk.entry(at);
        let entry = &chunk.words[at..at + HEADER_WORDS + image_words];
        M::read(entry.as_ptr().cast(), size_of_val(entry));
        let set = header & SET != 0;
        self.image.clear();
        for word in &chunk.words[at + HEADER_WORDS..][..image_words] {
            self.image.extend(word.load(Ordering::Relaxed).to_le_bytes());
        }
        let was = if header & KIND == KIND_PRESENCE {
            Before::Presence(set)
        } else {
            Before::Value { column: (header >> 16) as u16, valid: set, image: &self.image }
        };
        let row = RowId(chunk.words[at + 2].load(Ordering::Relaxed));
        Some((TableId((header >> 32) as u32), row, was))
    }
}

/// Decodes the entries of a list; `None` for words that are not a list: they may come from shared
/// memory. Then an image may also have another width than its column.
pub fn parse(words: &[u64]) -> Option<Vec<Entry>> {
    parse_up_to(words, u64::MAX)
}

/// Decodes the entries up to an epoch, of a list to which its worker may be writing under a later
/// epoch. The entries behind them may be incomplete and are not read. The epochs in a list never
/// decrease.
pub fn parse_up_to(words: &[u64], epoch: u64) -> Option<Vec<Entry>> {
    let mut out = Vec::new();
    let mut rest = words;
    while rest.first().is_some_and(|written| *written <= epoch) {
        let (header, tail) = rest.split_at_checked(HEADER_WORDS)?;
        let (table, column) = (TableId((header[1] >> 32) as u32), (header[1] >> 16) as u16);
        let (set, used) = (header[1] & SET != 0, image_words(header[1]));
        let (was, used) = match header[1] & KIND {
            KIND_PRESENCE => (Was::Presence(set), 0),
            KIND_VALUE => {
                let image = tail.get(..used).filter(|_| used > 0)?;
                let image = image.iter().flat_map(|word| word.to_le_bytes()).collect();
                (Was::Value { column, valid: set, image }, used)
            }
            _ => return None,
        };
        out.push(Entry { epoch: header[0], table, row: RowId(header[2]), was });
        rest = &tail[used..];
    }
    Some(out)
}

/// Encodes an entry as [`parse`] decodes it.
pub fn write(entry: &Entry, out: &mut Vec<u64>) {
    let (column, kind, set, image) = match &entry.was {
        Was::Value { column, valid, image } => (*column, KIND_VALUE, *valid, &image[..]),
        Was::Presence(present) => (0, KIND_PRESENCE, *present, &[][..]),
    };
    let words = image.len().div_ceil(8);
    out.extend([entry.epoch, what(entry.table, column, kind, set, words), entry.row.0]);
    out.extend(image.chunks(8).map(padded));
}

/// The header word of an entry.
#[inline(always)]
fn what(table: TableId, column: u16, kind: u64, set: bool, image_words: usize) -> u64 {
    debug_assert!(image_words < 1 << IMAGE_BITS);
    let words = (image_words as u64) << IMAGE_SHIFT;
    u64::from(table.0) << 32 | u64::from(column) << 16 | words | kind | u64::from(set)
}

/// Up to 8 bytes of an image as a word, padded with zeroes.
fn padded(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::Native;

    use super::*;

    const WIDTH: usize = 100;

    fn fill(list: &mut UndoList<Native>, entries: u64) {
        for i in 0..entries {
            let image = [i as u8; WIDTH];
            let was = match i % 3 {
                0 => Before::Presence(i % 2 == 0),
                _ => Before::Value { column: 7, valid: i % 2 == 0, image: &image },
            };
            list.push(i, TableId(9), RowId(i << 20), was);
        }
    }

    #[test]
    fn a_long_list_has_few_chunks_and_keeps_the_first_one_only() {
        let bytes = |list: &UndoList<Native>| {
            list.chunks().iter().map(|chunk| size_of_val(&*chunk.words)).sum::<usize>()
        };
        let mut list = UndoList::default();
        assert_eq!(bytes(&list), 4 << 10);
        fill(&mut list, 300_000);
        let written = list.chunks().iter().map(|chunk| chunk.words().len() * 8).sum::<usize>();
        assert!(written > 20 << 20, "{written}");
        assert!(list.chunks().len() < 8 + written / (1 << 20) + 2, "{}", list.chunks().len());
        assert!(
            bytes(&list) < written + written / 16 + (1 << 20),
            "{} for {written}",
            bytes(&list)
        );
        list.clear();
        assert_eq!((list.chunks().len(), bytes(&list)), (1, 4 << 10));
    }

    #[test]
    fn entries_come_back_in_order_across_chunks() {
        let mut list = UndoList::<Native>::default();
        fill(&mut list, 500);
        assert!(list.chunks().len() > 1);
        let words = |chunk: &Arc<Chunk>| parse(&chunk.words()).unwrap();
        let entries: Vec<_> = list.chunks().iter().flat_map(words).collect();
        assert_eq!(entries.len(), 500);
        for (i, entry) in entries.iter().enumerate() {
            assert_eq!((entry.epoch, entry.row), (i as u64, RowId((i as u64) << 20)));
        }
        let mut at = 0;
        list.each(|table, row, replaced| {
            let entry = &entries[at];
            let expected = match &entry.was {
                Was::Presence(present) => Replaced::Presence(*present),
                Was::Value { column, image, .. } => {
                    Replaced::Value { column: *column, start: image[..16].try_into().unwrap() }
                }
            };
            assert_eq!((table, row, replaced), (entry.table, entry.row, expected));
            at += 1;
        });
        assert_eq!(at, 500);
        let mut backwards = Backwards::default();
        for _ in 0..2 {
            backwards.begin(&list);
            for entry in entries.iter().rev() {
                let was = match &entry.was {
                    Was::Presence(present) => Before::Presence(*present),
                    Was::Value { column, valid, image } => {
                        Before::Value { column: *column, valid: *valid, image }
                    }
                };
                let step = backwards.step(&list);
                assert_eq!(step, Some((entry.table, entry.row, was)));
            }
            assert_eq!(backwards.step(&list), None);
        }
        let mut words = Vec::new();
        entries.iter().for_each(|entry| write(entry, &mut words));
        assert_eq!(parse(&words).unwrap(), entries);
    }

    #[test]
    fn a_list_whose_only_entry_was_removed_has_no_first_epoch() {
        let mut list = UndoList::<Native>::default();
        for epoch in [5, 6] {
            list.push(epoch, TableId(0), RowId(1), Before::Presence(true));
            list.push(epoch + 2, TableId(0), RowId(2), Before::Presence(true));
            list.pop(0);
            assert_eq!((list.len(), list.first_epoch()), (1, epoch));
            list.pop(0);
            assert_eq!((list.is_empty(), list.first_epoch()), (true, 0));
        }
    }

    #[test]
    fn chunks_that_a_taker_holds_outlive_the_list() {
        let mut list = UndoList::<Native>::default();
        fill(&mut list, 4);
        let held = list.chunks().to_vec();
        let before = held[0].words();
        list.clear();
        fill(&mut list, 2);
        assert_eq!(held[0].words(), before);
    }

    #[test]
    fn what_a_worker_writes_under_a_later_epoch_is_not_looked_at() {
        let mut list = UndoList::<Native>::default();
        list.push(5, TableId(0), RowId(1), Before::Presence(true));
        list.push(6, TableId(0), RowId(2), Before::Presence(true));
        let mut words = list.chunks()[0].words();
        words[4] = u64::MAX; // a header half written
        let found = parse_up_to(&words, 5).unwrap();
        assert_eq!(found.iter().map(|entry| entry.row).collect::<Vec<_>>(), [RowId(1)]);
        assert!(parse(&words).is_none());
    }

    #[test]
    fn words_that_are_no_list_are_refused() {
        let value = what(TableId(0), 0, KIND_VALUE, true, 1);
        assert!(parse(&[1, 2]).is_none());
        assert!(parse(&[1, KIND, 3]).is_none());
        assert!(parse(&[1, value, 3]).is_none());
        assert!(parse(&[1, KIND_VALUE, 3, 4]).is_none());
        assert_eq!(parse(&[1, value, 3, 4]).unwrap().len(), 1);
    }
}
