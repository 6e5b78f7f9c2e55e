//! The key predictor: it predicts the slot of a key from rows that were inserted in key order.
//!
//! Most tables are filled in key order once, and then the slot of a row follows from its key.
//!
//! A lookup by the index waits twice for memory: for a bucket, and for the row that the bucket
//! names. The key predictor keeps an entry for each block of 1,024 consecutive keys: the row of the
//! block's first key, from which the others follow in key order. A lookup that has a prediction
//! fetches the row at once and does not touch the index. This is a learned index (Kraska and
//! others, "The case for learned index structures", SIGMOD 2018), but it is trained while rows are
//! inserted, and it has the same step from key to key everywhere: 1, or the number of partitions
//! among which the keys are dealt.
//!
//! A prediction is a hint. A lookup verifies it by the hash in the row header, and searches the
//! index if that differs. Under a partitioned scheme most lookups do not read the row header
//! either, which would be a cache miss of its own: their block of slots is dense
//! (`segment/dense_blocks.rs`), and the prediction says which mark the block then has.
//!
//! - `PREDICTOR-1`: an entry is a hint. Entries are written and read in relaxed order; an entry
//!   that is lost, or that belongs to another block, costs time and nothing else.

use std::sync::OnceLock;

use atoll_machine::huge_pages::{FixedArray, Need};
use atoll_machine::{Machine, Ordering, Word, WordLine};

use crate::key;
use crate::layout::RowId;
use crate::segment::{DENSE_ROWS, DenseMark};

/// Binary logarithm of the keys of a block. If the rows of a block are in two runs, its entry
/// predicts the later run.
const BLOCK_BITS: u32 = 10;
const BLOCK: u64 = 1 << BLOCK_BITS;

/// Binary logarithm of the entries in a cache line, which belong to consecutive blocks.
const BESIDE_BITS: u32 = 3;
const BESIDE: usize = 1 << BESIDE_BITS;

/// Lines of entries: 128 KiB for 16,384 blocks. Two blocks with the same entry evict each other.
const LINES: usize = 1 << 11;
const LINE_BITS: u32 = LINES.trailing_zeros();

/// The largest step from key to key.
const STEP_MAX: u64 = 1 << 10;

/// Rows after the first that a key run must have before the predictor stores an entry.
const RUN_MIN: u32 = 64;

/// Multiplier that spreads lines: 2^64 over the golden ratio, which keeps consecutive numbers apart
/// as long as there are free lines (Knuth, "The art of computer programming", volume 3, section
/// 6.4). Therefore the lines of all partitions get consecutive numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

// An entry has 24 bits of tag, a 4-bit count of how much more often than right its prediction was
// wrong when it was checked, and the row of the block's first key plus one block. 0 is no entry.
const ROW_BITS: u32 = 36;
const WRONG_BITS: u32 = 4;
const TAG_SHIFT: u32 = ROW_BITS + WRONG_BITS;
const ONE_WRONG: u64 = 1 << ROW_BITS;
const WRONG_MAX: u64 = (1 << WRONG_BITS) - 1;

/// A key run: the rows that one inserter has added side by side in key order.
#[derive(Debug, Clone, Copy)]
pub struct KeyRun {
    /// Key and row of the last row.
    word: u64,
    row: u64,
    /// Difference between its key and the key before.
    step: u64,
    /// Rows after the first of the run.
    length: u32,
}

impl Default for KeyRun {
    fn default() -> Self {
        // No row follows this one.
        Self { word: 0, row: u64::MAX - 1, step: 0, length: 0 }
    }
}

/// See the module.
pub(super) struct KeyPredictor<M: Machine> {
    /// Set by the first key run.
    known: OnceLock<PredictionTable<M>>,
}

pub(super) struct PredictionTable<M: Machine> {
    /// Difference between consecutive keys.
    step: u64,
    /// Binary logarithm of the step, if it is a power of two; it saves a lookup a slow division.
    shift: Option<u32>,
    /// Entries of consecutive blocks are side by side: two blocks with the same entry have the same
    /// line. Lines without an entry take no memory.
    lines: FixedArray<WordLine<M::Word>, LINES>,
    /// How often a prediction was reported as wrong.
    wrong_count: Apart<M::Word>,
}

/// A word that changes, on a cache line apart from the words that every prediction reads.
#[repr(align(64))]
struct Apart<W>(W);

