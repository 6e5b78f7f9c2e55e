//! What a query sees of changes, and what a snapshot refuses.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::Duration;

use atoll::{Database, DatabaseOptions};
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
    let lines = super::lines(&result);
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

/// A database in which writers wait for each other, as long as it takes.
fn patient() -> Database {
    let scheme = "dl_detect".parse().unwrap();
    let options =
        DatabaseOptions { scheme, lock_timeout: Duration::MAX, ..DatabaseOptions::default() };
    Database::create(options).unwrap()
}

#[test]
fn a_statement_sees_what_was_committed_when_it_began() {
    let db = patient();
    let mut one = SqlSession::on_database(db.clone());
    let mut other = SqlSession::on_database(db);
    tag(
        &mut one,
        "CREATE TABLE account (id int PRIMARY KEY, v int, name text, INDEX by_name (name))",
    );
    tag(&mut one, "INSERT INTO account VALUES (1, 1, 'a'), (2, 2, 'b')");
    tag(&mut one, "BEGIN");
    assert_eq!(rows(&mut one, "SHOW transaction_isolation"), ["read committed"]);
    assert_eq!(rows(&mut one, "SELECT v FROM account WHERE id = 1"), ["1"]);
    // What was read is not held.
    tag(&mut other, "UPDATE account SET v = 10 WHERE id = 1");
    assert_eq!(rows(&mut one, "SELECT v FROM account WHERE id = 1"), ["10"]);
    tag(&mut one, "UPDATE account SET v = v + 1 WHERE name = 'b'");
    // What is changed by an open transaction is seen as it was, without waiting.
    assert_eq!(rows(&mut other, "SELECT v FROM account WHERE id = 2"), ["2"]);
    assert_eq!(rows(&mut one, "SELECT sum(v) FROM account"), ["13"]);
    // Nor is what it has read since its own change held.
    tag(&mut other, "UPDATE account SET v = 20 WHERE id = 1");
    tag(&mut other, "INSERT INTO account VALUES (3, 3, 'c')");
    assert_eq!(rows(&mut one, "SELECT sum(v) FROM account"), ["26"]);
    tag(&mut one, "COMMIT");
    tag(&mut one, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(rows(&mut one, "SHOW transaction_isolation"), ["serializable"]);
    tag(&mut one, "ROLLBACK");
}

#[test]
fn a_writer_waits_for_another_and_looks_at_the_row_again() {
    let db = patient();
    let mut one = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE account (id int PRIMARY KEY, v int, name text)");
    tag(&mut one, "INSERT INTO account VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c')");
    for (end, expected) in [("COMMIT", "UPDATE 2"), ("ROLLBACK", "UPDATE 3")] {
        tag(&mut one, "BEGIN");
        tag(&mut one, "UPDATE account SET v = 2 WHERE id = 2");
        let (tell, told) = channel();
        let waiting = {
            let db = db.clone();
            std::thread::spawn(move || {
                let mut other = SqlSession::on_database(db);
                tag(&mut other, "BEGIN");
                tell.send(()).unwrap();
                // It finds all three, and waits for the second.
                let changed = tag(&mut other, "UPDATE account SET name = 'x' WHERE v = 1");
                tag(&mut other, "ROLLBACK");
                changed
            })
        };
        told.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        tag(&mut one, end);
        assert_eq!(waiting.join().unwrap(), expected, "{end}");
        tag(&mut one, "UPDATE account SET v = 1 WHERE id = 2");
    }
}

#[test]
fn a_deadlock_aborts_one_of_two_and_no_other_conflict_reaches_the_client() {
    let db = patient();
    let mut one = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE account (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO account VALUES (1, 0), (2, 0)");
    let barrier = Barrier::new(2);
    let failed: usize = std::thread::scope(|scope| {
        let (db, barrier) = (&db, &barrier);
        let meet = |first: i32, second: i32| {
            scope.spawn(move || {
                let mut session = SqlSession::on_database(db.clone());
                let sql = |id| format!("UPDATE account SET v = v + 1 WHERE id = {id}");
                tag(&mut session, "BEGIN");
                tag(&mut session, &sql(first));
                barrier.wait();
                let failed = session.execute(&sql(second)).map_err(|error| error.kind());
                session.execute(if failed.is_ok() { "COMMIT" } else { "ROLLBACK" }).unwrap();
                match failed {
                    Ok(_) => 0,
                    Err(kind) => {
                        assert_eq!(kind, SqlErrorKind::Aborted);
                        1
                    }
                }
            })
        };
        [meet(1, 2), meet(2, 1)].map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(failed, 1);
    assert_eq!(rows(&mut one, "SELECT sum(v) FROM account"), ["2"]);
}

/// The statements of pgbench: many sessions change the one row of a branch.
#[test]
fn transactions_that_meet_on_one_row_all_commit() {
    const SESSIONS: i32 = 16;
    const EACH: i32 = 50;
    let db = patient();
    let mut session = SqlSession::on_database(db.clone());
    for table in ["branch", "teller", "account"] {
        tag(&mut session, &format!("CREATE TABLE {table} (id int PRIMARY KEY, balance int)"));
    }
    tag(
        &mut session,
        "CREATE TABLE history (session int, at int, account int, delta int, time timestamp, \
         PRIMARY KEY (session, at))",
    );
    tag(&mut session, "INSERT INTO branch VALUES (1, 0)");
    for id in 1..=100 {
        if id <= 10 {
            tag(&mut session, &format!("INSERT INTO teller VALUES ({id}, 0)"));
        }
        tag(&mut session, &format!("INSERT INTO account VALUES ({id}, 0)"));
    }
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = SqlSession::on_database(db);
                for at in 0..EACH {
                    let (account, delta) = ((number * 31 + at * 17) % 100 + 1, at - 20);
                    let change = |table: &str, id: i32| {
                        format!("UPDATE {table} SET balance = balance + {delta} WHERE id = {id}")
                    };
                    tag(&mut session, "BEGIN");
                    tag(&mut session, &change("account", account));
                    let sql = format!("SELECT balance FROM account WHERE id = {account}");
                    assert_eq!(rows(&mut session, &sql).len(), 1);
                    tag(&mut session, &change("teller", account % 10 + 1));
                    tag(&mut session, &change("branch", 1));
                    let sql = format!(
                        "INSERT INTO history VALUES ({number}, {at}, {account}, {delta}, now())"
                    );
                    tag(&mut session, &sql);
                    assert_eq!(tag(&mut session, "COMMIT"), "COMMIT");
                }
            });
        }
    });
    let sum = |session: &mut SqlSession, table: &str, column: &str| {
        rows(session, &format!("SELECT sum({column}) FROM {table}"))
    };
    let expected = sum(&mut session, "history", "delta");
    for table in ["branch", "teller", "account"] {
        assert_eq!(sum(&mut session, table, "balance"), expected, "{table}");
    }
    let count = rows(&mut session, "SELECT count(*) FROM history");
    assert_eq!(count, [(SESSIONS * EACH).to_string()]);
}

