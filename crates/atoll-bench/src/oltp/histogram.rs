//! Latency histograms: the buckets of hdrhistogram, with the exact sum and maximum beside them.
//!
//! To record a value takes no allocation; the histograms of several threads are added up.

use serde::Serialize;

/// Digits of a value that select its bucket: a percentile is at most 1 % too high.
const DIGITS: u8 = 2;
/// The greatest latency with a bucket, an hour in nanoseconds; longer ones are in the last bucket.
const BUCKETED_MAX: u64 = 3_600_000_000_000;

/// Counts of values by size.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
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

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_max(BUCKETED_MAX, DIGITS);
        Self { counts: counts.expect("the bounds are constants"), sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts.saturating_record(value);
        self.sum = self.sum.wrapping_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.counts += &other.counts;
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Clears all counts.
    pub fn clear(&mut self) {
        self.counts.reset();
        (self.sum, self.max) = (0, 0);
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The value at or below which the share `p` (0 to 1) of values is, by nearest rank: the end of
    /// its bucket, but at most the greatest value; 0 for an empty histogram.
    pub fn percentile(&self, p: f64) -> u64 {
        self.counts.value_at_quantile(p).min(self.max)
    }

    /// The percentiles of a report, for values in nanoseconds.
    pub fn latency(&self) -> Latency {
        let us = |p| self.percentile(p) as f64 / 1e3;
        Latency {
            p50: us(0.5),
            p99: us(0.99),
            p999: us(0.999),
            max: self.max as f64 / 1e3,
            mean: self.sum as f64 / 1e3 / self.count().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use crate::keys::Random;

    #[test]
    fn percentiles_are_within_one_percent_of_the_exact_ones() {
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
            assert!(off < 0.01, "p {p}: {} instead of {exact}", histogram.percentile(p));
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
