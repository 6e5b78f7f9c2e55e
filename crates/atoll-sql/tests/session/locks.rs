//! `LOCK TABLE`.

use std::time::Duration;

use atoll_sql::{Cause, SqlSession};

use super::{database, error, rows, tag};

fn sessions() -> (SqlSession, SqlSession) {
    let db = database();
    let (mut one, other) = (SqlSession::on_database(db.clone()), SqlSession::on_database(db));
    tag(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    tag(&mut one, "INSERT INTO t VALUES (1, 10)");
    (one, other)
}

#[test]
fn a_locked_table_is_neither_changed_nor_locked_by_others_until_the_end() {
    let (mut one, mut other) = sessions();
    assert_eq!(error(&mut one, "LOCK TABLE t").cause(), Some(Cause::NoTransaction));
    tag(&mut one, "BEGIN");
    assert_eq!(error(&mut one, "LOCK TABLE u").sqlstate(), "42P01");
    tag(&mut one, "ROLLBACK");
    for end in ["COMMIT", "ROLLBACK"] {
        tag(&mut one, "BEGIN");
        assert_eq!(tag(&mut one, "LOCK TABLE t IN ACCESS EXCLUSIVE MODE"), "LOCK TABLE");
        // A query may run on a snapshot.
        assert_eq!(rows(&mut other, "SELECT v FROM t WHERE id = 1"), ["10"]);
        tag(&mut other, "SET lock_timeout = '20ms'");
        assert_eq!(error(&mut other, "UPDATE t SET v = 11").sqlstate(), "55P03");
        tag(&mut other, "BEGIN");
        assert_eq!(error(&mut other, "LOCK t IN SHARE MODE NOWAIT").sqlstate(), "55P03");
        tag(&mut other, "ROLLBACK");
        tag(&mut other, "RESET lock_timeout");
        let waiter = std::thread::spawn(move || {
            tag(&mut other, "UPDATE t SET v = v + 0");
            other
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiter.is_finished());
        tag(&mut one, end);
        other = waiter.join().unwrap();
    }
}

#[test]
fn modes_that_writers_share_keep_none_of_them_away() {
    let (mut one, mut other) = sessions();
    tag(&mut one, "BEGIN");
    tag(&mut one, "LOCK TABLE t IN ROW EXCLUSIVE MODE");
    tag(&mut other, "UPDATE t SET v = 12");
    tag(&mut other, "BEGIN");
    tag(&mut other, "LOCK TABLE ONLY t IN ROW SHARE MODE NOWAIT");
    tag(&mut other, "COMMIT");
    tag(&mut other, "BEGIN");
    assert_eq!(error(&mut other, "LOCK TABLE t IN SHARE MODE NOWAIT").sqlstate(), "55P03");
    tag(&mut other, "ROLLBACK");
    tag(&mut one, "COMMIT");
}
