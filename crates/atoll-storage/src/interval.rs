//! Spans of time.
//!
//! `INTERVAL-1`: as in PostgreSQL, months, days and the time of day are kept apart, since neither a
//! month nor a day has one length. Comparisons count a month as 30 days and a day as 24 hours, so
//! intervals with different parts may be equal. Keys follow this order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::data_type::DAY_MICROS;

/// Nanoseconds of a day.
const DAY_NANOS: i128 = DAY_MICROS as i128 * 1000;

/// A span of time, as Arrow's `Interval(MonthDayNano)` has it.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    /// Whole months.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// The rest, in nanoseconds.
    pub nanos: i64,
}

impl Interval {
    /// Its length in nanoseconds, by which intervals are compared.
    #[inline]
    pub fn span(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * DAY_NANOS + i128::from(self.nanos)
    }

    /// The interval of a length, in the form in which no part but the months exceeds the next;
    /// `None` if the months are out of range.
    pub fn of_span(span: i128) -> Option<Self> {
        let (days, nanos) = (span / DAY_NANOS, span % DAY_NANOS);
        let months = i32::try_from(days / 30).ok()?;
        Some(Self { months, days: (days % 30) as i32, nanos: nanos as i64 })
    }

    /// The bytes that a segment stores.
    #[inline]
    pub fn to_le_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.months.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.days.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanos.to_le_bytes());
        bytes
    }

    /// The interval of bytes that a segment stores.
    #[inline]
    pub fn from_le_bytes(bytes: [u8; 16]) -> Self {
        let word = i128::from_le_bytes(bytes);
        Self { months: word as i32, days: (word >> 32) as i32, nanos: (word >> 64) as i64 }
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.span() == other.span()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.span().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::Interval;

    #[test]
    fn a_month_is_as_long_as_thirty_days() {
        let of = |months, days, nanos| Interval { months, days, nanos };
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 1, 0), of(0, 0, 86_400_000_000_000));
        assert!(of(0, 31, 0) > of(1, 0, 0) && of(0, 0, -1) < of(0, 0, 0));
        for one in [of(-3, 40, -7), of(i32::MIN, i32::MAX, i64::MIN), of(0, 0, 0)] {
            let back = Interval::from_le_bytes(one.to_le_bytes());
            assert_eq!((back.months, back.days, back.nanos), (one.months, one.days, one.nanos));
        }
        let long = of(i32::MAX, i32::MAX, 0);
        assert_eq!(Interval::of_span(of(1, 31, -1).span()), Some(of(1, 31, -1)));
        assert!(Interval::of_span(long.span()).is_none());
    }
}
