//! The waits-for graph, from which transactions detect deadlocks without a latch.
//!
//! Each transaction has its own line, by its number, and writes to no other. Only transactions that
//! wait can be part of a deadlock. One that begins to wait shows in its line what it waits for and
//! what it holds. It then searches for a path from itself through the lines of other transactions
//! back to itself ("Staring into the Abyss", section 4.2: queues per thread, read by others without
//! locking).
//!
//! - `BOARD-1`: a transaction reads a line between two readings of its version, which is odd while
//!   the line is being written and changes with each wait. It discards what it has read if the
//!   version has changed.
//! - `BOARD-2`: all members of a cycle choose the same victim, the one that had the fewest locks
//!   when it began to wait, and a transaction only ever aborts itself. It may see a cycle that has
//!   just been broken; that costs an unnecessary abort.
//! - `BOARD-3`: before each search, the line of a transaction shows every place that it holds. A
//!   step that waits starts over, and may then be granted a place that it did not ask for before,
//!   such as a row that has come into a range.

use std::ops::Range;
use std::sync::OnceLock;

use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::key::mix;

use crate::scheme::Place;
use crate::scheme::TXNS_MAX;

/// Locks that a line has room for from the beginning, and further parts of it, each twice as large
/// as the one before, which are made when they are first needed.
const SHOWN: usize = 128;
const PARTS: usize = 9;
/// Locks that a line can show. A transaction with more is taken to hold whatever another one waits
/// for, so it may cause aborts without a deadlock, but no deadlock goes undetected.
const SHOWN_MAX: usize = SHOWN << PARTS;
/// Waiting transactions for which a [`Look`] has memory from the beginning.
const MET: usize = 16;

struct Line<M: Machine> {
    version: M::Word,
    target: M::Word,
    held: M::Word,
    /// Locks that it held when it began to wait.
    weight: M::Word,
    places: [M::Word; SHOWN],
    /// Part `n` has the places from `SHOWN << n` on.
    parts: [OnceLock<Box<[M::Word]>>; PARTS],
}

impl<M: Machine> Line<M> {
    /// The words for the places from here on, and how many there are.
    fn part(&self, at: usize) -> &[M::Word] {
        if at < SHOWN {
            return &self.places[at..];
        }
        let number = (at / SHOWN).ilog2() as usize;
        let begin = SHOWN << number;
        let make = || (0..begin).map(|_| M::Word::new(0)).collect();
        &self.parts[number].get_or_init(make)[at - begin..]
    }
}

/// See the module.
pub struct Board<M: Machine> {
    lines: Box<[OnceLock<Box<Line<M>>>]>,
    used: M::Word,
}

impl<M: Machine> Default for Board<M> {
    fn default() -> Self {
        Self { lines: (0..TXNS_MAX).map(|_| OnceLock::new()).collect(), used: M::Word::new(0) }
    }
}

/// A word that stands for a place; never 0, which means none.
fn code(place: Place) -> u64 {
    mix(place.number()).max(1)
}

/// What was read of a line.
#[derive(Debug)]
struct Waiting {
    number: usize,
    target: u64,
    held: u64,
    weight: u64,
    /// The range of its locks in [`Look::places`].
    places: Range<usize>,
}

/// Buffers for one search. Each number keeps its own, so that a search allocates nothing.
#[derive(Debug)]
pub struct Look {
    waiting: Vec<Waiting>,
    places: Vec<u64>,
    /// Positions in `waiting` on the path from the transaction that searches.
    path: Vec<usize>,
    seen: Vec<bool>,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            waiting: Vec::with_capacity(MET),
            places: Vec::with_capacity(MET * SHOWN),
            path: Vec::with_capacity(MET),
            seen: Vec::with_capacity(MET),
        }
    }
}

impl<M: Machine> Board<M> {
    fn line(&self, number: u32) -> &Line<M> {
        self.lines[number as usize].get_or_init(|| {
            Box::new(Line {
                version: M::Word::new(0),
                target: M::Word::new(0),
                held: M::Word::new(0),
                weight: M::Word::new(0),
                places: std::array::from_fn(|_| M::Word::new(0)),
                parts: std::array::from_fn(|_| OnceLock::new()),
            })
        })
    }

