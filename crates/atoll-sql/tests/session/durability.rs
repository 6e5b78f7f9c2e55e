//! What commits survive, chosen by statements; in a database that flushes by itself once an hour.

use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Durability};
use atoll_sql::{Outcome, SqlErrorKind, SqlSession};

use super::{error, rows, tag};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY)";

fn options(durability: Durability) -> DatabaseOptions {
    let memory_limit_bytes = Some(64 << 20);
    DatabaseOptions { durability, memory_limit_bytes, ..DatabaseOptions::default() }
}

fn open(medium: &CrashMedium) -> SqlSession {
    let hour = Durability::Group(Duration::from_secs(3600));
    SqlSession::on_database(Database::open_on(medium, options(hour)).unwrap())
}

/// A session with an empty table.
fn session(medium: &CrashMedium) -> SqlSession {
    let mut session = open(medium);
    tag(&mut session, "SET durability = 'strict'");
    tag(&mut session, TABLE);
    assert_eq!(tag(&mut session, "RESET durability"), "RESET");
    session
}

/// How many rows there are if the power is lost now; `None` if there is no table.
fn durable(medium: &CrashMedium) -> Option<u64> {
    let crashed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&crashed, options(Durability::Strict)).unwrap();
    db.table("t").ok().map(|table| table.row_count())
}

fn shown(session: &mut SqlSession) -> String {
    rows(session, "SHOW durability").concat()
}

#[test]
fn a_table_is_as_durable_as_its_session_asks() {
    let medium = CrashMedium::default();
    let mut session = open(&medium);
    tag(&mut session, TABLE);
    assert_eq!(durable(&medium), None);
    let medium = CrashMedium::default();
    let _open = self::session(&medium);
    assert_eq!(durable(&medium), Some(0));
}

#[test]
fn a_session_chooses_what_its_statements_survive() {
    let medium = CrashMedium::default();
    let mut session = session(&medium);
    tag(&mut session, "INSERT INTO t VALUES (1)");
    assert_eq!((durable(&medium), shown(&mut session).as_str()), (Some(0), "group:3600000"));
    assert_eq!(tag(&mut session, "SET durability = 'strict'"), "SET");
    tag(&mut session, "INSERT INTO t VALUES (2)");
    assert_eq!((durable(&medium), shown(&mut session).as_str()), (Some(2), "strict"));
    tag(&mut session, "SET SESSION durability TO none");
    tag(&mut session, "INSERT INTO t VALUES (3)");
    assert_eq!((durable(&medium), shown(&mut session).as_str()), (Some(2), "none"));
    tag(&mut session, "SET synchronous_commit = on");
    assert_eq!(rows(&mut session, "SHOW synchronous_commit"), ["on"]);
    tag(&mut session, "DELETE FROM t WHERE id = 3");
    tag(&mut session, "RESET ALL");
    tag(&mut session, "DELETE FROM t WHERE id = 2");
    assert_eq!(durable(&medium), Some(2));
    // Another session has chosen nothing.
    tag(&mut session, "SET durability = strict");
    let db = Database::create(options(Durability::None)).unwrap();
    assert_eq!(shown(&mut SqlSession::on_database(db)), "none");
}

#[test]
fn a_transaction_chooses_for_itself_at_any_time_before_it_commits() {
    let medium = CrashMedium::default();
    let mut session = session(&medium);
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (1)");
    tag(&mut session, "SET LOCAL durability = 'strict'");
    assert_eq!(shown(&mut session), "strict");
    tag(&mut session, "COMMIT");
    assert_eq!((durable(&medium), shown(&mut session).as_str()), (Some(1), "group:3600000"));
    tag(&mut session, "SET durability = strict");
    tag(&mut session, "BEGIN");
    tag(&mut session, "SET LOCAL durability = none");
    tag(&mut session, "INSERT INTO t VALUES (2)");
    tag(&mut session, "COMMIT");
    assert_eq!((durable(&medium), shown(&mut session).as_str()), (Some(1), "strict"));
}

#[test]
fn what_is_set_in_a_transaction_that_is_rolled_back_is_not_set() {
    let medium = CrashMedium::default();
    let mut session = session(&medium);
    for (end, wanted) in [("ROLLBACK", "group:3600000"), ("COMMIT", "strict")] {
        tag(&mut session, "BEGIN");
        tag(&mut session, "SET durability = strict");
        assert_eq!(shown(&mut session), "strict");
        tag(&mut session, end);
        assert_eq!(shown(&mut session), wanted, "{end}");
    }
    // Nor is it where the commit became a rollback.
    tag(&mut session, "BEGIN");
    tag(&mut session, "SET durability = none");
    error(&mut session, "SET durability = 'sometimes'");
    assert_eq!(error(&mut session, "SET durability = none").kind(), SqlErrorKind::Aborted);
    assert_eq!(error(&mut session, "SHOW durability").kind(), SqlErrorKind::Aborted);
    assert_eq!(tag(&mut session, "COMMIT"), "ROLLBACK");
    assert_eq!(shown(&mut session), "strict");
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let db = Database::create(options(Durability::Strict)).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    assert_eq!(shown(&mut session), "none");
    for sql in
        ["SET durability = strict", "SET durability = 'group'", "SET synchronous_commit = on"]
    {
        let refused = error(&mut session, sql);
        assert_eq!(refused.kind(), SqlErrorKind::Unsupported, "{sql}");
        assert!(refused.hint().unwrap().contains("--data"), "{refused}");
    }
    for sql in ["SET durability = none", "SET synchronous_commit = off", "RESET durability"] {
        tag(&mut session, sql);
    }
    tag(&mut session, "SET LOCAL durability = none");
    let told = session.take_notices();
    assert!(told[0].message().contains("SET LOCAL can only be used"), "{told:?}");
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    for sql in ["SET durability = none", "RESET durability", "SHOW durability"] {
        assert_eq!(error(&mut reader, sql).kind(), SqlErrorKind::ReadOnly, "{sql}");
    }
}

