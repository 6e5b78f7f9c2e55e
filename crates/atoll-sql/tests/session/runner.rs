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

fn run_file(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut session = SqlSession::on_database(super::database());
    for record in text.split("\n\n") {
        let record: Vec<&str> =
            record.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        let Some((head, body)) = record.split_first() else { continue };
        let place = format!("{}: {}", path.display(), body.join(" "));
        if *head == "query" {
            let cut = body.iter().position(|line| *line == "----").expect("a query has ----");
            let (sql, expected) = (body[..cut].join("\n"), &body[cut + 1..]);
            match session.execute(&sql) {
                Ok(Outcome::Rows(result)) => assert_eq!(lines(&result), expected, "{place}"),
                Ok(_) => panic!("{place}: no rows"),
                Err(error) => panic!("{place}: {}", error.render(&sql)),
            }
            continue;
        }
        let sql = body.join("\n");
        match (head.strip_prefix("statement error"), session.execute(&sql)) {
            (None, Ok(_)) if *head == "statement ok" => {}
            (None, Err(error)) => panic!("{place}: {}", error.render(&sql)),
            (Some(_), Ok(_)) => panic!("{place}: no error"),
            (Some(expected), Err(error)) => {
                let shown = error.render(&sql);
                assert!(shown.contains(expected.trim()), "{place}: {shown}");
            }
            _ => panic!("{place}: unknown record \"{head}\""),
        }
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
    files.iter().for_each(|path| run_file(path));
}
