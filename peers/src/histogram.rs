//! Latencies in buckets that are at most 3 % wide, so that a run keeps no list of them.

const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) * STEPS as usize;

/// How many values fell where.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
}

/// Values below 32 have a bucket each; every power of two above has 32.
fn bucket_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket as f64;
    }
    let shift = bucket / STEPS - 1;
    let from = (bucket - shift * STEPS) << shift;
    from as f64 + (1u64 << shift) as f64 / 2.0
}

impl Histogram {
    /// Without values.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    /// Counts `value`.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
    }

    /// Counts what `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, more) in self.counts.iter_mut().zip(&other.counts) {
            *mine += more;
        }
    }

    /// The value at or below which the share `p` (0 to 1) lies, within 3 %; 0 without values.
    pub fn percentile(&self, p: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let rank = ((p * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, STEPS, bucket_of, middle_of};

    #[test]
    fn a_percentile_is_within_3_percent_of_the_exact_one() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(0.5), 0.0);
        (1..=1_000_000u64).for_each(|value| histogram.add(value));
        for p in [0.01, 0.5, 0.99, 0.999] {
            let exact = p * 1e6;
            let off = (histogram.percentile(p) / exact - 1.0).abs();
            assert!(off < 0.03, "{p}: {off}");
        }
    }

    #[test]
    fn every_value_has_a_bucket_that_it_lies_in() {
        let values = (0..64).map(|bit| 1u64 << bit).flat_map(|power| [power - 1, power, power + 1]);
        for value in values.chain([u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value}");
            let width = (value as f64 / STEPS as f64).max(1.0);
            assert!((middle_of(bucket) - value as f64).abs() <= width, "{value}");
        }
    }
}