#[test]
fn defaults_and_conditions_survive() {
    let medium = CrashMedium::default();
    let mut session = open(&medium);
    tag(&mut session, "SET durability = 'strict'");
    tag(&mut session, "CREATE TABLE r (id int PRIMARY KEY, n int DEFAULT 3 CHECK (n < 9))");
    for checkpointed in [false, true] {
        let crashed = medium.crash(medium.events(), || false);
        let db = Database::open_on(&crashed, options(Durability::Strict)).unwrap();
        if checkpointed {
            db.checkpoint().unwrap();
        }
        drop(db);
        let db = Database::open_on(&crashed, options(Durability::Strict)).unwrap();
        let mut again = SqlSession::on_database(db);
        tag(&mut again, "INSERT INTO r (id) VALUES (1)");
        assert_eq!(rows(&mut again, "SELECT n FROM r"), ["3"]);
        assert_eq!(error(&mut again, "UPDATE r SET n = 9").sqlstate(), "23514");
    }
}

/// The columns and the rows of the table.
fn seen(session: &mut SqlSession) -> Vec<String> {
    let all = session.execute("SELECT * FROM t ORDER BY id");
    let Ok(Outcome::Rows(all)) = all else { return vec!["no table".to_owned()] };
    let names = all.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    std::iter::once(names.join("|"))
        .chain(super::fields(&all).iter().map(|row| row.join("|")))
        .collect()
}

#[test]
fn a_crash_leaves_a_table_as_it_was_or_as_it_was_altered() {
    let medium = CrashMedium::default();
    let mut session = session(&medium);
    tag(&mut session, "SET durability = 'strict'");
    let mut states = vec![(medium.events(), seen(&mut session))];
    for statement in [
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ADD v int DEFAULT 5, ADD CONSTRAINT small CHECK (v < 10)",
        "UPDATE t SET v = id",
        "CREATE UNIQUE INDEX one_v ON t (v)",
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t DROP CONSTRAINT small, ALTER w TYPE text",
        "BEGIN; ALTER TABLE t ADD x int; INSERT INTO t VALUES (3, '4', 5); COMMIT",
        "BEGIN; ALTER TABLE t DROP w; DELETE FROM t; ROLLBACK",
        // Tables that the transaction makes and drops again.
        "BEGIN; ALTER TABLE t ADD y int; UPDATE t SET y = 1; ALTER TABLE t DROP y, ADD z int; \
         COMMIT",
        "BEGIN; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1); DROP TABLE u; \
         COMMIT",
        "TRUNCATE t",
        "INSERT INTO t VALUES (7, '7', 7, 7)",
    ] {
        statement.split("; ").for_each(|one| drop(tag(&mut session, one)));
        states.push((medium.events(), seen(&mut session)));
    }
    for events in states[0].0..=medium.events() {
        let crashed = medium.crash(events, || false);
        let mut found = SqlSession::on_database(
            Database::open_on(&crashed, options(Durability::Strict)).unwrap(),
        );
        let found = seen(&mut found);
        let at = states.partition_point(|(after, _)| *after <= events) - 1;
        let allowed: Vec<_> = states[at..].iter().take(2).map(|(_, state)| state).collect();
        assert!(allowed.contains(&&found), "{events}: {found:?} is none of {allowed:?}");
    }
}

#[test]
fn foreign_keys_survive_with_their_tables() {
    let medium = CrashMedium::default();
    let mut session = open(&medium);
    tag(&mut session, "SET durability = 'strict'");
    tag(&mut session, "CREATE TABLE p (id int PRIMARY KEY)");
    tag(
        &mut session,
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, \
         q int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    );
    tag(&mut session, "INSERT INTO p VALUES (1), (2)");
    tag(&mut session, "INSERT INTO c VALUES (1, 1, NULL), (2, 2, 2)");
    // One that does not commit takes its actions with it.
    tag(&mut session, "BEGIN");
    tag(&mut session, "DELETE FROM p WHERE id = 1");
    let crashed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&crashed, options(Durability::Strict)).unwrap();
    let mut session = SqlSession::on_database(db);
    assert_eq!(rows(&mut session, "SELECT id, p, q FROM c ORDER BY id"), ["1|1|NULL", "2|2|2"]);
    assert_eq!(error(&mut session, "INSERT INTO c VALUES (3, 3, NULL)").sqlstate(), "23503");
    assert_eq!(error(&mut session, "INSERT INTO c VALUES (3, NULL, 3)").sqlstate(), "23503");
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO c VALUES (3, NULL, 3)");
    tag(&mut session, "INSERT INTO p VALUES (3)");
    tag(&mut session, "COMMIT");
    tag(&mut session, "DELETE FROM p WHERE id <= 2");
    assert_eq!(rows(&mut session, "SELECT id, p, q FROM c"), ["3|NULL|3"]);
    assert_eq!(error(&mut session, "DROP TABLE p").sqlstate(), "2BP01");
}
