//! The partitions that a statement accesses, for schemes that lock them beforehand.
//!
//! `PARTITIONS-1`: what is found here is a guess that costs nothing but time if it is wrong: the
//! engine refuses a row of a partition that was not named, and the statement runs again with all.

use atoll::{Table, Value};

use super::change::{Cell, Change, Source, Verb};
use super::{Body, Prepared};
use crate::literal::Literal;
use crate::short::plan::Node;
use crate::short::scalar::Surroundings;

/// The partitions of the rows that a statement looks up or inserts by keys that are known before it
/// runs; `None` if it may access any.
pub(crate) fn of(
    prepared: &Prepared,
    around: &Surroundings,
    first_number: Option<i64>,
) -> Option<Vec<u32>> {
    if !prepared.subqueries.is_empty() || prepared.foreign().is_some() {
        return None;
    }
    let mut found = Vec::new();
    match &prepared.body {
        Body::Query(query) => of_node(&query.node, around, &mut found)?,
        Body::Change(change) => of_change(change, around, first_number, &mut found)?,
        Body::NotShort(_) => return None,
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        // No row has such a key. No partition at all would mean every one.
        found.push(0);
    }
    Some(found)
}

/// Gives numbers to the rows that a statement inserts into a table without a primary key, so that
/// their partitions are known, and returns the first; `None` if they get theirs as they are
/// inserted.
pub(crate) fn number_rows(prepared: &Prepared) -> Option<i64> {
    let Body::Change(change) = &prepared.body else { return None };
    match &change.verb {
        Verb::Insert { rows: Source::Written(rows), .. } if change.table.schema().is_keyless() => {
            Some(change.table.number_rows(rows.len()))
        }
        _ => None,
    }
}

fn of_change(
    change: &Change,
    around: &Surroundings,
    first_number: Option<i64>,
    found: &mut Vec<u32>,
) -> Option<()> {
    if let (Verb::Insert { rows: Source::Written(rows), .. }, Some(first)) =
        (&change.verb, first_number)
    {
        let numbers = (first..).take(rows.len());
        found.extend(numbers.map(|number| change.table.partition(&[Value::Int64(number)])));
        return Some(());
    }
    match &change.verb {
        Verb::Insert { rows: Source::Written(rows), .. } => {
            for row in rows {
                found.push(of_row(&change.table, row, around)?);
            }
            Some(())
        }
        Verb::Insert { rows: Source::Query(_), .. } | Verb::Copy(_) => None,
        Verb::Update(assignments) => of_node(&assignments.find, around, found),
        Verb::Delete { find, .. } => of_node(find, around, found),
    }
}

/// The partition of a row that is written out.
fn of_row(table: &Table, row: &[Cell], around: &Surroundings) -> Option<u32> {
    let first = *table.schema().primary_key().first()?;
    let value = match &row[first] {
        Cell::Value(value) => value.clone(),
        Cell::Scalar { scalar, from } => {
            let value = scalar.eval(&[], around).ok()?.into_owned();
            Literal::of(value, *from).into_column(table.schema(), first).ok()?
        }
    };
    (value != Value::Null).then(|| table.partition(&[value]))
}

fn of_node(node: &Node, around: &Surroundings, found: &mut Vec<u32>) -> Option<()> {
    let mut all_known = true;
    node.accesses(&mut |access| {
        all_known = all_known
            && match access.first_key_values(around) {
                Some(values) => {
                    let partition = |value| access.table.partition(&[value]);
                    found.extend(values.into_iter().map(partition));
                    true
                }
                None => false,
            };
    });
    all_known.then_some(())
}
