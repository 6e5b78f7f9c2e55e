//! Percentiles and medians of measurements.

use serde::{Deserialize, Serialize};

/// Median and tail of a series, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the values are at most this.
    pub p50: f64,
    /// 99 of 100 values are at most this.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

/// The value at or below which the share `p` (0 to 1) of `values` is, by nearest rank; 0 for an
/// empty series.
pub fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (p * sorted.len() as f64).ceil() as usize;
    let at = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// The middle value, or the mean of the two middle values; 0 for an empty series.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => sorted[len / 2 - 1].midpoint(sorted[len / 2]),
    }
}

/// The spread of values in nanoseconds, as microseconds.
pub fn spread_us(nanoseconds: &[u64]) -> Spread {
    let us: Vec<f64> = nanoseconds.iter().map(|ns| *ns as f64 / 1e3).collect();
    Spread { p50: percentile(&us, 0.5), p99: percentile(&us, 0.99), max: percentile(&us, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::{median, percentile, spread_us};

    #[test]
    fn a_percentile_is_a_value_of_the_series() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 100.0);
        assert_eq!(percentile(&values, 0.99), 198.0);
        assert_eq!(percentile(&values, 1.0), 200.0);
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_spread_is_in_microseconds() {
        let spread = spread_us(&[1_000, 2_000, 30_000]);
        assert_eq!((spread.p50, spread.p99, spread.max), (2.0, 30.0, 30.0));
    }
}
