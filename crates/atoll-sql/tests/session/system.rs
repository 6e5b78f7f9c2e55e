//! The system catalogs: their answers are those of PostgreSQL 15, in transactions and on snapshots.

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;
use atoll::{Database, DatabaseOptions};
use atoll_sql::{
    Literal, Outcome, QueryResult, SYSTEM_TYPE, SqlSession, Surroundings, SystemRole, literal_at,
};

use super::{database, error, rows, session, tag};

/// A value as PostgreSQL's client shows it.
fn shown(value: &Literal) -> String {
    match value {
        Literal::Null => "NULL".to_owned(),
        Literal::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        other => other.text().unwrap_or_default(),
    }
}

/// The rows of a result.
fn answers(result: &QueryResult) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in result.batches() {
        for at in 0..batch.num_rows() {
            let value = |(column, field): (&ArrayRef, &FieldRef)| {
                if column.is_null(at) {
                    return "NULL".to_owned();
                }
                let text = shown(&literal_at(column, at).unwrap());
                match field.metadata().get(SYSTEM_TYPE).map(String::as_str) {
                    // A server writes a vector without signs.
                    Some("int2vector") => text.trim_matches(['{', '}']).replace(',', " "),
                    _ => text,
                }
            };
            let schema = batch.schema();
            let columns = batch.columns().iter().zip(schema.fields());
            rows.push(columns.map(value).collect::<Vec<_>>().join(" | "));
        }
    }
    rows
}

#[test]
fn the_answers_are_those_of_postgresql() {
    let mut session = session(include_str!("system/schema.sql"));
    let text = include_str!("system/answers.txt");
    let mut wrong = Vec::new();
    for part in text.split("\n-- ").skip(1) {
        let mut lines = part.lines();
        let (sql, wanted) = (lines.next().unwrap(), lines.collect::<Vec<_>>());
        match session.execute(sql) {
            Ok(Outcome::Rows(result)) => {
                let found = answers(&result);
                if found != wanted {
                    wrong.push(format!(
                        "{sql}\nfound\n  {}\nwanted\n  {}",
                        found.join("\n  "),
                        wanted.join("\n  ")
                    ));
                }
            }
            Ok(_) => wrong.push(format!("{sql} returned no rows")),
            Err(error) => wrong.push(error.render(sql)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_table_and_view_can_be_read() {
    let mut session = session(include_str!("system/schema.sql"));
    let all = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n
               ON n.oid = c.relnamespace
               WHERE n.nspname IN ('pg_catalog', 'information_schema')";
    let all = rows(&mut session, all);
    assert!(all.len() > 70, "{}", all.len());
    for name in all {
        let name = name.replace('|', ".");
        rows(&mut session, &format!("SELECT * FROM {name}"));
    }
}

#[test]
fn a_transaction_sees_its_own_definitions() {
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY)");
    let names =
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1";
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO t VALUES (1)");
    tag(&mut session, "CREATE TABLE u (id int)");
    assert_eq!(rows(&mut session, names), ["t", "u"]);
    assert_eq!(rows(&mut session, "SELECT 'u'::regclass"), ["u"]);
    // A query that reads rows as well would have to see those of the transaction.
    let mixed = "SELECT t.id, c.relname FROM t, pg_class c WHERE c.relname = 't'";
    assert_eq!(error(&mut session, mixed).sqlstate(), "0A000");
    tag(&mut session, "ROLLBACK");
    assert_eq!(rows(&mut session, names), ["t"]);
    assert_eq!(rows(&mut session, mixed), Vec::<String>::new());
}

#[test]
fn a_snapshot_shows_the_definitions_of_its_cut() {
    let db = database();
    let mut owner = SqlSession::on_database(db.clone());
    tag(&mut owner, "CREATE TABLE t (id int PRIMARY KEY, name text)");
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    tag(&mut owner, "ALTER TABLE t DROP COLUMN name");
    let columns = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass ORDER BY attnum";
    assert_eq!(rows(&mut reader, columns), ["id", "name"]);
    assert_eq!(rows(&mut owner, columns), ["id"]);
}

#[test]
fn a_relation_keeps_its_number_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let number = "SELECT 't'::regclass::oid, 't_pkey'::regclass::oid";
    let mut found = Vec::new();
    for opened in 0..2 {
        let db = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
        let mut session = SqlSession::on_database(db);
        if opened == 0 {
            tag(&mut session, "CREATE TABLE other (id int)");
            tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
            tag(&mut session, "DROP TABLE other");
        }
        found.push(rows(&mut session, number));
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn what_is_around_a_session_is_no_part_of_a_plan_that_is_kept() {
    let db = database();
    let sql = "SELECT current_user, current_database(), pg_backend_pid(), session_user";
    let roles = |name: &str, number| SystemRole {
        number,
        name: name.to_owned(),
        is_superuser: number == 10,
        can_log_in: true,
    };
    for (name, process) in [("ann", 7), ("bob", 8)] {
        let mut session = SqlSession::on_database(db.clone());
        let all = vec![roles("ann", 10), roles("bob", 16_400)];
        let around = Surroundings::new(("bank", name), process, move || all.clone());
        session.set_surroundings(around);
        for _ in 0..2 {
            let wanted = format!("{name}|bank|{process}|{name}");
            assert_eq!(rows(&mut session, sql), [wanted]);
        }
        let found = rows(&mut session, "SELECT rolname, rolsuper FROM pg_roles ORDER BY 1");
        assert_eq!(found, ["ann|true", "bob|false"]);
        assert_eq!(rows(&mut session, "SELECT pg_get_userbyid(10)"), ["ann"]);
    }
}

#[test]
fn names_of_the_system_are_found_and_missed_as_in_postgresql() {
    let mut session = session(
        "CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE t (id int, name text);
         CREATE VIEW v AS SELECT relname FROM pg_catalog.pg_class WHERE relname = 't'",
    );
    for (sql, state) in [
        ("SELECT * FROM pg_catalog.pg_nothing", "42P01"),
        ("SELECT * FROM information_schema.nothing", "42P01"),
        ("SELECT 'nothing'::regclass", "42P01"),
        ("SELECT 'nothing'::regtype", "42704"),
        ("SELECT 'nothing'::regnamespace", "3F000"),
        ("INSERT INTO pg_class (relname) VALUES ('x')", "42P01"),
        ("DROP TABLE pg_catalog.pg_class", "42P01"),
    ] {
        assert_eq!(error(&mut session, sql).sqlstate(), state, "{sql}");
    }
    // A query of a WITH hides a table of the system, as it hides others.
    let hidden = "WITH pg_class AS (SELECT 1 AS a) SELECT a FROM pg_class";
    assert_eq!(rows(&mut session, hidden), ["1"]);
    assert_eq!(rows(&mut session, "SELECT relname FROM v"), ["t", "t"]);
    let path = "SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relname = 't'";
    assert_eq!(rows(&mut session, path).len(), 1);
    assert_eq!(rows(&mut session, "SELECT 's.t'::regclass"), ["s.t"]);
    tag(&mut session, "SET search_path TO s, public");
    assert_eq!(rows(&mut session, "SELECT 's.t'::regclass, 'public.t'::regclass"), ["t|public.t"]);
    tag(&mut session, "SET search_path TO ''");
    assert_eq!(rows(&mut session, path), Vec::<String>::new());
}
