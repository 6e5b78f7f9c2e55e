//! What clients and statements do, as the views show it, and snapshots with names.

use std::time::{Duration, Instant};

use crate::Served;
use crate::client::{Client, Message, bind, execute, parse, sync};

fn number(client: &Client) -> i32 {
    i32::from_be_bytes(client.key[..4].try_into().unwrap())
}

fn shown(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::show).collect()
}

/// Asks until the answer comes.
fn until(client: &mut Client, sql: &str, wanted: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while client.query(sql)[0] != wanted {
        assert!(Instant::now() < end, "{sql} is not {wanted}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn activity_shows_what_clients_do() {
    let served = Served::start();
    let (mut one, mut other) = (served.client(), served.client());
    let state = format!(
        "SELECT state, application_name, query FROM pg_stat_activity WHERE pid = {}",
        number(&other)
    );
    assert_eq!(other.query("SET application_name = 'books'")[0], "SET");
    assert_eq!(one.query(&state)[0], "D idle|books|SET application_name = 'books'");
    assert_eq!(other.query("BEGIN")[1], "ZT");
    assert_eq!(one.query(&state)[0], "D idle in transaction|books|BEGIN");
    assert_eq!(other.query("SELECT 1/0")[1], "ZE");
    assert_eq!(one.query(&state)[0], "D idle in transaction (aborted)|books|SELECT 1/0");
    let times = "SELECT backend_start <= xact_start AND xact_start <= query_start \
                 AND query_start <= state_change FROM pg_stat_activity WHERE pid";
    assert_eq!(one.query(&format!("{times} = {}", number(&other)))[0], "D t");
    assert_eq!(other.query("ROLLBACK")[1], "ZI");
    other.answers(&[
        parse("", "SELECT $1::int", &[]),
        bind("", "", &[Some("7")], &[]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(one.query(&state)[0], "D idle|books|SELECT $1::int");
    let asked = one.query("SELECT pg_advisory_lock(5)");
    assert_eq!(asked[1], "SELECT 1");
    other.send(b'Q', b"SELECT pg_advisory_lock(5)\0");
    let waits = format!(
        "SELECT state, wait_event_type, pg_blocking_pids(pid) FROM pg_stat_activity WHERE pid = {}",
        number(&other)
    );
    let wanted = format!("D active|Lock|{{{}}}", number(&one));
    until(&mut one, &waits, &wanted);
    let cancel = format!("SELECT pg_cancel_backend({})", number(&other));
    assert_eq!(one.query(&cancel)[0], "D t");
    assert_eq!(shown(&other.until_ready()), ["E 57014", "ZI"]);
}

#[test]
fn a_client_is_ended_while_it_is_idle_and_while_it_works() {
    let served = Served::start();
    let mut one = served.client();
    one.query("SELECT pg_advisory_lock(5)");
    for sql in [None, Some("SELECT pg_advisory_lock(5)")] {
        let mut other = served.client();
        let number = number(&other);
        if let Some(sql) = sql {
            other.send(b'Q', format!("{sql}\0").as_bytes());
            let waits = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {number}");
            until(&mut one, &waits, "D advisory");
        }
        // It rests meanwhile, without a thread.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(one.query(&format!("SELECT pg_terminate_backend({number})"))[0], "D t");
        let last = std::iter::from_fn(|| other.receive()).last().unwrap();
        assert_eq!(last.show(), "E 57P01");
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {number}");
        until(&mut one, &left, "D 0");
        assert_eq!(one.query(&format!("SELECT pg_terminate_backend({number})"))[0], "D f");
    }
}

#[test]
fn statements_are_counted_without_their_values() {
    let served = Served::start();
    let mut one = served.client();
    one.query("CREATE TABLE t (id int PRIMARY KEY, n int)");
    for at in 0..3 {
        one.query(&format!("INSERT INTO t VALUES ({at}, 1), ({}, 2)", at + 10));
    }
    one.query("INSERT INTO t VALUES (1, 1), (2, 2)");
    one.answers(&[parse("p", "SELECT n FROM t WHERE n = $1", &[]), sync()]);
    let run = [bind("", "p", &[Some("1")], &[]), execute("", 0), sync()];
    for _ in 0..2 {
        one.answers(&run);
    }
    let shown = |client: &mut Client, like: &str| {
        client.query(&format!(
            "SELECT calls, rows, errors, total_exec_time > 0, min_exec_time <= mean_exec_time,
                    mean_exec_time <= max_exec_time, query
             FROM pg_stat_statements WHERE query LIKE '{like}%'"
        ))[0]
            .clone()
    };
    assert_eq!(shown(&mut one, "INSERT"), "D 3|6|1|t|t|t|INSERT INTO t VALUES (?, ?), (?, ?)");
    assert_eq!(shown(&mut one, "SELECT n"), "D 2|6|0|t|t|t|SELECT n FROM t WHERE n = $1");
    assert_eq!(one.query("SELECT pg_stat_statements_reset()")[1], "SELECT 1");
    one.answers(&run);
    assert_eq!(shown(&mut one, "SELECT n"), "D 1|3|0|t|t|t|SELECT n FROM t WHERE n = $1");
    assert_eq!(
        one.query("SELECT count(*) FROM pg_stat_statements WHERE query LIKE 'INSERT%'")[0],
        "D 0"
    );
}

#[test]
fn a_named_snapshot_is_read_by_sessions_and_processes_until_it_is_too_old() {
    let served = Served::published("named");
    let runtime = served.runtime();
    let (mut one, mut other) = (served.client_of("named"), served.client_of("named"));
    one.query("CREATE TABLE t (id int PRIMARY KEY, n int)");
    one.query("INSERT INTO t SELECT g, g FROM generate_series(1, 1000) AS g(g)");
    assert_eq!(one.query("SELECT atoll_snapshot('named-then')")[0], "D named-then");
    one.query("DELETE FROM t WHERE id > 10");
    assert_eq!(other.query("SET atoll.snapshot = 'named-then'")[0], "SET");
    assert_eq!(other.query("SELECT sum(n) FROM t")[0], "D 500500");
    assert_eq!(one.query("SELECT sum(n) FROM t")[0], "D 55");
    let snapshot = atoll::attach("named-then", Some(&runtime)).unwrap().snapshot().unwrap();
    let mut attached = atoll_sql::SqlSession::on_snapshot(snapshot);
    let rows = attached.execute("SELECT sum(n) FROM t").unwrap();
    assert!(format!("{rows:?}").contains("500500"));
    assert_eq!(one.query("SELECT atoll_snapshot('named-then')")[0], "E 42710");
    assert_eq!(one.query("SELECT atoll_snapshot('/x')")[0].split(' ').next(), Some("E"));
    let name = one.query("SELECT atoll_snapshot(NULL, interval '300 milliseconds')")[0].clone();
    assert!(name.starts_with("D named-"), "{name}");
    let count = "SELECT count(*) FROM atoll_snapshots";
    until(&mut one, count, "D 1");
    assert_eq!(one.query("SELECT atoll_release_snapshot('named-then')")[0], "D t");
    assert_eq!(one.query(count)[0], "D 0");
    assert_eq!(other.query("SELECT sum(n) FROM t")[0], "E 42704");
    // What has attached reads on.
    let rows = attached.execute("SELECT count(*) FROM t").unwrap();
    assert!(format!("{rows:?}").contains("1000"));
    assert!(atoll::attach("named-then", Some(&runtime)).is_err());
}
