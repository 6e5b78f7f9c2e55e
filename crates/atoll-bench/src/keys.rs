//! Keys that a workload accesses: uniform, or skewed by Zipf's law, from a seed.
//!
//! Ranks of Zipf's law are drawn by rejection from an integral. The curve x^−θ is convex, so over
//! the unit around a rank k its area is at least k^−θ: draw a point under the curve, take the
//! nearest rank, and keep it when the point is in the last k^−θ of that rank's area. This needs no
//! table and no sum over all ranks, and less than 1.2 draws for one rank on average. Most points
//! are so far to the right in their rank's area that they are kept without computing it (Hörmann
//! and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! 1996).
//!
//! A permutation then scatters the ranks over the keys, so that popular rows are not adjacent.

/// The number of transactions, of `accesses` accesses each, that each thread draws before the
/// measurement and then runs again and again, so that drawing is not measured.
///
/// Two to sixteen threads together access as many rows as the usual table has. Fewer transactions
/// would measure something else: 16 Ki transactions of 16 accesses and two threads touch at most an
/// eighth of that table, about 150 MB with its index lines, and caches are as large.
pub fn drawn_by_each(threads: usize, accesses: usize) -> usize {
    let each = ((1 << 22) / threads.max(1)).clamp(1 << 18, 1 << 21);
    (each / accesses.max(1)).max(1)
}

/// Pseudo-random numbers: a counter through a strong mixing function.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; each seed gives another sequence.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `end`.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks 1 to n, rank k with a probability proportional to k^−θ.
#[derive(Debug, Clone)]
pub struct Zipf {
    ranks: u64,
    theta: f64,
    area_first: f64,
    area_all: f64,
    /// A point at most this far to the left of its rank is kept.
    sure: f64,
}

impl Zipf {
    /// The distribution over `ranks` (at least 1) with exponent `theta` (at least 0).
    pub fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf =
            Self { ranks: ranks.max(1), theta, area_first: 0.0, area_all: 0.0, sure: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_all = zipf.area(zipf.ranks as f64 + 0.5);
        // The left end of the kept part of rank 2; for greater ranks it is farther to the left.
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// Integral of x^−θ, up to a constant.
    fn area(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { x.ln() } else { x.powf(power) / power }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { area.exp() } else { (area * power).powf(1.0 / power) }
    }

    /// The next rank.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area_first + random.unit() * (self.area_all - self.area_first);
            let point = self.area_inverse(area);
            let rank = point.round().clamp(1.0, self.ranks as f64);
            let sure = rank - point <= self.sure;
            if sure || area >= self.area(rank + 0.5) - rank.powf(-self.theta) {
                return rank as u64;
            }
        }
    }
}

/// Keys 0 to n − 1.
#[derive(Debug, Clone)]
pub struct Keys {
    random: Random,
    count: u64,
    stride: u64,
    zipf: Option<Zipf>,
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Keys {
    /// Keys below `count` (at least 1); uniform for `theta` 0.
    pub fn new(count: u64, theta: f64, seed: u64) -> Self {
        let count = count.max(1);
        // A golden-section step visits every key once, and consecutive ranks are far apart.
        let golden = (count as f64 * 0.618_033_988_75) as u64;
        let is_permutation = |stride: &u64| greatest_common_divisor(*stride, count) == 1;
        let stride = (golden.max(1)..).find(is_permutation).unwrap_or(1);
        let zipf = (theta > 0.0).then(|| Zipf::new(count, theta));
        Self { random: Random::new(seed), count, stride, zipf }
    }

    /// The next key.
    #[inline]
    pub fn key(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.below(self.count),
            Some(zipf) => scatter(zipf.rank(&mut self.random) - 1, self.stride, self.count),
        }
    }
}

fn scatter(rank: u64, stride: u64, count: u64) -> u64 {
    match rank.checked_mul(stride) {
        Some(product) => product % count,
        None => (u128::from(rank) * u128::from(stride) % u128::from(count)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Random, Zipf, drawn_by_each, scatter};

    const DRAWS: u32 = 400_000;

    #[test]
    fn threads_draw_as_many_accesses_as_the_usual_table_has_rows() {
        for (threads, accesses) in [(2, 16), (4, 1), (16, 64)] {
            assert_eq!(drawn_by_each(threads, accesses) * accesses * threads, 4 << 20);
        }
        // One thread keeps as many as each of two, and each of many threads as many as each of 16.
        assert_eq!(drawn_by_each(1, 16), drawn_by_each(2, 16));
        assert_eq!(drawn_by_each(1000, 16), drawn_by_each(16, 16));
        assert_eq!(drawn_by_each(2, usize::MAX), 1);
    }

    #[test]
    fn ranks_come_as_often_as_zipfs_law_says() {
        for theta in [0.5, 0.8, 0.99, 1.0, 1.2] {
            let ranks = 1000;
            let (zipf, mut random) = (Zipf::new(ranks, theta), Random::new(7));
            let mut seen = vec![0u32; ranks as usize + 1];
            (0..DRAWS).for_each(|_| seen[zipf.rank(&mut random) as usize] += 1);
            assert_eq!(seen[0], 0);
            let all: f64 = (1..=ranks).map(|k| (k as f64).powf(-theta)).sum();
            for k in [1, 2, 3, 10, 100, 1000] {
                let expected = f64::from(DRAWS) * (k as f64).powf(-theta) / all;
                let off = (f64::from(seen[k as usize]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "theta {theta} rank {k}: {off}");
            }
        }
    }

    #[test]
    fn a_point_that_is_kept_unseen_would_be_kept_after_a_look() {
        for theta in [0.2, 0.6, 0.8, 0.99, 1.0, 1.7] {
            let zipf = Zipf::new(100_000, theta);
            for rank in [2, 3, 4, 10, 1000, 100_000].map(f64::from) {
                let area = zipf.area(rank - zipf.sure);
                let kept = zipf.area(rank + 0.5) - rank.powf(-theta);
                assert!(area >= kept - 1e-9 * kept.abs(), "theta {theta} rank {rank}");
            }
            assert!(zipf.sure > 0.3, "theta {theta}: most are kept unseen");
        }
    }

    #[test]
    fn uniform_keys_come_equally_often() {
        let mut keys = Keys::new(100, 0.0, 3);
        let mut seen = [0u32; 100];
        (0..DRAWS).for_each(|_| seen[keys.key() as usize] += 1);
        let expected = f64::from(DRAWS) / 100.0;
        assert!(seen.iter().all(|n| (f64::from(*n) - expected).abs() < 6.0 * expected.sqrt()));
    }

    #[test]
    fn popular_keys_are_scattered_and_every_key_can_come() {
        for count in [1u64, 2, 10, 8192, 100_003] {
            let stride = Keys::new(count, 0.8, 1).stride;
            let mut keys: Vec<u64> = (0..count).map(|rank| scatter(rank, stride, count)).collect();
            keys.sort_unstable();
            assert!(keys.iter().copied().eq(0..count), "{count} keys");
        }
        let stride = Keys::new(1 << 20, 0.8, 1).stride;
        let mut hot: Vec<u64> = (0..64).map(|rank| scatter(rank, stride, 1 << 20)).collect();
        hot.sort_unstable();
        assert!(hot.windows(2).all(|pair| pair[1] - pair[0] > 8192), "64 hot rows, 64 segments");
    }

    #[test]
    fn a_seed_gives_the_same_keys_again_and_another_seed_others() {
        let draw = |seed| {
            let mut keys = Keys::new(1 << 30, 0.8, seed);
            std::array::from_fn::<u64, 16, _>(|_| keys.key())
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
