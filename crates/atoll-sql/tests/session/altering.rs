//! Tables that are altered while others change them, under every scheme.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_sql::{SqlError, SqlSession};

use super::{rows, tag};

const ACCOUNTS: i64 = 40;
const ROUNDS: i64 = 12;

/// Moves one from an account to another; `None` if the column has another name now, or if the
/// transaction has lost against others.
fn transfer(session: &mut SqlSession, from: i64, to: i64) -> Option<()> {
    let done = (|| {
        session.execute("BEGIN")?;
        // One way in a statement by key, the other through an index or a scan.
        session.execute_with("UPDATE account SET amount = amount - 1 WHERE id = $1", (from,))?;
        session.execute_with("UPDATE account SET amount = amount + 1 WHERE code = $1", (to,))?;
        session.execute("COMMIT").map(drop)
    })();
    let expected = |error: &SqlError| {
        matches!(error.sqlstate(), "40001" | "40P01" | "42703" | "42P01" | "25P02")
    };
    match done {
        Ok(()) => Some(()),
        Err(error) => {
            assert!(expected(&error), "{error}");
            if session.in_transaction() {
                tag(session, "ROLLBACK");
            }
            None
        }
    }
}

/// Ends the workers, also if the test fails.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(scheme: SchemeKind) {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE account (id int PRIMARY KEY, code int NOT NULL, amount int)");
    let all =
        format!("INSERT INTO account SELECT n, n, 100 FROM generate_series(1, {ACCOUNTS}) AS g(n)");
    tag(&mut session, &all);
    let ended = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        let end = End(&ended);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (mut session, ended) = (SqlSession::on_database(db.clone()), &ended);
                scope.spawn(move || {
                    let (mut done, mut at) = (0, worker * 7);
                    while !ended.load(Ordering::Relaxed) {
                        at += 1;
                        let (from, to) = (at % ACCOUNTS + 1, at * 11 % ACCOUNTS + 1);
                        done += transfer(&mut session, from, to).map_or(0, |()| 1);
                    }
                    done
                })
            })
            .collect();
        for round in 0..ROUNDS {
            for statement in [
                "CREATE INDEX by_code ON account (code)",
                "ALTER TABLE account ADD note text DEFAULT 'new', ALTER amount TYPE bigint",
                "ALTER TABLE account RENAME amount TO total",
                "ALTER TABLE account RENAME total TO amount",
                "DROP INDEX by_code",
                "ALTER TABLE account DROP note, ALTER amount TYPE int",
            ] {
                tag(&mut session, statement);
                let column = if statement.ends_with("total") { "total" } else { "amount" };
                let sum = format!("SELECT count(*), sum({column}) FROM account");
                let found = rows(&mut session, &sum);
                assert_eq!(found, ["40|4000"], "{scheme}, {round}, {statement}");
            }
        }
        drop(end);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
    });
    assert!(done > 0, "{scheme}: no transfer has committed");
    assert_eq!(rows(&mut session, "SELECT count(*), sum(amount) FROM account"), ["40|4000"]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM account WHERE id = code"), ["40"]);
}

#[test]
fn transfers_go_on_while_their_table_is_altered() {
    for scheme in SchemeKind::ALL {
        run(*scheme);
    }
}

/// Definitions of one table by several sessions come one after the other.
#[test]
fn definitions_wait_for_each_other() {
    let db = super::database();
    tag(&mut SqlSession::on_database(db.clone()), "CREATE TABLE t (id int PRIMARY KEY)");
    thread::scope(|scope| {
        for thread in 0..3 {
            let mut session = SqlSession::on_database(db.clone());
            scope.spawn(move || {
                for round in 0..15 {
                    let column = format!("c{thread}_{round}");
                    tag(&mut session, &format!("ALTER TABLE t ADD {column} int"));
                    tag(&mut session, &format!("CREATE INDEX i_{column} ON t ({column})"));
                    tag(&mut session, "TRUNCATE t");
                    tag(
                        &mut session,
                        &format!("INSERT INTO t (id) VALUES ({thread}) ON CONFLICT DO NOTHING"),
                    );
                    tag(&mut session, &format!("DROP INDEX i_{column}"));
                }
            });
        }
    });
    let table = db.table("t").unwrap();
    assert_eq!((table.schema().columns().len(), table.indexes().len()), (46, 1));
}

/// The names of a table's columns and indexes, and its rows.
fn state(session: &mut SqlSession, db: &Database, table: &str) -> (Vec<String>, Vec<String>) {
    let found = rows(session, &format!("SELECT * FROM {table} ORDER BY id"));
    let Ok(table) = db.table(table) else { return (vec![], found) };
    (table.indexes().into_iter().map(|index| index.name).collect(), found)
}

