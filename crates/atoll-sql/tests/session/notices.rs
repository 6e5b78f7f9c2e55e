//! What is told of statements that succeed, in the words of PostgreSQL 15.

use atoll_sql::SqlSession;

use super::{session, tag};

/// What a statement that succeeds tells.
#[track_caller]
fn told(session: &mut SqlSession, sql: &str) -> Vec<String> {
    drop(session.take_notices());
    tag(session, sql);
    let notices = session.take_notices();
    notices.iter().map(|one| format!("{}: {one}", one.sqlstate())).collect()
}

#[test]
fn what_is_not_there_is_told() {
    let mut session = session("CREATE TABLE a (id int PRIMARY KEY); CREATE DOMAIN d AS int");
    for (sql, wanted) in [
        ("DROP TABLE IF EXISTS nope", "00000: table \"nope\" does not exist, skipping"),
        ("DROP TABLE IF EXISTS s9.nope", "00000: schema \"s9\" does not exist, skipping"),
        ("DROP VIEW IF EXISTS nope", "00000: view \"nope\" does not exist, skipping"),
        ("DROP SEQUENCE IF EXISTS nope", "00000: sequence \"nope\" does not exist, skipping"),
        ("DROP INDEX IF EXISTS nope", "00000: index \"nope\" does not exist, skipping"),
        ("DROP SCHEMA IF EXISTS nope", "00000: schema \"nope\" does not exist, skipping"),
        ("DROP TYPE IF EXISTS nope", "00000: type \"nope\" does not exist, skipping"),
        ("DROP DOMAIN IF EXISTS nope", "00000: type \"nope\" does not exist, skipping"),
        (
            "ALTER TABLE IF EXISTS nope ADD COLUMN z int",
            "00000: relation \"nope\" does not exist, skipping",
        ),
        (
            "ALTER VIEW IF EXISTS nope RENAME TO x",
            "00000: relation \"nope\" does not exist, skipping",
        ),
        (
            "ALTER SEQUENCE IF EXISTS nope RESTART",
            "00000: relation \"nope\" does not exist, skipping",
        ),
        (
            "ALTER TABLE a DROP COLUMN IF EXISTS zz",
            "00000: column \"zz\" of relation \"a\" does not exist, skipping",
        ),
        (
            "ALTER TABLE a DROP CONSTRAINT IF EXISTS zz",
            "00000: constraint \"zz\" of relation \"a\" does not exist, skipping",
        ),
        (
            "ALTER DOMAIN d DROP CONSTRAINT IF EXISTS zz",
            "00000: constraint \"zz\" of domain \"d\" does not exist, skipping",
        ),
    ] {
        assert_eq!(told(&mut session, sql), [wanted], "{sql}");
    }
    let both = told(&mut session, "DROP TABLE IF EXISTS one, a, two");
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn what_is_there_already_is_told() {
    let mut session = session(
        "CREATE TABLE a (id int PRIMARY KEY, x int); CREATE SEQUENCE s; CREATE INDEX i ON a (x);
         CREATE SCHEMA sc; CREATE TYPE e AS ENUM ('a')",
    );
    for (sql, wanted) in [
        ("CREATE TABLE IF NOT EXISTS a (id int)", "42P07: relation \"a\" already exists, skipping"),
        (
            "CREATE TABLE IF NOT EXISTS a AS SELECT 1",
            "42P07: relation \"a\" already exists, skipping",
        ),
        ("CREATE SEQUENCE IF NOT EXISTS s", "42P07: relation \"s\" already exists, skipping"),
        ("CREATE INDEX IF NOT EXISTS i ON a (x)", "42P07: relation \"i\" already exists, skipping"),
        ("CREATE SCHEMA IF NOT EXISTS sc", "42P06: schema \"sc\" already exists, skipping"),
        (
            "ALTER TABLE a ADD COLUMN IF NOT EXISTS x int",
            "42701: column \"x\" of relation \"a\" already exists, skipping",
        ),
        (
            "ALTER TYPE e ADD VALUE IF NOT EXISTS 'a'",
            "42710: enum label \"a\" already exists, skipping",
        ),
    ] {
        assert_eq!(told(&mut session, sql), [wanted], "{sql}");
    }
}

#[test]
fn what_goes_with_something_else_is_told() {
    let mut session = session(
        "CREATE TABLE a (id int PRIMARY KEY, x int); CREATE VIEW v AS SELECT * FROM a;
         CREATE VIEW v2 AS SELECT * FROM v;
         CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);
         CREATE TABLE c (id int PRIMARY KEY, b int REFERENCES b);
         CREATE TYPE e AS ENUM ('a'); CREATE TABLE te (id int, e e);
         CREATE DOMAIN d AS int; CREATE TABLE td (id int, d d);
         CREATE SEQUENCE q; CREATE TABLE tq (id int DEFAULT nextval('q'));
         CREATE SCHEMA sc; CREATE TABLE sc.t (id serial); CREATE VIEW sc.v AS SELECT 1 AS one",
    );
    for (sql, wanted) in [
        (
            "TRUNCATE a CASCADE",
            &["00000: truncate cascades to table \"b\"", "00000: truncate cascades to table \"c\""]
                [..],
        ),
        ("DROP VIEW v CASCADE", &["00000: drop cascades to view v2"]),
        ("CREATE VIEW v AS SELECT x FROM a", &[]),
        ("ALTER TABLE a DROP COLUMN x CASCADE", &["00000: drop cascades to view v"]),
        ("CREATE VIEW v AS SELECT * FROM a", &[]),
        (
            "DROP TABLE a CASCADE",
            &["00000: drop cascades to 2 other objects\n\
               drop cascades to view v\n\
               drop cascades to constraint b_a_fkey on table b"],
        ),
        ("DROP TABLE b CASCADE", &["00000: drop cascades to constraint c_b_fkey on table c"]),
        ("DROP TYPE e CASCADE", &["00000: drop cascades to column e of table te"]),
        ("DROP DOMAIN d CASCADE", &["00000: drop cascades to column d of table td"]),
        (
            "DROP SEQUENCE q CASCADE",
            &["00000: drop cascades to default value for column id of table tq"],
        ),
        (
            "DROP SCHEMA sc CASCADE",
            &["00000: drop cascades to 2 other objects\n\
               drop cascades to table sc.t\n\
               drop cascades to view sc.v"],
        ),
        ("DROP TABLE c", &[]),
    ] {
        assert_eq!(told(&mut session, sql), wanted, "{sql}");
    }
}

#[test]
fn client_min_messages_says_what_is_told() {
    let mut session = session("SET client_min_messages = 'WARNING'");
    let (missing, local) = ("DROP TABLE IF EXISTS nope", "SET LOCAL lock_timeout = 1");
    for (level, of_missing, of_local) in [
        ("warning", 0, 1),
        ("error", 0, 0),
        ("log", 1, 1),
        ("debug", 1, 1),
        ("info", 1, 1),
        ("default", 1, 1),
    ] {
        tag(&mut session, &format!("SET client_min_messages TO {level}"));
        assert_eq!(told(&mut session, missing).len(), of_missing, "{level}");
        assert_eq!(told(&mut session, local).len(), of_local, "{level}");
    }
    for (set, shown) in [("error", "error"), ("debug", "debug2"), ("info", "info")] {
        tag(&mut session, &format!("SET client_min_messages = {set}"));
        assert_eq!(super::rows(&mut session, "SHOW client_min_messages"), [shown]);
    }
    let wrong = super::error(&mut session, "SET client_min_messages = 'Fatal'");
    let message = "invalid value for parameter \"client_min_messages\": \"Fatal\"";
    assert_eq!((wrong.message(), wrong.sqlstate()), (message, "22023"));
}
