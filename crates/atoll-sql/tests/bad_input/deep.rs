//! Statements that are nested deeply, or made of long chains.

use crate::{STACKS, head, on_stack, run, session};

/// Checks a statement on every stack: it succeeds if `fits`, otherwise it is too complex.
fn check(sql: &str, fits: bool) {
    for bytes in STACKS {
        let outcome = on_stack(bytes, || run(&mut session(), sql, &[]));
        match outcome {
            Ok(_) => assert!(fits, "{} succeeds", head(sql)),
            Err(error) => {
                assert!(!fits, "{}: {error}", head(sql));
                assert_eq!(error.sqlstate(), "54001", "{}: {error}", head(sql));
                assert!(error.position().is_some(), "{}", head(sql));
            }
        }
    }
}

#[test]
fn nests() {
    for (first, open, core, close) in [
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "CASE WHEN true THEN ", "1", " END"),
        ("SELECT ", "CASE WHEN ", "true", " THEN true END"),
        ("SELECT ", "(SELECT ", "1", ")"),
        ("SELECT ", "EXISTS (SELECT ", "1", ")"),
        ("SELECT ", "NOT ", "true", ""),
        ("SELECT ", "- ", "1", ""),
        ("SELECT ", "CAST(", "1", " AS int)"),
        ("SELECT ", "coalesce(NULL, ", "1", ")"),
        ("SELECT ", "round(", "1.5", ")"),
        ("SELECT ", "ARRAY[", "1", "]"),
        ("SELECT * FROM ", "(SELECT * FROM ", "t", ") a"),
        ("", "(SELECT 1 UNION ", "SELECT 1", ")"),
        ("", "WITH a AS (", "SELECT 1", ") SELECT * FROM a"),
        ("DELETE FROM t WHERE id = ", "(", "1", ")"),
        ("UPDATE t SET v = ", "(", "1", ")"),
        ("INSERT INTO t (id) VALUES ", "(", "7", ")"),
    ] {
        let nest = |n: usize| format!("{first}{}{core}{}", open.repeat(n), close.repeat(n));
        check(&nest(8), true);
        for n in [1000, 100_000] {
            check(&nest(n), false);
        }
    }
}

/// The planner checks a subquery again inside each one around it.
#[test]
fn subqueries_in_conditions() {
    for open in ["EXISTS (SELECT 1 FROM t WHERE ", "id IN (SELECT id FROM t WHERE "] {
        let nest =
            |n: usize| format!("SELECT id FROM t WHERE {}true{}", open.repeat(n), ")".repeat(n));
        check(&nest(10), true);
        for n in [17, 40] {
            check(&nest(n), false);
        }
    }
}

/// Nested calls are planned in a time that grows with their number, not with its exponent.
#[test]
fn calls_that_name_their_argument_once() {
    for (open, close) in
        [("abs(", ")"), ("nullif(", ", 7)"), ("coalesce(", ", 7)"), ("(", ") IS TRUE"), ("-(", ")")]
    {
        let core = if open == "(" { "v = 1" } else { "v" };
        check(&format!("SELECT {}{core}{} FROM t", open.repeat(30), close.repeat(30)), true);
    }
}

#[test]
fn chains() {
    let select = |n: usize, item: &str, by: &str| format!("SELECT {}", vec![item; n].join(by));
    let filter = |n: usize, sql: &str, by: &str| format!("{sql} {}", vec!["v = 1"; n].join(by));
    for n in [8, 300, 3000, 100_000] {
        let fits = n <= 300;
        check(&select(n, "true", " AND "), fits);
        check(&select(n, "'a'", " || "), fits);
        check(&format!("SELECT 1{}", "::int".repeat(n)), fits);
        check(&format!("SELECT true{}", " IS NULL".repeat(n)), fits);
        check(&format!("SELECT true{}", " IN (true)".repeat(n)), fits);
        check(&filter(n, "SELECT id FROM t WHERE", " OR "), fits);
        check(&filter(n, "UPDATE t SET v = 1 WHERE", " OR "), fits);
        check(&vec!["SELECT 1"; n].join(" UNION "), fits);
        check(&vec!["SELECT id FROM t"; n].join(" UNION ALL "), fits);
        check(&format!("SELECT CAST(NULL AS int{})", "[]".repeat(n)), fits);
    }
    for n in [8, 60, 3000, 100_000] {
        let fits = n <= 60;
        check(&select(n, "1", " + "), fits);
        check(&format!("UPDATE t SET v = {}", vec!["v"; n].join(" - ")), fits);
        let joins: String = (0..n).map(|at| format!(" JOIN t a{at} ON a{at}.id = a.id")).collect();
        check(&format!("SELECT 1 FROM t a{joins}"), fits);
    }
    for n in [1000, 100_000] {
        check(&format!("{}SELECT 1", "EXPLAIN ".repeat(n)), false);
        check(&format!("{}SELECT 1", "PREPARE p AS ".repeat(n)), false);
        let tables: Vec<String> = (0..n).map(|at| format!("t a{at}")).collect();
        check(&format!("SELECT 1 FROM {}", tables.join(", ")), false);
    }
}

/// What is kept of a deep statement is run, and dropped, on small stacks too.
#[test]
fn a_deep_statement_is_kept_like_another() {
    let deep = format!("SELECT id FROM t WHERE {}", vec!["v = $1"; 300].join(" OR "));
    let mut session = session();
    for bytes in STACKS {
        let found = on_stack(bytes, || {
            let prepared = session.prepare(&deep).unwrap();
            let once: Vec<(i64,)> = session.query(&prepared, [2]).unwrap();
            let again: Vec<(i64,)> = session.query(&deep, [1]).unwrap();
            session.execute(&format!("PREPARE p AS {deep}")).unwrap();
            session.execute("EXECUTE p(1)").unwrap();
            session.execute("DEALLOCATE p").unwrap();
            session.execute_script(&deep.replace("$1", "2")).pop().unwrap().unwrap();
            (once, again)
        });
        assert_eq!(found, (vec![(2,)], vec![(1,)]));
    }
    on_stack(STACKS[0], move || drop(session));
}
