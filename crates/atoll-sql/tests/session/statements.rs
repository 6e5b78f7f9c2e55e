//! Statements, their tags, places of errors, scripts and open transactions.

use atoll_sql::{SqlErrorKind, SqlSession};

use super::{database, error, rows, session, tag};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, v int)";

#[test]
fn tags_count_the_rows_as_postgresql_does() {
    let mut session = SqlSession::on_database(database());
    assert_eq!(tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v int);"), "CREATE TABLE");
    assert_eq!(tag(&mut session, "INSERT INTO t VALUES (1, 1), (2, 2)"), "INSERT 0 2");
    assert_eq!(tag(&mut session, "UPDATE t SET v = v + 1 WHERE id = 1"), "UPDATE 1");
    assert_eq!(tag(&mut session, "UPDATE t SET v = v + 1 WHERE id = 9"), "UPDATE 0");
    assert_eq!(tag(&mut session, "DELETE FROM t WHERE id = NULL"), "DELETE 0");
    assert_eq!(tag(&mut session, "DELETE FROM t WHERE id = 2"), "DELETE 1");
    assert_eq!(rows(&mut session, "SELECT * FROM t"), ["1|2"]);
}

#[test]
fn an_error_points_at_its_place() {
    let mut session = session(TABLE);
    let value = error(&mut session, "INSERT INTO t\nVALUES (1, 2), (3, 'x')");
    assert_eq!((value.kind(), value.position()), (SqlErrorKind::Type, Some((2, 20))));
    let column = error(&mut session, "SELECT id,\n  vv FROM t");
    assert_eq!((column.kind(), column.position()), (SqlErrorKind::UnknownColumn, Some((2, 3))));
    let compared = error(&mut session, "SELECT id\nFROM t\nWHERE 1 + vv = 1");
    assert_eq!(
        (compared.kind(), compared.position()),
        (SqlErrorKind::UnknownColumn, Some((3, 11)))
    );
    let table = error(&mut session, "SELECT * FROM tt");
    assert_eq!((table.kind(), table.position()), (SqlErrorKind::UnknownTable, Some((1, 15))));
    let syntax = error(&mut session, "SELEKT 1");
    assert_eq!((syntax.kind(), syntax.position()), (SqlErrorKind::Syntax, Some((1, 1))));
    let shown = table.render("SELECT * FROM tt");
    assert!(shown.contains("1 | SELECT * FROM tt\n  |               ^"), "{shown}");
}

#[test]
fn messages_carry_no_prefix_of_a_library_and_no_backtrace() {
    let mut session = session(TABLE);
    for sql in [
        "SELECT nofunction(id) FROM t",
        "SELECT id + DATE '2020-01-01' + true FROM t",
        "SELECT v FROM t GROUP BY id",
        "SELECT * FROM t WHERE id = (SELECT id, v FROM t)",
        "SELECT CAST('x' AS int)",
        "SELECT t.x FROM t",
    ] {
        let message = error(&mut session, sql).to_string();
        assert!(!message.contains("Error during planning"), "{message}");
        assert!(!message.contains("backtrace"), "{message}");
        assert!(!message.to_lowercase().contains("arrow error"), "{message}");
        assert!(!message.contains("DataFusion"), "{message}");
    }
}

#[test]
fn a_script_stops_behind_its_first_error() {
    let mut session = session(TABLE);
    let outcomes = session.execute_script(
        "INSERT INTO t VALUES (1, 1);\nINSERT INTO t VALUES (1, 2);\nINSERT INTO t VALUES (3, 3);",
    );
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[1].as_ref().unwrap_err().kind(), SqlErrorKind::Constraint);
    assert_eq!(rows(&mut session, "SELECT * FROM t"), ["1|1"]);
    let late = session.execute_script("INSERT INTO t VALUES (5, 5);\nSELECT\n  (1");
    assert_eq!(late[1].as_ref().unwrap_err().position().map(|(line, _)| line), Some(3));
}

