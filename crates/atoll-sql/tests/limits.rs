//! What queries may take, and statements that are ended.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Value};
use atoll_sql::{Outcome, QueryLimits, QueryResult, SqlErrorKind, SqlSession, set_query_limits};

const ROWS: i64 = 400_000;

/// The limits are the process's, so tests take turns.
struct Turn {
    _turn: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
}

impl Turn {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _turn, folder: tempfile::tempdir().unwrap() }
    }

    fn limit(&self, memory_bytes: u64, spill_bytes: Option<u64>) {
        let spill_folder = Some(self.folder.path().to_owned());
        set_query_limits(QueryLimits {
            memory_bytes: Some(memory_bytes),
            spill_bytes,
            spill_folder,
        });
    }

    /// The folder of spill files.
    fn spilled(&self) -> PathBuf {
        let found = fs::read_dir(self.folder.path()).unwrap().next().unwrap();
        found.unwrap().path()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        set_query_limits(QueryLimits::default());
    }
}

/// A session on a table `t` of keys and numbers in disorder, 400,000 each, and an empty one, `u`.
fn session() -> SqlSession {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    for name in ["t", "u"] {
        let columns = ["id", "v"].map(|name| Column::new(name, DataType::Int64)).to_vec();
        db.create_table(name, Schema::new(columns, &["id"]).unwrap()).unwrap();
    }
    let (table, mut transaction) = (db.table("t").unwrap(), db.begin().unwrap());
    for id in 0..ROWS {
        let row = [Value::Int64(id), Value::Int64(id * 7919 % ROWS)];
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    SqlSession::on_database(db)
}

fn query(session: &mut SqlSession, sql: &str) -> QueryResult {
    match session.execute(sql) {
        Ok(Outcome::Rows(rows)) => rows,
        Ok(_) => panic!("{sql} returned no rows"),
        Err(error) => panic!("{}", error.render(sql)),
    }
}

/// The only value of a query.
fn number(session: &mut SqlSession, sql: &str) -> i64 {
    let rows = query(session, sql);
    rows.batches()[0].column(0).as_primitive::<arrow_array::types::Int64Type>().value(0)
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Rows that stand behind a row of the same or a larger number: none of what is sorted.
const OUT_OF_ORDER: &str = "SELECT count(*) FROM (SELECT v, lag(v) OVER (ORDER BY v) AS before \
                            FROM (SELECT v, id, id + 1 AS a, id + 2 AS b FROM t)) \
                            WHERE before >= v";
const GROUPS: &str = "SELECT count(*) FROM (SELECT v, min(id) AS a, max(id) AS b, count(*) AS c \
                      FROM t GROUP BY v) WHERE a = b AND c = 1";

#[test]
fn what_does_not_fit_the_memory_is_spilled_and_the_answer_is_right() {
    let turn = Turn::new();
    let mut session = session();
    for (sql, wanted) in [(OUT_OF_ORDER, 0), (GROUPS, ROWS)] {
        // It does not fit, and may not spill.
        turn.limit(12 << 20, Some(4096));
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::OutOfMemory, "{error}");
        assert!(error.message().contains("4 KiB that spill files"), "{error}");
        assert!(error.hint().unwrap().contains("--spill-limit"));
        turn.limit(12 << 20, None);
        assert_eq!(number(&mut session, sql), wanted);
        assert_eq!(fs::metadata(turn.spilled()).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(entries(&turn.spilled()), 0);
    }
}

#[test]
fn what_a_killed_process_has_left_goes_before_the_first_spill() {
    let turn = Turn::new();
    let mut session = session();
    turn.limit(12 << 20, None);
    assert_eq!(number(&mut session, OUT_OF_ORDER), 0);
    fs::write(turn.spilled().join("left"), "over").unwrap();
    // As in a process that begins.
    turn.limit(12 << 20, None);
    assert_eq!(number(&mut session, OUT_OF_ORDER), 0);
    assert_eq!(entries(&turn.spilled()), 0);
}

#[test]
fn a_result_that_does_not_fit_is_an_error_that_names_the_limit() {
    let turn = Turn::new();
    let mut session = session();
    turn.limit(16 << 20, None);
    for sql in [
        "SELECT a.v + 1, b.v + 1 FROM t a, t b",
        "SELECT id + 1 AS a, v + 1 AS b, id + 2 AS c, v + 2 AS d, id + 3 AS e, v + 3 AS f FROM t",
        "SELECT generate_series FROM generate_series(1, 1000000000)",
    ] {
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::OutOfMemory, "{error}");
        assert!(error.message().contains("query memory, 16 MiB"), "{error}");
        assert!(error.hint().unwrap().contains("--query-memory"));
        assert_eq!(number(&mut session, "SELECT count(*) FROM t"), ROWS);
    }
}

#[test]
fn rows_that_wait_for_their_consumer_count_and_those_in_the_store_do_not() {
    let turn = Turn::new();
    let mut session = session();
    turn.limit(8 << 20, None);
    let stored = query(&mut session, "SELECT * FROM t");
    assert_eq!((stored.row_count() as i64, stored.memory().unwrap().bytes()), (ROWS, 0));
    let waiting = query(&mut session, "SELECT id + 1 AS a, v + 1 AS b FROM t");
    let bytes = waiting.memory().unwrap().bytes() as i64;
    assert!((16 * ROWS..24 * ROWS).contains(&bytes), "{bytes}");
    let again = "SELECT v + 2 AS a FROM t";
    let error = session.execute(again).unwrap_err();
    assert!(error.message().contains("rows that the query returns"), "{error}");
    let memory = waiting.memory();
    let batches = waiting.into_batches();
    assert!(session.execute(again).is_err());
    drop((memory, batches));
    assert_eq!(query(&mut session, again).row_count() as i64, ROWS);
}

#[test]
fn rows_of_a_query_that_are_to_be_inserted_count() {
    let turn = Turn::new();
    let mut session = session();
    turn.limit(16 << 20, None);
    let insert = "INSERT INTO u SELECT id, v FROM t";
    let error = session.execute(insert).unwrap_err();
    assert!(error.message().contains("rows to be inserted"), "{error}");
    assert_eq!(number(&mut session, "SELECT count(*) FROM u"), 0);
    turn.limit(256 << 20, None);
    assert_eq!(session.execute(insert).unwrap().row_count() as i64, ROWS);
}

/// Ends the next statement when it has been asked so often.
fn end_after(session: &mut SqlSession, times: u32) {
    let asked = AtomicU32::new(0);
    session.set_interrupt(Some(Arc::new(move || asked.fetch_add(1, Ordering::Relaxed) == times)));
}

#[test]
fn a_statement_that_is_ended_leaves_the_session_usable() {
    let turn = Turn::new();
    let mut session = session();
    turn.limit(20 << 20, None);
    for sql in [
        // Minutes each.
        "SELECT sum(a.v + b.v) FROM t a, t b",
        "SELECT count(*) FROM t a, t b WHERE a.v + b.v = 17 AND a.id * b.id > 5",
        "SELECT count(*) FROM t a JOIN t b ON a.v < b.v",
        "SELECT max(generate_series) FROM generate_series(1, 1000000000000)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    ] {
        end_after(&mut session, 2);
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::Cancelled, "{sql}: {error}");
        // Nothing is left that holds memory.
        let rest = query(
            &mut session,
            "SELECT id + 1 AS a, v + 1 AS b, id + 2 AS c, v + 2 AS d, \
                                        id + 3 AS e FROM t",
        );
        assert_eq!(rest.row_count() as i64, ROWS);
    }
}

