//! Advisory locks and notifications between sessions of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_sql::SqlSession;

use crate::{error, rows, tag};

#[test]
fn sessions_of_a_program_notify_each_other() {
    let db = atoll::Database::create(atoll_sql::database_options()).unwrap();
    let mut one = SqlSession::on_database(db.clone());
    let mut two = SqlSession::on_database(db.clone());
    let woken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&woken);
    one.set_waker(Some(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })));
    assert_eq!(tag(&mut one, "LISTEN Job"), "LISTEN");
    two.set_number(42);
    tag(&mut two, "BEGIN");
    tag(&mut two, "NOTIFY job, 'x'");
    assert!(!one.has_notifications());
    tag(&mut two, "COMMIT");
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let heard = one.take_notifications();
    assert_eq!(heard.len(), 1);
    let said = (heard[0].sender, &*heard[0].channel, &*heard[0].payload);
    assert_eq!(said, (42, "job", "x"));
    assert!(!one.has_notifications() && one.take_notifications().is_empty());
    // LISTEN belongs to its transaction, too.
    tag(&mut one, "BEGIN");
    tag(&mut one, "LISTEN other");
    tag(&mut one, "ROLLBACK");
    tag(&mut two, "NOTIFY other");
    assert!(!one.has_notifications());
    drop(one);
    tag(&mut two, "NOTIFY job");
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    for sql in ["LISTEN a", "NOTIFY a", "SELECT pg_advisory_lock(1)"] {
        error(&mut reader, sql);
    }
}

#[test]
fn an_attempt_that_is_repeated_locks_once() {
    let db = atoll::Database::create(atoll_sql::database_options()).unwrap();
    let (mut one, mut two) = (SqlSession::on_database(db.clone()), SqlSession::on_database(db));
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY)");
    tag(&mut one, "INSERT INTO t SELECT * FROM generate_series(1, 40000)");
    // The query is taken for a short one first, and then runs on a snapshot.
    let sql = "SELECT count(*) FROM t WHERE pg_try_advisory_lock(id % 2)";
    rows(&mut one, sql);
    rows(&mut one, sql);
    let unlock = "SELECT count(*) FROM t WHERE pg_advisory_unlock(id % 2)";
    assert_eq!(rows(&mut one, unlock), ["40000"]);
    assert_eq!(rows(&mut one, unlock), ["40000"]);
    assert_eq!(rows(&mut one, unlock), ["0"]);
    assert_eq!(rows(&mut two, "SELECT pg_try_advisory_lock(1)"), ["true"]);
}
