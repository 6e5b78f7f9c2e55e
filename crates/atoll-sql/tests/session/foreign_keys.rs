//! Foreign keys: sessions against each other, under every scheme and level; loads; recovery.
//! Statements of one session are in `sql/foreign_keys*.slt`.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_sql::{Cause, SqlErrorKind, SqlSession};

use super::{error, rows, tag};

const LEVELS: [&str; 2] = ["READ COMMITTED", "SERIALIZABLE"];

fn database(scheme: SchemeKind) -> Database {
    let lock_timeout = atoll_sql::lock_timeout(scheme);
    Database::create(DatabaseOptions { scheme, lock_timeout, ..DatabaseOptions::default() })
        .unwrap()
}

fn orphans(session: &mut SqlSession) -> Vec<String> {
    rows(
        session,
        "SELECT c.id, c.p FROM c LEFT JOIN p ON c.p = p.id WHERE p.id IS NULL AND c.p > 0",
    )
}

/// Every scheme with every level and every way to find rows.
fn everywhere(mut test: impl FnMut(Database, &str, &str)) {
    for scheme in SchemeKind::ALL {
        for level in LEVELS {
            for index in ["", ", INDEX c_p (p)"] {
                test(database(*scheme), level, index);
            }
        }
    }
}

/// One statement of each of two transactions, and the ends of both.
#[test]
fn a_parent_does_not_go_while_another_transaction_refers_to_it() {
    everywhere(|db, level, index| {
        let what = format!("{} {level}{index}", db.scheme());
        let mut one = SqlSession::on_database(db.clone());
        tag(&mut one, "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)");
        tag(
            &mut one,
            &format!(
                "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, \
                 u int REFERENCES p (u) ON DELETE CASCADE{index})"
            ),
        );
        let refer = [
            "INSERT INTO c VALUES (1, 1, NULL)",
            "UPDATE c SET p = 1 WHERE id = 0",
            "INSERT INTO c SELECT 1, id, NULL FROM p",
            "INSERT INTO c VALUES (1, NULL, 10)",
        ];
        for referring in refer {
            for removing in
                ["DELETE FROM p WHERE id = 1", "UPDATE p SET id = 2, u = 20 WHERE id = 1"]
            {
                for first in [referring, removing] {
                    let second = if first == referring { removing } else { referring };
                    tag(&mut one, "DELETE FROM c");
                    tag(&mut one, "DELETE FROM p");
                    tag(&mut one, "INSERT INTO p VALUES (1, 10)");
                    tag(&mut one, "INSERT INTO c VALUES (0, NULL, NULL)");
                    let begin = format!("BEGIN ISOLATION LEVEL {level}");
                    tag(&mut one, &begin);
                    let done = one.execute(first).map(drop);
                    let waiting = {
                        let (db, begin, second) = (db.clone(), begin.clone(), second.to_owned());
                        thread::spawn(move || {
                            let mut other = SqlSession::on_database(db);
                            tag(&mut other, &begin);
                            let done = other.execute(&second).map(drop);
                            done.and_then(|()| other.execute("COMMIT").map(drop))
                        })
                    };
                    thread::sleep(Duration::from_millis(2));
                    let done = done.and_then(|()| one.execute("COMMIT").map(drop));
                    if done.is_err() {
                        let _ = one.execute("ROLLBACK");
                    }
                    let other = waiting.join().unwrap();
                    for error in [&done, &other].into_iter().filter_map(|done| done.as_ref().err())
                    {
                        let is_expected = error.cause() == Some(Cause::ForeignKeyViolation)
                            || error.kind() == SqlErrorKind::Aborted;
                        assert!(is_expected, "{what}: {first}; {second}: {error}");
                    }
                    assert!(done.is_ok() || other.is_ok(), "{what}: {first}; {second}");
                    let left = "SELECT c.id FROM c LEFT JOIN p ON c.u = p.u WHERE p.id IS NULL \
                                AND c.u > 0";
                    let found = (orphans(&mut one), rows(&mut one, left));
                    assert_eq!(found, (vec![], vec![]), "{what}: {first}; {second}");
                }
            }
        }
    });
}

