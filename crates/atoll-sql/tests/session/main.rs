//! What a user of SQL sees, through the public interface alone.

#![allow(clippy::unwrap_used)]

mod altering;
mod changes;
mod comments;
mod coordination;
mod copy;
mod definitions;
mod describe;
mod domains;
mod dump;
mod durability;
mod enums;
mod expressions;
mod files;
mod first_statement;
mod foreign_keys;
mod infer;
mod isolation;
mod keyless;
mod limits;
mod lists;
mod locks;
mod messages;
mod modes;
mod nested;
mod new_columns;
mod notices;
mod owners;
mod partitions;
mod pgbench;
mod prepared;
mod queries;
mod schemas;
mod sequences;
mod statements;
mod system;
mod types;
mod views;
mod well_known;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use atoll::{Database, DatabaseOptions};
use atoll_sql::{Outcome, QueryResult, SqlError, SqlSession};

/// An empty database.
fn database() -> Database {
    Database::create(DatabaseOptions::default()).unwrap()
}

/// A session on an empty database after these statements.
fn session(script: &str) -> SqlSession {
    let mut session = SqlSession::on_database(database());
    for outcome in session.execute_script(script) {
        outcome.unwrap();
    }
    session
}

/// The tag of a statement that succeeds.
#[track_caller]
fn tag(session: &mut SqlSession, sql: &str) -> String {
    match session.execute(sql) {
        Ok(Outcome::Done { tag, .. }) => tag,
        Ok(_) => panic!("{sql} returned rows"),
        Err(error) => panic!("{sql}: {}", error.render(sql)),
    }
}

/// The rows of a query that succeeds, fields separated by `|`.
fn rows(session: &mut SqlSession, sql: &str) -> Vec<String> {
    match session.execute(sql) {
        Ok(Outcome::Rows(result)) => lines(&result),
        Ok(_) => panic!("{sql} returned no rows"),
        Err(error) => panic!("{}", error.render(sql)),
    }
}

/// The rows of a result, fields separated by `|`.
fn lines(result: &QueryResult) -> Vec<String> {
    fields(result).iter().map(|row| row.join("|")).collect()
}

/// The fields of a result as text.
fn fields(result: &QueryResult) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in result.batches() {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        let row = |at: usize| columns.iter().map(|column| column.value(at).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

/// The error of a statement that fails.
fn error(session: &mut SqlSession, sql: &str) -> SqlError {
    match session.execute(sql) {
        Ok(_) => panic!("{sql} succeeded"),
        Err(error) => error,
    }
}
