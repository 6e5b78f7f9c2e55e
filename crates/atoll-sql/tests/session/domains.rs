//! Domains in transactions, folders, snapshots, parameters and files.

use atoll::{Database, DatabaseOptions};
use atoll_sql::SqlSession;

use super::{database, error, rows, session, tag};

const TABLES: &str = "CREATE DOMAIN small AS int CHECK (VALUE BETWEEN 0 AND 99);
     CREATE DOMAIN word AS text NOT NULL DEFAULT 'none' CHECK (VALUE <> '');
     CREATE TABLE t (id int PRIMARY KEY, s small, w word);
     INSERT INTO t VALUES (1, 5, 'five'), (2, NULL, 'two')";

#[test]
fn domains_survive_in_a_folder_with_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let mut session = SqlSession::on_database(open());
    session.execute_script(TABLES).into_iter().for_each(|done| drop(done.unwrap()));
    tag(&mut session, "ALTER DOMAIN small ADD CONSTRAINT even CHECK (VALUE <> 7)");
    drop(session);
    let mut session = SqlSession::on_database(open());
    for (sql, state) in [
        ("INSERT INTO t VALUES (3, 100, 'x')", "23514"),
        ("INSERT INTO t VALUES (3, 7, 'x')", "23514"),
        ("INSERT INTO t VALUES (3, 1, NULL)", "23502"),
        ("UPDATE t SET s = s + 95", "23514"),
        ("SELECT 7::small", "23514"),
    ] {
        assert_eq!(error(&mut session, sql).sqlstate(), state, "{sql}");
    }
    tag(&mut session, "INSERT INTO t (id) VALUES (3)");
    assert_eq!(rows(&mut session, "SELECT w FROM t WHERE id = 3"), ["none"]);
}

#[test]
fn a_transaction_takes_back_what_it_has_altered() {
    let mut session = session(TABLES);
    tag(&mut session, "BEGIN");
    tag(&mut session, "ALTER DOMAIN small DROP CONSTRAINT small_check");
    tag(&mut session, "INSERT INTO t VALUES (3, 1000, 'x')");
    tag(&mut session, "ALTER DOMAIN small RENAME TO large");
    assert_eq!(rows(&mut session, "SELECT 1000::large"), ["1000"]);
    tag(&mut session, "ROLLBACK");
    let failed = error(&mut session, "INSERT INTO t VALUES (3, 1000, 'x')");
    assert_eq!(
        failed.message(),
        "value for domain small violates check constraint \"small_check\""
    );
}

#[test]
fn a_snapshot_casts_to_domains() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    session.execute_script(TABLES).into_iter().for_each(|done| drop(done.unwrap()));
    let mut snapshot = SqlSession::on_snapshot(db.snapshot().unwrap());
    assert_eq!(rows(&mut snapshot, "SELECT (s + 1)::small FROM t ORDER BY id"), ["6", "NULL"]);
    assert_eq!(error(&mut snapshot, "SELECT (s + 95)::small FROM t").sqlstate(), "23514");
    assert_eq!(error(&mut snapshot, "SELECT NULL::word").sqlstate(), "23502");
}

#[test]
fn parameters_and_files_are_checked() {
    let mut session = session(TABLES);
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2, $3)").unwrap();
    session.execute_with(&insert, (3, 9, "x")).unwrap();
    let failed = session.execute_with(&insert, (4, 100, "x")).unwrap_err();
    assert_eq!(failed.sqlstate(), "23514");
    let failed = session.execute_with("SELECT $1::small", (100,)).map(drop).unwrap_err();
    assert_eq!(failed.sqlstate(), "23514");
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("t.csv");
    std::fs::write(&csv, "4,50,a\n5,500,b\n").unwrap();
    let failed = error(&mut session, &format!("COPY t FROM '{}'", csv.display()));
    assert_eq!(failed.sqlstate(), "23514", "{failed}");
    std::fs::write(&csv, "id,s\n4,50\n5,\n").unwrap();
    tag(&mut session, &format!("COPY t (id, s) FROM '{}' WITH (HEADER)", csv.display()));
    assert_eq!(rows(&mut session, "SELECT w FROM t WHERE id > 3"), ["none", "none"]);
}

#[test]
fn a_domain_has_the_values_of_an_enum() {
    let mut session = session(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE DOMAIN good AS mood CHECK (VALUE >= 'ok');
         CREATE TABLE t (id int PRIMARY KEY, g good);
         INSERT INTO t VALUES (1, 'happy')",
    );
    assert_eq!(error(&mut session, "INSERT INTO t VALUES (2, 'sad')").sqlstate(), "23514");
    assert_eq!(error(&mut session, "SELECT 'sad'::good").sqlstate(), "23514");
    assert_eq!(rows(&mut session, "SELECT 'ok'::good < g FROM t"), ["true"]);
    assert_eq!(error(&mut session, "ALTER TYPE mood ADD VALUE 'x'").sqlstate(), "2BP01");
    assert_eq!(error(&mut session, "DROP TYPE mood").sqlstate(), "2BP01");
    assert_eq!(error(&mut session, "CREATE DOMAIN d AS good").sqlstate(), "0A000");
}
