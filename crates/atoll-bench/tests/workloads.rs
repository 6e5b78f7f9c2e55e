//! The workloads on small tables with every scheme: the results are consistent, and so are the
//! reports; a damaged database is detected. No time is asserted.

#![allow(clippy::unwrap_used)]

use atoll::{SchemeKind, Value};
use atoll_bench::BenchError;
use atoll_bench::oltp::OltpReport;
use atoll_bench::progress::Unwatched;
use atoll_bench::tpcb::{self, TpcbArgs};
use atoll_bench::tpcc::{self, Loaded, TpccArgs};
use atoll_bench::ycsb::{self, YcsbArgs};
use clap::{Args, CommandFactory, Parser};

#[derive(Parser)]
struct Line<A: Args> {
    #[command(flatten)]
    args: A,
}

fn parse<A: Args>(line: &str) -> A {
    let words = std::iter::once("test").chain(line.split_whitespace());
    Line::<A>::try_parse_from(words).unwrap().args
}

const SMALL_TPCC: &str = "--customers-per-district 40 --items 300 --threads 2";

fn tpcc_args(more: &str) -> TpccArgs {
    parse(&format!("{SMALL_TPCC} {more}"))
}

/// Checks that hold for the report of any workload.
fn check_report(report: &OltpReport, transactions: u64) {
    assert_eq!(report.commits + report.rollbacks, transactions);
    assert!(report.throughput_txn_s > 0.0 && (0.0..1.0).contains(&report.abort_rate));
    let latency = report.latency_us;
    assert!(latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.p999);
    let of_kinds: u64 = report.transactions.iter().map(|kind| kind.commits).sum();
    assert_eq!(of_kinds, report.commits);
    let components = report.components.unwrap().named();
    let sum: f64 = components.iter().map(|(_, share)| share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "the shares add up to {sum}");
    assert!(components.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
    let json = serde_json::to_value(report).unwrap();
    for key in [
        "throughput_txn_s",
        "aborts",
        "abort_rate",
        "latency_us",
        "components",
        "config",
        "transactions",
        "throughput_series_txn_s",
        "resident_series_bytes",
        "resident_bytes",
        "checks",
    ] {
        assert!(json.get(key).is_some(), "{key} is in the report");
    }
    for key in ["p50", "p99", "p999"] {
        assert!(json["latency_us"][key].is_number(), "{key} is in the report");
    }
    assert!(json["config"]["scheme"].is_string() && json["config"]["seed"].is_number());
    assert!(!report.checks.is_empty());
    assert!(report.to_string().contains("txn/s"));
}

#[test]
fn tpcc_keeps_its_conditions_with_every_scheme() {
    for scheme in SchemeKind::ALL {
        let line = format!("--warehouses 2 --transactions 500 --scheme {scheme}");
        let report = tpcc::run(&tpcc_args(&line), &mut Unwatched)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 1000);
        assert_eq!(report.transactions.len(), 5, "{scheme}: all types of transactions ran");
        assert!(report.transactions[0].rollbacks > 0, "{scheme}: some orders are given up");
        assert_eq!(report.checks.len(), 12);
        assert!(report.checks.iter().all(|check| check.left_out.is_none()));
    }
}

#[test]
fn threads_that_meet_in_one_warehouse_keep_the_conditions_with_every_scheme() {
    for scheme in SchemeKind::ALL {
        // Deliveries and payments conflict most.
        let mix = "--mix new-order=30,payment=30,order-status=10,delivery=20,stock-level=10";
        let line = format!("--warehouses 1 --transactions 250 --scheme {scheme} --seed 7 {mix}");
        let report = tpcc::run(&tpcc_args(&line), &mut Unwatched)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 500);
    }
}

#[test]
fn transactions_that_are_rolled_back_at_their_end_leave_the_conditions_with_every_scheme() {
    let mix = "--mix new-order=30,payment=30,order-status=5,delivery=30,stock-level=5";
    for scheme in SchemeKind::ALL {
        let aborts = "--warehouses 1 --transactions 300 --seed 3 --abort-percent 40";
        let line = format!("{aborts} --scheme {scheme} {mix}");
        let report = tpcc::run(&tpcc_args(&line), &mut Unwatched)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 600);
        for kind in &report.transactions {
            let ran = kind.commits + kind.rollbacks;
            let expected = ran / 5..=ran * 3 / 5;
            assert!(expected.contains(&kind.rollbacks) && kind.rollbacks > 2, "{scheme}: {kind:?}");
        }
        assert_eq!((report.transactions.len(), report.checks.len()), (5, 12), "{scheme}");
    }
}

