//! Tables that come and go, beside statements that use them.

use std::thread;
use std::time::Duration;

use atoll_sql::SqlSession;

use super::{database, error, rows, tag};

fn sessions() -> (SqlSession, SqlSession) {
    let db = database();
    (SqlSession::on_database(db.clone()), SqlSession::on_database(db))
}

#[test]
fn definitions_are_part_of_their_transaction() {
    let (mut one, mut other) = sessions();
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t VALUES (1, 10)");
    for end in ["ROLLBACK", "COMMIT"] {
        tag(&mut one, "BEGIN");
        tag(&mut one, "CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY)");
        tag(&mut one, "CREATE TABLE n (id int PRIMARY KEY, w text DEFAULT 'new')");
        tag(&mut one, "INSERT INTO n (id) SELECT id FROM t");
        assert_eq!(rows(&mut one, "SELECT w FROM n WHERE id = 1"), ["new"]);
        assert_eq!(error(&mut other, "SELECT * FROM n").sqlstate(), "42P01");
        tag(&mut one, "DROP TABLE t");
        assert_eq!(rows(&mut other, "SELECT v FROM t WHERE id = 1"), ["10"], "on a snapshot");
        tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, other text)");
        tag(&mut one, "INSERT INTO t VALUES (1, 'text')");
        assert_eq!(rows(&mut one, "SELECT other FROM t WHERE id = 1"), ["text"]);
        tag(&mut one, end);
        let found = if end == "COMMIT" { "text" } else { "10" };
        assert_eq!(rows(&mut other, "SELECT * FROM t"), [format!("1|{found}")]);
        assert_eq!(rows(&mut one, "SELECT * FROM t WHERE id = 1"), [format!("1|{found}")]);
    }
    assert_eq!(rows(&mut other, "SELECT * FROM n"), ["1|new"]);
    tag(&mut one, "BEGIN");
    tag(&mut one, "DROP TABLE n");
    assert_eq!(error(&mut one, "INSERT INTO n VALUES (2)").sqlstate(), "42P01");
    tag(&mut one, "ROLLBACK");
    tag(&mut other, "INSERT INTO n VALUES (2)");
}

#[test]
fn a_drop_names_what_it_does_not_find() {
    let (mut one, _) = sessions();
    tag(&mut one, "CREATE TABLE a (id int PRIMARY KEY)");
    tag(&mut one, "CREATE TABLE b (id int PRIMARY KEY)");
    let refused = error(&mut one, "DROP TABLE a, nowhere");
    assert_eq!(
        (refused.sqlstate(), refused.message()),
        ("42P01", "table \"nowhere\" does not exist")
    );
    assert_eq!(tag(&mut one, "DROP TABLE IF EXISTS nowhere, a, a, b"), "DROP TABLE");
    assert_eq!(error(&mut one, "SELECT * FROM b").sqlstate(), "42P01");
    assert_eq!(tag(&mut one, "DROP TABLE IF EXISTS a"), "DROP TABLE");
    tag(&mut one, "CREATE TABLE a (id int PRIMARY KEY)");
    assert_eq!(error(&mut one, "CREATE TABLE a (id int PRIMARY KEY)").sqlstate(), "42P07");
}

#[test]
fn a_prepared_statement_follows_the_table_of_its_name() {
    let (mut one, mut other) = sessions();
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t VALUES (1, 10)");
    let find = one.prepare("SELECT v FROM t WHERE id = $1").unwrap();
    let add = one.prepare("INSERT INTO t (id, v) VALUES ($1, $2)").unwrap();
    let found: Vec<(Option<i64>,)> = one.query(&find, (1,)).unwrap();
    assert_eq!(found, [(Some(10),)]);
    tag(&mut other, "DROP TABLE t");
    assert_eq!(one.execute_with(&find, (1,)).unwrap_err().sqlstate(), "42P01");
    tag(&mut other, "CREATE TABLE t (v bigint, id bigint PRIMARY KEY)");
    tag(&mut one, "BEGIN");
    one.execute_with(&add, (1, 20)).unwrap();
    tag(&mut one, "COMMIT");
    let found: Vec<(Option<i64>,)> = one.query(&find, (1,)).unwrap();
    assert_eq!(found, [(Some(20),)]);
}

