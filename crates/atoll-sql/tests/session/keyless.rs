//! Tables without a primary key.

use std::fs;

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Durability};
use atoll_sql::{Outcome, SqlSession};

use super::{database, error, rows, session, tag};

const TABLE: &str = "CREATE TABLE t (a int, b text)";

/// The names of the columns of a result.
fn names(session: &mut SqlSession, sql: &str) -> Vec<String> {
    match session.execute(sql).unwrap() {
        Outcome::Rows(rows) => {
            rows.schema().fields().iter().map(|field| field.name().clone()).collect()
        }
        _ => panic!("{sql} returned no rows"),
    }
}

#[test]
fn no_statement_sees_the_numbers_of_rows() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [TABLE, "CREATE TABLE u (LIKE t)", "INSERT INTO t VALUES (1)"] {
        tag(&mut session, sql);
    }
    let both = ["a", "b"].map(str::to_owned);
    for sql in [
        "SELECT * FROM t",
        "SELECT t.* FROM t",
        "INSERT INTO t VALUES (2, 'x') RETURNING *",
        "UPDATE t SET b = 'y' WHERE a = 2 RETURNING *",
        "SELECT * FROM t WHERE a = 1 FOR UPDATE",
        "DELETE FROM t WHERE a = 2 RETURNING t.*",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w",
        "SELECT * FROM t UNION ALL SELECT * FROM u",
        "SELECT * FROM t NATURAL JOIN u",
    ] {
        assert_eq!(names(&mut session, sql), both, "{sql}");
    }
    let four = names(&mut session, "DELETE FROM t USING u WHERE t.a = u.a RETURNING *");
    assert_eq!(four, ["a", "b", "a", "b"]);
    for sql in ["SELECT zz FROM t", "UPDATE t SET zz = 1", "DELETE FROM t WHERE zz = 1"] {
        let error = error(&mut session, sql);
        assert_eq!(error.sqlstate(), "42703", "{sql}");
        assert!(!format!("{error:?}").contains("row\""), "{sql}: {error:?}");
    }
    assert_eq!(error(&mut session, "SELECT \"\u{1}row\" FROM t").sqlstate(), "42602");
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    assert_eq!(names(&mut reader, "SELECT * FROM t"), both);
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 't'";
    assert_eq!(rows(&mut reader, columns), both);
}

#[test]
fn files_are_loaded_in_bulk_and_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    fs::write(&path, "a,b\n1,x\n1,x\n,\n").unwrap();
    let mut session = session(TABLE);
    let copy = format!("COPY t FROM '{}' WITH (HEADER)", path.display());
    for round in 1..=3 {
        assert_eq!(tag(&mut session, &copy), "COPY 3");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), [(3 * round).to_string()]);
    }
    let replace = format!("COPY t FROM '{}' WITH (HEADER, ON_CONFLICT replace)", path.display());
    assert!(error(&mut session, &replace).message().contains("primary key"));
    let skip = format!("COPY t FROM '{}' WITH (HEADER, ON_CONFLICT skip)", path.display());
    assert_eq!(tag(&mut session, &skip), "COPY 3");
    tag(&mut session, "CREATE TABLE one (a int UNIQUE, b text, CHECK (a < 9))");
    let skip = skip.replace("COPY t", "COPY one");
    assert_eq!(tag(&mut session, &skip), "COPY 2, 1 skipped");
    assert_eq!(tag(&mut session, &skip), "COPY 1, 2 skipped");
    tag(&mut session, "BEGIN");
    assert_eq!(tag(&mut session, &copy), "COPY 3");
    tag(&mut session, "ROLLBACK");
    assert_eq!(rows(&mut session, "SELECT count(*), count(a) FROM t"), ["12|8"]);
}

#[test]
fn every_scheme_keeps_all_rows() {
    for scheme in atoll::SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let mut session = SqlSession::on_database(db.clone());
        tag(&mut session, TABLE);
        std::thread::scope(|scope| {
            for of in 0..3 {
                let db = db.clone();
                scope.spawn(move || {
                    let mut session = SqlSession::on_database(db);
                    for at in 0..20 {
                        tag(
                            &mut session,
                            &format!("INSERT INTO t VALUES ({of}, 'x'), ({of}, NULL)"),
                        );
                        if at % 5 == 0 {
                            tag(&mut session, &format!("UPDATE t SET b = 'y' WHERE a = {of}"));
                        }
                    }
                });
            }
        });
        assert_eq!(
            rows(&mut session, "SELECT a, count(*) FROM t GROUP BY a ORDER BY a"),
            ["0|40", "1|40", "2|40"],
            "{scheme}"
        );
        tag(&mut session, "BEGIN");
        tag(&mut session, "INSERT INTO t VALUES (7, 'z'), (7, 'z')");
        tag(&mut session, "DELETE FROM t WHERE a < 7");
        tag(&mut session, "UPDATE t SET a = a + 1");
        tag(&mut session, "COMMIT");
        assert_eq!(rows(&mut session, "SELECT * FROM t"), ["8|z", "8|z"], "{scheme}");
    }
}

#[test]
fn a_crash_loses_and_mixes_no_rows() {
    let options = |durability| DatabaseOptions {
        durability,
        memory_limit_bytes: Some(64 << 20),
        ..DatabaseOptions::default()
    };
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(Durability::Strict)).unwrap();
    let mut session = SqlSession::on_database(db);
    tag(&mut session, TABLE);
    let begun = medium.events();
    for sql in [
        "INSERT INTO t VALUES (1, 'x'), (1, 'x')",
        "ALTER TABLE t ADD PRIMARY KEY (a, b)",
        "TRUNCATE t",
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "INSERT INTO t VALUES (2, 'y'), (2, 'y')",
        "ALTER TABLE t ADD c int DEFAULT 3",
        "INSERT INTO t SELECT * FROM t",
    ] {
        // The key cannot be added to equal rows.
        let _ = session.execute(sql);
    }
    for at in begun..=medium.events() {
        let crashed = medium.crash(at, || false);
        let db = Database::open_on(&crashed, options(Durability::Strict)).unwrap();
        let mut session = SqlSession::on_database(db);
        let counted = |session: &mut SqlSession| -> u64 {
            rows(session, "SELECT count(*) FROM t").concat().parse().unwrap()
        };
        let before = counted(&mut session);
        tag(&mut session, "INSERT INTO t (a, b) VALUES (8, 'n'), (9, 'n')");
        assert_eq!(counted(&mut session), before + 2, "after {at} events");
    }
}
