//! Sequences, between sessions and after crashes.

use std::collections::BTreeSet;
use std::fs;

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Durability};
use atoll_sql::{Outcome, SqlSession};

use super::{database, error, rows, session, tag};

fn strict() -> DatabaseOptions {
    DatabaseOptions {
        durability: Durability::Strict,
        memory_limit_bytes: Some(64 << 20),
        ..DatabaseOptions::default()
    }
}

fn number(session: &mut SqlSession, sql: &str) -> i64 {
    rows(session, sql).concat().parse().unwrap()
}

#[test]
fn every_scheme_gives_each_number_once() {
    for scheme in atoll::SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let mut session = SqlSession::on_database(db.clone());
        tag(&mut session, "CREATE SEQUENCE s");
        tag(&mut session, "CREATE TABLE t (id serial PRIMARY KEY, of int)");
        let all: Vec<i64> = std::thread::scope(|scope| {
            let spawn = |of: i32| {
                let db = db.clone();
                scope.spawn(move || {
                    let mut session = SqlSession::on_database(db);
                    let mut got = Vec::new();
                    for at in 0..30 {
                        got.push(number(&mut session, "SELECT nextval('s')"));
                        let insert = format!("INSERT INTO t (of) VALUES ({of}), ({of})");
                        if at % 10 != 0 {
                            tag(&mut session, &insert);
                            continue;
                        }
                        tag(&mut session, "BEGIN");
                        // It may lose against others.
                        let done = session.execute(&insert);
                        let _ = done.and_then(|_| session.execute("SELECT nextval('s')"));
                        tag(&mut session, "ROLLBACK");
                    }
                    got
                })
            };
            let threads: Vec<_> = (0..3).map(spawn).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 90, "{scheme}");
        assert_eq!(number(&mut session, "SELECT count(*) FROM t"), 3 * 27 * 2, "{scheme}");
    }
}

#[test]
fn no_number_is_given_again_after_a_crash() {
    for scheme in ["NO_WAIT", "SILO", "MVCC", "HSTORE"] {
        let options = || DatabaseOptions { scheme: scheme.parse().unwrap(), ..strict() };
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options()).unwrap();
        let mut session = SqlSession::on_database(db);
        tag(&mut session, "CREATE TABLE t (id serial PRIMARY KEY, v int)");
        tag(&mut session, "CREATE SEQUENCE s INCREMENT -1");
        let mut given: Vec<(usize, i64, i64)> = Vec::new();
        for round in 0..70 {
            if round == 40 {
                tag(&mut session, "ALTER SEQUENCE s CACHE 3");
            }
            let id = number(&mut session, "INSERT INTO t (v) VALUES (0) RETURNING id");
            let s = number(&mut session, "SELECT nextval('s')");
            given.push((medium.events(), id, s));
        }
        for (events, id, s) in given.iter().step_by(7) {
            let crashed = medium.crash(*events, || false);
            for _ in 0..2 {
                let db = Database::open_on(&crashed, options()).unwrap();
                let mut again = SqlSession::on_database(db);
                let next = number(&mut again, "INSERT INTO t (v) VALUES (1) RETURNING id");
                assert!(next > *id, "{scheme}: {next} is not behind {id}");
                assert!(next <= id + 3000, "{scheme}: {next} is far behind {id}");
                let next = number(&mut again, "SELECT nextval('s')");
                assert!(next < *s, "{scheme}: {next} is not behind {s}");
            }
        }
    }
}

#[test]
fn a_sequence_that_was_reset_begins_there_after_a_crash() {
    let medium = CrashMedium::default();
    let mut session = SqlSession::on_database(Database::open_on(&medium, strict()).unwrap());
    tag(&mut session, "CREATE SEQUENCE s START 100");
    for (sql, wanted) in [
        ("SELECT setval('s', 7)", 8),
        ("SELECT setval('s', 7, false)", 7),
        ("ALTER SEQUENCE s RESTART", 100),
        ("ALTER SEQUENCE s RENAME TO s", 100),
    ] {
        let _ = session.execute(sql);
        let crashed = medium.crash(medium.events(), || false);
        let mut again = SqlSession::on_database(Database::open_on(&crashed, strict()).unwrap());
        assert_eq!(number(&mut again, "SELECT nextval('s')"), wanted, "{sql}");
    }
}

