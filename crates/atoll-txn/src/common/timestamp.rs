//! Timestamps: unique, growing numbers from one of four sources.
//!
//! "Staring into the Abyss", section 4.3, compares them: a counter under a mutex, an atomic
//! counter, an atomic counter that gives out batches, and the CPU's clock joined with the number of
//! the transaction. (A counter in hardware exists on a simulated machine only.)
//!
//! - `TS-1`: no two timestamps are equal.
//! - `TS-2`: with a mutex, an atomic counter or a clock, a timestamp that is taken after another
//!   one was returned is greater. Batches do not guarantee this, but a transaction that calls
//!   [`Timestamps::discard`] gets a timestamp greater than all batches begun before.

use std::fmt;
use std::str::FromStr;

use atoll_machine::{Machine, Ordering, Word};

use super::lock::AGE_BITS;
use crate::scheme::TXNS_MAX;

/// Timestamps in a batch.
const BATCH: u64 = 16;
/// A timestamp of the clock has the transaction number in this many low bits, and the time in units
/// of 2^[`CLOCK_SHIFT`] ns above them.
const NUMBER_BITS: u32 = 11;
const _: () = assert!(TXNS_MAX <= 1 << NUMBER_BITS, "TS-1");
const CLOCK_SHIFT: u32 = 4;
/// The end of the clock's timestamps, after 104 days; a counter continues from there. A longer unit
/// would last longer, but one unit must not be long enough for two successive transactions
/// (`TS-2`).
const CLOCK_END: u64 = 1 << 60;

/// Where timestamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampKind {
    /// A counter under a mutex.
    Mutex,
    /// An atomic counter.
    #[default]
    Atomic,
    /// An atomic counter from which transactions take a batch at a time, by their numbers.
    Batched,
    /// The clock, joined with the transaction's number.
    Clock,
}

impl TimestampKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mutex, Self::Atomic, Self::Batched, Self::Clock];

    /// Its name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Atomic => "atomic",
            Self::Batched => "batched",
            Self::Clock => "clock",
        }
    }
}

impl fmt::Display for TimestampKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no source of timestamps has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are no timestamps \"{0}\"; choose mutex, atomic, batched or clock")]
pub struct UnknownTimestamps(String);

impl FromStr for TimestampKind {
    type Err = UnknownTimestamps;

    fn from_str(name: &str) -> Result<Self, UnknownTimestamps> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        kind.ok_or_else(|| UnknownTimestamps(name.to_owned()))
    }
}

/// A word with its own cache line, so that a contended counter slows down no other data.
#[repr(align(128))]
struct Line<W>(W);

/// A source of timestamps.
pub struct Timestamps<M: Machine> {
    kind: TimestampKind,
    counter: Line<M::Word>,
    mutex: Line<M::Word>,
    clock_zero: u64,
}

/// What the transactions with one number keep for their next timestamps.
#[derive(Debug, Clone, Copy)]
pub struct TimestampLocal {
    number: u64,
    next: u64,
    end: u64,
}

impl TimestampLocal {
    /// Creates the state of the transactions with this number.
    pub fn new(number: u32) -> Self {
        Self { number: number.into(), next: 0, end: 0 }
    }
}

impl<M: Machine> Timestamps<M> {
    /// Creates a source; its first timestamp is at least 2.
    pub fn new(kind: TimestampKind) -> Self {
        let line = |value| Line(M::Word::new(value));
        let first = if kind == TimestampKind::Clock { CLOCK_END } else { 2 };
        Self { kind, counter: line(first), mutex: line(0), clock_zero: M::now_ns() }
    }

    /// The next timestamp, below 2^61.
    #[inline]
    pub fn next(&self, local: &mut TimestampLocal) -> u64 {
        match self.kind {
            TimestampKind::Atomic => self.counter.0.fetch_add(1, Ordering::SeqCst),
            TimestampKind::Mutex => self.next_under_mutex(),
            TimestampKind::Batched => {
                if local.next == local.end {
                    local.next = self.counter.0.fetch_add(BATCH, Ordering::SeqCst);
                    local.end = local.next + BATCH;
                }
                local.next += 1;
                local.next - 1
            }
            TimestampKind::Clock => {
                let clock = (M::now_ns() - self.clock_zero) >> CLOCK_SHIFT;
                let now = (clock + 1) << NUMBER_BITS | local.number;
                // A second timestamp within a tick takes the next tick.
                let next = now.max(local.next + (1 << NUMBER_BITS));
                if next >= CLOCK_END {
                    return self.counter.0.fetch_add(1, Ordering::SeqCst);
                }
                local.next = next;
                next
            }
        }
    }

    /// A timestamp that is at least as great as all that were returned before; it may be one of
    /// them. (All timestamps of a batch that was begun count as returned.)
    pub fn newest(&self, local: &mut TimestampLocal) -> u64 {
        match self.kind {
            TimestampKind::Atomic | TimestampKind::Mutex => {
                self.counter.0.load(Ordering::SeqCst) - 1
            }
            TimestampKind::Batched => {
                self.discard(local);
                self.next(local)
            }
            TimestampKind::Clock => self.next(local),
        }
    }

