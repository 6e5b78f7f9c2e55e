//! What sessions have to do with each other: advisory locks and notifications.

use std::time::{Duration, Instant};

use crate::Served;
use crate::client::{Client, Message, bind, execute, parse, sync};

/// The sender, the channel and the text of a notification.
fn notification(message: &Message) -> (i32, String, String) {
    assert_eq!(message.kind, 'A');
    let sender = i32::from_be_bytes(message.body[..4].try_into().unwrap());
    let text = String::from_utf8(message.body[4..].to_vec()).unwrap();
    let mut parts = text.split('\0');
    (sender, parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned())
}

fn number(client: &Client) -> i32 {
    i32::from_be_bytes(client.key[..4].try_into().unwrap())
}

/// The texts of the next notifications.
fn texts(client: &mut Client, count: usize) -> Vec<String> {
    (0..count).map(|_| notification(&client.receive().unwrap()).2).collect()
}

#[test]
fn notifications_reach_idle_and_busy_sessions_at_the_commit() {
    let served = Served::start();
    let (mut idle, mut busy, mut sender) = (served.client(), served.client(), served.client());
    assert_eq!(idle.query("LISTEN news"), ["LISTEN", "ZI"]);
    assert_eq!(busy.query("LISTEN \"news\""), ["LISTEN", "ZI"]);
    assert_eq!(busy.query("BEGIN"), ["BEGIN", "ZT"]);
    assert_eq!(sender.query("BEGIN; NOTIFY news, 'one'"), ["BEGIN", "NOTIFY", "ZT"]);
    assert_eq!(sender.query("SELECT pg_notify('news', 'two')"), ["D ", "SELECT 1", "ZT"]);
    // Duplicates are folded, and other channels are not heard.
    assert_eq!(sender.query("NOTIFY news, 'one'; NOTIFY other"), ["NOTIFY", "NOTIFY", "ZT"]);
    assert_eq!(idle.query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
    assert_eq!(sender.query("COMMIT"), ["COMMIT", "ZI"]);
    let first = notification(&idle.receive().unwrap());
    assert_eq!(first, (number(&sender), "news".to_owned(), "one".to_owned()));
    assert_eq!(texts(&mut idle, 1), ["two"]);
    // One with an open transaction hears them behind its end.
    assert_eq!(busy.query("SELECT 1"), ["D 1", "SELECT 1", "ZT"]);
    assert_eq!(busy.query("COMMIT"), ["COMMIT", "A", "A", "ZI"]);
    // Its own come too, before it is ready.
    assert_eq!(busy.query("NOTIFY news"), ["NOTIFY", "A", "ZI"]);
    assert_eq!(texts(&mut idle, 1), [""]);
    assert_eq!(
        sender.query("BEGIN; NOTIFY news, 'never'; ROLLBACK"),
        ["BEGIN", "NOTIFY", "ROLLBACK", "ZI"]
    );
    assert_eq!(sender.query("NOTIFY news, 'never'; SELECT 1/0"), ["NOTIFY", "E 22012", "ZI"]);
    assert_eq!(busy.query("UNLISTEN *"), ["UNLISTEN", "ZI"]);
    sender.query("NOTIFY news, 'last'");
    assert_eq!(texts(&mut idle, 1), ["last"]);
    assert_eq!(busy.query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
    assert_eq!(idle.query("DISCARD ALL"), ["DISCARD ALL", "ZI"]);
    sender.query("NOTIFY news, 'no one'");
    assert_eq!(idle.query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
}

#[test]
fn notifications_follow_savepoints_and_parameters() {
    let served = Served::start();
    let (mut hearer, mut sender) = (served.client(), served.client());
    hearer.query("LISTEN c");
    sender.query("BEGIN; NOTIFY c, 'kept'; SAVEPOINT s; NOTIFY c, 'lost'");
    sender.query("ROLLBACK TO s; NOTIFY c, 'too'; COMMIT");
    assert_eq!(texts(&mut hearer, 2), ["kept", "too"]);
    let answers = sender.answers(&[
        parse("", "SELECT pg_notify($1, $2)", &[]),
        bind("", "", &[Some("c"), Some("said")], &[]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(answers, ["1", "2", "D ", "SELECT 1", "ZI"]);
    assert_eq!(texts(&mut hearer, 1), ["said"]);
    sender.query("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
    let sql = "SELECT pg_notify('c', id::text) FROM t ORDER BY id";
    assert_eq!(sender.query(sql), ["D ", "D ", "D ", "SELECT 3", "ZI"]);
    let mut heard = texts(&mut hearer, 3);
    heard.sort();
    assert_eq!(heard, ["1", "2", "3"]);
    assert_eq!(sender.query("SELECT pg_notify('', 'x')"), ["E 22023", "ZI"]);
    let long = format!("NOTIFY c, '{}'", "x".repeat(8000));
    assert_eq!(sender.query(&long), ["E 22023", "ZI"]);
}

#[test]
fn many_notifications_come_in_the_order_of_the_commits() {
    let served = Served::start();
    let mut hearers: Vec<Client> = (0..2).map(|_| served.client()).collect();
    hearers.iter_mut().for_each(|hearer| drop(hearer.query("LISTEN c")));
    let path = served.socket();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let mut client = Client::login(&path);
            std::thread::spawn(move || {
                for at in 0..50 {
                    let sql = format!("BEGIN; NOTIFY c, '{sender} {at}'; COMMIT");
                    assert_eq!(client.query(&sql).last().unwrap(), "ZI");
                }
            })
        })
        .collect();
    let heard: Vec<Vec<String>> = hearers.iter_mut().map(|one| texts(one, 200)).collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(heard[0], heard[1]);
    for sender in 0..4 {
        let own = heard[0].iter().filter(|text| text.starts_with(&format!("{sender} ")));
        let wanted: Vec<String> = (0..50).map(|at| format!("{sender} {at}")).collect();
        assert!(own.eq(wanted.iter()));
    }
}

/// Waits until a statement is answered as wanted.
fn until(client: &mut Client, sql: &str, wanted: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while client.query(sql)[0] != wanted {
        assert!(Instant::now() < end, "{sql}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn advisory_locks_are_of_sessions_and_of_transactions() {
    let served = Served::start();
    let (mut one, mut two) = (served.client(), served.client());
    assert_eq!(one.query("SELECT pg_advisory_lock(7)"), ["D ", "SELECT 1", "ZI"]);
    let try_it = "SELECT pg_try_advisory_lock(7)";
    assert_eq!(two.query(try_it), ["D f", "SELECT 1", "ZI"]);
    assert_eq!(two.query("SELECT pg_try_advisory_lock(0, 7)"), ["D t", "SELECT 1", "ZI"]);
    assert_eq!(one.query("SELECT pg_advisory_unlock(7)"), ["D t", "SELECT 1", "ZI"]);
    assert_eq!(one.query("SELECT pg_advisory_unlock(7)"), ["D f", "SELECT 1", "ZI"]);
    assert_eq!(two.query("SELECT pg_advisory_lock_shared(7)"), ["D ", "SELECT 1", "ZI"]);
    let shared = "SELECT pg_try_advisory_lock_shared(7)";
    assert_eq!(one.query(shared), ["D t", "SELECT 1", "ZI"]);
    assert_eq!(one.query(try_it), ["D f", "SELECT 1", "ZI"]);
    two.query("SELECT pg_advisory_unlock_all()");
    assert_eq!(one.query(try_it), ["D t", "SELECT 1", "ZI"]);
    drop(one);
    // It is gone with its session.
    until(&mut two, "SELECT pg_try_advisory_xact_lock(7)", "D t");
    let mut one = served.client();
    assert_eq!(one.query("SELECT pg_try_advisory_xact_lock(7)"), ["D t", "SELECT 1", "ZI"]);
    one.query("BEGIN; SELECT pg_advisory_xact_lock(7); SAVEPOINT s");
    one.query("SELECT pg_advisory_xact_lock(8); ROLLBACK TO s");
    assert_eq!(two.query(try_it), ["D f", "SELECT 1", "ZI"]);
    assert_eq!(two.query("SELECT pg_try_advisory_xact_lock(8)"), ["D t", "SELECT 1", "ZI"]);
    one.query("COMMIT");
    assert_eq!(two.query(try_it), ["D t", "SELECT 1", "ZI"]);
    // A failed transaction does not take the locks of the session away.
    one.query("BEGIN; SELECT pg_advisory_lock(9), pg_advisory_xact_lock(10); SELECT 1/0; ROLLBACK");
    assert_eq!(one.query("ROLLBACK"), ["ROLLBACK", "ZI"]);
    let sql = "SELECT pg_try_advisory_lock(9), pg_try_advisory_lock(10)";
    assert_eq!(two.query(sql), ["D f|t", "SELECT 1", "ZI"]);
}

#[test]
fn waits_for_advisory_locks_end() {
    let served = Served::start();
    let (mut one, mut two) = (served.client(), served.client());
    one.query("SELECT pg_advisory_lock(1)");
    two.query("SELECT pg_advisory_lock(2)");
    assert_eq!(two.query("SET lock_timeout = 50"), ["SET", "ZI"]);
    assert_eq!(two.query("SELECT pg_advisory_lock(1)"), ["E 55P03", "ZI"]);
    assert_eq!(two.query("SET lock_timeout = 0; SET statement_timeout = 50"), ["SET", "SET", "ZI"]);
    assert_eq!(two.query("SELECT pg_advisory_lock(1)"), ["E 57014", "ZI"]);
    two.query("RESET statement_timeout");
    // One waits for two, so two may not wait for one.
    one.send(b'Q', b"SELECT pg_advisory_lock(2)\0");
    let mut three = served.client();
    std::thread::sleep(Duration::from_millis(200));
    two.query("SET lock_timeout = '10s'");
    let refused = two.query("SELECT pg_advisory_lock(1)");
    assert_eq!(refused, ["E 40P01", "ZI"]);
    two.query("SELECT pg_advisory_unlock(2)");
    let shown: Vec<_> = one.until_ready().iter().map(Message::show).collect();
    assert_eq!(shown[1..], ["D ", "SELECT 1", "ZI"]);
    // A client that goes away waits no longer, and those that wait behind it come next.
    let mut gone = served.client();
    gone.send(b'Q', b"SELECT pg_advisory_lock(1)\0");
    std::thread::sleep(Duration::from_millis(100));
    drop(gone);
    one.query("SELECT pg_advisory_unlock(1)");
    until(&mut three, "SELECT pg_try_advisory_lock(1)", "D t");
}