#[test]
fn the_reduced_transactions_run_with_every_scheme() {
    for scheme in SchemeKind::ALL {
        let line = format!("--warehouses 2 --transactions 300 --scheme {scheme} --reduced");
        let report = tpcc::run(&tpcc_args(&line), &mut Unwatched)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 600);
        let names: Vec<_> = report.transactions.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["new-order", "payment"]);
        assert_eq!(report.rollbacks, 0);
        let left_out = report.checks.iter().filter(|check| check.left_out.is_some());
        assert_eq!(left_out.count(), 4);
    }
}

#[test]
fn a_measurement_by_time_counts_seconds() {
    let line = "--warehouses 1 --seconds 1.2 --warmup 0.1 --home any";
    let report = tpcc::run(&tpcc_args(line), &mut Unwatched).unwrap();
    assert_eq!(report.throughput_series_txn_s.len(), 1);
    assert!(matches!(report.resident_series_bytes[..], [bytes] if bytes > 1 << 20));
    assert!(report.commits > 0 && report.seconds >= 1.2);
    assert!(report.resident_bytes.start > 0 && report.resident_bytes.end > 0);
}

/// A planted fault, and the condition that must detect it.
struct Fault {
    condition: u8,
    table: &'static str,
    key: &'static [i64],
    change: Change,
}

enum Change {
    Set(&'static str, Value),
    Add(&'static str, i64),
    Delete,
    /// Insert a copy with other values in some columns.
    Copy(&'static [(&'static str, i64)]),
}

/// With 40 customers for each district, orders 1 to 28 are delivered and 29 to 40 are new.
fn faults() -> Vec<Fault> {
    let fault = |condition, table, key, change| Fault { condition, table, key, change };
    vec![
        fault(1, "warehouse", &[1], Change::Add("w_ytd", 1)),
        fault(2, "district", &[1, 3], Change::Add("d_next_o_id", 1)),
        fault(3, "new_order", &[1, 4, 35], Change::Delete),
        fault(4, "order_line", &[1, 5, 40, 1], Change::Delete),
        fault(5, "orders", &[1, 6, 28], Change::Set("o_carrier_id", Value::Null)),
        fault(6, "orders", &[1, 7, 12], Change::Add("o_ol_cnt", 1)),
        fault(7, "order_line", &[1, 8, 3, 2], Change::Set("ol_delivery_d", Value::Null)),
        fault(8, "history", &[1, -1, 5], Change::Add("h_amount", 100)),
        fault(9, "district", &[1, 9], Change::Add("d_ytd", -100)),
        fault(10, "customer", &[1, 1, 17], Change::Add("c_balance", 1)),
        fault(11, "new_order", &[1, 2, 40], Change::Copy(&[("no_o_id", 28)])),
        fault(12, "customer", &[1, 10, 40], Change::Add("c_ytd_payment", 1)),
    ]
}

fn number_like(old: &Value, number: i64) -> Value {
    match old {
        Value::Int16(_) => Value::Int16(number as i16),
        Value::Int32(_) => Value::Int32(number as i32),
        _ => Value::Int64(number),
    }
}

fn number_of(value: &Value) -> i64 {
    match value {
        Value::Int16(number) => (*number).into(),
        Value::Int32(number) => (*number).into(),
        Value::Int64(number) => *number,
        other => panic!("{other:?} is no whole number"),
    }
}

