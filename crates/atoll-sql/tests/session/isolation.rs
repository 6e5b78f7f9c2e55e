//! What a query sees of changes, and what a snapshot refuses.

use atoll_sql::{Outcome, SqlErrorKind, SqlSession};

use super::{database, error, rows, tag};

#[test]
fn a_query_sees_what_is_committed_and_nothing_else() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    tag(&mut session, "INSERT INTO t VALUES (1)");
    let table = db.table("t").unwrap();
    let mut open = db.begin().unwrap();
    open.insert(&table, &[2i32.into()]).unwrap();
    assert_eq!(rows(&mut session, "SELECT id FROM t ORDER BY id"), ["1"]);
    open.commit().unwrap();
    assert_eq!(rows(&mut session, "SELECT id FROM t ORDER BY id"), ["1", "2"]);
}

#[test]
fn a_snapshot_session_stays_at_its_cut_and_refuses_changes() {
    let db = database();
    let mut live = SqlSession::on_database(db.clone());
    tag(&mut live, "CREATE TABLE t (id int PRIMARY KEY)");
    tag(&mut live, "INSERT INTO t VALUES (1)");
    let mut frozen = SqlSession::on_snapshot(db.snapshot().unwrap());
    tag(&mut live, "INSERT INTO t VALUES (2)");
    tag(&mut live, "DELETE FROM t WHERE id = 1");
    assert_eq!(rows(&mut frozen, "SELECT id FROM t"), ["1"]);
    assert_eq!(rows(&mut live, "SELECT id FROM t"), ["2"]);
    for sql in [
        "INSERT INTO t VALUES (3)",
        "UPDATE t SET id = 3 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "COPY t FROM 'x.csv'",
        "BEGIN",
    ] {
        assert_eq!(error(&mut frozen, sql).kind(), SqlErrorKind::ReadOnly, "{sql}");
    }
}

#[test]
fn a_result_outlives_its_session_and_later_changes() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    tag(&mut session, "INSERT INTO t VALUES (1, 'a value that is longer than twelve bytes')");
    let Ok(Outcome::Rows(result)) = session.execute("SELECT * FROM t") else {
        panic!("the query returns rows")
    };
    tag(&mut session, "UPDATE t SET v = 'another value of more than twelve' WHERE id = 1");
    drop(session);
    drop(db);
    let lines = super::runner::lines(&result);
    assert_eq!(lines, ["1|a value that is longer than twelve bytes"]);
}

#[test]
fn a_query_runs_inside_a_runtime_of_the_caller() {
    let mut session = SqlSession::on_database(database());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["0"]);
        drop(session);
    });
}
