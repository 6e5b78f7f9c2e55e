//! Statements of ten megabytes, and with as many parameters as there can be.

use atoll_sql::{Literal, SqlError};

use crate::{STACKS, on_stack, run, session};

const BYTES: usize = 10 << 20;
const PARAMETERS: usize = 65_535;

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

#[test]
fn long_texts() {
    let mut session = session();
    let text = "x".repeat(BYTES);
    assert_eq!(run(&mut session, &format!("INSERT INTO t VALUES (3, 3, '{text}')"), &[]), Ok(1));
    let sql = format!("DELETE FROM t WHERE name = '{text}'");
    assert_eq!(run(&mut session, &sql, &[]), Ok(1));
    for (sql, state) in [
        (format!("SELECT id FROM t WHERE id = '{text}'"), "22P02"),
        (format!("INSERT INTO t (id) VALUES ('{text}')"), "22P02"),
        (format!("SELECT '{text}"), "42601"),
        (format!("SELECT 1 /* {text}"), "42601"),
        (format!("SELECT {text} FROM t"), "42622"),
        (format!("SELECT \"{text}\" FROM t"), "42622"),
        (format!("SELECT 1 AS {text}"), "42622"),
        (format!("SELECT {text}(1)"), "42622"),
        (format!("CREATE TABLE {text} (id int PRIMARY KEY)"), "42622"),
        (format!("SAVEPOINT {text}"), "42622"),
        (format!("EXECUTE {text}"), "42622"),
        ("(".repeat(BYTES), "54001"),
        (";".repeat(BYTES), "42601"),
        (" ".repeat(BYTES), "42601"),
        ("--\n".repeat(BYTES / 3), "42601"),
        ("SELECT 1;".repeat(BYTES / 9), "42601"),
    ] {
        let error = run(&mut session, &sql, &[]).unwrap_err();
        assert_eq!(error.sqlstate(), state, "{}", crate::head(&sql));
        // The reader of a message has no use for ten megabytes.
        assert!(error.message().len() < 2000, "{}", crate::head(&sql));
    }
}

#[test]
fn many_rows_and_long_lists() {
    let mut session = session();
    let rows = |from: usize| list(BYTES / 20, |at| format!("({}, {at}, 'c')", at + from));
    let sql = format!("INSERT INTO t VALUES {}", rows(1));
    assert_eq!(run(&mut session, &sql, &[]).unwrap_err().sqlstate(), "23505");
    let sql = format!("INSERT INTO t VALUES {}", rows(10));
    assert_eq!(run(&mut session, &sql, &[]), Ok(BYTES as u64 / 20));
    // A list takes some 20 microseconds for each of its values.
    const VALUES: usize = 100_000;
    let numbers = list(VALUES, |at| (at + 10).to_string());
    for (sql, found) in [
        (format!("SELECT id FROM t WHERE id IN ({numbers})"), VALUES as u64),
        (format!("SELECT id FROM t WHERE v IN ({numbers})"), VALUES as u64),
        (format!("DELETE FROM t WHERE id IN ({numbers})"), VALUES as u64),
    ] {
        assert_eq!(run(&mut session, &sql, &[]), Ok(found), "{}", crate::head(&sql));
    }
}

#[test]
fn all_parameters_and_one_more() {
    let values = |count: usize| (0..count as u64).map(Literal::from).collect::<Vec<_>>();
    let numbered = |count: usize| list(count, |at| format!("${}", at + 1));
    for bytes in STACKS {
        on_stack(bytes, || {
            let mut session = session();
            let mut run = |sql: &str, count: usize| run(&mut session, sql, &values(count));
            let state = |outcome: Result<u64, SqlError>| outcome.unwrap_err().sqlstate();
            for column in ["id", "v"] {
                let sql =
                    |count| format!("SELECT id FROM t WHERE {column} IN ({})", numbered(count));
                assert_eq!(run(&sql(PARAMETERS), PARAMETERS), Ok(2));
                assert_eq!(state(run(&sql(PARAMETERS), PARAMETERS - 1)), "08P01");
                assert_eq!(state(run(&sql(PARAMETERS + 1), PARAMETERS + 1)), "42P02");
            }
            let marks = format!("SELECT id FROM t WHERE id IN ({})", list(65_536, |_| "?".into()));
            assert_eq!(state(run(&marks, PARAMETERS + 1)), "42P02");
            assert_eq!(run("DELETE FROM t", 0), Ok(2));
            let rows = list(PARAMETERS, |at| format!("(${})", at + 1));
            let sql = format!("INSERT INTO t (id) VALUES {rows}");
            assert_eq!(run(&sql, PARAMETERS), Ok(PARAMETERS as u64));
        });
    }
}
