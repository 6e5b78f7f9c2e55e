//! Expressions with the types and values that PostgreSQL 15 gives them, or its SQLSTATE.
//!
//! In the files of `expressions/` an expression stands on a line, and below it, indented, its type
//! and its values, or the SQLSTATE of the error. `FROM t` reads the table that is made here. Each
//! is asked twice, of a session and of a snapshot, which do not plan alike.

use std::collections::BTreeMap;

use arrow_schema::DataType as ArrowType;
use atoll_sql::{Outcome, QueryResult, SqlError, SqlSession};

use crate::{database, fields};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a smallint, b integer, l bigint, c real,
   d double precision, e boolean, f date, g timestamp, h decimal(9,2), i text, j bytea);
 INSERT INTO t VALUES
   (1, 3, 7, 70000000000, 1.5, 2.5, true, DATE '2000-02-29',
    TIMESTAMP '2013-01-31 05:06:07.25', 12.55, 'Grüße', '\\x0aff'),
   (2, -5, -13, -9, -0.5, -2.5, false, DATE '1999-12-31',
    TIMESTAMP '1969-12-31 23:59:59.999999', -0.05, 'abc', '\\x');
 INSERT INTO t (id) VALUES (3);
 INSERT INTO t VALUES (4, 0, 0, 0, 0, 0, true, DATE '2024-12-30',
   TIMESTAMP '2024-02-29 12:00:00', 0, '', '\\x00')";

#[test]
fn expressions_are_those_of_postgresql() {
    let mut mistakes = Vec::new();
    let database = database();
    let mut session = SqlSession::on_database(database.clone());
    session.execute_script(TABLE).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    let mut snapshot = SqlSession::on_snapshot(database.snapshot().unwrap());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/expressions");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        files.insert(path.clone(), std::fs::read_to_string(path).unwrap());
    }
    let mut count = 0;
    for (path, text) in files {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let mut at = 0;
        while at < lines.len() {
            let expression = lines[at];
            at += 1;
            let mut wanted = Vec::new();
            while let Some(answer) = lines.get(at).and_then(|line| line.strip_prefix("    ")) {
                wanted.push(answer.to_owned());
                at += 1;
            }
            if expression.is_empty() {
                continue;
            }
            count += 1;
            let sql = match expression.starts_with("SELECT ") {
                true => expression.to_owned(),
                false => format!("SELECT {expression}"),
            };
            for (way, session) in [("session", &mut session), ("snapshot", &mut snapshot)] {
                let given = answer(session.execute(&sql));
                if given != wanted {
                    let file = path.file_name().unwrap().to_string_lossy();
                    mistakes.push(format!("{file}, {way}: {sql}\n  {wanted:?}\n  {given:?}"));
                }
            }
        }
    }
    assert!(count > 0 && mistakes.is_empty(), "{}", mistakes.join("\n"));
}

fn answer(outcome: Result<Outcome, SqlError>) -> Vec<String> {
    match outcome {
        Ok(Outcome::Rows(result)) => shown(&result),
        Ok(_) => vec!["no rows".to_owned()],
        Err(error) => vec![error.sqlstate().to_owned()],
    }
}

/// The types of the columns, and each row.
fn shown(result: &QueryResult) -> Vec<String> {
    let schema = result.schema();
    let types: Vec<&ArrowType> = schema.fields().iter().map(|field| field.data_type()).collect();
    let names: Vec<String> = types.iter().map(|arrow| name(arrow)).collect();
    let mut lines = vec![names.join(" ")];
    for row in fields(result) {
        let values = row.iter().zip(&types).map(|(value, arrow)| plain(value, arrow));
        lines.push(values.collect::<Vec<_>>().join(" | "));
    }
    lines
}

fn name(arrow: &ArrowType) -> String {
    match arrow {
        ArrowType::Boolean => "bool",
        ArrowType::Int16 => "int2",
        ArrowType::Int32 => "int4",
        ArrowType::Int64 => "int8",
        ArrowType::Float32 => "float4",
        ArrowType::Float64 => "float8",
        ArrowType::Decimal128(..) => "numeric",
        ArrowType::Date32 => "date",
        ArrowType::Timestamp(..) => "timestamp",
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View | ArrowType::Null => "text",
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => "bytea",
        other => return other.to_string(),
    }
    .to_owned()
}

/// A value in one form of the several that mean it.
fn plain(value: &str, arrow: &ArrowType) -> String {
    if value == "NULL" {
        return value.to_owned();
    }
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match arrow {
        ArrowType::Decimal128(..) => trimmed(value),
        ArrowType::Float32 | ArrowType::Float64 => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => number.to_string(),
            _ => value.to_lowercase(),
        },
        ArrowType::Timestamp(..) => trimmed(&value.replace('T', " ")),
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => {
            format!("\"{}\"", value.replace('\\', "\\\\").replace('\n', "\\n"))
        }
        _ => value.to_owned(),
    }
}
