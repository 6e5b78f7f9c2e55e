//! Broken and strange statements, and values that do not fit.

use atoll_sql::{Literal, Outcome};

use crate::{STACKS, on_stack, run, session};

#[test]
fn broken_statements_say_where() {
    for (sql, state, position) in [
        ("", "42601", None),
        (" \n", "42601", None),
        ("-- a", "42601", None),
        ("/* a */;;", "42601", None),
        ("SELECT 1 /* a", "42601", Some((1, 14))),
        ("SELECT 'a", "42601", Some((1, 8))),
        ("SELECT \"a", "42601", Some((1, 8))),
        ("SELECT $$a", "42601", Some((1, 11))),
        ("SELECT E'\\", "42601", Some((1, 8))),
        ("SELECT E'\\uD800'", "42601", Some((1, 8))),
        ("SELECT 1.2.3", "42601", Some((1, 11))),
        ("SELECT 1e+", "42601", Some((1, 10))),
        ("SELECT\n.", "42601", Some((2, 1))),
        ("SELECT (", "42601", Some((1, 9))),
        ("SELECT )", "42601", Some((1, 8))),
        ("SELECT [", "42601", Some((1, 9))),
        ("SELECT 1 1", "42601", Some((1, 10))),
        ("SELECT \0", "42601", Some((1, 8))),
        ("\0", "42601", Some((1, 1))),
        ("SELECT 1 \u{7}", "42601", Some((1, 10))),
        ("SELECT 1; SELECT 2", "42601", Some((1, 11))),
        ("INSERT INTO t VALUES ()", "42601", Some((1, 23))),
        ("INSERT INTO t VALUES (1, 2, 'c', 4)", "42601", Some((1, 23))),
        ("UPDATE t SET v = ", "42601", Some((1, 18))),
        ("SELECT \"\" FROM t", "42703", Some((1, 8))),
        ("SELECT \"a\0b\" FROM t", "42602", Some((1, 8))),
        ("SELECT $1", "42P02", None),
        ("SELECT $0", "42P02", Some((1, 8))),
        ("SELECT $65536", "42P02", Some((1, 8))),
        ("SELECT $99999999999999999999999", "42P02", Some((1, 8))),
        ("SELECT ?, $1", "42601", Some((1, 11))),
        ("EXECUTE p", "26000", None),
    ] {
        for bytes in STACKS {
            let error = on_stack(bytes, || run(&mut session(), sql, &[]).unwrap_err());
            assert_eq!((error.sqlstate(), error.position()), (state, position), "{sql:?}: {error}");
        }
    }
}

/// U+0001 is the mark of names inside.
#[test]
fn names_cannot_have_the_mark() {
    let mut session = session();
    for sql in [
        "SELECT 1 AS \"a\u{1}0\"",
        "SELECT \"a\u{1}5\" FROM (SELECT 1 AS \"a\u{1}5\") x",
        "SELECT * FROM \"\u{1}target\"",
        "UPDATE t SET v = \"\u{1}target\".v",
        "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET v = \"\u{1}excluded\".v",
    ] {
        assert_eq!(run(&mut session, sql, &[]).unwrap_err().sqlstate(), "42602", "{sql:?}");
    }
    for value in ["a\u{1}5", "\u{1}", "a\0b"] {
        let text = format!("SELECT '{value}' AS a, count(*) FROM t WHERE name <> '{value}'");
        let Ok(Outcome::Rows(result)) = session.execute(&text) else { panic!("{text:?}") };
        assert_eq!(result.schema().field(0).name(), "a");
        let found: Vec<(String, i64)> = result.typed().unwrap();
        assert_eq!(found, [(value.to_owned(), 2)]);
    }
}

#[test]
fn values_that_do_not_fit() {
    let mut session = session();
    for (sql, values, state) in [
        ("SELECT $1", vec![1.into(), 2.into()], "08P01"),
        ("SELECT 1", vec![1.into()], "08P01"),
        ("BEGIN", vec![1.into()], "08P01"),
        ("SELECT id FROM t WHERE id = $1", vec!["x".into()], "22P02"),
        ("INSERT INTO t (id) VALUES ($1)", vec!["x".into()], "22P02"),
        ("INSERT INTO t (id) VALUES ($1)", vec![Literal::Integer(i128::MAX)], "22003"),
        ("UPDATE t SET v = $1", vec![Literal::Integer(1 << 40)], "22003"),
        ("INSERT INTO t (id) VALUES ($1)", vec![Literal::Null], "23502"),
    ] {
        let error = run(&mut session, sql, &values).unwrap_err();
        assert_eq!(error.sqlstate(), state, "{sql}: {error}");
    }
    // Whatever these are, they are no panic.
    for value in [
        Literal::Decimal(i128::MIN, 255),
        Literal::Integer(i128::MIN),
        Literal::Date(i32::MIN),
        Literal::Timestamp(i64::MAX),
        Literal::Float(f64::NAN),
        Literal::Bytes(vec![0]),
        Literal::Bool(true),
    ] {
        for sql in ["SELECT $1", "SELECT -$1", "SELECT $1 + 1", "SELECT id FROM t LIMIT $1"] {
            if let Err(error) = run(&mut session, sql, std::slice::from_ref(&value)) {
                assert_ne!(error.sqlstate(), "58000", "{sql} {value:?}: {error}");
            }
        }
    }
}
