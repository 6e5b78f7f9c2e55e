//! Batches of prefetches: addresses are collected, then prefetched together.
//!
//! A prefetch that misses the TLB does not retire until the page walk has ended, and the
//! instructions behind it wait in the reorder buffer. If prefetches are spread over other code,
//! only a few page walks overlap. But a processor has few buffers for outstanding cache lines (some
//! 10 to 50), and may drop a prefetch that finds none free. So a few addresses are collected and
//! then prefetched one directly after the other.

use crate::machine::Machine;

/// Number of lines that are prefetched together. Measured: prefetching each line by itself makes a
/// transaction slower where the TLB misses; prefetching 256 together makes it slower everywhere.
const GATHERED_MAX: usize = 8;

/// Most lines of one place that are prefetched: more would evict the first ones.
const MOST_LINES: usize = 16;

/// Bytes of a line.
const LINE: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Hints {
    /// One address in each line; nothing is ever read there.
    lines: [usize; GATHERED_MAX],
    gathered: usize,
}

impl Hints {
    /// Sizes of a place that spans two or three cache lines, wherever it begins.
    pub const TWO_LINES: std::ops::RangeInclusive<usize> = LINE + 1..=2 * LINE + 1;

    /// Adds the line of an address.
    #[inline]
    pub fn add_line<M: Machine>(&mut self, address: *const u8) {
        self.lines::<1, M>([address.addr()]);
    }

    /// Adds a line, and a place with a size in [`Hints::TWO_LINES`].
    #[inline(always)]
    pub fn add_line_and_two<M: Machine>(
        &mut self,
        line: *const u8,
        address: *const u8,
        bytes: usize,
    ) {
        debug_assert!(Self::TWO_LINES.contains(&bytes));
        let (line, address) = (line.addr(), address.addr());
        let second = address.wrapping_add(LINE);
        self.lines::<4, M>([line, address, second, address.wrapping_add(bytes - 1)]);
    }

    /// Adds a place of `bytes` bytes.
    #[inline(always)]
    pub fn add<M: Machine>(&mut self, address: *const u8, bytes: usize) {
        let Some(last) = bytes.min(MOST_LINES * LINE).checked_sub(1) else { return };
        let address = address.addr();
        // Steps of a line, then the last byte, which may be one line further: the number of lines
        // depends on the address, and a branch on it would be mispredicted.
        if last < LINE {
            return self.lines::<2, M>([address, address.wrapping_add(last)]);
        }
        if last < 2 * LINE {
            let second = address.wrapping_add(LINE);
            return self.lines::<3, M>([address, second, address.wrapping_add(last)]);
        }
        for at in (0..last).step_by(LINE) {
            self.lines::<1, M>([address.wrapping_add(at)]);
        }
        self.lines::<1, M>([address.wrapping_add(last)]);
    }

    #[inline]
    fn lines<const N: usize, M: Machine>(&mut self, addresses: [usize; N]) {
        if self.gathered > GATHERED_MAX - N {
            self.give_some::<M>();
        }
        if let Some(room) = self.lines[self.gathered..].first_chunk_mut() {
            *room = addresses;
            self.gathered += N;
        }
    }

    /// As [`Hints::give`]. The most frequent case, a full batch, has a loop of constant length.
    #[inline]
    fn give_some<M: Machine>(&mut self) {
        if self.gathered < GATHERED_MAX {
            return self.give::<M>();
        }
        for address in self.lines {
            M::prefetch(std::ptr::without_provenance(address), 1);
        }
        self.gathered = 0;
    }

    /// Prefetches all collected lines; see [`Machine::prefetch`].
    #[inline]
    pub fn give<M: Machine>(&mut self) {
        for address in &self.lines[..self.gathered] {
            M::prefetch(std::ptr::without_provenance(*address), 1);
        }
        self.gathered = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::{GATHERED_MAX, Hints, LINE, MOST_LINES};
    use crate::{Machine, NativeWord};

    thread_local! {
        static TOUCHED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    struct Watched;

    impl Machine for Watched {
        type Word = NativeWord;
        fn now_ns() -> u64 {
            0
        }
        fn wait(_round: u32) {}
        fn prefetch(address: *const u8, bytes: usize) {
            assert_eq!(bytes, 1);
            TOUCHED.with_borrow_mut(|touched| touched.push(address.addr()));
        }
    }

    #[test]
    fn lines_are_named_in_order_however_many_they_are() {
        let mut hints = Hints::default();
        let all: Vec<usize> = (0..GATHERED_MAX * 2 + 3).map(|at| at * 64).collect();
        for address in &all {
            hints.add_line::<Watched>(std::ptr::without_provenance(*address));
        }
        hints.give::<Watched>();
        hints.give::<Watched>();
        assert_eq!(TOUCHED.take(), all);
    }

    #[test]
    fn every_line_of_a_place_is_named_wherever_it_begins_and_however_many_were_before() {
        for bytes in [0, 1, 2, 63, 64, 65, 100, 128, 129, 130, 500, 2000] {
            for begin in [64, 65, 100, 127] {
                for before in
                    [0, GATHERED_MAX - 4, GATHERED_MAX - 2, GATHERED_MAX - 1, GATHERED_MAX]
                {
                    let mut hints = Hints::default();
                    (0..before).for_each(|_| hints.add_line::<Watched>(std::ptr::null()));
                    hints.add::<Watched>(std::ptr::without_provenance(begin), bytes);
                    hints.give::<Watched>();
                    let touched = TOUCHED.take();
                    let lines: BTreeSet<usize> =
                        touched[before..].iter().map(|at| at / LINE).collect();
                    let end = begin + bytes.min(MOST_LINES * LINE);
                    let expected = if bytes == 0 { 0..0 } else { begin / LINE..end.div_ceil(LINE) };
                    assert_eq!(
                        lines,
                        expected.collect(),
                        "{bytes} bytes from {begin} after {before}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_line_is_named_before_the_two_or_three_of_a_place() {
        for bytes in Hints::TWO_LINES {
            for (begin, before) in (6400..6464).zip((0..=GATHERED_MAX).cycle()) {
                let mut hints = Hints::default();
                (0..before).for_each(|_| hints.add_line::<Watched>(std::ptr::null()));
                let address = std::ptr::without_provenance;
                hints.add_line_and_two::<Watched>(address(77), address(begin), bytes);
                hints.give::<Watched>();
                let touched = TOUCHED.take();
                assert_eq!(touched[before], 77);
                let lines: BTreeSet<usize> =
                    touched[before + 1..].iter().map(|at| at / LINE).collect();
                let expected = begin / LINE..(begin + bytes).div_ceil(LINE);
                assert_eq!(lines, expected.collect(), "{bytes} bytes from {begin}");
            }
        }
    }

    #[test]
    fn every_line_of_a_place_is_named_and_no_other() {
        for start in [0, 1, 60, 63] {
            for bytes in [0, 1, 2, 4, 5, 63, 64, 65, 100, 128, 129, 1024, 5000] {
                let mut hints = Hints::default();
                hints.add::<Watched>(std::ptr::without_provenance(6400 + start), bytes);
                hints.give::<Watched>();
                let lines: BTreeSet<usize> = TOUCHED.take().iter().map(|at| at / 64).collect();
                let touched = (6400 + start)..(6400 + start + bytes.min(1024));
                assert_eq!(lines, touched.map(|at| at / 64).collect(), "{bytes} from {start}");
            }
        }
    }
}