/// The entry of a key's block, and the key's position in the block.
struct PredictorEntry<'k, W> {
    entry: &'k W,
    /// The tag that distinguishes the block from others with the same entry.
    tag: u64,
    /// Position of the key in its block.
    at: u64,
}

impl<M: Machine> Default for KeyPredictor<M> {
    fn default() -> Self {
        Self { known: OnceLock::new() }
    }
}

impl<M: Machine> PredictionTable<M> {
    fn new(step: u64) -> Self {
        let lines = FixedArray::defaults(Need::Sparse);
        let shift = step.is_power_of_two().then(|| step.trailing_zeros());
        Self { step, shift, lines, wrong_count: Apart(M::Word::new(0)) }
    }

    /// Quotient and remainder of a word by a step that is not a power of two.
    // Not inlined: the division would take registers from the case of other steps.
    #[inline(never)]
    fn divided(&self, word: u64) -> (u64, u64) {
        (word / self.step, word % self.step)
    }

    #[inline]
    fn place(&self, word: u64) -> PredictorEntry<'_, M::Word> {
        let (number, rest) = match self.shift {
            Some(shift) => (word >> shift, word & (self.step - 1)),
            None => self.divided(word),
        };
        let block = number >> BLOCK_BITS;
        let line = (block >> BESIDE_BITS) * self.step + rest;
        let spread = line.wrapping_mul(SPREAD);
        let WordLine(beside) = &self.lines[(spread >> (u64::BITS - LINE_BITS)) as usize];
        PredictorEntry {
            entry: &beside[block as usize % BESIDE],
            tag: spread << LINE_BITS >> TAG_SHIFT,
            at: number % BLOCK,
        }
    }

    #[inline(always)]
    pub(super) fn predict(&self, word: u64) -> Option<RowId> {
        let PredictorEntry { entry, tag, at } = self.place(word);
        let entry = entry.load(Ordering::Relaxed);
        let first = entry & (ONE_WRONG - 1);
        (entry >> TAG_SHIFT == tag && first != 0).then_some(RowId((first + at).wrapping_sub(BLOCK)))
    }
}

impl<M: Machine> KeyPredictor<M> {
    /// The prediction table, if there has been a key run.
    #[inline(always)]
    pub(super) fn known(&self) -> Option<&PredictionTable<M>> {
        self.known.get()
    }

    /// Takes over what another predictor knows, if this one knows nothing.
    pub(super) fn adopt(&self, other: Self) {
        if let Some(known) = other.known.into_inner() {
            let _ = self.known.set(known);
        }
    }

    /// Predicts the row of this hash. The row, and even its slot, need not exist.
    #[inline]
    pub(super) fn predict(&self, hash: u64) -> Option<RowId> {
        self.known.get()?.predict(key::word_of(hash))
    }

    /// As [`KeyPredictor::predict`], for a key that is this word.
    #[inline]
    pub(super) fn predict_word(&self, word: u64) -> Option<RowId> {
        self.known.get()?.predict(word)
    }

    /// The mark that the row's block of slots has if the block is dense and the row's key is this
    /// word.
    #[inline]
    pub(super) fn mark_of(&self, word: u64, row: RowId) -> DenseMark {
        self.known.get().map_or(DenseMark::NONE, |known| DenseMark::of(word, known.step, row))
    }

    /// Trains the predictor with an inserted row; `run` is the key run of its inserter. Returns the
    /// mark of the row's block of slots if this row has made the block dense.
    #[inline]
    pub(super) fn train(
        &self,
        run: &mut KeyRun,
        hash: u64,
        RowId(row): RowId,
    ) -> Option<DenseMark> {
        let word = key::word_of(hash);
        let step = word.wrapping_sub(run.word);
        let length = match row == run.row + 1 {
            true if step == run.step => run.length.saturating_add(1),
            // Possibly the second row of a run that begins with the row before.
            beside => beside.into(),
        };
        *run = KeyRun { word, row, step, length };
        if length >= RUN_MIN && (1..=STEP_MAX).contains(&step) {
            return self.note(*run);
        }
        None
    }