#[test]
fn definitions_of_sequences_are_part_of_transactions() {
    let db = database();
    let mut first = SqlSession::on_database(db.clone());
    tag(&mut first, "CREATE SEQUENCE s");
    tag(&mut first, "CREATE TABLE t (id serial, v int)");
    assert_eq!(number(&mut first, "SELECT nextval('s')"), 1);
    tag(&mut first, "BEGIN");
    tag(&mut first, "ALTER SEQUENCE s INCREMENT 10");
    assert_eq!(number(&mut first, "SELECT nextval('s')"), 11);
    tag(&mut first, "ROLLBACK");
    assert_eq!(number(&mut first, "SELECT nextval('s')"), 2);
    tag(&mut first, "BEGIN");
    tag(&mut first, "ALTER TABLE t ADD w bigserial");
    tag(&mut first, "INSERT INTO t (v) VALUES (1), (2)");
    assert_eq!(rows(&mut first, "SELECT id, w FROM t ORDER BY id"), ["1|1", "2|2"]);
    tag(&mut first, "DROP SEQUENCE s");
    tag(&mut first, "COMMIT");
    let mut second = SqlSession::on_database(db);
    assert_eq!(number(&mut second, "INSERT INTO t (v) VALUES (3) RETURNING w"), 3);
    assert_eq!(error(&mut second, "SELECT nextval('s')").sqlstate(), "42P01");
}

#[test]
fn files_are_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    fs::write(&path, "v\n1\n2\n3\n").unwrap();
    let mut session =
        session("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int)");
    let copy = format!("COPY t FROM '{}' WITH (HEADER)", path.display());
    tag(&mut session, &copy);
    tag(&mut session, &copy);
    let ids = rows(&mut session, "SELECT count(DISTINCT id), count(*) FROM t");
    assert_eq!(ids, ["6|6"]);
    // As in PostgreSQL, a file may have values for such a column.
    fs::write(&path, "id,v\n100,1\n").unwrap();
    tag(&mut session, &copy);
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE id = 100"), ["1"]);
}

#[test]
fn steps_that_must_not_wait_ask_no_sequence() {
    let mut session = session("CREATE SEQUENCE s; CREATE TABLE t (a int PRIMARY KEY, b int)");
    tag(&mut session, "INSERT INTO t VALUES (1, 1), (2, 2)");
    tag(&mut session, "UPDATE t SET b = nextval('s') WHERE a = 1");
    tag(&mut session, "INSERT INTO t VALUES (2, 0) ON CONFLICT (a) DO UPDATE SET b = nextval('s')");
    let found = rows(&mut session, "SELECT b FROM t ORDER BY a");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 2, "{found:?}");
    let locked = "SELECT nextval('s') FROM t WHERE a = 1 FOR UPDATE";
    assert_eq!(error(&mut session, locked).sqlstate(), "0A000");
}

#[test]
fn rows_that_come_one_by_one_have_different_numbers() {
    let mut session = session("CREATE SEQUENCE s; CREATE TABLE t (a int)");
    tag(&mut session, "INSERT INTO t SELECT generate_series FROM generate_series(1, 20000)");
    let each = "SELECT count(DISTINCT n), min(n), max(n) FROM (SELECT nextval('s') AS n FROM t) q";
    assert_eq!(rows(&mut session, each), ["20000|1|20000"]);
    let stream = session.stream("SELECT nextval('s') FROM t", ()).unwrap();
    drop(session.execute("SELECT 1"));
    let count: usize = stream.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(count, 20_000);
    let mut reader = SqlSession::on_snapshot(database().snapshot().unwrap());
    let Err(refused) = reader.execute("SELECT nextval('s')").map(|outcome: Outcome| outcome) else {
        panic!("a snapshot gave a number")
    };
    assert_eq!(refused.sqlstate(), "25006");
}

/// A transaction that has altered a sequence, and undone that, asks it as before.
#[test]
fn an_undone_alteration_keeps_no_one_from_asking() {
    let db = super::database();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id serial PRIMARY KEY, v int)",
        "INSERT INTO t (v) VALUES (1)",
        "BEGIN",
        "SAVEPOINT a",
        "ALTER SEQUENCE s RESTART 5",
        "TRUNCATE t RESTART IDENTITY",
        "ROLLBACK TO a",
    ] {
        tag(&mut session, sql);
    }
    assert_eq!(rows(&mut session, "SELECT nextval('s'), nextval('s')"), ["1|2"]);
    tag(&mut session, "INSERT INTO t (v) VALUES (2)");
    tag(&mut session, "COMMIT");
    assert_eq!(rows(&mut session, "SELECT id FROM t ORDER BY id"), ["1", "2"]);
    assert_eq!(rows(&mut session, "SELECT nextval('s')"), ["3"]);
}

