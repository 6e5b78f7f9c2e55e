//! The arena of an index: it stores keys of more than 8 bytes, in records of words.
//!
//! ```text
//! payload  tag:4 = 9 | class:6 | piece:42 | word in the piece:12      a key in a record
//! payload  tag:4 = length 0..=8 | row:60                              a key without a record
//! record   length:28, row:36 | the key's bytes, big-endian words, zero behind the end
//! ```
//!
//! Records have size classes and are reused within their class. The free lists of the classes are
//! divided into stripes by key, so that writers of different keys seldom contend.
//!
//! - `ARENA-1`: a record is freed only after every node that had its payload has been latched and
//!   has dropped it. A reader that still reads the record may find the words of any other record,
//!   and then finds that the node has changed. It checks a length against the size class before it
//!   uses it.

use std::cmp::Ordering as Order;

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word};

use super::entry_position::{
    EntryPosition, KEY_BYTES_MAX, LONG, ROW_BITS, ROW_MASK, TAG_SHIFT, head_of,
};
use super::node::Changed;
use super::pool::Spin;
use crate::stable::StableVec;

const PIECE_BITS: u32 = 12;
const PIECE_WORDS: usize = 1 << PIECE_BITS;
const CLASS_SHIFT: u32 = 54;
const HANDLE_MASK: u64 = (1 << CLASS_SHIFT) - 1;

const STRIPES_BITS: u32 = 4;
/// There is a class for each size from `SMALLEST` to `EXACT` words; above, two for each doubling.
const SMALLEST: usize = 3;
const EXACT: usize = 16;
const CLASSES_EXACT: usize = EXACT - SMALLEST + 1;
const CLASSES: usize = CLASSES_EXACT + 2 * 22;
const _: () = assert!(CLASSES <= 64 && class_words(CLASSES - 1) * 8 > KEY_BYTES_MAX + 8);

/// Words of a record of a class.
const fn class_words(class: usize) -> usize {
    if class < CLASSES_EXACT {
        return class + SMALLEST;
    }
    let above = class - CLASSES_EXACT;
    let base = EXACT << (above / 2);
    if above.is_multiple_of(2) { base * 3 / 2 } else { base * 2 }
}

fn class_of(words: usize) -> usize {
    if words <= EXACT {
        return words - SMALLEST;
    }
    let mut class = CLASSES_EXACT;
    while class_words(class) < words {
        class += 1;
    }
    class
}

/// See the module.
pub(super) struct Arena<M: Machine> {
    pieces: StableVec<Array<M::Word>, M>,
    /// Pieces allocated.
    used: M::Word,
    stripes: Box<[Stripe<M>]>,
}

#[repr(align(128))]
struct Stripe<M: Machine> {
    latch: M::Word,
    /// Handle of the next free word of the stripe's piece, and the number of free words.
    next: M::Word,
    left: M::Word,
    /// First free record of each class: its handle plus 1, or 0.
    free: [M::Word; CLASSES],
}

/// A record as a reader has found it; see `ARENA-1`.
pub(super) struct ArenaRecord<'a, M: Machine> {
    words: &'a [M::Word],
    len: usize,
    row: u64,
}

impl<M: Machine> Default for Arena<M> {
    fn default() -> Self {
        let word = || M::Word::new(0);
        let stripe = |_| Stripe {
            latch: word(),
            next: word(),
            left: word(),
            free: std::array::from_fn(|_| word()),
        };
        Self {
            pieces: StableVec::default(),
            used: word(),
            stripes: (0..1 << STRIPES_BITS).map(stripe).collect(),
        }
    }
}

impl<M: Machine> Arena<M> {
    /// Bytes of all records that are in memory and not in the heap.
    pub(super) fn resident_bytes(&self) -> u64 {
        let pieces = (0..).map_while(|piece| self.pieces.get(piece));
        pieces.map(|piece| piece.resident_bytes() as u64).sum()
    }

    /// The payload of an entry; writes a long key to a new record.
    pub(super) fn store(&self, place: &EntryPosition<'_>) -> u64 {
        if !place.is_long() {
            return place.payload();
        }
        let key = place.key();
        let class = class_of(1 + key.len().div_ceil(8));
        let handle = self.allocate(self.stripe(key), class);
        let words = self.words(handle, class).expect("the piece of a new record exists");
        words[0].store((key.len() as u64) << ROW_BITS | place.row(), Ordering::Release);
        for (word, at) in words[1..].iter().zip((0..key.len()).step_by(8)) {
            word.store(head_of(key, at), Ordering::Release);
        }
        LONG << TAG_SHIFT | (class as u64) << CLASS_SHIFT | handle
    }

    /// Frees the record of a payload that [`Arena::store`] has returned.
    pub(super) fn release(&self, payload: u64) {
        let Ok(Some(record)) = self.record(payload) else { return };
        let (class, handle) = parts(payload);
        let head: [u64; 2] = [0, 1].map(|at| record.word(at));
        let stripe = &self.stripes[stripe_of(head)];
        let _latch = Spin::<M>::take(&stripe.latch);
        record.words[0].store(stripe.free[class].load(Ordering::Relaxed), Ordering::Release);
        stripe.free[class].store(handle + 1, Ordering::Relaxed);
    }