/// What a READ COMMITTED transaction has referred to stays until it ends, whatever it does then,
/// and others may refer to it meanwhile.
#[test]
fn a_parent_is_shared_and_kept_until_the_end_of_the_transaction() {
    let db = database("dl_detect".parse().unwrap());
    let mut one = SqlSession::on_database(db.clone());
    let mut other = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)");
    tag(
        &mut one,
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, u int REFERENCES p (u), \
         INDEX c_p (p), INDEX c_u (u))",
    );
    tag(&mut one, "INSERT INTO p VALUES (1, 10), (2, 20)");
    tag(&mut other, "SET lock_timeout = '20ms'");
    for referring in ["INSERT INTO c VALUES (1, 1, NULL)", "INSERT INTO c VALUES (1, NULL, 10)"] {
        tag(&mut one, "BEGIN");
        tag(&mut one, referring);
        tag(&mut one, "UPDATE c SET id = 5 WHERE id = 77");
        assert_eq!(rows(&mut one, "SELECT id FROM c"), ["1"]);
        tag(&mut other, "INSERT INTO c VALUES (2, 1, 10)");
        tag(&mut other, "DELETE FROM c WHERE id = 2");
        tag(&mut other, "UPDATE p SET u = 21 WHERE id = 2");
        tag(&mut other, "UPDATE p SET u = 20 WHERE id = 2");
        // Not the gaps that the search for a parent has passed.
        tag(&mut other, "INSERT INTO p VALUES (3, 11)");
        tag(&mut other, "DELETE FROM p WHERE id = 3");
        assert_eq!(error(&mut other, "DELETE FROM p WHERE id = 1").sqlstate(), "55P03");
        assert_eq!(
            error(&mut other, "UPDATE p SET id = 3, u = 3 WHERE id = 1").sqlstate(),
            "55P03"
        );
        tag(&mut one, "COMMIT");
        assert_eq!(error(&mut other, "DELETE FROM p WHERE id = 1").sqlstate(), "23503");
        tag(&mut one, "DELETE FROM c");
    }
    // A deferred check holds what it has found, too.
    tag(&mut one, "DROP TABLE c");
    tag(&mut one, "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE)");
    tag(&mut one, "BEGIN");
    tag(&mut one, "SET CONSTRAINTS ALL DEFERRED");
    tag(&mut one, "INSERT INTO c VALUES (1, 1)");
    tag(&mut one, "SET CONSTRAINTS ALL IMMEDIATE");
    assert_eq!(rows(&mut one, "SELECT id FROM c WHERE id = 1"), ["1"]);
    assert_eq!(error(&mut other, "DELETE FROM p WHERE id = 1").sqlstate(), "55P03");
    tag(&mut one, "COMMIT");
}

/// Threads insert, move and delete parents and children at random, in transactions of some
/// statements; no orphan is ever committed.
#[test]
fn no_orphan_is_committed_by_random_transactions() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 60;
    for (number, action) in
        ["", "ON DELETE CASCADE ON UPDATE CASCADE", "ON DELETE SET NULL"].into_iter().enumerate()
    {
        for scheme in SchemeKind::ALL {
            for level in LEVELS {
                let db = database(*scheme);
                let mut session = SqlSession::on_database(db.clone());
                let index = if number % 2 == 0 { ", INDEX c_p (p)" } else { "" };
                tag(&mut session, "CREATE TABLE p (id int PRIMARY KEY, v int DEFAULT 0)");
                tag(
                    &mut session,
                    &format!(
                        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p {action} \
                         DEFERRABLE{index})"
                    ),
                );
                tag(&mut session, "INSERT INTO p (id) VALUES (1), (2), (3), (4)");
                let barrier = Barrier::new(THREADS as usize);
                thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let (db, barrier) = (db.clone(), &barrier);
                        let seed = thread + 10 * number as u64;
                        scope.spawn(move || {
                            let mut session = SqlSession::on_database(db);
                            tag(&mut session, "SET lock_timeout = '500ms'");
                            barrier.wait();
                            wander(&mut session, level, seed, ROUNDS);
                        });
                    }
                });
                let found = orphans(&mut session);
                assert_eq!(found, Vec::<String>::new(), "{scheme} {level} {action}");
            }
        }
    }
}

/// Random transactions over few rows.
fn wander(session: &mut SqlSession, level: &str, seed: u64, rounds: u64) {
    let mut random = seed * 7919 + 1;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    for _ in 0..rounds {
        let in_transaction = next(3) > 0;
        if in_transaction {
            tag(session, &format!("BEGIN ISOLATION LEVEL {level}"));
            if next(3) == 0 {
                tag(session, "SET CONSTRAINTS ALL DEFERRED");
            }
        }
        for _ in 0..=next(3) {
            let (child, parent) = (next(12), 1 + next(6));
            let sql = match next(7) {
                0 | 1 => format!("INSERT INTO c VALUES ({child}, {parent}) ON CONFLICT DO NOTHING"),
                2 => format!("UPDATE c SET p = {parent} WHERE id = {child}"),
                3 => format!("DELETE FROM c WHERE id < {child}"),
                4 => format!("INSERT INTO p (id) VALUES ({parent}) ON CONFLICT DO NOTHING"),
                5 => format!("DELETE FROM p WHERE id = {parent}"),
                _ => format!("UPDATE p SET id = {} WHERE id = {parent}", 1 + next(6)),
            };
            if session.execute(&sql).is_err() {
                break;
            }
        }
        if in_transaction && session.execute("COMMIT").is_err() && session.in_transaction() {
            tag(session, "ROLLBACK");
        }
    }
}