/// One session inserts into a table while another alters its sequence: neither waits for ever.
#[test]
fn a_sequence_is_altered_beside_those_that_ask_it() {
    let db = super::database();
    let mut one = SqlSession::on_database(db.clone());
    for (altering, sequence) in
        [("ALTER SEQUENCE t0_id_seq RENAME TO x", "x"), ("DROP SEQUENCE t1_id_seq CASCADE", "")]
            .into_iter()
            .enumerate()
            .map(|(at, (altering, sequence))| {
                let table = format!("t{at}");
                tag(&mut one, &format!("CREATE TABLE {table} (id serial PRIMARY KEY, v int)"));
                tag(&mut one, "BEGIN");
                tag(&mut one, &format!("INSERT INTO {table} (v) VALUES (1)"));
                std::thread::scope(|scope| {
                    let mut other = SqlSession::on_database(db.clone());
                    let waiting = scope.spawn(move || other.execute(altering).map(drop));
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    for _ in 0..100 {
                        tag(&mut one, &format!("INSERT INTO {table} (v) VALUES (2)"));
                    }
                    tag(&mut one, "COMMIT");
                    waiting.join().unwrap().unwrap();
                });
                (table, sequence)
            })
            .collect::<Vec<_>>()
    {
        let count = rows(&mut one, &format!("SELECT count(DISTINCT id) FROM {altering}"));
        assert_eq!(count, ["101"]);
        if !sequence.is_empty() {
            tag(&mut one, &format!("INSERT INTO {altering} (v) VALUES (3)"));
        }
    }
}

/// What a failed statement was given is no part of a later one.
#[test]
fn numbers_of_failed_statements_are_forgotten() {
    let db = super::database();
    let mut session = SqlSession::on_database(db.clone());
    for round in 0..2 {
        tag(&mut session, "BEGIN");
        tag(&mut session, "SAVEPOINT a");
        tag(&mut session, "CREATE TABLE t (id serial PRIMARY KEY, v int CHECK (v > 0))");
        let failed = session.execute("INSERT INTO t (v) VALUES (-1)").unwrap_err();
        assert_eq!(failed.sqlstate(), "23514");
        if round == 0 {
            tag(&mut session, "ROLLBACK TO a");
            assert_eq!(rows(&mut session, "SELECT 1"), ["1"]);
        }
        tag(&mut session, "ROLLBACK");
    }
    tag(&mut session, "CREATE TABLE t (v int)");
    tag(&mut session, "INSERT INTO t SELECT 1 FROM generate_series(1, 5)");
    let failed = session.execute("ALTER TABLE t ADD COLUMN id serial, ADD CHECK (id < 3)");
    assert_eq!(failed.unwrap_err().sqlstate(), "23514");
    tag(&mut session, "BEGIN READ ONLY");
    tag(&mut session, "COMMIT");
}

/// A statement that waits for one that makes a sequence anew asks the new one.
#[test]
fn a_statement_that_is_bound_again_asks_the_sequence_of_then() {
    let db = super::database();
    let [mut one, mut other] = [(); 2].map(|()| SqlSession::on_database(db.clone()));
    tag(&mut one, "CREATE TABLE t (id serial PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t (v) SELECT 1 FROM generate_series(1, 10)");
    tag(&mut one, "BEGIN");
    tag(&mut one, "CREATE TABLE x (a int)");
    tag(&mut other, "BEGIN");
    tag(&mut other, "TRUNCATE t RESTART IDENTITY");
    std::thread::scope(|scope| {
        let inserting = scope.spawn(|| tag(&mut one, "INSERT INTO t (v) VALUES (1)"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        tag(&mut other, "COMMIT");
        assert_eq!(inserting.join().unwrap(), "INSERT 0 1");
    });
    tag(&mut one, "COMMIT");
    assert_eq!(rows(&mut one, "SELECT id FROM t"), ["1"]);
    tag(&mut other, "INSERT INTO t (v) VALUES (2)");
    assert_eq!(rows(&mut one, "SELECT id FROM t ORDER BY id"), ["1", "2"]);
}

/// A table gets no name that another session gives to a view or a sequence, and no comment of what
/// had the name before.
#[test]
fn tables_and_objects_share_their_names() {
    let db = super::database();
    let [mut one, mut other] = [(); 2].map(|()| SqlSession::on_database(db.clone()));
    tag(&mut one, "CREATE TABLE t (a int)");
    for (create, name) in [("CREATE VIEW v AS SELECT 1 AS x", "v"), ("CREATE SEQUENCE q", "q")] {
        tag(&mut one, "BEGIN");
        tag(&mut one, create);
        let rename = format!("ALTER TABLE t RENAME TO {name}");
        let renamed = std::thread::scope(|scope| {
            let renaming = scope.spawn(|| other.execute(&rename).map(drop));
            std::thread::sleep(std::time::Duration::from_millis(50));
            tag(&mut one, "COMMIT");
            renaming.join().unwrap()
        });
        assert_eq!(renamed.unwrap_err().sqlstate(), "42P07", "{name}");
    }
    tag(&mut one, "COMMENT ON SEQUENCE q IS 'x'");
    tag(&mut one, "DROP SEQUENCE q");
    tag(&mut one, "COMMENT ON TABLE t IS 'y'");
    tag(&mut one, "ALTER TABLE t RENAME TO q");
    assert_eq!(db.tables(), ["q"]);
}
