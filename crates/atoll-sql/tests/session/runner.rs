//! Runs text files of statements with what they should do.
//!
//! A file is a list of records separated by empty lines; lines that begin with `#` are notes:
//!
//! ```text
//! statement ok              the statement succeeds
//! statement error TEXT      its message (or hint) holds TEXT
//! query                     the rows behind `----` are its result, fields separated by `|`
//! ```

use std::path::Path;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use atoll_sql::{Outcome, QueryResult, SqlSession};

/// The rows of a result as text.
pub fn lines(result: &QueryResult) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in result.batches() {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let fields: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            lines.push(fields.join("|"));
        }
    }
    lines
}

/// Runs the records of a file and says what each that failed did instead.
fn run_file(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut session = SqlSession::on_database(super::database());
    text.split("\n\n")
        .filter_map(|record| {
            let record: Vec<&str> =
                record.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
            let (head, body) = record.split_first()?;
            let place = format!("{}: {}", path.display(), body.join(" "));
            run_record(&mut session, head, body).err().map(|what| format!("{place}: {what}"))
        })
        .collect()
}

fn run_record(session: &mut SqlSession, head: &str, body: &[&str]) -> Result<(), String> {
    if head == "query" {
        let cut = body.iter().position(|line| *line == "----").expect("a query has ----");
        let (sql, expected) = (body[..cut].join("\n"), &body[cut + 1..]);
        return match session.execute(&sql) {
            Ok(Outcome::Rows(result)) => match lines(&result) {
                same if same == expected => Ok(()),
                other => Err(format!("returned {other:#?}")),
            },
            Ok(_) => Err("no rows".to_owned()),
            Err(error) => Err(error.render(&sql)),
        };
    }
    let sql = body.join("\n");
    match (head.strip_prefix("statement error"), session.execute(&sql)) {
        (None, Ok(_)) if head == "statement ok" => Ok(()),
        (None, Err(error)) => Err(error.render(&sql)),
        (Some(_), Ok(_)) => Err("no error".to_owned()),
        (Some(expected), Err(error)) => match error.render(&sql) {
            shown if shown.contains(expected.trim()) => Ok(()),
            other => Err(other),
        },
        _ => Err(format!("unknown record \"{head}\"")),
    }
}

#[test]
fn every_file_of_statements_does_what_it_says() {
    // Asked now: this may have been compiled for another clone with the same target.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&here).join("tests/session/sql");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "the files of statements are missing");
    let failed: Vec<String> = files.iter().flat_map(|path| run_file(path)).collect();
    assert!(failed.is_empty(), "{} records failed:\n{}", failed.len(), failed.join("\n\n"));
}