/// What definitions and statements behind a savepoint have done is undone together.
#[test]
fn definitions_behind_a_savepoint_are_undone_with_the_rows() {
    for scheme in SchemeKind::ALL {
        let db =
            Database::create(DatabaseOptions { scheme: *scheme, ..DatabaseOptions::default() })
                .unwrap();
        let mut session = SqlSession::on_database(db.clone());
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY, a int, b text)",
            "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 2, 'three')",
            "CREATE INDEX t_a ON t (a)",
            "CREATE TABLE kept (id int PRIMARY KEY)",
            "BEGIN",
            "UPDATE t SET a = 5 WHERE id = 3",
            "ALTER TABLE t RENAME COLUMN b TO c",
            "CREATE TABLE early (id int PRIMARY KEY, n int)",
            "INSERT INTO early VALUES (1, 1)",
            "SAVEPOINT s",
        ] {
            tag(&mut session, sql);
        }
        for round in 0..3 {
            let sqls = match round {
                0 => [
                    "UPDATE t SET a = 7 WHERE id = 1",
                    "CREATE UNIQUE INDEX one_a ON t (a)",
                    "UPDATE t SET a = 8 WHERE id = 3",
                    "UPDATE t SET a = 5, c = 'five' WHERE id = 1",
                    "ALTER TABLE t RENAME TO u",
                    "INSERT INTO u VALUES (4, 4, 'four')",
                    "DROP TABLE early",
                    "CREATE TABLE early (id int PRIMARY KEY)",
                ],
                1 => [
                    "ALTER TABLE t ADD COLUMN d int DEFAULT 9",
                    "UPDATE t SET d = 1 WHERE id = 2",
                    "DELETE FROM t WHERE id = 1",
                    "ALTER TABLE early ALTER COLUMN n TYPE bigint",
                    "INSERT INTO early VALUES (2, 2)",
                    "ALTER TABLE t DROP COLUMN a",
                    "TRUNCATE t",
                    "DROP TABLE kept",
                ],
                _ => [
                    "DROP INDEX t_a",
                    "ALTER TABLE t RENAME COLUMN c TO e",
                    "SAVEPOINT inner_one",
                    "INSERT INTO t VALUES (9, 9, 'nine')",
                    "ALTER TABLE t RENAME COLUMN e TO f",
                    "CREATE INDEX more ON t (f)",
                    "RELEASE SAVEPOINT inner_one",
                    "ALTER TABLE t ADD CHECK (a > 0)",
                ],
            };
            for sql in sqls {
                tag(&mut session, sql);
            }
            tag(&mut session, "ROLLBACK TO SAVEPOINT s");
            let wanted = ["1|1|one", "2|2|two", "3|5|three"];
            assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY id"), wanted, "{scheme}");
            assert_eq!(rows(&mut session, "SELECT c FROM t WHERE a = 5"), ["three"], "{scheme}");
            assert_eq!(rows(&mut session, "SELECT * FROM early"), ["1|1"], "{scheme}");
            assert_eq!(rows(&mut session, "SELECT * FROM kept"), [""; 0], "{scheme}");
        }
        // A statement that fails behind the savepoint, too.
        let failed = session.execute("ALTER TABLE t ADD CONSTRAINT small CHECK (a < 5)");
        assert_eq!(failed.unwrap_err().sqlstate(), "23514", "{scheme}");
        tag(&mut session, "ROLLBACK TO SAVEPOINT s");
        tag(&mut session, "INSERT INTO t VALUES (6, 600, 'six')");
        tag(&mut session, "COMMIT");
        let (indexes, found) = state(&mut session, &db, "t");
        assert_eq!(indexes, ["t_pkey", "t_a"], "{scheme}");
        assert_eq!(found, ["1|1|one", "2|2|two", "3|5|three", "6|600|six"], "{scheme}");
        assert_eq!(rows(&mut session, "SELECT n FROM early"), ["1"]);
    }
}

/// Indexes are made and dropped by one session while others write.
#[test]
fn indexes_come_and_go_beside_writers() {
    for scheme in SchemeKind::ALL {
        let db =
            Database::create(DatabaseOptions { scheme: *scheme, ..DatabaseOptions::default() })
                .unwrap();
        let mut session = SqlSession::on_database(db.clone());
        tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a int, b int)");
        tag(&mut session, "INSERT INTO t SELECT n, n % 50, n FROM generate_series(1, 3000) g(n)");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = End(&ended);
            for worker in 0..2 {
                let mut session = SqlSession::on_database(db.clone());
                let ended = &ended;
                scope.spawn(move || {
                    let mut round = 0;
                    while !ended.load(Ordering::Relaxed) {
                        round += 1;
                        let id = (round * 13 + worker * 7) % 3500 + 1;
                        for sql in [
                            format!("UPDATE t SET a = a + 1, b = -b WHERE id = {id}"),
                            format!("INSERT INTO t VALUES ({id}, 1, {id}) ON CONFLICT DO NOTHING"),
                            format!("DELETE FROM t WHERE id = {}", (id + 100) % 3500),
                        ] {
                            if let Err(error) = session.execute(&sql) {
                                assert_eq!(error.sqlstate(), "40001", "{scheme}: {error}");
                            }
                        }
                    }
                });
            }
            for round in 0..6 {
                tag(&mut session, "CREATE INDEX made ON t (a, b)");
                if round % 2 == 0 {
                    tag(&mut session, "CREATE UNIQUE INDEX CONCURRENTLY one ON t (b, id)");
                    tag(&mut session, "ALTER INDEX one RENAME TO other");
                    tag(&mut session, "DROP INDEX other");
                }
                let both =
                    "SELECT (SELECT count(*) FROM t WHERE a >= 0) = (SELECT count(*) FROM t)";
                assert_eq!(rows(&mut session, both), ["true"], "{scheme}");
                tag(&mut session, "DROP INDEX made");
            }
        });
        tag(&mut session, "UPDATE t SET a = 7 WHERE id IN (SELECT min(id) FROM t)");
        let failed = session.execute("CREATE UNIQUE INDEX ON t (a)").unwrap_err();
        assert_eq!(failed.sqlstate(), "23505", "{scheme}: {failed}");
        assert_eq!(db.table("t").unwrap().indexes().len(), 1);
    }
}