    /// The record of a payload; `None` for a short key.
    #[inline]
    pub(super) fn record(&self, payload: u64) -> Result<Option<ArenaRecord<'_, M>>, Changed> {
        if payload >> TAG_SHIFT < LONG {
            return Ok(None);
        }
        let (class, handle) = parts(payload);
        let words = self.words(handle, class).ok_or(Changed)?;
        let header = words[0].load(Ordering::Acquire);
        let len = (header >> ROW_BITS) as usize;
        if len > (words.len() - 1) * 8 {
            return Err(Changed);
        }
        Ok(Some(ArenaRecord { words, len, row: header & ROW_MASK }))
    }

    /// Prefetches the record of a payload.
    #[inline]
    pub(super) fn prefetch(&self, payload: u64) {
        if payload >> TAG_SHIFT == LONG {
            let (class, handle) = parts(payload);
            if let Some(words) = self.words(handle, class) {
                M::prefetch(words.as_ptr().cast(), size_of_val(words));
            }
        }
    }

    /// Words of all allocated pieces.
    pub(super) fn used_words(&self) -> u64 {
        let pieces = 0..self.used.load(Ordering::Relaxed);
        pieces.filter_map(|piece| self.pieces.get(piece)).map(|piece| piece.len() as u64).sum()
    }

    fn stripe(&self, key: &[u8]) -> &Stripe<M> {
        &self.stripes[stripe_of([head_of(key, 0), head_of(key, 8)])]
    }

    #[inline]
    fn words(&self, handle: u64, class: usize) -> Option<&[M::Word]> {
        let at = handle as usize & (PIECE_WORDS - 1);
        self.pieces.get(handle >> PIECE_BITS)?.get(at..at + class_words(class))
    }

    fn allocate(&self, stripe: &Stripe<M>, class: usize) -> u64 {
        let _latch = Spin::<M>::take(&stripe.latch);
        let free = stripe.free[class].load(Ordering::Relaxed);
        if let Some(handle) = free.checked_sub(1) {
            let words = self.words(handle, class).expect("a free record has a piece");
            stripe.free[class].store(words[0].load(Ordering::Relaxed), Ordering::Relaxed);
            return handle;
        }
        let words = class_words(class);
        if words > PIECE_WORDS / 4 {
            return self.piece(words);
        }
        let (mut next, mut left) =
            (stripe.next.load(Ordering::Relaxed), stripe.left.load(Ordering::Relaxed));
        let words = words as u64;
        if left < words {
            (next, left) = (self.piece(PIECE_WORDS), PIECE_WORDS as u64);
        }
        stripe.next.store(next + words, Ordering::Relaxed);
        stripe.left.store(left - words, Ordering::Relaxed);
        next
    }

    /// Allocates a piece; returns its first handle.
    fn piece(&self, words: usize) -> u64 {
        let piece = self.used.fetch_add(1, Ordering::Relaxed);
        self.pieces.get_or_init(piece, || huge_pages::collect(words, |_| M::Word::new(0)));
        piece << PIECE_BITS
    }
}

fn parts(payload: u64) -> (usize, u64) {
    ((payload >> CLASS_SHIFT) as usize & 63, payload & HANDLE_MASK)
}

fn stripe_of(words: [u64; 2]) -> usize {
    (crate::key::mix(words[0] ^ words[1].rotate_left(32)) >> (64 - STRIPES_BITS)) as usize
}

impl<M: Machine> ArenaRecord<'_, M> {
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// Word `at` of the key: 8 bytes, zero behind the key's end.
    #[inline]
    fn word(&self, at: usize) -> u64 {
        if at * 8 < self.len { self.words[1 + at].load(Ordering::Acquire) } else { 0 }
    }

    /// The head of the key behind `skip` bytes: 8 bytes, zero behind the key's end.
    pub(super) fn head(&self, skip: usize) -> u64 {
        let (at, bits) = (skip / 8, skip as u32 % 8 * 8);
        let rest = self.word(at + 1).checked_shr(64 - bits).unwrap_or(0);
        self.word(at) << bits | rest
    }

    pub(super) fn append_key(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len;
        for at in 0..self.len.div_ceil(8) {
            out.extend_from_slice(&self.word(at).to_be_bytes());
        }
        out.truncate(end);
    }

    /// Compares the record with an entry position; their first `same` bytes are known to be equal.
    #[inline]
    pub(super) fn compare(&self, place: &EntryPosition<'_>, same: usize) -> Order {
        let key = place.key();
        for at in same / 8..self.len.min(key.len()).div_ceil(8) {
            match self.word(at).cmp(&head_of(key, at * 8)) {
                Order::Equal => {}
                order => return order,
            }
        }
        self.len.cmp(&key.len()).then(self.row.cmp(&place.row()))
    }
}
