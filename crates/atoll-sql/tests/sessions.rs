//! Sessions are state: thousands of them are open at once, and hundreds of transactions, without a
//! thread for any of them.

#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atoll::Database;
use atoll_sql::SqlSession;

/// The tests measure the process, so each runs alone.
static ALONE: Mutex<()> = Mutex::new(());

const SESSIONS: usize = 10_000;
const OPEN: usize = 1000;
/// Most bytes of a session that has run a statement.
const SESSION_BYTES: usize = 4096;

/// A number from the status of this process, such as "VmRSS".
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().find_map(|word| word.parse().ok()).unwrap()
}

#[test]
fn ten_thousand_sessions_and_a_thousand_transactions_are_open_at_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let db = Database::create(atoll_sql::database_options()).unwrap();
    let mut first = SqlSession::on_database(db.clone());
    first.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)").unwrap();
    for id in 0..2000 {
        first.execute_with("INSERT INTO t VALUES ($1, 0)", (id,)).unwrap();
    }
    let read = "SELECT v FROM t WHERE id = $1";
    let open = |count: usize| -> Vec<SqlSession> {
        let make = |_| {
            let mut session = SqlSession::on_database(db.clone());
            session.query_first::<(i32,)>(read, (7,)).unwrap();
            session
        };
        (0..count).map(make).collect()
    };
    // What the first ones take is kept for all.
    let mut some = open(100);
    let (threads, before) = (status("Threads:"), status("VmRSS:"));
    let sessions = open(SESSIONS);
    let each = (status("VmRSS:").saturating_sub(before) << 10) / SESSIONS;
    assert!(each <= SESSION_BYTES, "a session takes {each} bytes");
    assert_eq!(status("Threads:"), threads);
    some.extend(sessions);
    for (id, session) in some.iter_mut().take(OPEN).enumerate() {
        session.execute("BEGIN").unwrap();
        session.execute_with("UPDATE t SET v = v + 1 WHERE id = $1", (id as i32,)).unwrap();
    }
    assert_eq!(status("Threads:"), threads);
    // Others go on meanwhile.
    for id in 1000..2000 {
        first.execute_with("UPDATE t SET v = v + 1 WHERE id = $1", (id,)).unwrap();
    }
    for session in some.iter_mut().take(OPEN) {
        session.execute("COMMIT").unwrap();
    }
    let sum = first.query_first::<(i64,)>("SELECT sum(v) FROM t", ()).unwrap();
    assert_eq!(sum, Some((2000,)));
}

/// Processor time that this process has used, in hundredths of a second.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn sessions_that_wait_for_a_row_take_no_processor_and_are_woken() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let db = Database::create(atoll_sql::database_options()).unwrap();
    let mut first = SqlSession::on_database(db.clone());
    first.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)").unwrap();
    first.execute("INSERT INTO t VALUES (1, 0)").unwrap();
    first.execute("BEGIN").unwrap();
    first.execute("UPDATE t SET v = 1 WHERE id = 1").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = SqlSession::on_database(db);
                session.execute("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let before = ticks();
        std::thread::sleep(Duration::from_secs(2));
        // Twenty that spin would take all of every processor.
        let used = ticks() - before;
        assert!(used < 100, "{used} hundredths of a second of 2 seconds");
        first.execute("COMMIT").unwrap();
    });
    let row = first.query_first::<(i32,)>("SELECT v FROM t WHERE id = 1", ()).unwrap();
    assert_eq!(row, Some((21,)));
}
