//! Schemas: after reopening, on snapshots, in statements that are kept, and what errors say.

use atoll::{Database, DatabaseOptions};
use atoll_sql::{Outcome, SqlSession, View, schemas_in, schemas_of};

use super::{database, error, rows, session, tag};

const SALES: &str = "CREATE SCHEMA sales;
    CREATE TABLE sales.orders (id int PRIMARY KEY, note text DEFAULT 'none');
    CREATE TABLE orders (id int PRIMARY KEY, note text);
    INSERT INTO sales.orders VALUES (1, 'sales');
    INSERT INTO orders VALUES (1, 'public');
    CREATE VIEW sales.notes AS SELECT orders.note FROM sales.orders;
    CREATE SEQUENCE sales.numbers;
    COMMENT ON SCHEMA sales IS 'what is sold';
    COMMENT ON COLUMN sales.orders.note IS 'a remark'";

#[test]
fn a_reopened_database_has_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    for opened in 0..2 {
        let db = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
        let mut session = SqlSession::on_database(db.clone());
        if opened == 0 {
            session.execute_script(SALES).into_iter().for_each(|done| drop(done.unwrap()));
            tag(&mut session, "CREATE SCHEMA empty");
            tag(
                &mut session,
                "INSERT INTO sales.orders (id) VALUES (nextval('sales.numbers') + 1)",
            );
        }
        assert_eq!(schemas_of(&db.catalog().unwrap()), ["empty", "public", "sales"]);
        let comment = atoll_sql::comment_on_schema(&db.catalog().unwrap(), "sales").unwrap();
        assert_eq!(comment.as_deref(), Some("what is sold"));
        let found = rows(&mut session, "SELECT * FROM sales.notes ORDER BY 1");
        assert_eq!(found, ["none", "sales"]);
        // Below SQL a relation has a flat name.
        assert!(db.tables().contains(&"sales.orders".to_owned()));
        assert_eq!(db.table("sales.orders").unwrap().row_count(), 2);
    }
    let db = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "DROP SCHEMA sales, empty CASCADE");
    assert_eq!(schemas_of(&db.catalog().unwrap()), ["public"]);
    assert_eq!(db.tables(), ["orders"]);
}

#[test]
fn a_session_on_a_snapshot_has_a_search_path() {
    let db = database();
    let mut owner = SqlSession::on_database(db.clone());
    owner.execute_script(SALES).into_iter().for_each(|done| drop(done.unwrap()));
    let snapshot = db.snapshot().unwrap();
    assert_eq!(schemas_in(&snapshot), ["public", "sales"]);
    tag(&mut owner, "DROP SCHEMA sales CASCADE");
    let mut session = SqlSession::on_snapshot(snapshot);
    assert_eq!(rows(&mut session, "SELECT note FROM orders"), ["public"]);
    assert_eq!(rows(&mut session, "SELECT note, orders.id FROM sales.orders"), ["sales|1"]);
    tag(&mut session, "SET search_path TO sales");
    assert_eq!(rows(&mut session, "SELECT note FROM orders"), ["sales"]);
    assert_eq!(rows(&mut session, "SELECT * FROM notes"), ["sales"]);
    assert_eq!(rows(&mut session, "SELECT current_schema()"), ["sales"]);
    assert_eq!(rows(&mut session, "SHOW search_path"), ["sales"]);
    assert_eq!(error(&mut session, "SET lock_timeout = 1").sqlstate(), "25006");
}

#[test]
fn a_kept_statement_means_what_the_path_says() {
    let mut session = session(SALES);
    let sql = "SELECT note FROM orders WHERE id = 1";
    for (path, wanted) in [
        ("public", "public"),
        ("sales", "sales"),
        ("nowhere, public", "public"),
        ("sales", "sales"),
    ] {
        tag(&mut session, &format!("SET search_path TO {path}"));
        for _ in 0..2 {
            assert_eq!(rows(&mut session, sql), [wanted], "{path}");
            let found = session.query::<(String,)>("SELECT note FROM orders WHERE id = $1", (1,));
            assert_eq!(found.unwrap(), [(wanted.to_owned(),)], "{path}");
        }
        // The planner answers as the short executor does.
        let long = "SELECT note FROM orders UNION SELECT note FROM orders";
        assert_eq!(rows(&mut session, long), [wanted], "{path}");
    }
    tag(&mut session, "SET search_path TO sales");
    let prepared = session.prepare("INSERT INTO orders VALUES ($1, $2)").unwrap();
    session.execute_with(&prepared, (2, "two")).unwrap();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM sales.orders"), ["2"]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM public.orders"), ["1"]);
    // A schema that comes later is looked into at once.
    tag(&mut session, "SET search_path TO later, sales");
    assert_eq!(rows(&mut session, sql), ["sales"]);
    tag(&mut session, "CREATE SCHEMA later");
    tag(&mut session, "CREATE TABLE orders (id int, note text)");
    assert_eq!(rows(&mut session, sql), [""; 0]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM later.orders"), ["0"]);
}

