//! Statements with parameters, prepared statements, and rows as values of Rust.

use atoll_sql::{FromRow, Literal, Outcome, QueryResult, Row, SqlError, SqlErrorKind, SqlSession};
use chrono::{NaiveDate, NaiveDateTime};

use super::{database, error, lines, rows, session, tag};

const ITEMS: &str =
    "CREATE TABLE item (id int PRIMARY KEY, name text, price decimal(8,2), sold date);
    INSERT INTO item VALUES (1, 'tea', 2.50, '2024-05-01'), (2, NULL, NULL, NULL)";

fn result(outcome: Result<Outcome, SqlError>) -> QueryResult {
    match outcome.unwrap() {
        Outcome::Rows(result) => result,
        other => panic!("{other:?} has no rows"),
    }
}

#[test]
fn rows_are_read_as_tuples_and_as_types_of_the_caller() {
    #[derive(Debug, PartialEq)]
    struct Item {
        name: Option<String>,
        price: Option<f64>,
    }
    impl FromRow for Item {
        fn from_row(row: &Row<'_>) -> Result<Self, SqlError> {
            Ok(Self { name: row.named("name")?, price: row.named("price")? })
        }
    }
    let mut session = session(ITEMS);
    // On the live table, and on a snapshot.
    for tail in ["", " UNION ALL SELECT * FROM item WHERE id > 2"] {
        let sql = format!("SELECT * FROM item WHERE id < $1{tail}");
        let items: Vec<Item> = session.query(&sql, (2,)).unwrap();
        assert_eq!(items, [Item { name: Some("tea".to_owned()), price: Some(2.5) }], "{sql}");
        type Whole = (i64, Option<String>, Option<String>, Option<NaiveDate>);
        let all: Vec<Whole> = session.query(&sql, [2]).unwrap();
        let day = NaiveDate::from_ymd_opt(2024, 5, 1);
        assert_eq!(all, [(1, Some("tea".to_owned()), Some("2.50".to_owned()), day)], "{sql}");
    }
    let none: Option<(i32,)> =
        session.query_first("SELECT id FROM item WHERE id = ?", (7,)).unwrap();
    assert_eq!(none, None);
}

#[test]
fn a_row_that_does_not_fit_its_type_says_so() {
    let mut session = session(ITEMS);
    let result = result(session.execute("SELECT id, name FROM item ORDER BY id"));
    let told = |error: SqlError| error.message().to_owned();
    let wrong = result.typed::<(i16, Option<String>)>().map_err(told).unwrap_err();
    assert_eq!(wrong, "column \"id\" is of type integer, which i16 cannot hold");
    let null = result.typed::<(i32, String)>().map_err(told).unwrap_err();
    assert_eq!(null, "column \"name\" is NULL, which String cannot hold");
    let short = result.typed::<(i32,)>().map_err(told).unwrap_err();
    assert_eq!(short, "the result has 2 columns, and 1 are read");
}

