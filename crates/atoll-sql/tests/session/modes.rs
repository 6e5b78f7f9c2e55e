//! The modes of transactions as settings: `default_transaction_isolation` and its like.

use atoll::{Database, DatabaseOptions};
use atoll_sql::{NoticeLevel, SqlSession};

use super::{error, rows, tag};

/// A session under a scheme that has READ COMMITTED.
fn session() -> SqlSession {
    let scheme = "dl_detect".parse().unwrap();
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let mut session = SqlSession::on_database(Database::create(options).unwrap());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    session
}

#[track_caller]
fn shown(session: &mut SqlSession, name: &str) -> String {
    rows(session, &format!("SHOW {name}")).remove(0)
}

#[test]
fn a_default_holds_for_the_transactions_that_follow() {
    let mut session = session();
    for (set, level) in [
        ("SET default_transaction_isolation = 'repeatable read'", "repeatable read"),
        ("SET SESSION default_transaction_isolation TO SERIALIZABLE", "serializable"),
        ("SET default_transaction_isolation TO DEFAULT", "read committed"),
        ("SELECT set_config('default_transaction_isolation', 'serializable', false)", ""),
        ("RESET default_transaction_isolation", "read committed"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "serializable"),
        ("RESET ALL", "read committed"),
    ] {
        session.execute(set).unwrap();
        let level = if level.is_empty() { "serializable" } else { level };
        assert_eq!(shown(&mut session, "default_transaction_isolation"), level, "{set}");
        tag(&mut session, "BEGIN");
        assert_eq!(shown(&mut session, "transaction_isolation"), level, "{set}");
        tag(&mut session, "COMMIT");
    }
    for (set, is_on) in [
        ("SET default_transaction_read_only = on", true),
        ("SET default_transaction_read_only TO no", false),
        ("SET default_transaction_read_only = 1", true),
        ("RESET default_transaction_read_only", false),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", true),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", false),
    ] {
        tag(&mut session, set);
        let wanted = if is_on { "on" } else { "off" };
        assert_eq!(shown(&mut session, "default_transaction_read_only"), wanted, "{set}");
        assert_eq!(shown(&mut session, "transaction_read_only"), wanted, "{set}");
        for begin in ["", "BEGIN"] {
            if !begin.is_empty() {
                tag(&mut session, begin);
            }
            let done = session.execute("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING");
            assert_eq!(done.err().map(|error| error.sqlstate()), is_on.then_some("25006"), "{set}");
            if !begin.is_empty() {
                tag(&mut session, "ROLLBACK");
            }
        }
    }
    let wrong = error(&mut session, "SET default_transaction_isolation = 'Chaos'");
    let message = "invalid value for parameter \"default_transaction_isolation\": \"Chaos\"";
    assert_eq!((wrong.message(), wrong.sqlstate()), (message, "22023"));
    let wrong = error(&mut session, "SET default_transaction_read_only = 'maybe'");
    let message = "parameter \"default_transaction_read_only\" requires a Boolean value";
    assert_eq!((wrong.message(), wrong.sqlstate()), (message, "22023"));
}

#[test]
fn defaults_go_with_the_transaction_that_sets_them() {
    let mut session = session();
    for set in [
        "SET default_transaction_read_only = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    ] {
        tag(&mut session, "BEGIN");
        tag(&mut session, set);
        assert_eq!(shown(&mut session, "transaction_read_only"), "off", "{set}");
        tag(&mut session, "INSERT INTO t VALUES (1)");
        tag(&mut session, "ROLLBACK");
        assert_eq!(shown(&mut session, "default_transaction_read_only"), "off", "{set}");
    }
    tag(&mut session, "BEGIN");
    tag(&mut session, "SET LOCAL default_transaction_isolation = 'serializable'");
    assert_eq!(shown(&mut session, "default_transaction_isolation"), "serializable");
    tag(&mut session, "COMMIT");
    assert_eq!(shown(&mut session, "default_transaction_isolation"), "read committed");
}

#[test]
fn the_modes_of_the_open_transaction_are_settings() {
    let mut session = session();
    tag(&mut session, "BEGIN");
    tag(&mut session, "SET transaction_read_only = on");
    tag(&mut session, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(shown(&mut session, "transaction_read_only"), "on");
    assert_eq!(shown(&mut session, "transaction_isolation"), "serializable");
    tag(&mut session, "SET transaction_read_only = off");
    tag(&mut session, "INSERT INTO t VALUES (1)");
    tag(&mut session, "SET TRANSACTION READ ONLY");
    let wrong = error(&mut session, "INSERT INTO t VALUES (2)");
    assert_eq!(wrong.sqlstate(), "25006");
    tag(&mut session, "ROLLBACK");
    for (first, second) in [
        ("INSERT INTO t VALUES (7)", "SET transaction_isolation = 'repeatable read'"),
        ("INSERT INTO t VALUES (7); SET TRANSACTION READ ONLY", "SET TRANSACTION READ WRITE"),
    ] {
        session.execute("BEGIN").unwrap();
        session.execute_script(first).into_iter().for_each(|done| drop(done.unwrap()));
        assert_eq!(error(&mut session, second).sqlstate(), "25001", "{second}");
        tag(&mut session, "ROLLBACK");
    }
    assert!(session.take_notices().is_empty());
    for set in ["SET TRANSACTION READ ONLY", "SET LOCAL lock_timeout = 1"] {
        tag(&mut session, set);
        let told = session.take_notices().remove(0);
        assert_eq!((told.level(), told.sqlstate()), (NoticeLevel::Warning, "25P01"), "{set}");
        assert!(told.message().ends_with("can only be used in transaction blocks"), "{told}");
    }
    assert_eq!(shown(&mut session, "lock_timeout"), "0");
    tag(&mut session, "INSERT INTO t VALUES (1)");
}