/// Threads change a table that another drops and makes again, with columns at other places.
#[test]
fn statements_meet_a_table_as_it_was_or_as_it_is() {
    let (mut one, mut other) = sessions();
    const NARROW: &str = "CREATE TABLE t (id int PRIMARY KEY, v int)";
    const WIDE: &str = "CREATE TABLE t (filler text DEFAULT 'f', v bigint, id bigint PRIMARY KEY)";
    tag(&mut one, NARROW);
    let definer = thread::spawn(move || {
        for round in 0..60 {
            if round % 2 == 0 {
                tag(&mut other, "DROP TABLE t");
                tag(&mut other, WIDE);
            } else {
                tag(&mut other, "BEGIN");
                tag(&mut other, "DROP TABLE t");
                tag(&mut other, NARROW);
                tag(&mut other, "INSERT INTO t VALUES (-1, -1)");
                tag(&mut other, "COMMIT");
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut done = 0;
    for id in 0.. {
        if definer.is_finished() {
            break;
        }
        match one.execute_with("INSERT INTO t (id, v) VALUES ($1, $2)", (id, id)) {
            Ok(_) => done += 1,
            Err(error) => assert_eq!(error.sqlstate(), "42P01", "{error}"),
        }
        match one.query::<(i64, i64)>("SELECT id, v FROM t WHERE id <= $1 AND id > -2", (id,)) {
            Ok(found) => assert!(found.iter().all(|(id, v)| id == v), "{found:?}"),
            Err(error) => assert_eq!(error.sqlstate(), "42P01", "{error}"),
        }
    }
    definer.join().unwrap();
    assert!(done > 0);
}

#[test]
fn a_table_is_altered_when_its_users_have_ended() {
    let (mut one, mut other) = sessions();
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t VALUES (1, 10)");
    tag(&mut one, "BEGIN");
    tag(&mut one, "UPDATE t SET v = 11");
    for statement in ["ALTER TABLE t ADD w int", "CREATE INDEX ON t (v)", "TRUNCATE t"] {
        tag(&mut other, "SET lock_timeout = '10ms'");
        assert_eq!(error(&mut other, statement).sqlstate(), "55P03", "{statement}");
    }
    tag(&mut other, "RESET lock_timeout");
    let waiter = thread::spawn(move || {
        tag(&mut other, "ALTER TABLE t ADD w int DEFAULT 5");
        other
    });
    thread::sleep(Duration::from_millis(30));
    assert!(!waiter.is_finished());
    tag(&mut one, "COMMIT");
    let mut other = waiter.join().unwrap();
    assert_eq!(rows(&mut other, "SELECT * FROM t WHERE id = 1"), ["1|11|5"]);
}

#[test]
fn a_prepared_statement_follows_the_shape_of_its_table() {
    let (mut one, mut other) = sessions();
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t VALUES (1, 10)");
    let find = one.prepare("SELECT * FROM t WHERE id = $1").unwrap();
    let change = one.prepare("UPDATE t SET v = v + 1 WHERE id = $1").unwrap();
    assert_eq!(rows(&mut one, "SELECT * FROM t WHERE id = 1"), ["1|10"]);
    tag(&mut other, "ALTER TABLE t DROP v, ADD w text DEFAULT 'w', ADD v int DEFAULT 7");
    let found: Vec<(i64, String, i64)> = one.query(&find, (1,)).unwrap();
    assert_eq!(found, [(1, "w".to_owned(), 7)]);
    one.execute_with(&change, (1,)).unwrap();
    assert_eq!(rows(&mut one, "SELECT * FROM t WHERE id = 1"), ["1|w|8"]);
    tag(&mut other, "ALTER TABLE t RENAME v TO x");
    assert_eq!(one.execute_with(&change, (1,)).unwrap_err().sqlstate(), "42703");
    // Within a transaction, only that one sees it.
    tag(&mut other, "BEGIN");
    tag(&mut other, "ALTER TABLE t RENAME x TO v");
    assert_eq!(rows(&mut other, "SELECT v FROM t WHERE id = 1"), ["8"]);
    assert_eq!(rows(&mut one, "SELECT x FROM t"), ["8"], "on a snapshot");
    tag(&mut other, "ROLLBACK");
    assert_eq!(error(&mut other, "SELECT v FROM t WHERE id = 1").sqlstate(), "42703");
}
