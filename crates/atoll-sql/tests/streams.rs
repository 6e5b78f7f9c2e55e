//! Queries that return their rows as they are read.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Value};
use atoll_sql::{Outcome, QueryLimits, QueryStream, SqlErrorKind, SqlSession, set_query_limits};

const ROWS: i64 = 1_000_000;

/// A database with a table `t` of the keys from 0 and their squares.
fn database(options: DatabaseOptions) -> Database {
    let db = Database::create(options).unwrap();
    let columns = ["id", "v"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let mut transaction = db.begin().unwrap();
    for id in 0..ROWS {
        transaction.insert(&table, &[Value::Int64(id), Value::Int64(id * id)]).unwrap();
    }
    transaction.commit().unwrap();
    db
}

/// The sum of the first column.
fn sum(stream: QueryStream) -> i64 {
    let of_batch = |batch: arrow_array::RecordBatch| -> i64 {
        batch.column(0).as_primitive::<Int64Type>().values().iter().sum()
    };
    stream.map(|batch| of_batch(batch.unwrap())).sum()
}

fn held(db: &Database) -> usize {
    db.snapshots().len()
}

/// Waits for threads that end by themselves.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_stream_shows_one_snapshot_while_its_session_goes_on() {
    let db = database(DatabaseOptions::default());
    let mut session = SqlSession::on_database(db.clone());
    let mut stream = session.stream("SELECT v - id AS x FROM t", ()).unwrap();
    assert_eq!(stream.schema().field(0).name(), "x");
    let first = stream.next_batch().unwrap().unwrap();
    assert!(first.num_rows() > 0 && (first.num_rows() as i64) < ROWS / 10);
    session.execute("UPDATE t SET v = 0 WHERE id = 999999").unwrap();
    session.execute("BEGIN").unwrap();
    session.execute("DELETE FROM t WHERE id < 900000").unwrap();
    let begun: i64 = first.column(0).as_primitive::<Int64Type>().values().iter().sum();
    assert_eq!(begun + sum(stream), (0..ROWS).map(|id| id * id - id).sum::<i64>());
    session.execute("COMMIT").unwrap();
    drop(first);
    eventually("the lease ends", || held(&db) == 0);
}

#[test]
fn statements_of_all_kinds_can_be_streamed() {
    let db = database(DatabaseOptions::default());
    let mut session = SqlSession::on_database(db);
    let short = session.stream("SELECT v FROM t WHERE id = $1", (7,)).unwrap();
    assert_eq!(sum(short), 49);
    let changed = session.stream("UPDATE t SET v = 5 WHERE id < 3 RETURNING v", ()).unwrap();
    assert_eq!(changed.change(), Some(("UPDATE 3", 3)));
    assert_eq!(sum(changed), 15);
    let mut done = session.stream("DELETE FROM t WHERE id = 3", ()).unwrap();
    assert_eq!((done.change(), done.schema().fields().len()), (Some(("DELETE 1", 1)), 0));
    assert!(done.next_batch().unwrap().is_none());
    let values = session.stream("SELECT * FROM (VALUES (1), (2)) AS a(x)", ()).unwrap();
    assert_eq!(sum(values), 3);
    let wrong = session.stream("SELECT nothing FROM t", ()).unwrap_err();
    assert_eq!(wrong.kind(), SqlErrorKind::UnknownColumn);
    session.execute("BEGIN").unwrap();
    let inside = session.stream("SELECT v FROM t WHERE id BETWEEN 4 AND 5", ()).unwrap();
    assert_eq!(sum(inside), 16 + 25);
}

/// Where all rows are kept, the limit is exceeded; where they are read one batch after the other,
/// it is not, and a slow reader does not make the query run ahead.
#[test]
fn a_slow_reader_holds_a_few_batches() {
    let limit = 32 << 20;
    let mut session = SqlSession::on_database(database(DatabaseOptions::default()));
    let sql = "SELECT a.id + b.id, a.v + 1, b.v + 1 FROM t AS a, t AS b WHERE b.id < 10";
    set_query_limits(QueryLimits { memory_bytes: Some(limit), ..QueryLimits::default() });
    let kept = session.execute(sql).unwrap_err();
    let mut stream = session.stream(sql, ()).unwrap();
    let first = stream.next_batch().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let beside = session.execute("SELECT count(*) FROM t WHERE v > 1").unwrap().row_count();
    let rest: usize = stream.map(|batch| batch.unwrap().num_rows()).sum();
    set_query_limits(QueryLimits::default());
    assert_eq!(kept.kind(), SqlErrorKind::OutOfMemory);
    assert_eq!((first.num_rows() + rest, beside), (10 * ROWS as usize, 1));
}

