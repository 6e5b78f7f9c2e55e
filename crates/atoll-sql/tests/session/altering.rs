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
