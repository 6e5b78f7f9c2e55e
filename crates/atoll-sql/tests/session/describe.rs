//! What a statement takes and returns, and whether the end of a transaction would be noticed.

use std::time::Duration;

use atoll::{DataType, Database, DatabaseOptions};
use atoll_sql::{SqlErrorKind, SqlSession};

use super::{database, rows, session, tag};

const ITEMS: &str = "CREATE TABLE item (id int PRIMARY KEY, price decimal(8,2));
    INSERT INTO item VALUES (1, 2.50)";

fn columns(session: &mut SqlSession, sql: &str) -> Vec<String> {
    let columns = session.describe(sql).unwrap().columns;
    columns.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
}

#[test]
fn all_columns_and_parameters_are_told_and_nothing_runs() {
    let mut session = session(ITEMS);
    tag(&mut session, "PREPARE one AS SELECT $1 AS a, id FROM item");
    for (sql, expected) in [
        ("SELECT id, price FROM item WHERE id = $1", vec!["id Int32", "price Decimal128(8, 2)"]),
        ("SELECT id FROM item UNION ALL SELECT id FROM item", vec!["id Int32"]),
        ("SELECT id FROM item LIMIT 1 OFFSET 5", vec!["id Int32"]),
        ("DELETE FROM item RETURNING price", vec!["price Decimal128(8, 2)"]),
        ("INSERT INTO item VALUES (2, 1)", vec![]),
        ("CREATE TABLE other (a int PRIMARY KEY)", vec![]),
        ("SHOW durability", vec!["durability Utf8"]),
    ] {
        assert_eq!(columns(&mut session, sql), expected, "{sql}");
    }
    // These have the type of a value.
    assert_eq!(columns(&mut session, "SELECT $1 AS a, id FROM item").len(), 2);
    assert_eq!(columns(&mut session, "EXECUTE one (1)").len(), 2);
    let described = session.describe("UPDATE item SET price = $2 WHERE id = $1").unwrap();
    let price = DataType::Decimal { precision: 8, scale: 2 };
    assert_eq!(described.parameters, [Some(DataType::Int32), Some(price)]);
    let described = session.describe("SELECT $1").unwrap();
    assert_eq!(described.parameters, [None]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM item"), ["1"]);
}

#[test]
fn a_snapshot_describes_queries() {
    let db = database();
    let mut live = SqlSession::on_database(db.clone());
    live.execute_script(ITEMS).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    let mut session = SqlSession::on_snapshot(db.snapshot().unwrap());
    let sql = "SELECT price FROM item WHERE id = $1";
    assert_eq!(columns(&mut session, sql), ["price Decimal128(8, 2)"]);
    assert_eq!(session.describe(sql).unwrap().parameters.len(), 1);
}

#[test]
fn an_error_leaves_the_transaction_open() {
    let mut session = session(ITEMS);
    tag(&mut session, "BEGIN");
    tag(&mut session, "DELETE FROM item");
    for (sql, kind) in [
        ("SELECT nothing FROM item", SqlErrorKind::UnknownColumn),
        ("INSERT INTO nothing VALUES (1)", SqlErrorKind::UnknownTable),
        ("EXECUTE nothing", SqlErrorKind::Syntax),
        ("SELEC 1", SqlErrorKind::Syntax),
    ] {
        assert_eq!(session.describe(sql).unwrap_err().kind(), kind, "{sql}");
    }
    assert_eq!(tag(&mut session, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM item"), ["0"]);
}

#[test]
fn work_is_what_the_end_of_a_transaction_would_lose() {
    let scheme = atoll_sql::default_scheme();
    let db = Database::create(DatabaseOptions { scheme, ..DatabaseOptions::default() });
    let mut session = SqlSession::on_database(db.unwrap());
    session.execute_script(ITEMS).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    let mut after = |first: &str, second: &str| {
        tag(&mut session, first);
        if !second.is_empty() {
            let _ = session.execute(second);
        }
        let has_work = session.has_work();
        tag(&mut session, "ROLLBACK");
        assert!(!session.has_work());
        has_work
    };
    assert!(!after("BEGIN", ""));
    assert!(!after("BEGIN", "SELECT * FROM item"));
    assert!(after("BEGIN", "UPDATE item SET price = 1"));
    assert!(after("BEGIN", "SELECT * FROM item FOR UPDATE"));
    assert!(after("BEGIN", "SAVEPOINT s"));
    assert!(after("BEGIN", "SELECT nothing"));
    assert!(after("BEGIN READ ONLY", ""));
    assert!(after("BEGIN ISOLATION LEVEL REPEATABLE READ", ""));

    // While it rests, and after its end for that reason, of which the next statement tells.
    tag(&mut session, "SET idle_in_transaction_session_timeout = '1min'");
    tag(&mut session, "BEGIN");
    assert!(!session.has_work());
    tag(&mut session, "UPDATE item SET price = 1");
    assert!(session.has_work());
    tag(&mut session, "ROLLBACK");
    tag(&mut session, "SET idle_in_transaction_session_timeout = 1");
    tag(&mut session, "BEGIN");
    while !session.has_work() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