    fn note(&self, KeyRun { word, row, step, length }: KeyRun) -> Option<DenseMark> {
        let known = self.known.get_or_init(|| PredictionTable::new(step));
        if known.step != step {
            return None;
        }
        let PredictorEntry { entry, tag, at } = known.place(word);
        let now = tag << TAG_SHIFT | (row + BLOCK - at);
        if entry.load(Ordering::Relaxed) != now {
            entry.store(now, Ordering::Relaxed);
        }
        let is_last = row % DENSE_ROWS == DENSE_ROWS - 1;
        let is_dense = is_last && u64::from(length) >= DENSE_ROWS - 1;
        is_dense.then(|| DenseMark::of(word, step, RowId(row)))
    }

    /// Reports that the prediction for this hash was wrong. Right predictions are not counted;
    /// instead `has_key`, which says whether a row has the key that is this word, checks another
    /// key of the block and its predicted row. The count of the entry rises if that prediction is
    /// wrong and falls if it is right; beyond the maximum the entry is forgotten. A key that was
    /// never inserted counts as a wrong prediction.
    pub(super) fn mark_wrong(&self, hash: u64, has_key: impl FnOnce(RowId, u64) -> bool) {
        let Some(known) = self.known.get() else { return };
        let word = key::word_of(hash);
        let PredictorEntry { entry, tag, at } = known.place(word);
        let now = entry.load(Ordering::Relaxed);
        if now == 0 || now >> TAG_SHIFT != tag {
            return;
        }
        let wrong = now >> ROW_BITS & WRONG_MAX;
        // Any other key, and not the same one each time: the same key may be reported again and
        // again.
        let turn = known.wrong_count.0.fetch_add(1, Ordering::Relaxed);
        let other = (at + 1 + key::mix(word ^ turn) % (BLOCK - 1)) % BLOCK;
        let other_word = word.wrapping_sub(at * known.step).wrapping_add(other * known.step);
        let row = RowId(((now & (ONE_WRONG - 1)) + other).wrapping_sub(BLOCK));
        let next = match (has_key(row, other_word), wrong) {
            (true, 0) => return,
            (true, _) => now - ONE_WRONG,
            (false, WRONG_MAX) => 0,
            (false, _) => now + ONE_WRONG,
        };
        // Fails if another thread has replaced the entry meanwhile: reading a row takes a while.
        let _ = entry.compare_exchange(now, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;

    const FIRST: u64 = 700;

    fn hash(key: u64) -> u64 {
        key::hash_of_word(key)
    }

    /// A predictor trained with rows from 5 on for keys from [`FIRST`] on.
    fn filled(keys: u64) -> KeyPredictor<Native> {
        let (predictor, mut run) = (KeyPredictor::default(), KeyRun::default());
        for at in 0..keys {
            predictor.train(&mut run, hash(FIRST + at), RowId(5 + at));
        }
        predictor
    }

    #[test]
    fn rows_in_the_order_of_their_keys_are_found_over_all_blocks() {
        let predictor = filled(5 * BLOCK);
        for at in 0..5 * BLOCK {
            assert_eq!(predictor.predict(hash(FIRST + at)), Some(RowId(5 + at)), "{at}");
        }
        // The last block predicts a key that was not inserted yet; the next block predicts none.
        assert_eq!(predictor.predict(hash(FIRST + 5 * BLOCK)), Some(RowId(5 + 5 * BLOCK)));
        assert_eq!(predictor.predict(hash(FIRST + 6 * BLOCK)), None);
    }

    #[test]
    fn a_predictor_takes_memory_for_the_entries_that_it_has() {
        let predictor = filled(u64::from(RUN_MIN) + 1);
        let known = predictor.known.get().expect("there was a run");
        assert_eq!(known.lines.resident_bytes(), atoll_machine::page_bytes());
        assert_eq!(size_of_val(&*known.lines), 128 << 10);
    }

    #[test]
    fn nothing_is_remembered_of_a_few_rows_or_of_rows_in_another_order() {
        assert!(filled(u64::from(RUN_MIN)).known.get().is_none());
        assert!(filled(u64::from(RUN_MIN) + 1).known.get().is_some());
        let (predictor, mut run) = (KeyPredictor::<Native>::default(), KeyRun::default());
        for at in 0..1000 {
            predictor.train(&mut run, hash(at * 7 % 1000), RowId(at));
            predictor.train(&mut run, hash(2000 - at), RowId(5000 + at));
        }
        assert!(predictor.known.get().is_none());
    }

    #[test]
    fn a_block_is_dense_with_its_last_row_if_all_its_rows_are_of_one_run() {
        const ROWS: u64 = DENSE_ROWS;
        let predictor = KeyPredictor::<Native>::default();
        let mut marks = Vec::new();
        // The first run begins in the second slot of a segment, as if the first slot held key 0;
        // then two blocks with other keys follow, the first of which has no row in its last slot.
        let mut run = KeyRun::default();
        let mut train = |key, row| marks.extend(predictor.train(&mut run, hash(key), RowId(row)));
        (1..ROWS).for_each(|at| train(at, at));
        (0..ROWS - 1).for_each(|at| train(9000 + at, ROWS + at));
        (0..ROWS).for_each(|at| train(20_000 + at, 2 * ROWS + at));
        let whole = DenseMark::of(20_000, 1, RowId(2 * ROWS));
        assert_eq!(marks, [whole]);
        for at in 0..ROWS {
            let row = predictor.predict(hash(20_000 + at)).expect("it is of the run");
            assert_eq!(predictor.mark_of(20_000 + at, row), whole);
            assert_ne!(predictor.mark_of(20_001 + at, row), whole, "another key's row");
        }
        let row = predictor.predict(hash(9000)).expect("it is of a run");
        assert_ne!(predictor.mark_of(9000, row), whole);
    }

    #[test]
    fn keys_that_are_dealt_to_partitions_are_found_in_each() {
        for partitions in [2, 3, 8] {
            let predictor = KeyPredictor::<Native>::default();
            for partition in 0..partitions {
                let mut run = KeyRun::default();
                for at in 0..2 * BLOCK {
                    let row = RowId(10_000 * partition + at);
                    predictor.train(&mut run, hash(at * partitions + partition), row);
                }
            }
            for key in 0..2 * BLOCK * partitions {
                let row = RowId(10_000 * (key % partitions) + key / partitions);
                assert_eq!(
                    predictor.predict(hash(key)),
                    Some(row),
                    "{key} of {partitions} partitions"
                );
            }
            // Keys with another step do not train it.
            let mut run = KeyRun::default();
            for at in 0..1000 {
                let _ = predictor.train(&mut run, hash(at), RowId(90_000 + at));
            }
            assert_eq!(predictor.predict(hash(100 * partitions)), Some(RowId(100)));
        }
    }

    #[test]
    fn a_first_row_before_its_place_in_the_block_is_found() {
        let (predictor, mut run) = (KeyPredictor::<Native>::default(), KeyRun::default());
        for at in 0..200 {
            predictor.train(&mut run, hash(BLOCK + 900 + at), RowId(at));
        }
        assert_eq!(predictor.predict(hash(BLOCK + 900)), Some(RowId(0)));
        assert_eq!(predictor.predict(hash(2 * BLOCK + 70)), Some(RowId(194)));
        // The predicted row would be before the first row.
        assert!(predictor.predict(hash(BLOCK)).is_none_or(|row| row.0 > 1 << 40));
    }

    #[test]
    fn an_entry_that_is_wrong_too_often_is_forgotten_and_trained_again() {
        let predictor = filled(3 * BLOCK);
        let key = FIRST + BLOCK;
        for _ in 0..WRONG_MAX {
            predictor.mark_wrong(hash(key), |_, _| false);
            assert!(predictor.predict(hash(key)).is_some());
        }
        predictor.mark_wrong(hash(key), |_, _| false);
        assert_eq!(predictor.predict(hash(key)), None);
        assert!(predictor.predict(hash(key + BLOCK)).is_some(), "another block");
        predictor.mark_wrong(hash(key), |_, _| unreachable!("there is no entry"));
        assert_eq!(predictor.predict(hash(key)), None);
        let mut run = KeyRun::default();
        for at in 0..BLOCK {
            predictor.train(&mut run, hash(key + at), RowId(90_000 + at));
        }
        assert_eq!(predictor.predict(hash(key)), Some(RowId(90_000)));
    }

    #[test]
    fn what_is_wrong_of_a_few_keys_is_kept_and_what_is_wrong_of_most_is_forgotten() {
        let wrong = |word: u64, share: u64| key::mix(word) % 100 < share;
        for step in [1, 2, 3] {
            for (share, is_kept) in [(1, true), (20, true), (70, false), (100, false)] {
                let predictor = KeyPredictor::<Native>::default();
                let (first, row) = (7 * BLOCK * step, 5000);
                predictor.note(KeyRun { word: first, row, step, length: RUN_MIN });
                let keys = (0..50 * BLOCK).map(|at| first + at % BLOCK * step);
                for word in keys.filter(|word| wrong(*word, share)) {
                    predictor.mark_wrong(hash(word), |RowId(at), other| {
                        assert_ne!(other, word, "another key is checked");
                        assert_eq!(other, first + (at - row) * step, "of the same block");
                        !wrong(other, share)
                    });
                }
                let predict = predictor.predict(hash(first));
                assert_eq!(predict, is_kept.then_some(RowId(row)), "{share} %, step {step}");
            }
        }
    }

    #[test]
    fn one_key_that_is_looked_up_repeatedly_is_enough_to_decide() {
        // Several keys, since for a single one the checked keys may all happen to be wrong.
        for asked in FIRST + BLOCK..FIRST + BLOCK + 20 {
            for (wrong_percent, is_kept) in [(1, true), (90, false)] {
                let predictor = filled(3 * BLOCK);
                for _ in 0..1000 {
                    predictor
                        .mark_wrong(hash(asked), |_, other| key::mix(other) % 100 >= wrong_percent);
                }
                let predict = predictor.predict(hash(asked));
                assert_eq!(predict.is_some(), is_kept, "{asked}, {wrong_percent} %");
            }
        }
    }

    /// Stores entries for blocks by the words of their first keys; returns how many the predictor
    /// still has afterwards.
    fn known(step: u64, words: impl Iterator<Item = u64> + Clone) -> usize {
        let predictor = KeyPredictor::<Native>::default();
        for (word, row) in words.clone().zip(0..) {
            predictor.note(KeyRun { word, row: row * BLOCK, step, length: RUN_MIN });
        }
        let predictions = words.zip(0..).filter_map(|(word, row)| {
            let predict = predictor.predict(hash(word))?;
            assert_eq!(predict, RowId(row * BLOCK), "of {word}, step {step}");
            Some(predict)
        });
        predictions.count()
    }

    /// The first keys of blocks that are consecutive in each partition.
    fn side_by_side(step: u64, first: u64, blocks: u64) -> impl Iterator<Item = u64> + Clone {
        let in_each = first..first + blocks / step;
        in_each.flat_map(move |block| (0..step).map(move |rest| block * BLOCK * step + rest))
    }

    #[test]
    fn blocks_side_by_side_do_not_meet_for_as_long_as_there_is_room() {
        let room = (LINES * BESIDE) as u64;
        for step in [1, 2, 3, 4, 16] {
            for first in [0, 5, room - 3, 1 << 40] {
                let blocks = room * 3 / 8 / step * step;
                let found = known(step, side_by_side(step, first, blocks)) as u64;
                assert_eq!(found, blocks, "step {step}, from block {first} on");
                let found = known(step, side_by_side(step, first, room)) as u64;
                assert!(found > room * 5 / 8, "{found} of {room}, step {step}");
            }
        }
    }

    #[test]
    fn blocks_that_meet_do_not_take_each_others_rows() {
        let room = (LINES * BESIDE) as u64;
        // Twice as many blocks as there are entries.
        for step in [1, 2, 3, 16] {
            let found = known(step, side_by_side(step, 0, 2 * room / step * step)) as u64;
            assert!(found > room / 2, "{found}");
        }
        // Keys with many values of the first column, as of tenants, and a few thousand rows for
        // each.
        for shift in [16, 20, 24, 32] {
            let each = 1 << shift.min(13);
            let keys = (0..2 * room * BLOCK / each)
                .flat_map(|upper| (0..each / BLOCK).map(move |at| (upper << shift) | (at * BLOCK)));
            let found = known(1, keys) as u64;
            assert!(found > room / 2, "{found}, shift {shift}");
            let keys = (0..room * BLOCK / each / 8)
                .flat_map(|upper| (0..each / BLOCK).map(move |at| (upper << shift) | (at * BLOCK)));
            let found = known(1, keys) as u64;
            assert!(found > room / 16, "{found} of {}, shift {shift}", room / 8);
        }
    }
}
