//! The first statement of a transaction is tried again after a conflict, and no other.

use std::time::Duration;

use atoll::{Database, DatabaseOptions};
use atoll_sql::{Cause, SqlErrorKind, SqlSession};

use super::{error, tag};

#[test]
fn a_statement_behind_one_that_failed_is_not_the_first() {
    let scheme = atoll_sql::default_scheme();
    let options =
        DatabaseOptions { scheme, lock_timeout: Duration::MAX, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let (mut one, mut other) = (SqlSession::on_database(db.clone()), SqlSession::on_database(db));
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t SELECT value, 0 FROM generate_series(1, 20) AS s(value)");
    tag(&mut one, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    tag(&mut one, "SAVEPOINT s");
    let told = error(&mut one, "INSERT INTO t VALUES (1, 1)");
    assert_eq!(told.cause(), Some(Cause::DuplicateKey));
    tag(&mut one, "ROLLBACK TO SAVEPOINT s");
    tag(&mut one, "RELEASE SAVEPOINT s");
    // It holds more, so the first is the victim of the deadlock.
    tag(&mut other, "BEGIN");
    tag(&mut other, "UPDATE t SET v = 2 WHERE id > 1");
    let other = std::thread::spawn(move || {
        tag(&mut other, "DELETE FROM t WHERE id = 1");
        tag(&mut other, "COMMIT");
    });
    // Begun anew, it would change row 2 after it was told of row 1, which is gone.
    let end = error(&mut one, "UPDATE t SET v = 1 WHERE id = 2");
    assert_eq!(end.kind(), SqlErrorKind::Aborted);
    tag(&mut one, "ROLLBACK");
    other.join().unwrap();
}
