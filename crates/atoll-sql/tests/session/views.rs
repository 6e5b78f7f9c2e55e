//! Views: their errors, and sessions beside each other.

use std::thread;
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions};
use atoll_sql::{SqlSession, View};

use super::{database, error, rows, session, tag};

const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, a int, b text);
    INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y');
    CREATE VIEW v AS SELECT id, a FROM t WHERE a > 10;
    CREATE VIEW w AS SELECT a, count(*) FROM t GROUP BY a;
    CREATE VIEW x AS SELECT v.id FROM v JOIN w ON v.a = w.a";

/// Messages, details and hints are those of PostgreSQL 15, except where it says something of rules.
#[test]
fn errors_tell_what_depends_on_what() {
    let mut session = session(TABLES);
    let cascade = "Use DROP ... CASCADE to drop the dependent objects too.";
    for (sql, message, detail, hint) in [
        (
            "DROP TABLE t",
            "cannot drop table t because other objects depend on it",
            "view v depends on table t\nview w depends on table t\nview x depends on view w",
            cascade,
        ),
        (
            "DROP VIEW w",
            "cannot drop view w because other objects depend on it",
            "view x depends on view w",
            cascade,
        ),
        (
            "DROP VIEW v, w",
            "cannot drop desired object(s) because other objects depend on them",
            "view x depends on view v",
            cascade,
        ),
        (
            "ALTER TABLE t DROP COLUMN id",
            "cannot drop column id of table t because other objects depend on it",
            "view v depends on column id of table t\nview x depends on view v",
            cascade,
        ),
        (
            "ALTER TABLE t ALTER a TYPE bigint",
            "cannot alter type of a column used by a view or rule",
            "rule _RETURN on view v depends on column \"a\"",
            "",
        ),
        ("DROP TABLE v", "\"v\" is not a table", "", "Use DROP VIEW to remove a view."),
        ("DROP VIEW t", "\"t\" is not a view", "", "Use DROP TABLE to remove a table."),
        ("CREATE VIEW t AS SELECT 1", "relation \"t\" already exists", "", ""),
        (
            "CREATE OR REPLACE VIEW v AS SELECT id, id AS b FROM t",
            "cannot change name of view column \"a\" to \"b\"",
            "",
            "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
        ),
        (
            "CREATE OR REPLACE VIEW v AS SELECT id, b AS a FROM t",
            "cannot change data type of view column \"a\" from integer to text",
            "",
            "",
        ),
        (
            "DELETE FROM w",
            "cannot delete from view \"w\"",
            "Views are not updatable.",
            "Change the rows of the tables that the view reads.",
        ),
    ] {
        let refused = error(&mut session, sql);
        let found = (refused.message(), refused.detail().unwrap_or(""), refused.hint());
        assert_eq!(found, (message, detail, Some(hint).filter(|hint| !hint.is_empty())), "{sql}");
    }
    assert_eq!(rows(&mut session, "SELECT * FROM x"), ["2"]);
}

#[test]
fn a_view_is_part_of_its_transaction() {
    let db = database();
    let (mut one, mut other) = (SqlSession::on_database(db.clone()), SqlSession::on_database(db));
    one.execute_script(TABLES).into_iter().for_each(|done| drop(done.unwrap()));
    for (end, found) in [("ROLLBACK", vec!["2"]), ("COMMIT", vec!["20"])] {
        tag(&mut one, "BEGIN");
        tag(&mut one, "DROP VIEW x");
        tag(&mut one, "CREATE VIEW y AS SELECT 1 AS one");
        tag(&mut one, "CREATE VIEW x AS SELECT a AS id FROM v");
        assert_eq!(rows(&mut one, "SELECT * FROM x"), ["20"]);
        assert_eq!(rows(&mut other, "SELECT * FROM x"), ["2"]);
        assert_eq!(error(&mut other, "SELECT * FROM y").sqlstate(), "42P01");
        tag(&mut one, end);
        assert_eq!(rows(&mut other, "SELECT * FROM x"), found);
        assert_eq!(rows(&mut one, "SELECT * FROM x"), found);
    }
    assert_eq!(rows(&mut other, "SELECT * FROM y"), ["1"]);
}

/// A bound statement does not go on with a view that has been replaced.
#[test]
fn a_prepared_statement_sees_what_a_view_is_now() {
    let mut session = session(TABLES);
    let prepared = session.prepare("SELECT a FROM v WHERE id = $1").unwrap();
    let read = |session: &mut SqlSession, id: i32| -> Vec<(i32,)> {
        session.query(&prepared, (id,)).unwrap()
    };
    assert_eq!(read(&mut session, 2), [(20,)]);
    assert_eq!(read(&mut session, 1), []);
    tag(&mut session, "CREATE OR REPLACE VIEW v AS SELECT id, a + 1 AS a FROM t");
    assert_eq!(read(&mut session, 1), [(11,)]);
    tag(&mut session, "ALTER TABLE t RENAME a TO z");
    assert_eq!(read(&mut session, 2), [(21,)]);
}

