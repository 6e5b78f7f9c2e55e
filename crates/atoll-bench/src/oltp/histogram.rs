//! Latency histograms: counts in buckets; the width of a bucket grows with its values.
//!
//! Values below 32 have a bucket each; every power of two above is divided into 32 buckets of equal
//! width, so a bucket is at most 1/32 (3.1 %) wide and its middle at most 1.6 % off. To record a
//! value takes one addition and no allocation; the histograms of several threads are added up.

use serde::Serialize;

/// Bits of a value that select its bucket within a power of two.
const SUB_BITS: u32 = 5;
/// Buckets of one power of two.
const SUB: u64 = 1 << SUB_BITS;
/// All buckets: those of single values, and those of each power of two above.
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// Counts of values by size.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u64,
    max: u64,
}

/// Latencies in a report, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the transactions took at most this.
    pub p50: f64,
    /// 99 of 100 at most this.
    pub p99: f64,
    /// 999 of 1000 at most this.
    pub p999: f64,
    /// The longest took this.
    pub max: f64,
    /// The average.
    pub mean: f64,
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = 63 - SUB_BITS - value.leading_zeros();
    (u64::from(shift + 1) * SUB + (value >> shift) % SUB) as usize
}

/// The smallest value of a bucket and how many values it holds.
fn bounds(bucket: usize) -> (u64, u64) {
    let (power, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if power == 0 { (sub, 1) } else { ((SUB + sub) << (power - 1), 1 << (power - 1)) }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Clears all counts.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.max) = (0, 0, 0);
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value at or below which the share `p` (0 to 1) of values is, by nearest rank: the middle
    /// of its bucket, but at most the greatest value; 0 for an empty histogram.
    pub fn percentile(&self, p: f64) -> u64 {
        let rank = ((p * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        if rank == self.count {
            return self.max;
        }
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let (low, width) = at.map_or((0, 1), bounds);
        (low + (width - 1) / 2).min(self.max)
    }

    /// The percentiles of a report, for values in nanoseconds.
    pub fn latency(&self) -> Latency {
        let us = |p| self.percentile(p) as f64 / 1e3;
        Latency {
            p50: us(0.5),
            p99: us(0.99),
            p999: us(0.999),
            max: self.max as f64 / 1e3,
            mean: self.sum as f64 / 1e3 / self.count.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, bounds, bucket};
    use crate::keys::Random;

    #[test]
    fn buckets_follow_each_other_without_a_gap_up_to_the_greatest_value() {
        let mut next = 0;
        for at in 0..BUCKETS {
            let (low, width) = bounds(at);
            assert_eq!(low, next, "bucket {at} begins where the one before ends");
            assert_eq!((bucket(low), bucket(low + (width - 1))), (at, at));
            assert!(width == 1 || width as f64 / low as f64 <= 1.0 / 32.0);
            next = low.wrapping_add(width);
        }
        assert_eq!(next, 0, "the last bucket ends with the greatest of all values");
    }

    #[test]
    fn percentiles_lie_within_two_percent_of_the_exact_ones() {
        let mut random = Random::new(11);
        // From 100 ns to 100 ms, evenly on a logarithmic scale.
        let draw = |random: &mut Random| (100.0 * 1e6f64.powf(random.unit())) as u64;
        let mut values: Vec<u64> = (0..100_000).map(|_| draw(&mut random)).collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        for p in [0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((p * values.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let off = (histogram.percentile(p) as f64 - exact).abs() / exact;
            assert!(off < 0.02, "p {p}: {} instead of {exact}", histogram.percentile(p));
        }
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64 / 1e3;
        assert!((histogram.latency().mean - mean).abs() < 1e-6 * mean);
    }

    #[test]
    fn merged_histograms_say_the_same_as_one_for_all() {
        let mut random = Random::new(5);
        let (mut one, mut parts) =
            (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for turn in 0..10_000 {
            let value = random.below(1 << 30);
            one.record(value);
            parts[turn % 2].record(value);
        }
        let [mut sum, other] = parts;
        sum.merge(&other);
        assert_eq!(sum.count(), one.count());
        assert_eq!(sum.latency(), one.latency());
        sum.clear();
        assert_eq!((sum.count(), sum.percentile(0.5)), (0, 0));
    }
}
