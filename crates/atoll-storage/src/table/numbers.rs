//! Numbers for the rows of a table without a primary key.
//!
//! The next number is kept in memory only. `NUMBERS-1`: it is greater than the number of every row
//! that the table has. The first call finds it: no zone is ever too narrow, so all rows that were
//! stored by then have numbers up to the greatest in the zones, and all later ones have theirs from
//! here.

use atoll_machine::{Machine, Ordering, Word};

use super::Table;
use crate::zone;

impl<M: Machine> Table<M> {
    /// Gives so many new rows their numbers, and returns the first. A thread that is inside the
    /// gate must not call this.
    pub fn number_rows(&self, count: u64) -> i64 {
        if self.next_number.load(Ordering::Acquire) == 0 {
            let next = self.greatest_number() + 1;
            // Another thread may have been faster, and have stored rows since.
            let _ = self.next_number.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
        }
        self.next_number.fetch_add(count, Ordering::Relaxed).cast_signed()
    }

    /// The greatest number that a row has had, or more.
    fn greatest_number(&self) -> u64 {
        let column = self.schema.columns().len() - 1;
        let mut member = self.memory().upkeep();
        let mut greatest = 0;
        for number in 0..self.segment_count() {
            let section = member.enter();
            if self.is_removed() {
                return greatest; // DROP-3
            }
            let segment = self.segments.get(number);
            let word = segment.map_or(zone::EMPTY_MAX, |one| self.barrier.greatest(one, column));
            greatest = greatest.max(zone::as_i64(word).max(0).cast_unsigned());
            drop(section);
        }
        greatest
    }
}
