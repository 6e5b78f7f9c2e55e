//! The judge: conditions that must hold for a database recovered after a crash.

use std::collections::{BTreeMap, BTreeSet};

use atoll::{Database, Result, Value};

use super::loads::{self, LOAD};
use super::scene::{ACCOUNTS, BALANCE, TABLESPACES, Tables, number};

/// Returns what is wrong, if anything. `acknowledged` are the transactions that were acknowledged,
/// `begun` is the greatest number of a transaction that began.
///
/// # Errors
/// Those of the database.
pub fn judge(db: &Database, acknowledged: &[u64], begun: i64) -> Result<Option<String>> {
    let tables = Tables::find(db)?;
    let found = db.transaction(|tx| {
        let mut found = Found::default();
        for id in 1..=begun {
            for journal in &tables.journals {
                if let Some(row) = tx.read(journal, &[Value::Int64(id)])? {
                    found.entries.push(row.iter().map(number).collect());
                }
            }
            for part in 0..5 {
                let marks = &tables.marks[(part % 2) as usize];
                if let Some(row) = tx.read(marks, &[Value::Int64(1000 + id * 10 + part)])? {
                    let is_dense = row[1] == Value::Text("y".repeat(70_000));
                    *found.large.entry(id).or_default() += i32::from(is_dense);
                }
            }
        }
        for table in 0..TABLESPACES {
            for account in 0..ACCOUNTS {
                let key = [Value::Int64(account)];
                let row = tx.read(&tables.accounts[table], &key)?;
                let row = row.map(|row| (number(&row[1]), number(&row[2])));
                found.accounts.insert((table as i64, account), row);
                let mark = tx.read(&tables.marks[table], &key)?;
                found.marks.insert((table as i64, account), mark.is_some());
            }
        }
        Ok(found)
    })?;
    if let Some(wrong) = found.wrong(acknowledged) {
        return Ok(Some(wrong));
    }
    for id in 1..=begun {
        let is_noted = found.entries.iter().any(|entry| entry[..2] == [id, LOAD]);
        if let Some(wrong) = loads::wrong(db, id, is_noted)? {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

#[derive(Default)]
struct Found {
    entries: Vec<Vec<i64>>,
    accounts: BTreeMap<(i64, i64), Option<(i64, i64)>>,
    marks: BTreeMap<(i64, i64), bool>,
    /// Number of parts that were found of each large transaction.
    large: BTreeMap<i64, i32>,
}

impl Found {
    fn wrong(&self, acknowledged: &[u64]) -> Option<String> {
        let there: BTreeSet<u64> = self.entries.iter().map(|entry| entry[0] as u64).collect();
        if there.len() != self.entries.len() {
            return Some("a transaction is there twice".to_owned());
        }
        if let Some(lost) = acknowledged.iter().find(|id| !there.contains(id)) {
            return Some(format!("transaction {lost} was acknowledged and is lost"));
        }
        let mut changes: BTreeMap<(i64, i64), Vec<(i64, i64)>> = BTreeMap::new();
        let mut turns: BTreeMap<(i64, i64), [i64; 2]> = BTreeMap::new();
        for entry in &self.entries {
            let [id, table_a, a, version_a, amount, table_b, b, version_b] = entry[..] else {
                return Some(format!("a journal entry of {} columns", entry.len()));
            };
            let account = self.accounts.get(&(table_a, a)).copied().flatten();
            if table_a >= 0 && amount == 0 && account.is_none_or(|(_, now)| now < version_a) {
                return Some(format!(
                    "transaction {id} has seen version {version_a} of account {table_a}/{a}, \
                     which is {account:?} now"
                ));
            }
            if table_a >= 0 && amount != 0 {
                changes.entry((table_a, a)).or_default().push((version_a, amount));
            }
            if (0..100).contains(&table_b) {
                changes.entry((table_b, b)).or_default().push((version_b, -amount));
            }
            if table_b >= 100 {
                turns.entry((table_b - 100, b)).or_default()[usize::from(version_b == 1)] += 1;
            }
            let parts = self.large.get(&id).copied().unwrap_or(0);
            if (table_a == -2) != (parts == 5) {
                return Some(format!("transaction {id} has {parts} of its 5 parts"));
            }
        }
        if let Some((id, _)) = self.large.iter().find(|(id, _)| !there.contains(&(**id as u64))) {
            return Some(format!("parts of transaction {id}, which is not there"));
        }
        for (place, account) in &self.accounts {
            let mut changes = changes.remove(place).unwrap_or_default();
            changes.sort_unstable();
            let Some((balance, version)) = *account else {
                return Some(format!("account {place:?} is gone"));
            };
            let versions = changes.iter().map(|(version, _)| *version);
            if !versions.eq(1..=version) {
                return Some(format!(
                    "account {place:?} has version {version}, and the changes {changes:?} are there"
                ));
            }
            let expected = BALANCE + changes.iter().map(|(_, amount)| amount).sum::<i64>();
            if balance != expected {
                return Some(format!("account {place:?} holds {balance} instead of {expected}"));
            }
        }
        for (place, is_there) in &self.marks {
            let [gone, come] = turns.remove(place).unwrap_or_default();
            if come - gone != i64::from(*is_there) {
                return Some(format!(
                    "mark {place:?} came {come} and went {gone} times, and is_there = {is_there}"
                ));
            }
        }
        None
    }
}