#[test]
fn errors_tell_what_a_schema_has() {
    let mut session = session(SALES);
    let failed = error(&mut session, "DROP SCHEMA sales");
    let message = "cannot drop schema sales because other objects depend on it";
    assert_eq!((failed.sqlstate(), failed.message()), ("2BP01", message));
    let detail = "table sales.orders depends on schema sales\nview sales.notes depends on schema \
                  sales\nsequence sales.numbers depends on schema sales";
    assert_eq!(failed.detail(), Some(detail));
    for (sql, message) in [
        ("CREATE SCHEMA sales", "schema \"sales\" already exists"),
        ("ALTER SCHEMA public RENAME TO p", "cannot rename schema public"),
        ("ALTER SCHEMA nothing RENAME TO p", "schema \"nothing\" does not exist"),
        ("CREATE SCHEMA s AUTHORIZATION me", "AUTHORIZATION is not supported in CREATE SCHEMA"),
        ("COMMENT ON SCHEMA nothing IS 'x'", "schema \"nothing\" does not exist"),
        ("SELECT * FROM nothing.t", "table \"nothing.t\" does not exist"),
        ("CREATE TABLE nothing.t (a int)", "schema \"nothing\" does not exist"),
        (
            "DROP TABLE information_schema.tables",
            "relation \"information_schema.tables\" is not one of the database",
        ),
        ("SET search_path TO 1", "1 is not the name of a schema"),
    ] {
        assert_eq!(error(&mut session, sql).message(), message, "{sql}");
    }
}

#[test]
fn relations_move_with_what_depends_on_them() {
    let mut session = session(SALES);
    for sql in [
        "CREATE TABLE items (id serial PRIMARY KEY,
            of int REFERENCES sales.orders ON DELETE CASCADE)",
        "INSERT INTO items (of) VALUES (1)",
        "COMMENT ON TABLE items IS 'lines'",
        "CREATE VIEW both AS SELECT o.note, i.id FROM sales.orders o JOIN items i ON i.of = o.id",
        "CREATE INDEX by_order ON items (of)",
        "ALTER TABLE items SET SCHEMA sales",
        "ALTER SCHEMA sales RENAME TO shop",
    ] {
        tag(&mut session, sql);
    }
    assert_eq!(rows(&mut session, "SELECT * FROM both"), ["sales|1"]);
    assert_eq!(rows(&mut session, "SELECT nextval('shop.items_id_seq')"), ["2"]);
    tag(&mut session, "DELETE FROM shop.orders");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM shop.items"), ["0"]);
    tag(&mut session, "DROP INDEX shop.by_order");
    let Ok(Outcome::Done { .. }) = session.execute("DROP SCHEMA shop CASCADE") else { panic!() };
    assert_eq!(error(&mut session, "SELECT * FROM both").sqlstate(), "42P01");
    assert_eq!(rows(&mut session, "SELECT note FROM orders"), ["public"]);
}

#[test]
fn a_view_is_written_with_the_schemas_of_what_it_reads() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    session.execute_script(SALES).into_iter().for_each(|done| drop(done.unwrap()));
    tag(&mut session, "SET search_path TO sales");
    tag(&mut session, "CREATE VIEW latest AS SELECT id FROM orders");
    let definition = |name: &str| {
        let view = View::find(&db.catalog().unwrap(), name).unwrap().unwrap();
        view.definition().unwrap()
    };
    assert_eq!(definition("sales.latest"), "SELECT id FROM sales.orders");
    tag(&mut session, "ALTER SCHEMA sales RENAME TO shop");
    assert_eq!(definition("shop.latest"), "SELECT id FROM shop.orders");
    tag(&mut session, "ALTER TABLE shop.orders RENAME TO bought");
    assert_eq!(definition("shop.latest"), "SELECT id FROM shop.bought AS orders");
}
