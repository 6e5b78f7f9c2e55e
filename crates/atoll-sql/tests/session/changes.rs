//! Changes that are not statements, inside a session's transaction and outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use atoll::{AbortReason, Database, Error, Table, TxnError, Value};
use atoll_sql::{ChangeError, SqlErrorKind, SqlSession};

use crate::{database, error, rows, tag};

const COUNT: &str = "SELECT count(*) FROM t";

fn with_table() -> (Database, Table, SqlSession) {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE t (id bigint PRIMARY KEY)");
    let table = db.table("t").unwrap();
    (db, table, session)
}

fn insert(
    session: &mut SqlSession,
    table: &Table,
    ids: std::ops::Range<i64>,
) -> Result<u64, ChangeError> {
    let table = table.clone();
    session.change(move |tx| {
        ids.clone().try_for_each(|id| tx.insert(&table, &[Value::Int64(id)]))?;
        Ok(ids.clone().count() as u64)
    })
}

#[test]
fn a_change_is_part_of_the_transaction_that_is_open_and_else_one_of_its_own() {
    let (db, table, mut session) = with_table();
    let mut other = SqlSession::on_database(db);
    assert_eq!(insert(&mut session, &table, 0..3).unwrap(), 3);
    assert_eq!(rows(&mut other, COUNT), ["3"]);
    tag(&mut session, "BEGIN");
    assert_eq!(insert(&mut session, &table, 3..5).unwrap(), 2);
    tag(&mut session, "INSERT INTO t VALUES (5)");
    assert_eq!(rows(&mut other, COUNT), ["3"]);
    tag(&mut session, "ROLLBACK");
    assert_eq!(rows(&mut session, COUNT), ["3"]);
    tag(&mut session, "BEGIN");
    insert(&mut session, &table, 3..5).unwrap();
    tag(&mut session, "COMMIT");
    assert_eq!(rows(&mut other, COUNT), ["5"]);
}

#[test]
fn a_change_that_fails_says_why_and_fails_the_transaction() {
    let (_db, table, mut session) = with_table();
    insert(&mut session, &table, 2..3).unwrap();
    let is_duplicate =
        |done| matches!(done, Err(ChangeError::Database(Error::DuplicateKey { .. })));
    assert!(is_duplicate(insert(&mut session, &table, 0..4)));
    assert_eq!(rows(&mut session, COUNT), ["1"], "nothing of it was inserted");
    tag(&mut session, "BEGIN");
    assert!(is_duplicate(insert(&mut session, &table, 0..4)));
    let later = insert(&mut session, &table, 7..8);
    assert!(matches!(later, Err(ChangeError::Session(e)) if e.kind() == SqlErrorKind::Aborted));
    assert_eq!(error(&mut session, "INSERT INTO t VALUES (8)").kind(), SqlErrorKind::Aborted);
    assert_eq!(tag(&mut session, "COMMIT"), "ROLLBACK");
    assert_eq!(rows(&mut session, COUNT), ["1"]);
}

#[test]
fn a_change_of_its_own_is_tried_again_and_one_in_a_transaction_is_not() {
    let (_db, _table, mut session) = with_table();
    let attempts = Arc::new(AtomicU32::new(0));
    let aborts_twice = |attempts: &Arc<AtomicU32>| {
        let attempts = Arc::clone(attempts);
        move |_: &mut atoll::Transaction| match attempts.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(TxnError::Abort(AbortReason::Denied)),
            attempt => Ok(u64::from(attempt)),
        }
    };
    assert_eq!(session.change(aborts_twice(&attempts)).unwrap(), 2);
    attempts.store(0, Ordering::Relaxed);
    tag(&mut session, "BEGIN");
    let done = session.change(aborts_twice(&attempts));
    assert!(matches!(done, Err(ChangeError::Session(e)) if e.kind() == SqlErrorKind::Aborted));
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}

#[test]
fn a_snapshot_takes_no_change_and_a_transaction_no_table() {
    let (db, table, mut session) = with_table();
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    let refused = insert(&mut reader, &table, 0..1);
    assert!(matches!(refused, Err(ChangeError::Session(e)) if e.kind() == SqlErrorKind::ReadOnly));
    session.check_no_transaction("a table").unwrap();
    tag(&mut session, "BEGIN");
    let refused = session.check_no_transaction("a table").unwrap_err();
    assert!(refused.to_string().contains("inside a transaction"), "{refused}");
}
