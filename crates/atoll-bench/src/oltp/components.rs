//! The time of the workers, split into the six components of "Staring into the Abyss".

use std::collections::BTreeMap;

use atoll::Accounting;
use serde::Serialize;

/// Shares of the time inside transactions; they add up to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Components {
    /// Work of transactions that committed.
    pub useful_work: f64,
    /// Attempts that were rolled back, without their timestamps and waits; the rollbacks
    /// themselves, and the pauses before the next attempts.
    pub abort: f64,
    /// Allocation of timestamps, in all attempts.
    pub ts_allocation: f64,
    /// Index lookups, latches included, of transactions that committed.
    pub index: f64,
    /// Waits for locks, or for a value that is not ready, in all attempts.
    pub wait: f64,
    /// Work of the scheme for transactions that committed: locks, validation, versions.
    pub manager: f64,
}

impl Components {
    /// The components between two readings of the accounts; `None` when nothing was added, because
    /// accounting is off or because so few transactions ran that none was sampled.
    pub fn between(before: &Accounting, after: &Accounting) -> Option<Self> {
        let of = |accounting: &Accounting, name| {
            let mut all = accounting.components_ns.iter();
            all.find(|(component, _)| *component == name).map_or(0, |(_, ns)| *ns)
        };
        let spent = |name| of(after, name).saturating_sub(of(before, name)) as f64;
        let names = ["useful_work", "abort", "ts_allocation", "index", "wait", "manager"];
        let all: f64 = names.into_iter().map(spent).sum();
        let share = |name| spent(name) / all;
        (all > 0.0).then(|| Self {
            useful_work: share("useful_work"),
            abort: share("abort"),
            ts_allocation: share("ts_allocation"),
            index: share("index"),
            wait: share("wait"),
            manager: share("manager"),
        })
    }

    /// Names and shares, in the order of "Staring into the Abyss".
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("useful work", self.useful_work),
            ("abort", self.abort),
            ("timestamps", self.ts_allocation),
            ("index", self.index),
            ("wait", self.wait),
            ("manager", self.manager),
        ]
    }
}

/// Attempts rolled back between two readings of the accounts, by reason; reasons that did not occur
/// are left out.
pub(crate) fn aborts_between(before: &Accounting, after: &Accounting) -> BTreeMap<String, u64> {
    let earlier: BTreeMap<&str, u64> = before.aborts.iter().copied().collect();
    let since = |(name, count): &(&'static str, u64)| {
        let before = earlier.get(name).copied().unwrap_or(0);
        (name.to_string(), count.saturating_sub(before))
    };
    after.aborts.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::{Components, aborts_between};
    use atoll::Accounting;

    fn accounting(useful: u64, index: u64, denied: u64) -> Accounting {
        let components_ns = vec![("useful_work", useful), ("index", index), ("wait", 5)];
        Accounting { commits: 1, aborts: vec![("denied", denied), ("cut", 1)], components_ns }
    }

    #[test]
    fn shares_are_of_what_was_spent_in_between() {
        let (before, after) = (accounting(100, 50, 3), accounting(400, 150, 10));
        let shares = Components::between(&before, &after).expect("something was spent");
        assert_eq!((shares.useful_work, shares.index, shares.wait), (0.75, 0.25, 0.0));
        assert_eq!(Components::between(&before, &before), None);
        let aborts = aborts_between(&before, &after);
        assert!(aborts.into_iter().eq([("denied".to_owned(), 7)]));
    }
}
