//! What ends a wait, a statement or an idle transaction; NOWAIT and SKIP LOCKED.

use std::time::{Duration, Instant};

use atoll::Database;
use atoll_sql::{SqlErrorKind, SqlSession};

use super::{error, rows, session, tag};

/// Two sessions on a table of four rows, of which the first holds row 2.
fn pair() -> (SqlSession, SqlSession, Database) {
    let db = Database::create(atoll_sql::database_options()).unwrap();
    let (mut first, second) =
        (SqlSession::on_database(db.clone()), SqlSession::on_database(db.clone()));
    tag(&mut first, "CREATE TABLE job (id int PRIMARY KEY, state text, INDEX by_state (state))");
    tag(&mut first, "INSERT INTO job VALUES (1, 'new'), (2, 'new'), (3, 'new'), (4, 'old')");
    tag(&mut first, "BEGIN");
    tag(&mut first, "UPDATE job SET state = 'taken' WHERE id = 2");
    (first, second, db)
}

#[test]
fn nowait_fails_where_a_row_is_held_and_the_transaction_goes_on_from_its_savepoint() {
    let (mut first, mut second, _db) = pair();
    tag(&mut second, "BEGIN");
    let free = "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT";
    assert_eq!(rows(&mut second, free), ["1"]);
    tag(&mut second, "UPDATE job SET state = 'mine' WHERE id = 3");
    tag(&mut second, "SAVEPOINT s");
    for sql in [
        "SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT",
        "SELECT * FROM job FOR SHARE NOWAIT",
        "SELECT * FROM job WHERE state = 'new' FOR UPDATE NOWAIT",
    ] {
        let failed = error(&mut second, sql);
        assert_eq!(failed.sqlstate(), "55P03", "{sql}: {failed}");
        tag(&mut second, "ROLLBACK TO s");
    }
    tag(&mut first, "COMMIT");
    assert_eq!(rows(&mut second, "SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT"), ["2"]);
    tag(&mut second, "COMMIT");
    assert_eq!(rows(&mut first, "SELECT state FROM job WHERE id IN (2, 3)"), ["taken", "mine"]);
}

#[test]
fn skip_locked_gives_each_worker_a_row_of_its_own() {
    let (mut first, mut second, db) = pair();
    let next = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    tag(&mut second, "BEGIN");
    assert_eq!(rows(&mut second, next), ["1"]);
    let mut third = SqlSession::on_database(db);
    tag(&mut third, "BEGIN");
    assert_eq!(rows(&mut third, next), ["3"]);
    assert_eq!(rows(&mut third, "SELECT id FROM job FOR UPDATE SKIP LOCKED"), ["3", "4"]);
    tag(&mut second, "ROLLBACK");
    tag(&mut first, "ROLLBACK");
    assert_eq!(rows(&mut third, "SELECT id FROM job FOR UPDATE SKIP LOCKED").len(), 4);
}