#[test]
fn a_change_that_is_ended_changes_nothing() {
    let _turn = Turn::new();
    let mut session = session();
    let values: Vec<String> = (0..30_000).map(|i| format!("({i}, {i})")).collect();
    let insert = format!("INSERT INTO u VALUES {}", values.join(", "));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("u.csv");
    // Of which not all can be in before it is asked.
    let lines: String = (0..600_000).map(|i| format!("{i},{i}\n")).collect();
    fs::write(&file, lines).unwrap();
    let copy = format!("COPY u FROM '{}'", file.display());
    for sql in [insert.as_str(), &copy, "INSERT INTO u SELECT id, v FROM t"] {
        for begins in [false, true] {
            if begins && sql != copy {
                continue;
            }
            session.set_interrupt(None);
            if begins {
                session.execute("BEGIN").unwrap();
                session.execute("INSERT INTO u VALUES (-1, -1)").unwrap();
            }
            session.set_interrupt(Some(Arc::new(|| true)));
            let error = session.execute(sql).unwrap_err();
            assert_eq!(error.kind(), SqlErrorKind::Cancelled, "{error}");
            session.set_interrupt(None);
            if begins {
                session.execute("ROLLBACK").unwrap();
            }
            assert_eq!(number(&mut session, "SELECT count(*) FROM u"), 0);
        }
    }
    assert_eq!(session.execute(&insert).unwrap().row_count(), 30_000);
}
