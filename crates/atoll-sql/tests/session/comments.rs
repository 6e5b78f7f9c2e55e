//! Comments on relations and their parts.

use atoll::Database;
use atoll_sql::{Comments, SqlSession};

use super::{database, error, tag};

/// All comments of a relation, as `part: text`.
fn of(db: &Database, relation: &str) -> Vec<String> {
    let catalog = db.catalog().unwrap();
    let Comments { relation, columns, indexes, constraints, .. } =
        Comments::in_catalog(&catalog, relation).unwrap();
    let mut found: Vec<String> = relation.into_iter().collect();
    for (kind, of) in [("column", columns), ("index", indexes), ("constraint", constraints)] {
        found.extend(of.into_iter().map(|(name, text)| format!("{kind} {name}: {text}")));
    }
    found
}

fn commented() -> (Database, SqlSession) {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text, CONSTRAINT c CHECK (a > 0))",
        "CREATE INDEX by_a ON t (a)",
        "CREATE VIEW v AS SELECT id, a FROM t",
        "COMMENT ON TABLE t IS 'it''s a table'",
        "COMMENT ON COLUMN public.t.a IS 'number'",
        "COMMENT ON COLUMN t.b IS 'text'",
        "COMMENT ON INDEX by_a IS 'fast'",
        "COMMENT ON CONSTRAINT c ON t IS 'positive'",
        "COMMENT ON CONSTRAINT t_pkey ON public.t IS 'key'",
        "COMMENT ON VIEW v IS 'a view'",
        "COMMENT ON COLUMN v.id IS 'its key'",
    ] {
        assert!(
            ["COMMENT", "CREATE TABLE", "CREATE INDEX", "CREATE VIEW"]
                .contains(&tag(&mut session, sql).as_str())
        );
    }
    (db, session)
}

#[test]
fn comments_follow_what_they_are_on() {
    let (db, mut session) = commented();
    let all = [
        "it's a table",
        "column a: number",
        "column b: text",
        "index by_a: fast",
        "constraint c: positive",
        "constraint t_pkey: key",
    ];
    assert_eq!(of(&db, "t"), all);
    assert_eq!(of(&db, "v"), ["a view", "column id: its key"]);
    assert_eq!(db.tables(), ["t"]);
    for sql in [
        "TRUNCATE t",
        "ALTER TABLE t ADD d int",
        "ALTER TABLE t RENAME a TO aa",
        "ALTER INDEX by_a RENAME TO by_aa",
        "ALTER TABLE t RENAME CONSTRAINT c TO cc",
        "ALTER TABLE t RENAME TO tt",
        "ALTER TABLE tt DROP COLUMN b",
        "ALTER VIEW v RENAME TO vv",
        "ALTER VIEW vv RENAME COLUMN id TO nr",
        "COMMENT ON TABLE tt IS ''",
        "COMMENT ON COLUMN vv.a IS 'new'",
    ] {
        tag(&mut session, sql);
    }
    let all = [
        "column aa: number",
        "index by_aa: fast",
        "constraint cc: positive",
        "constraint t_pkey: key",
    ];
    assert_eq!(of(&db, "tt"), all);
    assert_eq!(of(&db, "vv"), ["a view", "column a: new", "column nr: its key"]);
    assert!(of(&db, "t").is_empty() && of(&db, "v").is_empty());
    for sql in ["DROP INDEX by_aa", "ALTER TABLE tt DROP CONSTRAINT cc"] {
        tag(&mut session, sql);
    }
    tag(&mut session, "COMMENT ON CONSTRAINT t_pkey ON tt IS NULL");
    assert_eq!(of(&db, "tt"), ["column aa: number"]);
    tag(&mut session, "DROP TABLE tt CASCADE");
    assert_eq!(db.catalog().unwrap().objects().count(), 0);
    tag(&mut session, "CREATE TABLE tt (aa int PRIMARY KEY)");
    assert!(of(&db, "tt").is_empty());
}

#[test]
fn comments_are_part_of_their_transaction() {
    let (db, mut session) = commented();
    let before = of(&db, "t");
    tag(&mut session, "BEGIN");
    tag(&mut session, "COMMENT ON TABLE t IS 'other'");
    tag(&mut session, "COMMENT ON COLUMN t.id IS 'more'");
    assert_eq!(of(&db, "t"), before);
    tag(&mut session, "ROLLBACK");
    assert_eq!(of(&db, "t"), before);
    tag(&mut session, "BEGIN");
    tag(&mut session, "COMMENT ON COLUMN t.id IS 'more'");
    tag(&mut session, "COMMIT");
    assert!(of(&db, "t").contains(&"column id: more".to_owned()));
    let snapshot = db.snapshot().unwrap();
    tag(&mut session, "DROP TABLE t CASCADE");
    assert_eq!(Comments::in_snapshot(&snapshot, "v").unwrap().relation.as_deref(), Some("a view"));
}

#[test]
fn a_comment_is_on_something() {
    let (db, mut session) = commented();
    for (sql, state, message) in [
        ("COMMENT ON TABLE v IS 'x'", "42809", "\"v\" is not a table"),
        ("COMMENT ON VIEW t IS 'x'", "42809", "\"t\" is not a view"),
        ("COMMENT ON VIEW nothing IS 'x'", "42P01", "view \"nothing\" does not exist"),
        ("COMMENT ON COLUMN t.x IS 'x'", "42703", "column \"x\" does not exist in table \"t\""),
        ("COMMENT ON COLUMN v.x IS 'x'", "42703", "column \"x\" does not exist in table \"v\""),
        ("COMMENT ON COLUMN x IS 'x'", "42601", "column name must be qualified"),
        (
            "COMMENT ON CONSTRAINT x ON t IS 'x'",
            "42704",
            "constraint \"x\" for table \"t\" does not exist",
        ),
        ("COMMENT ON INDEX x IS 'x'", "42704", "index \"x\" does not exist"),
        ("COMMENT ON DATABASE x IS 'x'", "0A000", "COMMENT ON DATABASE is not supported"),
    ] {
        let refused = error(&mut session, sql);
        assert_eq!((refused.sqlstate(), refused.message()), (state, message), "{sql}");
    }
    assert_eq!(of(&db, "v"), ["a view", "column id: its key"]);
}