    /// Allocates the line of the transaction with this number.
    pub fn add(&self, number: u32) {
        self.line(number);
    }

    /// Shows that the transaction waits for `target` and holds these places.
    pub fn show(&self, number: u32, target: Place, held: impl Iterator<Item = Place>) {
        let line = self.line(number);
        let version = line.version.fetch_add(1, Ordering::AcqRel);
        debug_assert!(version.is_multiple_of(2), "no transaction shows two waits at a time");
        M::fence(Ordering::Release);
        let count = Self::show_places(line, held);
        line.weight.store(count, Ordering::Relaxed);
        line.target.store(code(target), Ordering::Relaxed);
        line.version.store(version + 2, Ordering::Release);
        let mut used = self.used.load(Ordering::Relaxed);
        while used <= number.into() {
            let wanted = u64::from(number) + 1;
            let grown =
                self.used.compare_exchange(used, wanted, Ordering::AcqRel, Ordering::Relaxed);
            used = grown.err().unwrap_or(wanted);
        }
    }

    /// Shows that the transaction, which waits, holds these places now (`BOARD-3`).
    pub fn show_again(&self, number: u32, held: impl Iterator<Item = Place>) {
        let line = self.line(number);
        let version = line.version.fetch_add(1, Ordering::AcqRel);
        M::fence(Ordering::Release);
        Self::show_places(line, held);
        line.version.store(version + 2, Ordering::Release);
    }

    /// Stores places into a line, and returns how many there are.
    fn show_places(line: &Line<M>, held: impl Iterator<Item = Place>) -> u64 {
        let mut count = 0;
        let mut words: &[M::Word] = &[];
        for place in held {
            if count < SHOWN_MAX {
                if words.is_empty() {
                    words = line.part(count);
                }
                if let Some((word, rest)) = words.split_first() {
                    word.store(code(place), Ordering::Relaxed);
                    words = rest;
                }
            }
            count += 1;
        }
        line.held.store(count as u64, Ordering::Relaxed);
        count as u64
    }

    /// Shows that the transaction does not wait any more.
    pub fn clear(&self, number: u32) {
        let line = self.line(number);
        line.version.fetch_add(1, Ordering::AcqRel);
        M::fence(Ordering::Release);
        line.target.store(0, Ordering::Relaxed);
        line.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Reads a line into `look`, if its transaction waits and the line does not change
    /// meanwhile.
    fn read(&self, number: usize, look: &mut Look) {
        let Some(line) = self.lines[number].get() else { return };
        let version = line.version.load(Ordering::Acquire);
        let target = line.target.load(Ordering::Relaxed);
        let held = line.held.load(Ordering::Relaxed);
        let weight = line.weight.load(Ordering::Relaxed);
        if version % 2 == 1 || target == 0 {
            return;
        }
        let from = look.places.len();
        let shown = (held as usize).min(SHOWN_MAX);
        while look.places.len() - from < shown {
            let begin = look.places.len() - from;
            let words = line.part(begin).iter().take(shown - begin);
            look.places.extend(words.map(|word| word.load(Ordering::Relaxed)));
        }
        M::fence(Ordering::Acquire);
        if line.version.load(Ordering::Relaxed) == version {
            let places = from..look.places.len();
            look.waiting.push(Waiting { number, target, held, weight, places });
        } else {
            look.places.truncate(from);
        }
    }

    /// Whether the transaction, which waits, is the victim of a deadlock.
    pub fn is_victim(&self, number: u32, look: &mut Look) -> bool {
        look.waiting.clear();
        look.places.clear();
        let used = self.used.load(Ordering::Acquire) as usize;
        (0..used).for_each(|at| self.read(at, look));
        let Some(start) = look.waiting.iter().position(|one| one.number == number as usize) else {
            return false;
        };
        if !look.finds_way_back(start) {
            return false;
        }
        let cycle = look.path.iter().map(|at| &look.waiting[*at]);
        let victim = cycle.min_by_key(|one| (one.weight, one.number));
        victim.is_some_and(|victim| victim.number == number as usize)
    }
}

impl Look {
    /// Whether there is a cycle through `start` in the waits-for graph; `path` is the cycle then.
    fn finds_way_back(&mut self, start: usize) -> bool {
        self.path.clear();
        self.path.push(start);
        self.seen.clear();
        self.seen.resize(self.waiting.len(), false);
        while let Some(at) = self.path.last().copied() {
            if at != start && self.is_next(at, start) {
                return true;
            }
            let next = (0..self.waiting.len())
                .find(|next| *next != start && !self.seen[*next] && self.is_next(at, *next));
            match next {
                Some(next) => {
                    self.seen[next] = true;
                    self.path.push(next);
                }
                None => {
                    self.path.pop();
                }
            }
        }
        false
    }

