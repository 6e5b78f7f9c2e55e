//! The bulk loads of a run. Each has a table of its own, and a transaction after it changes one of
//! the loaded rows and makes the load's entry in a journal. So the judge can tell whether a load is
//! there in part, and whether one is missing on which a transaction depends.

use std::sync::atomic::{AtomicU64, Ordering};

use atoll::load::{LoadOptions, RowSource, SegmentBuffer, Stopped};
use atoll::{
    Column, DataType, Database, Error, Result, SEGMENT_ROWS, Schema, Session, TableOptions, Value,
};

use super::scene::{TABLESPACES, Tables};
use atoll_bench::keys::Random;

/// In a journal entry, in place of the number of a table: the entry of a load.
pub const LOAD: i64 = -3;

/// The name of the table of a load.
fn name(id: i64) -> String {
    format!("loaded_{id}")
}

/// The rows of a load: a small segment, or two of which the first is full. Some are longer than a
/// block of the log.
fn rows(id: i64) -> i64 {
    if id % 4 == 0 { SEGMENT_ROWS as i64 + 100 } else { 200 }
}

/// The row that is changed after the load.
fn changed(id: i64) -> i64 {
    id * 31 % rows(id)
}

fn row(id: i64, key: i64) -> [Value; 2] {
    let text = match key % 3 {
        0 => Value::Null,
        1 => Value::Text(format!("{id}")),
        _ => Value::Text(format!("row {key} of load {id} {}", "z".repeat((key % 200) as usize))),
    };
    [Value::Int64(key), text]
}

fn change_of(id: i64) -> Value {
    Value::Text(format!("changed after load {id} had ended"))
}

struct Source {
    id: i64,
    next: AtomicU64,
}

impl RowSource for Source {
    fn next(&self, buffer: &mut SegmentBuffer) -> std::result::Result<Option<u64>, Stopped> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let first = number as i64 * SEGMENT_ROWS as i64;
        let keys = first..rows(self.id).min(first + SEGMENT_ROWS as i64);
        if keys.is_empty() {
            return Ok(None);
        }
        keys.for_each(|key| buffer.push(&row(self.id, key)));
        Ok(Some(number))
    }
}

/// Loads rows into a new table; then changes one of them and notes it, as the transaction `id`.
///
/// # Errors
/// Those of the database; it is unknown then what has committed.
///
/// # Panics
/// If a transaction has used the new table.
pub fn act(
    db: &Database,
    session: &mut Session,
    tables: &Tables,
    id: i64,
    random: &mut Random,
) -> Result<()> {
    let columns =
        vec![Column::new("id", DataType::Int64), Column::nullable("text", DataType::Text)];
    let tablespace = Some(random.below(TABLESPACES as u64) as u32);
    let options = TableOptions { tablespace, ..TableOptions::default() };
    let table = db.create_table_with(&name(id), Schema::new(columns, &["id"])?, &options)?;
    let source = Source { id, next: AtomicU64::new(0) };
    let loaded = db.load(&table, &source, LoadOptions { threads: Some(2), durability: None })?;
    assert_eq!(loaded, Some(rows(id) as u64), "no transaction has used the table");
    let journal = &tables.journals[random.below(TABLESPACES as u64) as usize];
    session.transaction(|tx| {
        tx.update(&table, &[Value::Int64(changed(id))], &[(1, change_of(id))])?;
        tx.insert(journal, &[id, LOAD, 0, 0, 0, -1, 0, 0].map(Value::Int64))
    })
}

/// Returns what is wrong with the load of a number, if anything. `is_noted` says whether the
/// journals have its entry.
///
/// # Errors
/// Those of the database.
pub fn wrong(db: &Database, id: i64, is_noted: bool) -> Result<Option<String>> {
    let table = match db.table(&name(id)) {
        Ok(table) => table,
        Err(Error::Storage(_)) if !is_noted => return Ok(None),
        Err(error) => return Err(error),
    };
    let there = db.snapshot()?.table(&name(id))?.row_count()? as i64;
    if there == 0 && !is_noted {
        return Ok(None);
    }
    if there != rows(id) {
        return Ok(Some(format!("load {id} has {there} of its {} rows", rows(id))));
    }
    let is_wrong = |key: i64, found: &[Value]| {
        let [key_value, text] = row(id, key);
        let text = if is_noted && key == changed(id) { change_of(id) } else { text };
        found != [key_value, text]
    };
    let bad = db.transaction(|tx| {
        for key in 0..rows(id) {
            let found = tx.read(&table, &[Value::Int64(key)])?;
            if found.as_deref().is_none_or(|found| is_wrong(key, found)) {
                return Ok(Some((key, found)));
            }
        }
        Ok(None)
    })?;
    Ok(bad.map(|(key, found)| format!("row {key} of load {id} is {found:?}")))
}
