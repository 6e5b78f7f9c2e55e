//! Statements of two sessions of one database, from text to executor.
//!
//! The bytes of a fuzzer choose statements, grammatical ones (`grammar`) and ones with damage, and
//! values for their parameters. What must hold:
//! - Nothing panics, and no error shows the insides of a library.
//! - Every error has an SQLSTATE.
//! - What is committed changes by a statement that succeeds, and that leaves its session outside of
//!   a transaction; by no other.
//! - At the end no row is locked, every row is found by its primary key, every index has every row
//!   once, and no two rows have the same values in a unique index.

mod grammar;
pub mod insides;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use atoll::{Database, DatabaseOptions, Range, SchemeKind, Table, Value};
use atoll_sql::{Literal, QueryLimits, SqlError, SqlSession, set_query_limits};

const STATEMENTS_MAX: usize = 8;
/// Longest time of a statement; it is ended then.
const TIME_MAX: Duration = Duration::from_secs(1);
const MEMORY_BYTES: u64 = 64 << 20;

const TABLES: &str = "
    CREATE TABLE t (id bigint PRIMARY KEY, v int, name text, UNIQUE (name), INDEX by_v (v, id));
    CREATE TABLE every (
      a smallint, b int, c real, d double precision, e boolean, f date, g timestamp,
      h decimal(9,2), i text NOT NULL, j bytea, k binary(2), PRIMARY KEY (b, i), UNIQUE (h, f));
    CREATE TABLE hashed (id int, w bigint, PRIMARY KEY (id) USING HASH);
    INSERT INTO t VALUES (1, 10, 'a'), (2, 10, NULL), (3, NULL, 'c');
    INSERT INTO every VALUES
      (1, 1, 1.5, 0.1, true, '2000-02-29', '2013-01-01 05:00', 12.5, 'x', '\\x0a', '\\x0102'),
      (NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL, 'y', NULL, NULL);
    INSERT INTO hashed VALUES (1, 1), (2, NULL);";

/// Rows of each table, in the order of their texts.
type Contents = BTreeMap<String, Vec<String>>;

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    // After the last byte every choice is the first one.
    let _ = run_input(&mut input);
}

fn run_input(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (memory_bytes, spill_bytes) = (Some(MEMORY_BYTES), Some(MEMORY_BYTES));
    set_query_limits(QueryLimits { memory_bytes, spill_bytes, ..QueryLimits::default() });
    let scheme: SchemeKind = input.choose(&["no_wait", "dl_detect", "mvcc"])?.parse().unwrap();
    let lock_timeout = Duration::from_millis(1);
    let options = DatabaseOptions { scheme, lock_timeout, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let mut sessions = [(); 2].map(|()| SqlSession::on_database(db.clone()));
    for outcome in sessions[0].execute_script(TABLES) {
        outcome.unwrap();
    }
    let mut before = contents(&db);
    for _ in 0..STATEMENTS_MAX {
        if input.is_empty() {
            break;
        }
        let session = &mut sessions[usize::from(input.ratio(1, 3)?)];
        let sql = grammar::statement(input)?;
        let values = grammar::values(input, &sql)?;
        let succeeds = step(session, &sql, &values);
        let after = contents(&db);
        let may_change = succeeds && !session.in_transaction();
        assert!(may_change || after == before, "{sql} {values:?}: {before:?} became {after:?}");
        before = after;
    }
    drop(sessions);
    let found = contents(&db);
    assert_eq!(found, before, "the end of a session changes tables");
    db.tables().iter().for_each(|name| check(&db, &db.table(name).unwrap()));
    assert_eq!(contents(&db), before, "looking at tables changes them");
    Ok(())
}

/// Runs a statement; whether it succeeds.
fn step(session: &mut SqlSession, sql: &str, values: &[Literal]) -> bool {
    let end = Instant::now() + TIME_MAX;
    session.set_interrupt(Some(Arc::new(move || Instant::now() >= end)));
    let was_open = session.in_transaction();
    let outcome = session.execute_with(sql, values);
    let Err(error) = &outcome else { return true };
    check_error(error, sql);
    assert!(was_open || !session.in_transaction(), "{sql} fails and opens a transaction");
    false
}

fn check_error(error: &SqlError, sql: &str) {
    let state = error.sqlstate();
    let is_state = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    assert!(state.len() == 5 && state.chars().all(is_state), "{sql}: {error}: {state}");
    let said = format!("{} {}", error.message(), error.hint().unwrap_or_default());
    for word in insides::INSIDES {
        assert!(!said.contains(word) || sql.contains(word), "{sql}: {said}");
    }
    // An error can be shown, wherever its place is.
    let _ = error.render(sql);
}

/// What is committed.
fn contents(db: &Database) -> Contents {
    let snapshot = db.snapshot().unwrap();
    let options = FormatOptions::default().with_null("NULL");
    let rows = |name: &String| {
        let table = snapshot.table(name).unwrap();
        let columns: Vec<usize> = (0..table.schema().columns().len()).collect();
        let mut rows = Vec::new();
        for at in 0..table.segment_count() {
            let segment = table.segment(at).unwrap();
            let batch = segment.batch(&columns).unwrap();
            let shown: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
                .collect();
            let present = segment.presence();
            for row in 0..batch.num_rows() {
                if present.as_ref().is_none_or(|present| present.value(row)) {
                    let fields = shown.iter().map(|column| column.value(row).to_string());
                    rows.push(fields.collect::<Vec<_>>().join("|"));
                }
            }
        }
        rows.sort();
        (name.clone(), rows)
    };
    snapshot.tables().iter().map(rows).collect()
}

/// Checks that every row of a table is found by its keys, and that nothing holds it.
fn check(db: &Database, table: &Table) {
    let columns = table.schema().columns();
    let position = |name: &String| table.schema().position(name).unwrap();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    db.transaction(|tx| {
        rows.clear();
        let all = |row: &atoll::Row<'_>| (0..columns.len()).map(|at| row.value(at)).collect();
        tx.scan_table(table, all, |row: Vec<Value>| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        let key: Vec<usize> = table.schema().primary_key().to_vec();
        for row in &rows {
            let key: Vec<Value> = key.iter().map(|at| row[*at].clone()).collect();
            assert_eq!(tx.read(table, &key)?.as_ref(), Some(row), "{} {key:?}", table.name());
            assert!(tx.delete(table, &key)?, "{} {key:?}", table.name());
            tx.insert(table, row)?;
        }
        for spec in table.indexes() {
            let index = table.index(&spec.name).unwrap();
            let mut found = Vec::new();
            tx.scan(&index, Range::ALL, all, |row: Vec<Value>| {
                found.push(row);
                ControlFlow::Continue(())
            })?;
            let texts = |rows: &[Vec<Value>]| {
                let mut texts: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
                texts.sort();
                texts
            };
            assert_eq!(texts(&found), texts(&rows), "{} of {}", spec.name, table.name());
            if spec.unique {
                let at: Vec<usize> = spec.columns.iter().map(position).collect();
                let values = |row: &Vec<Value>| at.iter().map(|at| row[*at].clone()).collect();
                let full =
                    rows.iter().map(values).filter(|row: &Vec<_>| !row.contains(&Value::Null));
                let full: Vec<String> = full.map(|row| format!("{row:?}")).collect();
                let distinct: BTreeSet<&String> = full.iter().collect();
                assert_eq!(distinct.len(), full.len(), "{} of {}", spec.name, table.name());
            }
        }
        Ok(())
    })
    .unwrap();
}
