//! The endpoint for Prometheus.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::Served;

fn ask(served: &Served, request: &str) -> String {
    let mut socket = TcpStream::connect(served.metrics.unwrap()).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// The metrics by their names and labels.
fn metrics(served: &Served) -> HashMap<String, f64> {
    let answer = ask(served, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let (mut values, mut described) = (HashMap::new(), HashSet::new());
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap();
            assert!(described.insert(name.to_owned()), "{name} is described twice");
            continue;
        }
        if line.starts_with("# TYPE ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| family.strip_suffix(end).filter(|name| described.contains(*name)))
            .unwrap_or(family);
        assert!(described.contains(family), "{line}");
        let known = values.insert(name.to_owned(), value.parse().unwrap());
        assert_eq!(known, None, "{name} is there twice");
    }
    values
}

#[test]
fn what_the_server_and_the_database_count_is_told() {
    let served = Served::with(|options| options.metrics = Some(([127, 0, 0, 1], 0).into()));
    let before = metrics(&served);
    assert_eq!(before["atoll_connections"], 0.0);
    let mut client = served.client();
    client.query("CREATE TABLE t (id int PRIMARY KEY)");
    for id in 0..5 {
        client.query(&format!("INSERT INTO t VALUES ({id})"));
    }
    client.query("INSERT INTO t VALUES (0)");
    client.query("SELECT nonsense");
    client.query("SELECT nonsense");
    let after = metrics(&served);
    let more = |name: &str| after[name] - before.get(name).copied().unwrap_or_default();
    assert_eq!((after["atoll_connections"], more("atoll_connections_total")), (1.0, 1.0));
    assert_eq!(more("atoll_statements_total"), 9.0);
    assert_eq!(more("atoll_statement_errors_total{class=\"42\"}"), 2.0);
    assert_eq!(more("atoll_statement_errors_total{class=\"23\"}"), 1.0);
    assert_eq!(more("atoll_statement_duration_seconds_count"), 9.0);
    assert_eq!(more("atoll_statement_duration_seconds_bucket{le=\"+Inf\"}"), 9.0);
    assert!(more("atoll_statement_duration_seconds_sum") > 0.0);
    assert!(more("atoll_commits_total") >= 6.0);
    assert!(after["atoll_memory_bytes{part=\"tables\"}"] >= 0.0);
    assert!(after["atoll_process_memory_bytes"] > 0.0);
    assert!(after.contains_key("atoll_aborts_total{reason=\"requested\"}"), "{after:?}");
    // A database in memory has no logs.
    assert!(!after.contains_key("atoll_log_bytes_total"));
    drop(client);
}

#[test]
fn other_requests_are_refused_and_a_server_ends_with_its_endpoint() {
    let mut served = Served::with(|options| options.metrics = Some(([127, 0, 0, 1], 0).into()));
    assert!(ask(&served, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(&served, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(&served, "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    // One that says nothing keeps others waiting for a moment only.
    let silent = TcpStream::connect(served.metrics.unwrap()).unwrap();
    assert!(ask(&served, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    drop(silent);
    served.stop();
    assert!(TcpStream::connect(served.metrics.unwrap()).is_err());
}
