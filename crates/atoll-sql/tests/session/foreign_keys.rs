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
                    // Where transactions do not wait for each other, both may be aborted.
                    let one_wins = done.is_ok() || other.is_ok();
                    assert!(one_wins || !db.scheme().releases_reads(), "{what}: {first}; {second}");
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
        // One that waits to remove the parent is not in the way of more rows that refer to it.
        let waiting = thread::spawn({
            let db = db.clone();
            move || error(&mut SqlSession::on_database(db), "DELETE FROM p WHERE id = 1").sqlstate()
        });
        thread::sleep(Duration::from_millis(20));
        tag(&mut one, &referring.replace("(1,", "(3,"));
        tag(&mut one, "COMMIT");
        assert_eq!(waiting.join().unwrap(), "23503");
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

#[test]
fn loads_keep_foreign_keys() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut number = 0;
    let mut copy = |rows: &str, options: &str| {
        number += 1;
        let path = folder.path().join(format!("{number}.csv"));
        std::fs::write(&path, rows).unwrap();
        format!("COPY c FROM '{}' WITH (FORMAT csv{options})", path.display())
    };
    for index in ["", ", INDEX c_p (p)"] {
        let db = database("dl_detect".parse().unwrap());
        let mut one = SqlSession::on_database(db.clone());
        let mut other = SqlSession::on_database(db);
        tag(&mut other, "SET lock_timeout = '20ms'");
        tag(&mut one, "CREATE TABLE p (id int PRIMARY KEY)");
        let create = format!(
            "CREATE TABLE c (id int PRIMARY KEY, p int DEFAULT 9 REFERENCES p, \
             u int UNIQUE, up int REFERENCES c{index})"
        );
        tag(&mut one, &create);
        tag(&mut one, "INSERT INTO p VALUES (1), (2)");
        // A table that no transaction has used, and then one that is used.
        for _ in 0..2 {
            let failed = error(&mut one, &copy("1,1,10,\n2,3,20,\n", ""));
            assert_eq!(failed.cause(), Some(Cause::ForeignKeyViolation));
            assert_eq!(failed.detail(), Some("Key (p)=(3) is not present in table \"p\"."));
            assert_eq!(rows(&mut one, "SELECT count(*) FROM c"), ["0"]);
        }
        // The default of a column that the file does not have.
        let path = copy("1\n", "");
        assert_eq!(error(&mut one, &path.replace("COPY c", "COPY c (id)")).sqlstate(), "23503");
        // A row may refer to one behind it, and to nothing.
        assert_eq!(tag(&mut one, &copy("1,1,10,2\n2,,20,3\n3,2,30,\n", "")), "COPY 3");
        assert_eq!(error(&mut one, &copy("4,1,40,5\n", "")).sqlstate(), "23503");
        assert_eq!(
            tag(&mut one, &copy("1,7,1,7\n4,1,40,\n", ", ON_CONFLICT skip")),
            "COPY 1, 1 skipped"
        );
        // What replaces a row refers to others, too.
        let replace = ", ON_CONFLICT replace";
        assert_eq!(error(&mut one, &copy("4,8,40,\n", replace)).sqlstate(), "23503");
        assert_eq!(
            tag(&mut one, &copy("4,2,41,4\n", replace)),
            "COPY 1, 1 of them replaced others"
        );
        // In a transaction, the parents are held until its end.
        tag(&mut one, "BEGIN");
        tag(&mut one, &copy("5,1,50,\n", ""));
        assert_eq!(rows(&mut one, "SELECT count(*) FROM c"), ["5"]);
        tag(&mut one, "DELETE FROM c WHERE id = 77");
        assert_eq!(error(&mut other, "DELETE FROM p WHERE id = 1").sqlstate(), "55P03");
        tag(&mut one, "ROLLBACK");
        // A row that is replaced may be one that others refer to.
        tag(
            &mut one,
            "CREATE TABLE d (id int PRIMARY KEY, u int REFERENCES c (u) ON UPDATE CASCADE)",
        );
        tag(&mut one, "CREATE TABLE e (id int PRIMARY KEY, u int REFERENCES c (u))");
        tag(&mut one, "INSERT INTO d VALUES (1, 41)");
        tag(&mut one, "INSERT INTO e VALUES (1, 20)");
        tag(&mut one, &copy("4,2,42,4\n", replace));
        assert_eq!(rows(&mut one, "SELECT u FROM d"), ["42"]);
        assert_eq!(error(&mut one, &copy("2,2,21,4\n", replace)).sqlstate(), "23503");
        assert_eq!(
            tag(&mut one, &copy("2,2,20,4\n", replace)),
            "COPY 1, 1 of them replaced others"
        );
        // Checks that are deferred.
        tag(&mut one, "DROP TABLE e, d, c");
        tag(
            &mut one,
            &create.replace("REFERENCES p", "REFERENCES p DEFERRABLE INITIALLY DEFERRED"),
        );
        assert_eq!(error(&mut one, &copy("1,5,10,\n", "")).sqlstate(), "23503");
        for (more, state) in [(true, None), (false, Some("23503"))] {
            tag(&mut one, "BEGIN");
            tag(&mut one, &copy("1,5,10,\n", ""));
            if more {
                tag(&mut one, "INSERT INTO p VALUES (5)");
            } else {
                tag(&mut one, "DELETE FROM p WHERE id = 5");
            }
            let done = one.execute("COMMIT");
            assert_eq!(done.err().map(|error| error.sqlstate()), state);
            tag(&mut one, "DELETE FROM c");
        }
    }
}

