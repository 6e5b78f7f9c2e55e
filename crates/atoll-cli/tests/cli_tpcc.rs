//! TPC-C as SQL statements: its conditions hold under every scheme, also when the process is killed
//! in the middle.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_bench::tpcc::{Size, check};

const SIZE: Size = Size { warehouses: 1, customers: 30, items: 200 };

fn tpcc(scheme: SchemeKind, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["--json", "bench", "tpcc", "--sql", "--scheme", &scheme.to_string()]);
    command.args(["--warehouses", "1", "--customers-per-district", "30", "--items", "200"]);
    command.args(["--threads", "2", "--warmup", "0"]).args(more);
    command
}

/// The output of a run that ends: writers that wait for each other for ever would not.
fn output(mut command: Command, scheme: SchemeKind) -> Output {
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(120) {
            running.kill().unwrap();
            panic!("{scheme}: the transactions do not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    running.wait_with_output().unwrap()
}

#[test]
fn the_conditions_hold_after_sql_under_every_scheme() {
    for scheme in SchemeKind::ALL {
        // The program itself checks them.
        let done = output(tpcc(*scheme, &["--transactions", "300"]), *scheme);
        assert!(done.status.success(), "{scheme}: {}", String::from_utf8_lossy(&done.stderr));
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let transactions = report["transactions"].as_array().unwrap();
        assert!(transactions.iter().all(|kind| kind["commits"].as_u64() > Some(0)), "{scheme}");
    }
}

#[test]
fn the_conditions_hold_when_the_process_was_killed() {
    for scheme in SchemeKind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        let more = ["--seconds", "60", "--durability", "group:5", "--data", data];
        let mut command = tpcc(*scheme, &more);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(running.stderr.take().unwrap());
        let runs = told.lines().map_while(Result::ok).any(|line| line.contains("measuring"));
        assert!(runs, "{scheme}");
        std::thread::sleep(Duration::from_millis(1000));
        running.kill().unwrap();
        running.wait().unwrap();
        let mut made = std::fs::read_dir(folder.path()).unwrap().flatten();
        let database = made.next().unwrap().path().join("db");
        let options = DatabaseOptions { scheme: *scheme, ..DatabaseOptions::default() };
        let db = Database::open(&database, options).unwrap();
        let broken = check::broken(&db.snapshot().unwrap(), SIZE).unwrap();
        assert_eq!(broken, [], "{scheme}");
        let orders = db.table("orders").unwrap().row_count();
        assert!(orders > 300, "{scheme}: only the first {orders} orders survived");
        db.close().unwrap();
    }
}