/// Of two sessions that define one name one succeeds, and no table goes while a view of it comes.
#[test]
fn definitions_of_one_name_wait_for_each_other() {
    let db = database();
    let mut one = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, a int)");
    for (first, second, state) in [
        ("CREATE VIEW v AS SELECT id FROM t", "CREATE VIEW v AS SELECT a FROM t", "42P07"),
        ("CREATE VIEW u AS SELECT id FROM t", "CREATE TABLE u (id int PRIMARY KEY)", "42P07"),
        ("CREATE VIEW s AS SELECT id FROM t", "DROP TABLE t", "2BP01"),
        ("CREATE VIEW r AS SELECT a FROM t", "ALTER TABLE t DROP COLUMN a", "2BP01"),
    ] {
        tag(&mut one, "BEGIN");
        tag(&mut one, first);
        let db = db.clone();
        let waiting = thread::spawn(move || {
            let mut other = SqlSession::on_database(db);
            error(&mut other, second).sqlstate()
        });
        thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "{second} does not wait for {first}");
        tag(&mut one, "COMMIT");
        assert_eq!(waiting.join().unwrap(), state, "{second}");
    }
}

#[test]
fn a_view_of_a_dropped_table_does_not_come() {
    let db = database();
    let mut one = SqlSession::on_database(db.clone());
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY)");
    tag(&mut one, "BEGIN");
    tag(&mut one, "DROP TABLE t");
    let waiting = thread::spawn(move || {
        let mut other = SqlSession::on_database(db);
        error(&mut other, "CREATE VIEW v AS SELECT id FROM t").sqlstate()
    });
    thread::sleep(Duration::from_millis(100));
    tag(&mut one, "COMMIT");
    assert_eq!(waiting.join().unwrap(), "42P01");
}

/// Views inside each other are read up to a depth, and those that read others many times up to a
/// number of relations.
#[test]
fn too_many_views_are_an_error() {
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    tag(&mut session, "CREATE VIEW v0 AS SELECT id FROM t");
    let mut depth = 0;
    let refused = loop {
        let sql = format!("CREATE VIEW v{} AS SELECT id FROM v{depth}", depth + 1);
        match session.execute(&sql) {
            Ok(_) => depth += 1,
            Err(error) => break error,
        }
        assert!(depth < 100);
    };
    assert_eq!(refused.sqlstate(), "54001");
    assert!(depth > 20, "{depth}");
    assert_eq!(rows(&mut session, &format!("SELECT id FROM v{depth}")), ["1"]);
    tag(&mut session, "CREATE VIEW w0 AS SELECT id FROM t");
    let twice = (0..12).try_for_each(|at| {
        let sql = format!(
            "CREATE VIEW w{} AS SELECT a.id FROM w{at} a WHERE id IN (SELECT id FROM w{at})",
            at + 1
        );
        session.execute(&sql).map(drop)
    });
    assert_eq!(twice.unwrap_err().sqlstate(), "54001");
}

#[test]
fn a_snapshot_has_the_views_of_its_moment() {
    let mut live = session(TABLES);
    let db = database();
    let mut own = SqlSession::on_database(db.clone());
    own.execute_script(TABLES).into_iter().for_each(|done| drop(done.unwrap()));
    let snapshot = db.snapshot().unwrap();
    tag(&mut own, "DROP TABLE t CASCADE");
    let mut then = SqlSession::on_snapshot(snapshot.clone());
    for sql in ["SELECT * FROM x", "SELECT * FROM w ORDER BY a", "SELECT v.a FROM v, x"] {
        assert_eq!(rows(&mut then, sql), rows(&mut live, sql), "{sql}");
    }
    assert_eq!(snapshot.tables(), ["t"]);
    let view = View::of(snapshot.object("v").unwrap().schema()).unwrap().unwrap();
    assert_eq!(view.definition().unwrap(), "SELECT id, a FROM t WHERE a > 10");
    let columns: Vec<_> =
        view.columns.iter().map(|one| format!("{} {}", one.name, one.data_type)).collect();
    assert_eq!(columns, ["id integer", "a integer"]);
}

/// After a crash at any moment a view is there with what it reads, or not at all.
#[test]
fn views_and_comments_survive_with_their_transaction() {
    let options = || DatabaseOptions {
        memory_limit_bytes: Some(64 << 20),
        tablespaces: Some(1),
        ..DatabaseOptions::default()
    };
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a int)");
    tag(&mut session, "INSERT INTO t VALUES (1, 10)");
    let begun = medium.events();
    for sql in [
        "CREATE VIEW v AS SELECT a FROM t",
        "ALTER TABLE t RENAME a TO b",
        "ALTER TABLE t RENAME TO u",
        "DROP TABLE u CASCADE",
    ] {
        tag(&mut session, sql);
    }
    let mut seen = Vec::new();
    for at in begun..=medium.events() {
        let crashed = medium.crash(at, || false);
        let db = Database::open_on(&crashed, options()).unwrap();
        let view = View::find(&db.catalog().unwrap(), "v").unwrap();
        let tables = db.tables();
        let mut session = SqlSession::on_database(db);
        if view.is_some() {
            assert_eq!(rows(&mut session, "SELECT a FROM v"), ["10"], "after {at} events");
        }
        let definition = view.map(|view| view.definition().unwrap());
        seen.push((tables, definition.unwrap_or_default()));
    }
    seen.dedup();
    let wanted = [
        ("t", ""),
        ("t", "SELECT a FROM t"),
        ("t", "SELECT a FROM (SELECT b AS a FROM public.t) AS t"),
        ("u", "SELECT a FROM (SELECT b AS a FROM public.u) AS t"),
        ("", ""),
    ];
    let seen: Vec<_> =
        seen.iter().map(|(tables, view)| (tables.join(" "), view.as_str())).collect();
    let seen: Vec<_> = seen.iter().map(|(tables, view)| (tables.as_str(), *view)).collect();
    assert_eq!(seen, wanted);
}