/// As in PostgreSQL, what is looked at but not changed is not held, and an error lets go of all.
#[test]
fn a_row_that_does_not_match_is_not_held_and_a_failed_transaction_holds_nothing() {
    let db = patient();
    let mut one = SqlSession::on_database(db.clone());
    let mut other = SqlSession::on_database(db);
    tag(&mut one, "CREATE TABLE r (k int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO r VALUES (1, 1), (2, 1)");
    tag(&mut other, "SET lock_timeout = '1s'");
    for sql in [
        "UPDATE r SET v = 4 WHERE k = 1 AND v = 77",
        "DELETE FROM r WHERE k = 1 AND v = 77",
        "SELECT v FROM r WHERE k = 1 AND v = 77 FOR UPDATE",
    ] {
        tag(&mut one, "BEGIN");
        one.execute(sql).unwrap();
        assert_eq!(tag(&mut other, "UPDATE r SET v = 2 WHERE k = 1"), "UPDATE 1", "{sql}");
        tag(&mut one, "COMMIT");
    }
    tag(&mut one, "BEGIN");
    tag(&mut one, "UPDATE r SET v = 5 WHERE k = 1");
    error(&mut one, "INSERT INTO r VALUES (2, 0)");
    assert_eq!(tag(&mut other, "UPDATE r SET v = v + 1 WHERE v > 0"), "UPDATE 2");
    assert_eq!(error(&mut one, "SELECT 1").sqlstate(), "25P02");
    assert_eq!(tag(&mut one, "COMMIT"), "ROLLBACK");
    assert_eq!(rows(&mut one, "SELECT v FROM r ORDER BY k"), ["3", "2"]);
}

/// A query waits for a row that another transaction has changed. That one goes on to change a row
/// which the query has read already: there is no deadlock, and the query sees both changes.
#[test]
fn a_query_that_waits_holds_nothing_that_it_has_only_read() {
    let db = patient();
    let mut first = SqlSession::on_database(db.clone());
    tag(&mut first, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)");
    tag(&mut first, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)");
    tag(&mut first, "BEGIN");
    tag(&mut first, "UPDATE t SET v = 20 WHERE id = 2");
    let (told, waits) = channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut second = SqlSession::on_database(db);
            tag(&mut second, "BEGIN");
            // From now on its queries run inside it.
            tag(&mut second, "UPDATE t SET v = 30 WHERE id = 3");
            told.send(()).unwrap();
            let seen = rows(&mut second, "SELECT v FROM t WHERE id BETWEEN 1 AND 3 ORDER BY id");
            tag(&mut second, "COMMIT");
            seen
        });
        waits.recv().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        tag(&mut first, "UPDATE t SET v = 10 WHERE id = 1");
        tag(&mut first, "COMMIT");
        assert_eq!(reader.join().unwrap(), ["10", "20", "30"]);
    });
}

#[test]
fn modes_that_change_nothing_are_taken_and_shown() {
    let mut session = SqlSession::on_database(patient());
    let mut shown = |begin: &str| {
        tag(&mut session, begin);
        let level = rows(&mut session, "SHOW transaction_isolation").remove(0);
        tag(&mut session, "COMMIT");
        level
    };
    assert_eq!(shown("BEGIN ISOLATION LEVEL READ UNCOMMITTED"), "read uncommitted");
    let deferrable = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE";
    assert_eq!(shown(deferrable), "serializable");
    assert_eq!(shown("START TRANSACTION NOT DEFERRABLE"), "read committed");
    assert_eq!(rows(&mut session, "SHOW transaction_deferrable"), ["off"]);
    tag(&mut session, "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, DEFERRABLE");
}