    /// Whether one transaction waits for a place that the other holds.
    fn is_next(&self, at: usize, other: usize) -> bool {
        let holder = &self.waiting[other];
        let held = &self.places[holder.places.clone()];
        let holds_all = holder.held as usize > SHOWN_MAX;
        other != at && (holds_all || held.contains(&self.waiting[at].target))
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use atoll_storage::TableId;

    use super::{Board, Look};
    use crate::scheme::Place;

    fn row(row: u64) -> Place {
        Place::row(TableId(0), row)
    }

    /// Which of these transactions are victims.
    fn victims<const N: usize>(board: &Board<Native>, numbers: [u32; N]) -> [bool; N] {
        let mut look = Look::default();
        numbers.map(|number| board.is_victim(number, &mut look))
    }

    #[test]
    fn one_member_of_a_cycle_is_its_victim_and_nobody_outside_it() {
        let board = Board::<Native>::default();
        board.show(0, row(2), [row(1), row(7), row(8)].into_iter());
        board.show(1, row(3), [row(2), row(9)].into_iter());
        assert_eq!(victims(&board, [0, 1, 2, 3]), [false; 4], "there is no cycle yet");
        board.show(2, row(1), [row(3), row(10), row(11)].into_iter());
        board.show(3, row(3), [row(20)].into_iter());
        assert_eq!(victims(&board, [0, 1, 2, 3]), [false, true, false, false]);
        board.clear(1);
        assert_eq!(victims(&board, [0, 1, 2, 3]), [false; 4]);
    }

    #[test]
    fn two_readers_that_both_want_to_write_are_a_deadlock() {
        // The first row of the first table is a place like any other.
        for place in [row(1), row(0)] {
            let board = Board::<Native>::default();
            board.show(4, place, [place].into_iter());
            assert_eq!(victims(&board, [4]), [false], "it does not wait for itself");
            board.show(9, place, [place].into_iter());
            assert_eq!(victims(&board, [4, 9]), [true, false]);
        }
    }

    #[test]
    fn a_deadlock_is_found_however_many_locks_its_members_have() {
        for many in [100, 129, 300, 5000, 70_000] {
            let board = Board::<Native>::default();
            let place = |at: u64| row(1000 + at);
            // Each holds the place that the other waits for as its last one.
            board.show(0, place(2 * many), (0..many).map(place));
            board.show(1, place(many - 1), (many..=2 * many).map(place));
            assert_eq!(victims(&board, [0, 1]), [true, false], "{many}");
            board.show(2, row(7), [row(8)].into_iter());
            assert_eq!(victims(&board, [2]), [false], "{many}");
            board.clear(0);
            assert_eq!(victims(&board, [1]), [false], "{many}");
        }
    }

    #[test]
    fn a_cycle_is_found_past_ways_that_lead_nowhere() {
        let board = Board::<Native>::default();
        // Worker 0 waits for what 1 and 3 hold together; only the way over 3 leads back.
        board.show(0, row(9), [row(1), row(5)].into_iter());
        board.show(1, row(2), [row(9), row(6), row(7)].into_iter());
        board.show(2, row(8), [row(2), row(6)].into_iter());
        board.show(3, row(1), [row(9)].into_iter());
        assert_eq!(victims(&board, [0, 1, 2, 3]), [false, false, false, true]);
    }
}
