//! The choice of keys for a transaction.
//!
//! Without partitions, each key is drawn from all rows. With partitions, all keys of a transaction
//! are in the partition of its thread, or, for a given share of the transactions, are spread evenly
//! over several partitions, of which the thread's own is the first; within a partition the keys are
//! skewed in the same way. A key may be drawn twice for one transaction: "Staring into the Abyss"
//! does not exclude it, and a transaction that reads and then updates a row is nothing unusual.

use crate::keys::{Keys, Random};

/// The distribution of rows over partitions: key k is in partition k modulo their number, which is
/// how the database distributes integers.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Number of rows.
    pub rows: u64,
    /// Number of partitions.
    pub partitions: u32,
}

impl Layout {
    /// Number of rows that every partition has at least.
    fn least(self) -> u64 {
        self.rows / u64::from(self.partitions)
    }

    /// The key at a position of a partition.
    #[inline]
    fn key(self, partition: u32, position: u64) -> u64 {
        position * u64::from(self.partitions) + u64::from(partition)
    }

    /// Batch number `number` of at most `size` keys, all of one partition; for filling the table.
    pub fn batch(self, size: u64, number: u64) -> impl Iterator<Item = u64> + Clone {
        let partitions = u64::from(self.partitions);
        let (partition, turn) = ((number % partitions) as u32, number / partitions);
        let keys = (turn * size..(turn + 1) * size).map(move |at| self.key(partition, at));
        keys.take_while(move |key| *key < self.rows)
    }

    /// The number of batches of at most `size` keys that cover all rows.
    pub fn batches(self, size: u64) -> u64 {
        let partitions = u64::from(self.partitions);
        self.rows.div_ceil(partitions).div_ceil(size) * partitions
    }
}

/// How transactions spread over several partitions.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The partition of the thread.
    pub home: u32,
    /// Share of the transactions over several partitions.
    pub multi: f64,
    /// Number of partitions of such a transaction.
    pub per_transaction: u32,
}

/// Draws the keys of one transaction after the other.
#[derive(Debug, Clone)]
pub struct Choice {
    keys: Keys,
    random: Random,
    partitioned: Option<(Layout, Spread)>,
    chosen: Vec<u32>,
}

impl Choice {
    /// Draws from the keys of all rows, skewed by `theta`; by partition if `spread` is given,
    /// unless there are more partitions than rows.
    pub fn new(layout: Layout, theta: f64, seed: u64, spread: Option<Spread>) -> Self {
        let spread = spread.filter(|_| layout.least() > 0);
        let count = spread.map_or(layout.rows, |_| layout.least());
        let random = Random::new(seed ^ 0x5bd1_e995_0000_0000);
        let keys = Keys::new(count, theta, seed);
        let partitioned = spread.map(|spread| (layout, spread));
        Self { keys, random, partitioned, chosen: Vec::new() }
    }

    /// Begins a transaction: chooses its partitions.
    pub fn begin(&mut self) {
        let Some((layout, spread)) = self.partitioned else { return };
        self.chosen.clear();
        self.chosen.push(spread.home);
        if spread.multi == 0.0 || self.random.unit() >= spread.multi {
            return;
        }
        let wanted = spread.per_transaction.min(layout.partitions) as usize;
        while self.chosen.len() < wanted {
            let other = self.random.below(layout.partitions.into()) as u32;
            if !self.chosen.contains(&other) {
                self.chosen.push(other);
            }
        }
    }

    /// The key of access number `access` of `accesses`.
    #[inline]
    pub fn key(&mut self, access: usize, accesses: usize) -> u64 {
        let position = self.keys.key();
        match self.partitioned {
            None => position,
            Some((layout, _)) => {
                layout.key(self.chosen[access * self.chosen.len() / accesses.max(1)], position)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Layout, Spread};
    use std::collections::BTreeSet;

    #[test]
    fn a_transaction_of_one_partition_stays_in_the_partition_of_its_thread() {
        let layout = Layout { rows: 1003, partitions: 4 };
        let spread = Spread { home: 2, multi: 0.0, per_transaction: 3 };
        let mut choice = Choice::new(layout, 0.6, 1, Some(spread));
        let mut seen = BTreeSet::new();
        for _ in 0..10_000 {
            choice.begin();
            let drawn = choice.key(0, 1);
            assert!(drawn < 1003 && drawn % 4 == 2, "{drawn}");
            seen.insert(drawn);
        }
        assert_eq!(seen.len(), 250, "every key of the partition comes");
    }

    #[test]
    fn the_given_share_of_transactions_has_keys_in_so_many_partitions() {
        let layout = Layout { rows: 10_000, partitions: 8 };
        let spread = Spread { home: 5, multi: 0.25, per_transaction: 3 };
        let mut choice = Choice::new(layout, 0.0, 9, Some(spread));
        let mut several = 0;
        for _ in 0..4000 {
            choice.begin();
            let seen: BTreeSet<u64> = (0..16).map(|access| choice.key(access, 16) % 8).collect();
            assert!(seen.contains(&5) && (seen.len() == 1 || seen.len() == 3), "{seen:?}");
            several += usize::from(seen.len() == 3);
        }
        assert!((900..1100).contains(&several), "{several} of 4000");
    }

    #[test]
    fn batches_cover_every_key_once_and_stay_in_their_partition() {
        for partitions in [1, 3, 8] {
            let layout = Layout { rows: 1000, partitions };
            let mut seen = Vec::new();
            for number in 0..layout.batches(64) {
                let batch: Vec<u64> = layout.batch(64, number).collect();
                assert!(batch.len() <= 64);
                let partition = number % u64::from(partitions);
                assert!(batch.iter().all(|key| key % u64::from(partitions) == partition));
                seen.extend(batch);
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..1000));
        }
    }
}
