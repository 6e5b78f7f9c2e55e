//! Values for the parameters of statements: `\bind` in the shell, `--param` for scripts.

#![allow(clippy::unwrap_used)]

mod common;

use common::World;
use serde_json::{Value, json};

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, name text, at date, paid numeric(9,2))";

/// The rows of the queries among the results.
fn rows(results: &[Value]) -> Vec<&Value> {
    results.iter().map(|result| &result["rows"]).filter(|rows| rows.is_array()).collect()
}

#[test]
fn bound_values_go_to_the_next_statement_and_take_the_types_of_its_columns() {
    let world = World::new();
    let script = format!(
        "{TABLE};\n\
         \\bind 7 'it''s; $1' 2024-02-29 1.5\n\
         INSERT INTO t VALUES\n  ($1, $2, $3, $4);\n\
         \\bind 8 '\\N' \\N \\N\n\
         INSERT INTO t VALUES ($1, $2, $3, $4);\n\
         \\bind 7\n\
         \\d t\n\
         SELECT * FROM t WHERE id = $1;\n\
         SELECT * FROM t WHERE id = 8;\n\
         \\bind 2 3 x\n\
         SELECT $1 + 1 AS sum, id FROM t WHERE name <> $3 ORDER BY id LIMIT $2;"
    );
    let out = world.pipe(&["sql", "bank", "--json"], &script);
    assert_eq!(out.err, "");
    let results = out.json();
    let expected = [
        json!([[7, "it's; $1", "2024-02-29", "1.50"]]),
        json!([[8, "\\N", null, null]]),
        json!([[3, 7], [3, 8]]),
    ];
    let last = &rows(&results)[rows(&results).len() - 3..];
    assert_eq!(last, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_wrong_number_of_values_is_an_error_that_says_how_to_give_them() {
    let world = World::new();
    for (script, message) in [
        ("\\bind 1\nSELECT $1 + $2;", "2 parameters, and 1 value is given"),
        ("\\bind 1 2\nSELECT 1;", "0 parameters, and 2 values are given"),
        ("SELECT 1 + $1;", "1 parameter, and 0 values are given"),
        // The values were for one statement.
        ("\\bind 1\nSELECT $1 + 1;\nSELECT $1 + 1;", "1 parameter, and 0 values are given"),
        ("\\bind 1\n\\bind\nSELECT $1 + 1;", "1 parameter, and 0 values are given"),
    ] {
        let err = world.pipe(&["sql", "bank"], script).failed();
        assert!(err.contains(message), "{script}: {err}");
        assert!(err.contains("\nhint: \\bind VALUE … gives values"), "{script}: {err}");
    }
    let words = ["sql", "bank", "-c", "SELECT $1 + $2", "--param", "1"];
    let err = world.run(&words).failed();
    assert!(err.contains("2 parameters, and 1 value is given"), "{err}");
}

#[test]
fn a_value_that_its_parameter_cannot_have_is_an_error_of_the_statement() {
    let world = World::new();
    let script = format!("{TABLE};\n\\bind seven\nINSERT INTO t (id) VALUES ($1);");
    let err = world.pipe(&["sql", "bank"], &script).failed();
    assert!(err.contains("parameter $1: \"seven\" is not an integer"), "{err}");
}

#[test]
fn values_of_the_command_line_go_to_every_statement_that_has_parameters() {
    let world = World::new();
    let file =
        world.file("s.sql", &format!("{TABLE};\nINSERT INTO t (id, name) VALUES ($1, $2);\n"));
    let file = file.to_str().unwrap();
    let select = "BEGIN; SELECT id, name FROM t WHERE id = $1; ROLLBACK";
    let params = ["--param", "-5", "--param", "O'Hara; --"];
    let words = [&["sql", "bank", "--json", "-f", file, "-c", select], &params[..]].concat();
    let ended = world.run(&words);
    assert_eq!(ended.err, "");
    assert_eq!(rows(&ended.json()), [&json!([[-5, "O'Hara; --"]])]);
    // NULL, and a script from the standard input, with question marks.
    let words = ["sql", "bank", "--json", "--param", "3", "--param=\\N"];
    let script = format!("{TABLE}; INSERT INTO t (id, name) VALUES (?, ?) RETURNING id, name;");
    assert_eq!(rows(&world.pipe(&words, &script).json()), [&json!([[3, null]])]);
    // Bound values go before them, for one statement.
    let script = "\\bind 8\nSELECT 0 + $1 AS a; SELECT 0 + $1 AS a;";
    let words = ["sql", "bank", "--json", "--param", "3"];
    assert_eq!(rows(&world.pipe(&words, script).json()), [&json!([[8]]), &json!([[3]])]);
}

#[test]
fn a_snapshot_is_queried_with_values_too() {
    let world = World::new();
    let _owner = world.owner("bank");
    let query = "SELECT count(*) AS n FROM t WHERE id < $1";
    let out = world.run(&["attach", "bank", "--json", "-c", query, "--param", "2"]);
    assert_eq!(rows(&out.json()), [&json!([[1]])]);
}

#[test]
fn values_that_no_statement_uses_are_told() {
    let world = World::new();
    let words = ["sql", "bank", "-c", "SELECT $1 || 'b'", "--param", "a", "--param", "2"];
    let ended = world.run(&words);
    assert!(ended.err.contains("warning: no statement has a parameter $2"), "{}", ended.err);
    ended.ok();
    let ended = world.pipe(&["sql", "bank"], "SELECT 1;\n\\bind 1 2\n");
    assert!(ended.err.contains("warning: no statement came behind \\bind"), "{}", ended.err);
    ended.ok();
}
