//! Statements that no honest program sends. Each ends with a result or with an error that has the
//! right SQLSTATE; nothing panics, no stack overflows, and a statement that fails changes nothing.

#![allow(clippy::unwrap_used)]

mod deep;
mod fuzzed;
mod large;
mod odd;

use atoll::{Database, DatabaseOptions};
use atoll_sql::{Literal, Outcome, SqlError, SqlSession};

/// What a thread of Python may have, and one of tokio.
const STACKS: [usize; 2] = [512 << 10, 2 << 20];

fn session() -> SqlSession {
    let mut session =
        SqlSession::on_database(Database::create(DatabaseOptions::default()).unwrap());
    for sql in [
        "CREATE TABLE t (id bigint PRIMARY KEY, v int, name text)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    ] {
        session.execute(sql).unwrap();
    }
    session
}

/// Runs `work` on a thread with such a stack.
fn on_stack<R: Send>(bytes: usize, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
        thread.unwrap().join().unwrap()
    })
}

/// How many rows a statement returns or changes. One that fails changes nothing.
fn run(session: &mut SqlSession, sql: &str, values: &[Literal]) -> Result<u64, SqlError> {
    let error = match session.execute_with(sql, values) {
        Ok(Outcome::Rows(result)) => {
            return Ok(result.batches().iter().map(|batch| batch.num_rows() as u64).sum());
        }
        Ok(Outcome::Done { rows, .. }) => return Ok(rows),
        Ok(other) => panic!("{other:?}"),
        Err(error) => error,
    };
    let left: Vec<(i64, i32, String)> =
        session.query("SELECT id, v, name FROM t ORDER BY id", ()).unwrap();
    assert_eq!(left, [(1, 1, "a".into()), (2, 2, "b".into())], "{error}");
    Err(error)
}

/// The beginning of a text, for messages of tests.
fn head(sql: &str) -> String {
    sql.chars().take(60).collect()
}
