//! The consistency check of a peer's tables after a run, or after they were opened again.

use std::collections::BTreeMap;

use super::Engine;
use super::bank::{Shape, Table};
use crate::engine::PeerError;

/// The commits that clients had acknowledged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Sum of the changes.
    pub changed: i64,
    /// Transactions.
    pub committed: u64,
}

/// Sums of one branch: of its own balance, its tellers and its history.
type Sums = [i64; 3];

/// Checks the tables.
///
/// # Errors
/// [`PeerError::Inconsistent`] with the wrong sum and its place.
pub fn check(engine: &dyn Engine, shape: Shape, done: Done) -> Result<(), PeerError> {
    let wrong = |text| Err(PeerError::Inconsistent(text));
    let (mut accounts, mut rows) = (0, 0u64);
    engine.scan(Table::Accounts, &mut |_, balance| {
        accounts += balance;
        rows += 1;
    })?;
    let Done { changed, committed } = done;
    if accounts != changed {
        return wrong(format!(
            "the accounts hold {accounts}, but the changes that committed add up to {changed}"
        ));
    }
    let loaded = shape.keys(Table::Accounts).count() as u64;
    if rows != loaded {
        return wrong(format!("there are {rows} accounts, but {loaded} were loaded"));
    }
    if matches!(shape, Shape::Commit { .. }) {
        return Ok(());
    }
    let (mut branches, mut entries) = (BTreeMap::<u16, Sums>::new(), 0u64);
    for (at, table) in [Table::Branches, Table::Tellers, Table::History].into_iter().enumerate() {
        engine.scan(table, &mut |key, balance| {
            branches.entry(key.branch()).or_default()[at] += balance;
            entries += u64::from(table == Table::History);
        })?;
    }
    if entries != committed {
        return wrong(format!("the history has {entries} rows, but {committed} committed"));
    }
    let differ = |[branch, tellers, history]: Sums| branch != tellers || branch != history;
    if let Some((branch, sums)) = branches.iter().find(|(_, sums)| differ(**sums)) {
        let [own, tellers, history] = sums;
        return wrong(format!(
            "branch {branch} holds {own}, its tellers {tellers}, its history adds up to {history}"
        ));
    }
    let all: i64 = branches.values().map(|[own, ..]| own).sum();
    if all != accounts {
        return wrong(format!("the branches hold {all}, but the accounts {accounts}"));
    }
    Ok(())
}