#[test]
fn values_of_rust_come_back_as_they_went() {
    let mut session = session(
        "CREATE TABLE v (k int PRIMARY KEY, b boolean, s smallint, l bigint, r real, d double \
         precision, n decimal(10,3), t text, x bytea, day date, at timestamp)",
    );
    let insert = session
        .prepare("INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
        .unwrap();
    assert_eq!(insert.parameters(), 11);
    let day = NaiveDate::from_ymd_opt(1969, 2, 28).unwrap();
    let at: NaiveDateTime = day.and_hms_micro_opt(23, 59, 59, 7).unwrap();
    let values = (1, true, 2i16, i64::MIN, 0.1f32, -0.5f64, "1.250", "a", vec![0u8, 255], day, at);
    session.execute_with(&insert, values).unwrap();
    type Wide = (i32, bool, i16, i64, f32, f64, Literal, String, Vec<u8>, NaiveDate, NaiveDateTime);
    let read: Vec<Wide> = session.query("SELECT * FROM v", ()).unwrap();
    let wanted = (
        1,
        true,
        2i16,
        i64::MIN,
        0.1f32,
        -0.5f64,
        Literal::Decimal(1250, 3),
        "a".to_owned(),
        vec![0u8, 255],
        day,
        at,
    );
    assert_eq!(read, [wanted]);
    let fine = day.and_hms_nano_opt(1, 2, 3, 4).unwrap();
    let refused = session.execute_with("UPDATE v SET at = $1", (fine,)).unwrap_err();
    assert_eq!(refused.kind(), SqlErrorKind::Type, "{refused}");
}

#[test]
fn a_number_that_no_type_holds_is_out_of_range() {
    let mut session = session(ITEMS);
    for sql in [
        "SELECT id FROM item WHERE id = $1",
        "INSERT INTO item (id) VALUES ($1)",
        "UPDATE item SET id = $1 WHERE id = 1",
        "SELECT $1 + 1",
    ] {
        for number in [i128::MAX, i128::MIN] {
            let told = session.execute_with(sql, &[Literal::Integer(number)]).unwrap_err();
            assert_eq!(told.sqlstate(), "22003", "{sql}: {told}");
        }
    }
    let insert = "INSERT INTO item (id) VALUES ($1)";
    for number in [i128::from(i32::MAX) + 1, i128::from(i64::MAX) + 1, 10i128.pow(37)] {
        let told = session.execute_with(insert, &[Literal::Integer(number)]).unwrap_err();
        assert_eq!(told.sqlstate(), "22003", "{number}: {told}");
    }
}

#[test]
fn a_prepared_statement_outlives_changes_of_the_catalog_and_its_session() {
    let db = database();
    let mut first = SqlSession::on_database(db.clone());
    tag(&mut first, "CREATE TABLE a (id int PRIMARY KEY)");
    let count = first.prepare("SELECT count(*) FROM a WHERE id < $1").unwrap();
    assert_eq!(count.columns().unwrap().field(0).name(), "count");
    assert_eq!(count.parameter_types(), [Some(atoll::DataType::Int32)]);
    drop(first);
    let mut second = SqlSession::on_database(db);
    assert_eq!(second.query::<(i64,)>(&count, (5,)).unwrap(), [(0,)]);
    tag(&mut second, "CREATE TABLE b (id int PRIMARY KEY)");
    tag(&mut second, "INSERT INTO a VALUES (1), (9)");
    assert_eq!(second.query::<(i64,)>(&count, (5,)).unwrap(), [(1,)]);
    // Another database has another table of that name.
    let mut other = session("CREATE TABLE a (id text PRIMARY KEY); INSERT INTO a VALUES ('x')");
    assert_eq!(other.query::<(i64,)>(&count, ("y",)).unwrap(), [(1,)]);
    // And a snapshot of its own.
    let snapshot = other_snapshot();
    let mut frozen = SqlSession::on_snapshot(snapshot);
    assert_eq!(frozen.query::<(i64,)>(&count, (5,)).unwrap(), [(2,)]);
}

fn other_snapshot() -> atoll::Snapshot {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE a (id int PRIMARY KEY)");
    tag(&mut session, "INSERT INTO a VALUES (1), (2), (7)");
    db.snapshot().unwrap()
}

#[test]
fn a_statement_tells_its_columns_before_it_runs() {
    let mut session = session(ITEMS);
    for (sql, wanted) in [
        ("SELECT id, price FROM item", Some("id Int32, price Decimal128(8, 2)")),
        ("SELECT name, count(*) OVER () FROM item", Some("name Utf8View, count Int64")),
        ("SELECT name FROM item WHERE id = $1 UNION SELECT 'x'", Some("name Utf8View")),
        ("INSERT INTO item VALUES ($1, $2, $3, $4)", Some("")),
        ("DELETE FROM item WHERE id = $1 RETURNING name", Some("name Utf8View")),
        ("BEGIN", Some("")),
        ("SELECT $1", None),
        ("SHOW durability", None),
    ] {
        let prepared = session.prepare(sql).unwrap();
        let shown = prepared.columns().map(|schema| {
            let fields = schema.fields().iter();
            let shown = fields.map(|field| format!("{} {}", field.name(), field.data_type()));
            shown.collect::<Vec<_>>().join(", ")
        });
        assert_eq!(shown.as_deref(), wanted, "{sql}");
    }
    let wrong = session.prepare("SELECT nme FROM item").unwrap_err();
    assert_eq!((wrong.kind(), wrong.position()), (SqlErrorKind::UnknownColumn, Some((1, 8))));
}

/// A parameter stands for its value wherever it stands.
#[test]
fn a_parameter_is_as_good_as_a_constant() {
    let mut session = session(
        "CREATE TABLE t (k int PRIMARY KEY, a int, h bigint, b text, n decimal(6,2), d date);
         INSERT INTO t VALUES (1, NULL, 7, NULL, 1.5, '2024-01-01'), (2, 3, 9, 'yo', NULL, NULL)",
    );
    let texts: [(&str, Literal, &str); 18] = [
        ("coalesce(a, $1)", 5.into(), "5"),
        ("coalesce($1, a)", 5.into(), "5"),
        ("CASE WHEN a IS NULL THEN $1 ELSE a END", 5.into(), "5"),
        ("CASE a WHEN 3 THEN a ELSE $1 END", 5.into(), "5"),
        ("CASE $1 WHEN a THEN 1 WHEN 5 THEN 2 END", 5.into(), "5"),
        ("CASE a WHEN $1 THEN 1 ELSE 0 END", 3.into(), "3"),
        ("greatest(a, $1)", 5.into(), "5"),
        ("least(h, $1)", 8.into(), "8"),
        ("greatest(a, h, $1)", 8.into(), "8"),
        ("coalesce(b, $1)", "hi".into(), "'hi'"),
        ("coalesce(n, $1)", 7.into(), "7"),
        ("coalesce(d, $1)", "2020-02-29".into(), "'2020-02-29'"),
        ("nullif(a, $1)", 3.into(), "3"),
        ("nullif($1, a)", 3.into(), "3"),
        ("coalesce(a, $1) + 1", 5.into(), "5"),
        ("k IN ($1, a)", 2.into(), "2"),
        ("$1 IN (k, a)", 3.into(), "3"),
        ("coalesce(b, 'x', $1)", "z".into(), "'z'"),
    ];
    for (expr, value, written) in texts {
        for form in ["SELECT {} AS x FROM t ORDER BY k", "SELECT k FROM t WHERE ({}) IS NOT NULL"] {
            let sql = form.replace("{}", expr);
            let constant = sql.replace("$1", written);
            let wanted = rows(&mut session, &constant);
            let given = result(session.execute_with(&sql, [value.clone()]));
            assert_eq!(lines(&given), wanted, "{sql}");
        }
    }
}

/// In a transaction that has changed something there is no other way than the short one.
#[test]
fn a_parameter_that_is_cast_has_the_type_inside_of_a_function_too() {
    let mut session = session(
        "CREATE DOMAIN small AS int CHECK (VALUE < 100);
         CREATE TABLE t (k int PRIMARY KEY, s small); INSERT INTO t VALUES (1, 1)",
    );
    session.execute("BEGIN").unwrap();
    for (sql, wanted) in [
        ("INSERT INTO t SELECT 1 + k, abs(CAST($1 AS int)) FROM t WHERE k = 1", 7),
        ("INSERT INTO t SELECT 2 + k, CAST($1 AS small) FROM t WHERE k = 1", 7),
        ("INSERT INTO t VALUES (4, CAST($1 AS small))", 7),
    ] {
        assert_eq!(
            session.execute_with(sql, [Literal::from(wanted)]).unwrap().row_count(),
            1,
            "{sql}"
        );
    }
    assert_eq!(rows(&mut session, "SELECT sum(s) FROM t"), ["22"]);
    let refused = "INSERT INTO t VALUES (5, CAST($1 AS small))";
    assert_eq!(
        session.execute_with(refused, [Literal::from(100)]).unwrap_err().sqlstate(),
        "23514"
    );
}

#[test]
fn prepare_execute_and_deallocate_are_statements() {
    let mut session = session(ITEMS);
    tag(&mut session, "PREPARE find (int) AS SELECT name FROM item WHERE id = $1");
    assert_eq!(rows(&mut session, "EXECUTE find(1)"), ["tea"]);
    assert_eq!(rows(&mut session, "EXECUTE find(1 + 1)"), ["NULL"]);
    tag(&mut session, "PREPARE \"Add\" AS INSERT INTO item (id, name) VALUES ($1, $2)");
    assert_eq!(tag(&mut session, "EXECUTE \"Add\"(3, upper('x'))"), "INSERT 0 1");
    assert_eq!(rows(&mut session, "EXECUTE find(3)"), ["X"]);
    for (sql, state) in [
        ("PREPARE find AS SELECT 1", "42P05"),
        ("EXECUTE find", "42601"),
        ("EXECUTE other(1)", "26000"),
        ("EXECUTE find('one')", "22P02"),
        ("PREPARE b AS BEGIN", "42601"),
        ("PREPARE b AS SELECT nme FROM item", "42703"),
        ("DEALLOCATE other", "26000"),
    ] {
        let failed = error(&mut session, sql);
        assert_eq!(failed.sqlstate(), state, "{sql}: {failed}");
    }
    tag(&mut session, "CREATE TABLE later (id int PRIMARY KEY)");
    assert_eq!(rows(&mut session, "EXECUTE find(1)"), ["tea"]);
    tag(&mut session, "DEALLOCATE find");
    assert_eq!(error(&mut session, "EXECUTE find(1)").sqlstate(), "26000");
    tag(&mut session, "DEALLOCATE ALL");
    assert_eq!(error(&mut session, "EXECUTE \"Add\"(4, 'y')").sqlstate(), "26000");
}

#[test]
fn columns_are_named_as_in_postgresql() {
    let mut session = session(ITEMS);
    for (sql, wanted) in [
        (
            "SELECT count(*), max(id), id + 1, 1 FROM item GROUP BY id",
            "count max ?column? ?column?",
        ),
        ("SELECT id, id, item.id FROM item", "id id id"),
        ("SELECT a.id, b.id FROM item a JOIN item b ON a.id = b.id", "id id"),
        ("SELECT *, id FROM item", "id name price sold id"),
        ("SELECT count FROM (SELECT count(*) FROM item) s", "count"),
        ("WITH s AS (SELECT max(id) FROM item) SELECT max, s.max + 1 FROM s", "max ?column?"),
        ("SELECT id::text, lower(name) FROM item UNION SELECT 'a', 'b'", "id lower"),
        ("SELECT DISTINCT id % 2, id % 2 FROM item", "?column? ?column?"),
        ("SELECT sum(id) OVER (ORDER BY id), id FROM item", "sum id"),
        ("SELECT lower(name) FROM item ORDER BY lower(name)", "lower"),
        (
            "INSERT INTO item SELECT id + 9, 'x', 1, NULL FROM item RETURNING id + 1, 2, 3",
            "?column? ?column? ?column?",
        ),
    ] {
        let result = result(session.execute(sql));
        let names: Vec<String> =
            result.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names.join(" "), wanted, "{sql}");
        let batches = result.batches();
        assert!(batches.iter().all(|batch| batch.schema() == result.schema()), "{sql}");
    }
}

