//! `ADD COLUMN` in place, and where it makes a copy of the table.

use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_sql::SqlSession;

use super::{rows, tag};

/// A number that a table keeps as long as it is not copied.
fn serial(db: &Database, table: &str) -> u64 {
    db.snapshot().unwrap().table(table).unwrap().serial_number()
}

fn open(scheme: SchemeKind, folder: &std::path::Path) -> (Database, SqlSession) {
    let db =
        Database::open(folder, DatabaseOptions { scheme, ..DatabaseOptions::default() }).unwrap();
    (db.clone(), SqlSession::on_database(db))
}

#[test]
fn a_column_with_one_value_takes_no_copy() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let folder = tempfile::tempdir().unwrap();
        let (db, mut session) = open(scheme, folder.path());
        let one = &mut session;
        tag(one, "CREATE TABLE parent (id int PRIMARY KEY)");
        tag(one, "INSERT INTO parent VALUES (1), (2)");
        tag(one, "CREATE TABLE t (id int PRIMARY KEY, note text)");
        tag(one, "INSERT INTO t SELECT n, 'note ' || n FROM generate_series(1, 10000) AS g(n)");
        let before = serial(&db, "t");
        tag(
            one,
            "ALTER TABLE t ADD COLUMN a int NOT NULL DEFAULT 2 * 21, ADD COLUMN b text,
                ADD COLUMN c varchar(5) DEFAULT 'abc', ADD d numeric(8,2) DEFAULT 1.5 CHECK (d > 1),
                ADD COLUMN e timestamptz DEFAULT now(), ADD COLUMN p int REFERENCES parent",
        );
        let all = "SELECT count(*), sum(a), count(b), min(c), max(c), sum(d), count(DISTINCT e), \
                   count(p) FROM t";
        assert_eq!(rows(one, all), ["10000|420000|0|abc|abc|15000.00|1|0"], "{scheme}");
        assert_eq!(serial(&db, "t"), before, "{scheme}");
        let bad = one.execute("INSERT INTO t (id, d) VALUES (0, 0.5)").unwrap_err();
        assert_eq!(bad.sqlstate(), "23514", "{scheme}: {bad}");
        let bad = one.execute("UPDATE t SET p = 3 WHERE id = 7").unwrap_err();
        assert_eq!(bad.sqlstate(), "23503", "{scheme}: {bad}");
        tag(one, "UPDATE t SET a = id, b = 'a long text of number ' || id, p = 1 WHERE id <= 10");
        tag(one, "INSERT INTO t (id, b) VALUES (10001, 'new')");
        tag(one, "DELETE FROM t WHERE id = 5");
        tag(one, "CREATE INDEX by_a ON t (a)");
        let some =
            "SELECT id, a, b, c, d, p FROM t WHERE a <> 42 OR id > 10000 ORDER BY id LIMIT 2";
        let found =
            ["1|1|a long text of number 1|abc|1.50|1", "2|2|a long text of number 2|abc|1.50|1"];
        assert_eq!(rows(one, some), found, "{scheme}");
        assert_eq!(rows(one, "SELECT count(*) FROM t WHERE a = 42"), ["9991"], "{scheme}");
        let now = rows(one, "SELECT * FROM t ORDER BY id");
        drop((session, db));
        let (db, mut session) = open(scheme, folder.path());
        assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY id"), now, "{scheme}");
        assert_eq!(serial(&db, "t"), before, "{scheme}");
    }
}

