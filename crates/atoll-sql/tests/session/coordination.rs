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

#[test]
fn notifications_without_room_are_refused_before_anything_is_committed() {
    let db = atoll::Database::create(atoll_sql::database_options()).unwrap();
    let mut hearers: Vec<_> = (0..100).map(|_| SqlSession::on_database(db.clone())).collect();
    hearers.iter_mut().for_each(|hearer| drop(tag(hearer, "LISTEN c")));
    let mut sender = SqlSession::on_database(db);
    tag(&mut sender, "CREATE TABLE t (id int PRIMARY KEY)");
    let notify = |count: u32| {
        format!(
            "INSERT INTO t SELECT i FROM generate_series(1, {count}) AS s (i)
             WHERE pg_notify('c', repeat('x', 7900) || i) IS NOT NULL"
        )
    };
    let refused = error(&mut sender, &notify(400));
    assert_eq!(refused.sqlstate(), "54000", "{refused}");
    assert_eq!(rows(&mut sender, "SELECT count(*) FROM t"), ["0"]);
    assert!(hearers.iter().all(|hearer| !hearer.has_notifications()));
    tag(&mut sender, &notify(200));
    let heard: Vec<usize> = hearers.iter_mut().map(|one| one.take_notifications().len()).collect();
    assert_eq!(heard, [200; 100]);
    // The same twice is one.
    rows(&mut sender, "SELECT pg_notify('c', 'same') FROM generate_series(1, 30000)");
    assert_eq!(hearers[0].take_notifications().len(), 1);
}

#[test]
fn there_is_a_limit_of_advisory_locks() {
    let db = atoll::Database::create(atoll_sql::database_options()).unwrap();
    let (mut one, mut two) = (SqlSession::on_database(db.clone()), SqlSession::on_database(db));
    let lock = "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 300000) AS s (i)";
    let refused = error(&mut one, lock);
    assert_eq!(refused.sqlstate(), "53200", "{refused}");
    // As in PostgreSQL, a statement that fails keeps the locks of the session.
    assert_eq!(rows(&mut two, "SELECT pg_try_advisory_lock(1)"), ["false"]);
    rows(&mut one, "SELECT pg_advisory_unlock_all()");
    assert_eq!(rows(&mut two, "SELECT pg_try_advisory_lock(1)"), ["true"]);
}