#[test]
fn a_wrong_query_is_told_the_same_within_a_transaction_that_has_changed_something() {
    let mut session = session(ITEMS);
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO item (id) VALUES (90)");
    let failed = error(&mut session, "SELECT nme FROM item");
    assert_eq!((failed.sqlstate(), failed.position()), ("42703", Some((1, 8))), "{failed}");
}

/// The optimizer subtracts one list from another by the text of the items.
#[test]
fn lists_of_parameters_are_compared_by_their_values() {
    let mut session = session(ITEMS);
    let sql = "SELECT id FROM item WHERE name IN ($1, $2, $3) AND name NOT IN ($4, $5, $6)";
    let mut found = |values: [&str; 6]| session.query::<(i32,)>(sql, values).unwrap();
    assert_eq!(found(["tea", "x", "y", "tea", "y", "z"]), []);
    assert_eq!(found(["tea", "x", "y", "x", "y", "z"]), [(1,)]);
    // Constants are taken out of a text before it is planned.
    let constants = "SELECT id FROM item WHERE name IN ('tea', 'x') AND name NOT IN ('y', 'tea')";
    assert_eq!(session.query::<(i32,)>(constants, ()).unwrap(), []);
    let both = "SELECT id FROM item WHERE name IN ($1, $2) AND name IN ($3, $4)";
    let values = ["tea", "x", "y", "tea"];
    assert_eq!(session.query::<(i32,)>(both, values).unwrap(), [(1,)]);
}

#[test]
fn rows_of_a_query_take_the_types_of_parameters_inside_a_transaction() {
    let mut session = session(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE TABLE person (id serial PRIMARY KEY, name varchar(9), felt mood)",
    );
    tag(&mut session, "BEGIN");
    tag(&mut session, "INSERT INTO person (name) VALUES ('first')");
    let sql = "INSERT INTO person (name, felt) SELECT p0::varchar, p1::mood
               FROM (VALUES ($1::varchar, $2, 0), ($3::varchar, $4, 1)) AS rows(p0, p1, place)
               ORDER BY place DESC RETURNING id, name, felt";
    let values = ["a", "sad", "b", "happy"].map(Literal::from);
    let found = result(session.execute_with(sql, values.as_slice()));
    assert_eq!(lines(&found), ["2|b|happy", "3|a|sad"]);
    tag(&mut session, "COMMIT");
    assert_eq!(rows(&mut session, "SELECT count(felt) FROM person"), ["2"]);
}