#[test]
fn arrow_data_keeps_foreign_keys() {
    let db = database("dl_detect".parse().unwrap());
    let mut one = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE p (id int PRIMARY KEY)");
    tag(&mut one, "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)");
    tag(&mut one, "INSERT INTO p VALUES (1)");
    let table = db.table("c").unwrap();
    let batch = |ids: Vec<i32>, parents: Vec<i32>| {
        let rows = ids.len();
        let array = |values: Vec<i32>| -> Option<arrow_array::ArrayRef> {
            Some(std::sync::Arc::new(arrow_array::Int32Array::from(values)))
        };
        [atoll::ArrowRows { rows, columns: vec![array(ids), array(parents)] }]
    };
    for in_transaction in [false, true] {
        let mut given = |ids: Vec<i32>, parents: Vec<i32>| {
            if in_transaction {
                tag(&mut one, "BEGIN");
            }
            let done = one.insert_arrow(&table, &batch(ids, parents));
            if in_transaction {
                tag(&mut one, "COMMIT");
            }
            done.map_err(|error| atoll_sql::SqlError::from(error).sqlstate())
        };
        assert_eq!(given(vec![1, 2], vec![1, 2]), Err("23503"));
        assert_eq!(given(vec![1, 2], vec![1, 1]), Ok(2));
        assert_eq!(rows(&mut one, "SELECT count(*) FROM c"), ["2"]);
        tag(&mut one, "DELETE FROM c");
    }
}

/// A foreign key comes and goes while others change the parent; a change that was bound before
/// knows of it.
#[test]
fn changes_of_a_parent_know_foreign_keys_that_come_and_go() {
    for scheme in SchemeKind::ALL {
        let db = database(*scheme);
        let mut one = SqlSession::on_database(db.clone());
        tag(&mut one, "CREATE TABLE p (id int PRIMARY KEY)");
        let definer = thread::spawn({
            let db = db.clone();
            move || {
                let mut session = SqlSession::on_database(db);
                for round in 0..40 {
                    let altered = round % 2 == 1;
                    let key = if altered { "" } else { "REFERENCES p" };
                    tag(&mut session, &format!("CREATE TABLE c (id int PRIMARY KEY, p int {key})"));
                    if altered {
                        let add = "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p";
                        while session.execute(add).is_err() {}
                    }
                    let _ = session.execute("INSERT INTO c VALUES (1, 1)");
                    thread::sleep(Duration::from_micros(200));
                    assert_eq!(orphans(&mut session), Vec::<String>::new());
                    tag(&mut session, "DROP TABLE c");
                }
            }
        });
        while !definer.is_finished() {
            for sql in ["INSERT INTO p VALUES (1)", "DELETE FROM p WHERE id = 1"] {
                if let Err(error) = one.execute(sql) {
                    let is_expected = ["23503", "23505", "40001", "40P01", "55000"];
                    assert!(is_expected.contains(&error.sqlstate()), "{scheme} {sql}: {error}");
                }
            }
        }
        definer.join().unwrap();
    }
}