/// Many workers empty a queue: each job is done once.
#[test]
fn a_queue_hands_out_each_job_once() {
    let (mut first, _, db) = pair();
    tag(&mut first, "ROLLBACK");
    for id in 5..200 {
        first.execute_with("INSERT INTO job VALUES ($1, 'new')", (id,)).unwrap();
    }
    let done: Vec<Vec<i32>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut session = SqlSession::on_database(db.clone());
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        session.execute("BEGIN").unwrap();
                        let next: Option<(i32,)> = session
                            .query_first(
                                "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1
                                 FOR UPDATE SKIP LOCKED",
                                (),
                            )
                            .unwrap();
                        if let Some((id,)) = next {
                            mine.push(id);
                            let sql = "UPDATE job SET state = 'done' WHERE id = $1";
                            session.execute_with(sql, (id,)).unwrap();
                        }
                        session.execute("COMMIT").unwrap();
                        let left = "SELECT count(*) FROM job WHERE state = 'new'";
                        let left: Option<(i64,)> = session.query_first(left, ()).unwrap();
                        if left == Some((0,)) {
                            return mine;
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut all: Vec<i32> = done.into_iter().flatten().collect();
    all.sort_unstable();
    let wanted: Vec<i32> = (1..200).filter(|id| *id != 4).collect();
    assert_eq!(all, wanted);
}

#[test]
fn a_wait_ends_at_the_lock_timeout_and_a_statement_at_its_own() {
    let (_first, mut second, _db) = pair();
    let wait = "UPDATE job SET state = 'mine' WHERE id = 2";
    tag(&mut second, "SET lock_timeout = '80ms'");
    let begun = Instant::now();
    let failed = error(&mut second, wait);
    assert_eq!(failed.sqlstate(), "55P03", "{failed}");
    assert!(begun.elapsed() >= Duration::from_millis(80));
    tag(&mut second, "RESET lock_timeout");
    tag(&mut second, "SET statement_timeout = 80");
    let failed = error(&mut second, wait);
    assert_eq!((failed.sqlstate(), failed.kind()), ("57014", SqlErrorKind::Cancelled), "{failed}");
    let long = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b \
                WHERE a.a = -b.b + 1 - a.a % 3";
    let failed = error(&mut second, long);
    assert_eq!(failed.sqlstate(), "57014", "{failed}");
    assert!(failed.message().contains("statement_timeout"), "{failed}");
    // The settings of a transaction go with it.
    tag(&mut second, "RESET ALL");
    tag(&mut second, "BEGIN");
    tag(&mut second, "SET LOCAL lock_timeout = '1min'");
    assert_eq!(rows(&mut second, "SHOW lock_timeout"), ["1min"]);
    tag(&mut second, "COMMIT");
    assert_eq!(rows(&mut second, "SHOW lock_timeout"), ["0"]);
}

#[test]
fn an_idle_transaction_ends_and_lets_go_of_its_rows() {
    let (mut first, mut second, _db) = pair();
    tag(&mut first, "SET idle_in_transaction_session_timeout = 100");
    // It waits until the transaction of the first session is gone.
    assert_eq!(tag(&mut second, "UPDATE job SET state = 'mine' WHERE id = 2"), "UPDATE 1");
    assert!(first.in_transaction());
    let failed = error(&mut first, "SELECT 1");
    assert_eq!(failed.sqlstate(), "25P03", "{failed}");
    assert!(!first.in_transaction());
    // What was set in the transaction is gone with it.
    assert_eq!(rows(&mut first, "SHOW idle_in_transaction_session_timeout"), ["0"]);
    tag(&mut first, "SET idle_in_transaction_session_timeout = '1min'");
    tag(&mut first, "BEGIN");
    tag(&mut first, "INSERT INTO job VALUES (9, 'new')");
    tag(&mut first, "COMMIT");
    assert_eq!(rows(&mut first, "SELECT state FROM job WHERE id IN (2, 9)"), ["mine", "new"]);
}

/// It is idle behind what is no statement, too, also if that failed.
#[test]
fn a_transaction_is_idle_behind_a_load_that_failed() {
    let (mut first, mut second, db) = pair();
    tag(&mut second, "CREATE TABLE ruled (id int PRIMARY KEY, CHECK (id < 5))");
    let table = db.table("ruled").unwrap();
    let ids: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int32Array::from(vec![7]));
    let rows = [atoll::ArrowRows { rows: 1, columns: vec![Some(ids)] }];
    tag(&mut first, "SET idle_in_transaction_session_timeout = 100");
    let failed = first.insert_arrow(&table, &rows).map_err(atoll_sql::SqlError::from);
    assert_eq!(failed.unwrap_err().sqlstate(), "23514");
    // It is told by the next statement, whatever that is.
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(error(&mut first, "ROLLBACK").sqlstate(), "25P03");
}

#[test]
fn a_read_only_transaction_takes_no_change_whatever_it_would_meet() {
    let mut session =
        session("CREATE TABLE t (k int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1)");
    for begin in ["BEGIN READ ONLY", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"] {
        tag(&mut session, begin);
        for sql in [
            "DELETE FROM t WHERE k = 99",
            "UPDATE t SET a = 1 WHERE a = 77",
            "INSERT INTO t SELECT * FROM t WHERE a = 77",
            "INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING",
            "SELECT k FROM t WHERE a = 77 FOR UPDATE",
        ] {
            let failed = error(&mut session, sql);
            assert_eq!(failed.sqlstate(), "25006", "{sql}: {failed}");
            if session.in_transaction() {
                tag(&mut session, "ROLLBACK");
                tag(&mut session, begin);
            }
        }
        assert_eq!(rows(&mut session, "SELECT a FROM t"), ["1"]);
        if session.in_transaction() {
            tag(&mut session, "ROLLBACK");
        }
    }
}