fn plant(loaded: &Loaded, fault: &Fault) {
    let table = loaded.db.table(fault.table).unwrap();
    let schema = table.schema().clone();
    let key: Vec<Value> = (fault.key.iter().zip(schema.primary_key()))
        .map(|(part, column)| match schema.columns()[*column].data_type {
            atoll::DataType::Int16 => Value::Int16(*part as i16),
            _ => Value::Int32(*part as i32),
        })
        .collect();
    let column = |name: &str| schema.position(name).unwrap();
    loaded
        .db
        .session()
        .unwrap()
        .transaction(|tx| {
            let mut row = tx.read(&table, &key)?.unwrap();
            match &fault.change {
                Change::Set(name, value) => {
                    assert!(tx.update(&table, &key, &[(column(name), value.clone())])?);
                }
                Change::Add(name, more) => {
                    let old = &row[column(name)];
                    let new = number_like(old, number_of(old) + more);
                    assert!(tx.update(&table, &key, &[(column(name), new)])?);
                }
                Change::Delete => assert!(tx.delete(&table, &key)?),
                Change::Copy(changes) => {
                    for (name, number) in *changes {
                        row[column(name)] = number_like(&row[column(name)], *number);
                    }
                    tx.insert(&table, &row)?;
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn each_condition_notices_when_it_is_broken_by_hand() {
    let args = tpcc_args("--warehouses 1");
    for fault in faults() {
        let loaded = Loaded::fill(&args, &mut Unwatched).unwrap();
        let broken = || tpcc::check::broken(&loaded.db.snapshot().unwrap(), loaded.size()).unwrap();
        assert_eq!(broken(), [], "nothing is wrong at first");
        plant(&loaded, &fault);
        let found = broken();
        let message = found.iter().find(|(number, _)| *number == fault.condition);
        let (_, message) =
            message.unwrap_or_else(|| panic!("condition {}: {found:?}", fault.condition));
        assert!(message.contains("warehouse 1"), "it says where: {message}");
        let told = tpcc::check::check(&loaded.db, loaded.size(), &[]).unwrap_err();
        assert!(matches!(told, BenchError::Inconsistent(_)), "{told}");
    }
    assert_eq!(faults().len(), tpcc::check::CONDITIONS.len());
}

#[test]
fn tpcb_sums_agree_with_every_scheme() {
    for scheme in SchemeKind::ALL {
        let small = "--scale 2 --accounts-per-branch 50 --threads 2";
        let line = format!("{small} --transactions 500 --scheme {scheme}");
        let report = tpcb::run(&parse::<TpcbArgs>(&line), &mut Unwatched)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 1000);
        assert_eq!(report.checks.len(), 4);
    }
}

#[test]
fn a_balance_changed_by_hand_is_found_out_wherever_it_stands() {
    let args =
        parse::<TpcbArgs>("--scale 2 --accounts-per-branch 50 --threads 2 --transactions 50");
    let second = [Value::Int16(2), Value::Int32(7)];
    for (table, key, column) in [
        ("accounts", &second[..], "a_balance"),
        ("tellers", &second[..], "t_balance"),
        ("branches", &second[..1], "b_balance"),
    ] {
        let loaded = tpcb::Loaded::fill(&args, &mut Unwatched).unwrap();
        let table = loaded.db.table(table).unwrap();
        let column = table.schema().position(column).unwrap();
        let mut session = loaded.db.session().unwrap();
        let changed = session.transaction(|tx| tx.update(&table, key, &[(column, 5i64.into())]));
        assert!(changed.unwrap());
        let told = loaded.run(&args, &mut Unwatched).unwrap_err();
        assert!(matches!(told, BenchError::Inconsistent(_)), "{told}");
    }
}

#[test]
fn each_part_of_tpcb_runs_alone() {
    for operation in ["select", "update", "insert"] {
        let small = "--scale 2 --accounts-per-branch 50 --threads 2 --transactions 300";
        let line = format!("{small} --operation {operation}");
        let report = tpcb::run(&parse::<TpcbArgs>(&line), &mut Unwatched).unwrap();
        check_report(&report, 600);
        assert_eq!(report.transactions[0].name, operation);
    }
}

const SMALL_YCSB: &str = "--rows 2000 --columns 3 --column-bytes 20 --threads 2";

fn run_ycsb(more: &str) -> Result<OltpReport, BenchError> {
    ycsb::run(&parse::<YcsbArgs>(&format!("{SMALL_YCSB} {more}")), &mut Unwatched)
}

#[test]
fn ycsb_runs_with_every_scheme_batched_and_key_by_key() {
    for scheme in SchemeKind::ALL {
        for how in ["--batch", "--key-by-key", "--sort-keys"] {
            let line = format!("--transactions 200 --theta 0.8 --scheme {scheme} {how}");
            let report = run_ycsb(&line).unwrap_or_else(|error| panic!("{scheme} {how}: {error}"));
            check_report(&report, 400);
            assert_eq!(report.transactions[0].name, "transaction");
        }
    }
}

#[test]
fn a_run_says_how_far_it_is_from_bare_arrays_when_asked() {
    for how in ["--batch", "--key-by-key"] {
        let short = format!("--seconds 0.05 --warmup 0 {how}");
        assert!(run_ycsb(&short).unwrap().floor.is_none());
        let report = run_ycsb(&format!("{short} --floor")).unwrap();
        let floor = report.floor.unwrap();
        assert!(floor.txn_s > 0.0 && floor.share > 0.0);
        assert_eq!(floor.share, report.throughput_txn_s / floor.txn_s);
        let said = format!(
            "floor: bare arrays make {:.0} txn/s; this is {:.0} %",
            floor.txn_s,
            floor.share * 100.0
        );
        assert!(report.to_string().contains(&said), "no {said:?} in {report}");
    }
    let refused = run_ycsb("--seconds 0.05 --accesses 65 --floor");
    assert!(matches!(refused, Err(BenchError::Argument { what: "--accesses", .. })));
}

#[test]
fn the_standard_ycsb_workloads_run_with_every_scheme() {
    let operations: [&[&str]; 6] = [
        &["read", "update"],
        &["read", "update"],
        &["read"],
        &["read", "insert"],
        &["insert", "scan"],
        &["read", "read-modify-write"],
    ];
    for scheme in SchemeKind::ALL {
        for (letter, expected) in ["A", "B", "C", "D", "E", "F"].into_iter().zip(operations) {
            let line = format!("--workload {letter} --transactions 300 --scheme {scheme}");
            let report =
                run_ycsb(&line).unwrap_or_else(|error| panic!("{scheme} {letter}: {error}"));
            check_report(&report, 600);
            let names: Vec<_> = report.transactions.iter().map(|kind| kind.name).collect();
            assert_eq!(names, expected, "{scheme} {letter}");
        }
    }
}

#[test]
fn ycsb_over_partitions_runs_with_every_scheme() {
    for scheme in SchemeKind::ALL {
        let parts = "--partitions 4 --multi-partition 0.3 --partitions-per-txn 3";
        let line = format!("--transactions 200 --scheme {scheme} {parts}");
        let report = run_ycsb(&line).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        check_report(&report, 400);
        assert_eq!(report.partitions, 4);
    }
}

#[test]
fn the_command_lines_are_consistent() {
    Line::<YcsbArgs>::command().debug_assert();
    Line::<TpcbArgs>::command().debug_assert();
    Line::<TpccArgs>::command().debug_assert();
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for line in ["--accesses 0", "--scan-max 0", "--theta=-1", "--multi-partition 2", "--seconds 0"]
    {
        let refused = run_ycsb(&format!("{line} --transactions 1"));
        assert!(matches!(refused, Err(BenchError::Argument { .. })), "{line}: {refused:?}");
    }
    let line = "--reduced --mix delivery=1 --transactions 1";
    let refused = tpcc::run(&tpcc_args(line), &mut Unwatched);
    assert!(matches!(refused, Err(BenchError::Argument { .. })), "{refused:?}");
}

#[test]
fn a_report_counts_the_checkpoints_of_a_database_in_a_folder_and_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let line = "--warehouses 1 --transactions 100";
    let args = tpcc_args(&format!("{line} --data {data} --checkpoint-every 0.001"));
    let loaded = Loaded::fill(&args, &mut Unwatched).unwrap();
    // The deadline ends a test that would hang.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    let mut counted = 0;
    while counted == 0 {
        assert!(std::time::Instant::now() < deadline, "no checkpoint is counted");
        let before = loaded.db.checkpoints();
        let report = loaded.run(&args, &mut Unwatched).unwrap();
        counted = report.checkpoints.unwrap();
        assert!(counted <= loaded.db.checkpoints() - before);
        assert!(report.to_string().contains(&format!("\ncheckpoints: {counted}\n")));
        assert_eq!(serde_json::to_value(&report).unwrap()["checkpoints"], counted);
    }
    let report = tpcc::run(&tpcc_args(line), &mut Unwatched).unwrap();
    assert_eq!(report.checkpoints, None);
    assert!(!report.to_string().contains("checkpoints"));
    for wrong in ["0", "-1", "nan"] {
        let args = tpcc_args(&format!("{line} --data {data} --checkpoint-every={wrong}"));
        let error = tpcc::run(&args, &mut Unwatched).unwrap_err();
        assert!(matches!(error, BenchError::Argument { what: "--checkpoint-every", .. }));
    }
}
