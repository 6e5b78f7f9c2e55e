//! The consistency check of the bank after a run.

use std::collections::BTreeMap;

use atoll::Snapshot;

use super::args::Operation;
use crate::error::BenchError;
use crate::oltp::{CheckReport, rows};

/// The results of the clients by their own count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Sum of the changes that committed.
    pub changed: i64,
    /// Transactions that committed.
    pub committed: u64,
}

/// Sums of one branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    branch: i64,
    tellers: i64,
    history: i64,
}

/// Checks a snapshot against the results of the clients.
///
/// # Errors
/// [`BenchError::Inconsistent`] with the wrong sum and its place.
pub fn check(
    snapshot: &Snapshot,
    operation: Operation,
    done: Done,
) -> Result<Vec<CheckReport>, BenchError> {
    let mut branches: BTreeMap<i64, Sums> = BTreeMap::new();
    let (mut accounts, mut added) = (0i64, 0u64);
    rows::for_each_present(snapshot, "branches", ["b_id", "b_balance"], |[branch, balance]| {
        branches.entry(branch).or_default().branch += balance;
    })?;
    rows::for_each_present(snapshot, "tellers", ["t_b_id", "t_balance"], |[branch, balance]| {
        branches.entry(branch).or_default().tellers += balance;
    })?;
    rows::for_each_present(snapshot, "accounts", ["a_balance"], |[balance]| accounts += balance)?;
    rows::for_each_present(snapshot, "history", ["h_b_id", "h_delta"], |[branch, delta]| {
        branches.entry(branch).or_default().history += delta;
        added += 1;
    })?;
    let writes = |operations: &[Operation]| operations.contains(&operation);
    let changed = if writes(&[Operation::Transfer, Operation::Update]) { done.changed } else { 0 };
    let expected =
        if writes(&[Operation::Transfer, Operation::Insert]) { done.committed } else { 0 };
    if accounts != changed {
        return Err(BenchError::Inconsistent(format!(
            "the accounts hold {accounts}, but the changes that committed add up to {changed}"
        )));
    }
    if added != expected {
        return Err(BenchError::Inconsistent(format!(
            "the history has {added} rows, but {expected} transactions that add one committed"
        )));
    }
    let mut names = vec![
        "accounts hold the sum of all changes that committed",
        "the history has a row for each transaction that added one",
    ];
    if operation != Operation::Insert {
        names.push("each branch holds what its tellers hold and its history says");
        let wrong = |sums: &Sums| sums.branch != sums.tellers || sums.branch != sums.history;
        if let Some((branch, sums)) = branches.iter().find(|(_, sums)| wrong(sums)) {
            return Err(BenchError::Inconsistent(format!(
                "branch {branch} holds {}, its tellers {}, and its history adds up to {}",
                sums.branch, sums.tellers, sums.history
            )));
        }
    }
    if operation == Operation::Transfer {
        names.push("the branches together hold what the accounts hold");
        let all: i64 = branches.values().map(|sums| sums.branch).sum();
        if all != accounts {
            return Err(BenchError::Inconsistent(format!(
                "the branches hold {all}, but the accounts {accounts}"
            )));
        }
    }
    let held = |name: &str| CheckReport { name: name.to_owned(), left_out: None };
    Ok(names.into_iter().map(held).collect())
}
