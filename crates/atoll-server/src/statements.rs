//! What the runs of each statement came to, for `pg_stat_statements`.
//!
//! Statements that differ in literals and comments alone are one; so that a run costs little, they
//! are told by a number of 64 bits, as in PostgreSQL's extension.
//!
//! - `STATEMENTS-1`: at most [`STATEMENTS_MAX`] are kept; those that ran least go first.
//! - `STATEMENTS-2`: clients of different parts of the machine add to different lines of memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use atoll_sql::SystemStatement;

use crate::log::redact::{Redacted, hash_without_values};

const STATEMENTS_MAX: usize = 5000;
/// One of so many goes when there is no room for another.
const PARTS: usize = 20;
const SHARDS: usize = 8;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 2048;

/// Sums of the runs of a statement, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    calls: u64,
    errors: u64,
    rows: u64,
    total_ms: f64,
    squares_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

impl Sums {
    fn add(&mut self, took_ms: f64, rows: u64) {
        self.min_ms = if self.calls == 0 { took_ms } else { self.min_ms.min(took_ms) };
        self.max_ms = self.max_ms.max(took_ms);
        self.calls += 1;
        self.rows += rows;
        self.total_ms += took_ms;
        self.squares_ms += took_ms * took_ms;
    }

    fn and(self, other: Self) -> Self {
        let min_ms = match (self.calls, other.calls) {
            (0, _) => other.min_ms,
            (_, 0) => self.min_ms,
            _ => self.min_ms.min(other.min_ms),
        };
        Self {
            calls: self.calls + other.calls,
            errors: self.errors + other.errors,
            rows: self.rows + other.rows,
            total_ms: self.total_ms + other.total_ms,
            squares_ms: self.squares_ms + other.squares_ms,
            min_ms,
            max_ms: self.max_ms.max(other.max_ms),
        }
    }

    fn deviation_ms(&self) -> f64 {
        let calls = self.calls.max(1) as f64;
        let mean = self.total_ms / calls;
        (self.squares_ms / calls - mean * mean).max(0.0).sqrt()
    }
}

/// A cache line, or two that are fetched together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Sums>);

impl Shard {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        // Nothing under the lock panics halfway through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement, as the connections that run it have it.
#[derive(Debug)]
pub(crate) struct Totals {
    role: String,
    text: String,
    shards: [Shard; SHARDS],
}

impl Totals {
    /// A run of a client has ended: with so many rows, or with an error.
    pub(crate) fn add(&self, client: i32, took: Duration, rows: Option<u64>) {
        let at = client.unsigned_abs() as usize % SHARDS;
        let mut sums = self.shards[at].sums();
        match rows {
            Some(rows) => sums.add(took.as_secs_f64() * 1e3, rows),
            None => sums.errors += 1,
        }
    }

    fn sums(&self) -> Sums {
        self.shards.iter().map(|shard| *shard.sums()).fold(Sums::default(), Sums::and)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    hashes: RandomState,
    by_hash: RwLock<HashMap<u64, Arc<Totals>>>,
}

impl Statements {
    /// The totals of a statement of a role.
    pub(crate) fn of(&self, role: &str, sql: &str) -> Arc<Totals> {
        let mut hasher = self.hashes.build_hasher();
        role.hash(&mut hasher);
        hash_without_values(sql, &mut hasher);
        let hash = hasher.finish();
        let known = self.by_hash.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        known.unwrap_or_else(|| self.begin(hash, role, sql))
    }

    fn begin(&self, hash: u64, role: &str, sql: &str) -> Arc<Totals> {
        let mut text = Redacted::of(sql, false).text.trim().to_owned();
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        let mut all = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= STATEMENTS_MAX {
            let worth = |one: &Arc<Totals>| (is_held(one), one.sums().calls);
            let mut worths: Vec<_> = all.iter().map(|(hash, one)| (worth(one), *hash)).collect();
            worths.sort_unstable();
            for (_, hash) in worths.iter().take(STATEMENTS_MAX / PARTS) {
                all.remove(hash);
            }
        }
        let new = || Arc::new(Totals { role: role.to_owned(), text, shards: Default::default() });
        Arc::clone(all.entry(hash).or_insert_with(new))
    }

    /// As the view shows them.
    pub(crate) fn shown(&self) -> Vec<SystemStatement> {
        let all = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let shown = |one: &Arc<Totals>| {
            let sums = one.sums();
            SystemStatement {
                role: one.role.clone(),
                text: one.text.clone(),
                calls: sums.calls,
                errors: sums.errors,
                rows: sums.rows,
                total_ms: sums.total_ms,
                min_ms: sums.min_ms,
                max_ms: sums.max_ms,
                deviation_ms: sums.deviation_ms(),
            }
        };
        all.values().map(shown).filter(|one| one.calls + one.errors > 0).collect()
    }

    /// Counts all of them from nothing.
    pub(crate) fn forget(&self) {
        let mut all = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, one| {
            one.shards.iter().for_each(|shard| *shard.sums() = Sums::default());
            is_held(one)
        });
    }
}

/// Whether a connection has it, which counts on.
fn is_held(one: &Arc<Totals>) -> bool {
    Arc::strong_count(one) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn runs_of_all_clients_and_values_are_summed() {
        let all = Statements::default();
        for (client, sql) in [(1, "SELECT 1"), (2, "SELECT  /* x */ 27"), (11, "SELECT 1.5")] {
            all.of("ann", sql).add(client, MS * client as u32, Some(2));
        }
        all.of("ann", "SELECT 1").add(1, MS, None);
        all.of("bob", "SELECT 1").add(1, MS, Some(1));
        let mut shown = all.shown();
        shown.sort_by(|a, b| a.role.cmp(&b.role));
        assert_eq!(shown.len(), 2);
        let ann = &shown[0];
        assert_eq!((ann.text.as_str(), ann.calls, ann.errors, ann.rows), ("SELECT ?", 3, 1, 6));
        assert!((ann.total_ms - 14.0).abs() < 1e-9 && (ann.min_ms - 1.0).abs() < 1e-9);
        assert!(
            (ann.max_ms - 11.0).abs() < 1e-9 && (ann.deviation_ms - 4.496_912_521).abs() < 1e-6
        );
    }

    #[test]
    fn those_that_run_least_and_are_not_prepared_go_first() {
        let all = Statements::default();
        let prepared = all.of("ann", "SELECT a");
        let often = "SELECT b";
        for _ in 0..2 {
            all.of("ann", often).add(1, MS, Some(1));
        }
        for at in 0..STATEMENTS_MAX {
            all.of("ann", &format!("SELECT a{at}")).add(1, MS, Some(1));
        }
        assert!(all.shown().len() <= STATEMENTS_MAX);
        prepared.add(1, MS, Some(1));
        let is_shown = |text: &str| all.shown().iter().any(|one| one.text == text);
        assert!(is_shown("SELECT a") && is_shown(often));
        all.forget();
        assert!(all.shown().is_empty());
        prepared.add(1, MS, Some(1));
        assert_eq!(all.shown().len(), 1);
    }
}