#[test]
fn a_transaction_commits_what_it_did_together() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    let mut other = SqlSession::on_database(db);
    tag(&mut session, TABLE);
    assert_eq!(tag(&mut session, "BEGIN"), "BEGIN");
    assert!(session.in_transaction());
    tag(&mut session, "INSERT INTO t VALUES (1, 10)");
    tag(&mut session, "UPDATE t SET v = v + 1 WHERE id = 1");
    assert_eq!(rows(&mut other, "SELECT count(*) FROM t"), ["0"]);
    assert_eq!(tag(&mut session, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut other, "SELECT * FROM t"), ["1|11"]);
}

#[test]
fn a_rollback_and_a_dropped_session_leave_nothing() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, TABLE);
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (1, 10)");
    assert_eq!(tag(&mut session, "ROLLBACK"), "ROLLBACK");
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (2, 20)");
    drop(session);
    let mut session = SqlSession::on_database(db);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["0"]);
    tag(&mut session, "INSERT INTO t VALUES (2, 20)");
}

#[test]
fn a_failed_transaction_takes_nothing_but_its_end() {
    let mut session = session(TABLE);
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (1, 10)");
    assert_eq!(
        error(&mut session, "INSERT INTO t VALUES (1, 11)").kind(),
        SqlErrorKind::Constraint
    );
    assert_eq!(error(&mut session, "INSERT INTO t VALUES (2, 2)").kind(), SqlErrorKind::Aborted);
    assert_eq!(tag(&mut session, "COMMIT"), "ROLLBACK");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn what_a_transaction_cannot_do_is_refused_inside_it() {
    let mut session = session(TABLE);
    assert_eq!(error(&mut session, "COMMIT").message(), "no transaction is open");
    let window = "SELECT id, sum(v) OVER (ORDER BY id) FROM t";
    for sql in [window, "CREATE MATERIALIZED VIEW u AS SELECT 1", "BEGIN"] {
        tag(&mut session, "BEGIN");
        error(&mut session, sql);
        tag(&mut session, "ROLLBACK");
    }
}

#[test]
fn a_session_moves_between_threads_with_its_transaction() {
    let mut session = session(TABLE);
    tag(&mut session, "BEGIN");
    let mut session = std::thread::spawn(move || {
        tag(&mut session, "INSERT INTO t VALUES (1, 1)");
        session
    })
    .join()
    .unwrap();
    tag(&mut session, "COMMIT");
    assert_eq!(rows(&mut session, "SELECT * FROM t"), ["1|1"]);
}

#[test]
fn statements_that_meet_on_a_row_are_tried_again_until_they_count() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, TABLE);
    tag(&mut session, "INSERT INTO t VALUES (1, 0)");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut session = SqlSession::on_database(db.clone());
            scope.spawn(move || {
                for _ in 0..200 {
                    tag(&mut session, "UPDATE t SET v = v + 1 WHERE id = 1");
                }
            });
        }
    });
    assert_eq!(rows(&mut session, "SELECT v FROM t"), ["600"]);
}

#[test]
fn a_value_of_a_unique_index_that_is_taken_is_a_broken_rule() {
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE)");
    tag(&mut session, "INSERT INTO t VALUES (1, 1)");
    let taken = error(&mut session, "INSERT INTO t VALUES (2, 1)");
    assert_eq!(taken.kind(), SqlErrorKind::Constraint);
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (3, 3)");
    let taken = error(&mut session, "UPDATE t SET v = 1 WHERE id = 3");
    assert_eq!(taken.kind(), SqlErrorKind::Constraint);
    assert_eq!(error(&mut session, "INSERT INTO t VALUES (4, 4)").kind(), SqlErrorKind::Aborted);
    assert_eq!(tag(&mut session, "COMMIT"), "ROLLBACK");
    assert_eq!(rows(&mut session, "SELECT * FROM t"), ["1|1"]);
}