#[test]
fn values_that_rows_do_not_share_take_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (db, mut session) = open("silo".parse().unwrap(), folder.path());
    let one = &mut session;
    tag(one, "CREATE TABLE t (id int PRIMARY KEY)");
    tag(one, "INSERT INTO t SELECT n FROM generate_series(1, 100) AS g(n)");
    let mut before = serial(&db, "t");
    for (column, found) in [
        ("a serial", "100"),
        ("b int GENERATED ALWAYS AS (id + 1) STORED", "100"),
        ("c text DEFAULT 'more than twelve bytes'", "1"),
        ("d int UNIQUE", "0"),
    ] {
        tag(one, &format!("ALTER TABLE t ADD COLUMN {column}"));
        let count = format!("SELECT count(DISTINCT {}) FROM t", &column[..1]);
        assert_eq!(rows(one, &count), [found], "{column}");
        assert!(serial(&db, "t") > before, "{column}");
        before = serial(&db, "t");
    }
    let bad = one.execute("ALTER TABLE t ADD COLUMN x int NOT NULL").unwrap_err();
    assert_eq!(bad.sqlstate(), "23502", "{bad}");
    let bad = one.execute("ALTER TABLE t ADD COLUMN x varchar(2) DEFAULT 'abc'").unwrap_err();
    assert_eq!(bad.sqlstate(), "22001", "{bad}");
    let bad = one.execute("ALTER TABLE t ADD COLUMN x int DEFAULT 1 CHECK (x > 1)").unwrap_err();
    assert_eq!(bad.sqlstate(), "23514", "{bad}");
    tag(one, "CREATE DOMAIN positive AS int CHECK (VALUE > 0)");
    let bad = one.execute("ALTER TABLE t ADD COLUMN x positive DEFAULT -1").unwrap_err();
    assert_eq!(bad.sqlstate(), "23514", "{bad}");
    tag(one, "CREATE DOMAIN known AS int NOT NULL");
    let bad = one.execute("ALTER TABLE t ADD COLUMN x known").unwrap_err();
    assert_eq!(bad.sqlstate(), "23502", "{bad}");
    tag(one, "ALTER TABLE t ADD COLUMN x positive DEFAULT 4");
    assert_eq!(rows(one, "SELECT sum(x) FROM t"), ["400"]);
    tag(one, "ALTER TABLE t RENAME COLUMN x TO y");
    tag(one, "BEGIN");
    tag(one, "ALTER TABLE t RENAME COLUMN y TO z");
    tag(one, "ALTER TABLE t ADD COLUMN y int DEFAULT 3");
    tag(one, "COMMIT");
    assert_eq!(rows(one, "SELECT sum(z), sum(y) FROM t"), ["400|300"]);
    tag(one, "CREATE TABLE empty (id int PRIMARY KEY)");
    tag(one, "ALTER TABLE empty ADD COLUMN x int NOT NULL");
    tag(one, "CREATE TABLE keyless (a int)");
    tag(one, "INSERT INTO keyless VALUES (1), (1)");
    tag(one, "ALTER TABLE keyless ADD COLUMN b int DEFAULT 3");
    assert_eq!(rows(one, "SELECT * FROM keyless"), ["1|3", "1|3"]);
}

#[test]
fn new_columns_go_with_the_transaction_that_adds_them() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let folder = tempfile::tempdir().unwrap();
        let (db, mut session) = open(scheme, folder.path());
        let one = &mut session;
        tag(one, "CREATE TABLE t (id int PRIMARY KEY, n int)");
        tag(one, "INSERT INTO t SELECT n, n FROM generate_series(1, 1000) AS g(n)");
        tag(one, "BEGIN");
        tag(one, "INSERT INTO t VALUES (1001, 1)");
        tag(one, "ALTER TABLE t ADD COLUMN a int DEFAULT 7");
        tag(one, "UPDATE t SET a = 8, n = 0 WHERE id = 1");
        assert_eq!(rows(one, "SELECT * FROM t WHERE id = 1"), ["1|0|8"], "{scheme}");
        tag(one, "SAVEPOINT s");
        tag(one, "ALTER TABLE t ADD COLUMN b text DEFAULT 'b'");
        tag(one, "INSERT INTO t VALUES (1002, 1, 2, 'x')");
        tag(one, "ROLLBACK TO s");
        tag(one, "INSERT INTO t VALUES (1003, 1)");
        assert_eq!(rows(one, "SELECT * FROM t WHERE id = 1003"), ["1003|1|7"], "{scheme}");
        tag(one, "ROLLBACK");
        assert_eq!(rows(one, "SELECT * FROM t WHERE id = 1"), ["1|1"], "{scheme}");
        tag(one, "INSERT INTO t VALUES (1001, 1)");
        // Another column of that place, with another type.
        tag(one, "BEGIN");
        tag(one, "ALTER TABLE t ADD COLUMN a text DEFAULT 'a text'");
        tag(one, "SAVEPOINT s");
        tag(one, "ALTER TABLE t ADD COLUMN b int DEFAULT 5");
        tag(one, "UPDATE t SET b = id, n = n + 1 WHERE id < 300");
        tag(one, "ROLLBACK TO s");
        tag(one, "UPDATE t SET n = n + 1 WHERE id = 9");
        tag(one, "COMMIT");
        drop((session, db));
        let (db, mut session) = open(scheme, folder.path());
        let one = &mut session;
        let some = rows(one, "SELECT * FROM t WHERE id IN (8, 9) ORDER BY id");
        assert_eq!(some, ["8|8|a text", "9|10|a text"], "{scheme}");
        tag(one, "ALTER TABLE t ADD COLUMN c int DEFAULT 6");
        let all = "SELECT count(*), min(a), max(a), sum(c) FROM t";
        assert_eq!(rows(one, all), ["1001|a text|a text|6006"], "{scheme}");
        tag(one, "ALTER TABLE t ADD COLUMN d int DEFAULT 1");
        drop((session, db));
        let (_db, mut session) = open(scheme, folder.path());
        assert_eq!(rows(&mut session, all), ["1001|a text|a text|6006"], "{scheme}");
        assert_eq!(rows(&mut session, "SELECT * FROM t WHERE id = 9"), ["9|10|a text|6|1"]);
    }
}