#[test]
fn an_error_comes_with_the_rows_and_ends_the_stream() {
    let mut session = SqlSession::on_database(database(DatabaseOptions::default()));
    let mut stream = session.stream("SELECT 1 / (id - 900000) FROM t", ()).unwrap();
    let error = stream.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), SqlErrorKind::Type);
    assert!(stream.next_batch().unwrap().is_none());
    // A condition guards what stands behind it, though rows were returned before.
    let guarded = "SELECT id FROM t WHERE id <> 900000 AND 1 / (id - 900000) = 0";
    let rows: usize =
        session.stream(guarded, ()).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows as i64, ROWS - 3);
}

#[test]
fn a_stream_can_be_cancelled_or_dropped() {
    let db = database(DatabaseOptions::default());
    let mut session = SqlSession::on_database(db.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_over);
    session.set_interrupt(Some(Arc::new(move || asked.load(Ordering::Relaxed))));
    let endless = "SELECT sum(a.v % 7 + b.v % 5) FROM t AS a, t AS b WHERE a.v % 3 <> b.v % 2";
    let mut stream = session.stream(endless, ()).unwrap();
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(stream.next_batch().unwrap_err().kind(), SqlErrorKind::Cancelled);
    drop(stream);
    is_over.store(false, Ordering::Relaxed);
    drop(session.stream(endless, ()).unwrap());
    let mut begun = session.stream("SELECT v + 1 FROM t", ()).unwrap();
    assert!(begun.next_batch().unwrap().is_some());
    drop(begun);
    eventually("the leases end", || held(&db) == 0);
    session.execute("SET statement_timeout = '50ms'").unwrap();
    let mut late = session.stream(endless, ()).unwrap();
    let error = late.next_batch().unwrap_err();
    assert!(error.to_string().contains("statement_timeout"), "{error}");
}

/// A stream holds one lease, which ends by the limit of its age.
#[test]
fn a_stream_that_is_too_slow_expires() {
    let options = DatabaseOptions {
        snapshot_age_max: Some(Duration::from_millis(300)),
        ..Default::default()
    };
    let db = database(options);
    let mut session = SqlSession::on_database(db.clone());
    let mut stream = session.stream("SELECT id, v FROM t", ()).unwrap();
    assert!(stream.next_batch().unwrap().is_some());
    assert_eq!(held(&db), 1);
    eventually("the snapshot expires", || {
        db.snapshots().iter().all(|snapshot| snapshot.state == "expired")
    });
    let error = stream.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), SqlErrorKind::Expired);
    assert!(error.to_string().contains("expired"), "{error}");
}

/// A session with a question that is never answered with yes, as Python has one.
fn asked(db: Database) -> SqlSession {
    let mut session = SqlSession::on_database(db);
    session.set_interrupt(Some(Arc::new(|| false)));
    session
}

/// The second attempt of a query, with guards, is not ended by the end of the first.
#[test]
fn a_query_that_begins_again_with_guards_runs_to_its_end() {
    let mut session = asked(database(DatabaseOptions::default()));
    let sql = "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id \
               WHERE a.id <> 900000 AND 1 / (b.id - 900000) = 0";
    let Outcome::Rows(rows) = session.execute(sql).unwrap() else { panic!("no rows") };
    assert_eq!(rows.batches()[0].column(0).as_primitive::<Int64Type>().value(0), ROWS - 3);
}

/// Though the rows come faster than the session asks.
#[test]
fn a_query_of_many_batches_ends_in_time() {
    let mut session = asked(database(DatabaseOptions::default()));
    session.execute("SET statement_timeout = '50ms'").unwrap();
    let fast = "SELECT a.id FROM t AS a, t AS b WHERE b.id < 1000";
    let error = session.execute(fast).unwrap_err();
    assert!(error.to_string().contains("statement_timeout"), "{error}");
    let error =
        session.stream(fast, ()).and_then(|mut rows| rows.try_for_each(|one| one.map(drop)));
    assert!(error.unwrap_err().to_string().contains("statement_timeout"));
}

#[test]
fn arguments_of_execute_are_values_in_a_stream_as_well() {
    let db = database(DatabaseOptions::default());
    let mut session = SqlSession::on_database(db.clone());
    session.execute("PREPARE p AS SELECT v FROM t WHERE id = $1").unwrap();
    let arguments = ["(SELECT max(id) FROM t)", "(SELECT count(*) - 1 FROM t AS a WHERE v >= 0)"];
    for argument in arguments {
        let rows = session.stream(format!("EXECUTE p({argument})").as_str(), ()).unwrap();
        assert_eq!(sum(rows), (ROWS - 1) * (ROWS - 1));
    }
    let mut reading = SqlSession::on_snapshot(db.snapshot().unwrap());
    reading.execute("PREPARE q AS SELECT $1 || 'x'").unwrap();
    let row = reading.stream("EXECUTE q(upper('a'))", ()).unwrap().next().unwrap().unwrap();
    assert_eq!(row.column(0).as_string::<i32>().value(0), "Ax");
}