    /// Prefetches the counter, since the caller is going to take a timestamp soon.
    #[inline]
    pub fn expect(&self) {
        if self.kind == TimestampKind::Atomic {
            M::prefetch_to_write(std::ptr::from_ref(&self.counter).cast());
        }
    }

    fn next_under_mutex(&self) -> u64 {
        let mut round = 0;
        while self.mutex.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::wait(round);
            round += 1;
        }
        let now = self.counter.0.load(Ordering::Relaxed);
        // `Release`, since `newest` reads the counter without the mutex.
        self.counter.0.store(now + 1, Ordering::Release);
        self.mutex.0.store(0, Ordering::Release);
        now
    }

    /// Discards the rest of the batch.
    pub fn discard(&self, local: &mut TimestampLocal) {
        if self.kind == TimestampKind::Batched {
            local.next = local.end;
        }
    }

    /// The age of a lock for a timestamp, see [`super::lock`]. Close timestamps may become equal.
    #[inline]
    pub fn age(&self, timestamp: u64) -> u64 {
        match self.kind {
            TimestampKind::Clock => timestamp >> (62 - AGE_BITS),
            _ => timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::sync::Mutex;

    use atoll_machine::{Machine, Native, NativeWord};

    use super::{CLOCK_END, TimestampKind, TimestampLocal, Timestamps};

    #[test]
    fn no_two_timestamps_are_equal_and_those_of_one_worker_grow() {
        for kind in TimestampKind::ALL {
            let source = Timestamps::<Native>::new(kind);
            let all = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for number in 0..4 {
                    let (source, all) = (&source, &all);
                    scope.spawn(move || {
                        let mut local = TimestampLocal::new(number);
                        let mine: Vec<u64> = (0..5000).map(|_| source.next(&mut local)).collect();
                        assert!(mine.is_sorted(), "{kind}");
                        all.lock().expect("no thread panics").extend(mine);
                    });
                }
            });
            let all = all.into_inner().expect("no thread panics");
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), 4 * 5000, "{kind}");
            assert!(all.iter().all(|timestamp| *timestamp > 1 && *timestamp < 1 << 62));
        }
    }

    #[test]
    fn a_worker_that_discards_its_batch_is_later_than_every_batch_begun() {
        for kind in TimestampKind::ALL {
            let source = Timestamps::<Native>::new(kind);
            let [mut one, mut two] = [1, 2].map(TimestampLocal::new);
            source.next(&mut one);
            let other = source.next(&mut two);
            source.discard(&mut one);
            assert!(source.next(&mut one) > other, "{kind}");
        }
    }

    #[test]
    fn the_newest_timestamp_is_not_below_any_that_somebody_has_and_below_all_that_come() {
        for kind in TimestampKind::ALL {
            let source = Timestamps::<Native>::new(kind);
            let [mut one, mut two] = [1, 2].map(TimestampLocal::new);
            for _ in 0..40 {
                let taken = [source.next(&mut one), source.next(&mut two), source.next(&mut two)];
                // Within a tick of the clock, those of different transactions are in no order.
                let begin = Native::now_ns();
                while Native::now_ns() < begin + 100 {}
                let newest = source.newest(&mut one);
                assert!(taken.iter().all(|timestamp| *timestamp <= newest), "{kind}");
                assert!(source.next(&mut one) > newest, "{kind}");
            }
        }
    }

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(7) };
    }

    /// A machine with a clock that the test sets.
    struct Ageing;

    impl Machine for Ageing {
        type Word = NativeWord;
        fn now_ns() -> u64 {
            NOW.get()
        }
        fn wait(_round: u32) {}
        fn prefetch(_address: *const u8, _bytes: usize) {}
    }

    #[test]
    fn timestamps_of_a_clock_grow_and_fit_for_as_long_as_anybody_lives() {
        let source = Timestamps::<Ageing>::new(TimestampKind::Clock);
        let mut locals = [3, 2047, 0].map(TimestampLocal::new);
        let (mut last, mut clocked) = (0, 0);
        // Every power of two of nanoseconds up to 292 years, and the moment when the clock ends.
        let end = (CLOCK_END >> 11) << 4;
        let around = (end - 64..end + 64).step_by(16);
        let mut moments: Vec<u64> = (6..63).map(|bits| 1 << bits).chain(around).collect();
        moments.sort_unstable();
        for moment in moments {
            NOW.set(7 + moment);
            for local in &mut locals {
                // In one tick those of a transaction with a smaller number may be smaller.
                NOW.set(NOW.get() + 16);
                for _ in 0..3 {
                    let next = source.next(local);
                    assert!(next < 1 << 61, "{moment}");
                    clocked += u64::from(next < CLOCK_END);
                }
                let next = source.next(local);
                assert!(next > last || next < CLOCK_END && local.number == 0, "{moment}");
                last = last.max(next);
            }
        }
        assert!(clocked > 100 && last >= CLOCK_END);
    }
}
