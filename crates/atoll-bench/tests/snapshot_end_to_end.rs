//! Runs the whole snapshot benchmark on a few MiB: every part runs, and the report is consistent.
//!
//! The test has a `main` of its own because the benchmark starts the program again as its reading
//! process. No time is asserted.

use atoll_bench::progress::Watcher;
use atoll_bench::snapshot::{self, SnapshotArgs, SnapshotReport};
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: SnapshotArgs,
}

fn run(arguments: &[&str]) -> Result<SnapshotReport, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let place = ["test", "--runtime-dir", folder.path().to_str().ok_or("a path in UTF-8")?];
    let cli = Cli::try_parse_from(place.iter().chain(arguments))?;
    let mut told = Told::default();
    let report = snapshot::run(&cli.args, &mut told)?;
    assert!(told.lines > 0, "progress is told");
    assert!((0.0..=1.0).contains(&told.most), "{} is no share", told.most);
    Ok(report)
}

#[derive(Default)]
struct Told {
    lines: usize,
    most: f64,
}

impl Watcher for Told {
    fn say(&mut self, _line: &str) {
        self.lines += 1;
    }

    fn reach(&mut self, share: f64, _how: &str) {
        self.most = self.most.max(share);
    }
}

fn a_run_fills_every_part_of_its_report() -> Result<(), Box<dyn std::error::Error>> {
    let report = run(&[
        "--gib=0.004,0.01",
        "--quick",
        "--rounds=7",
        "--seconds=0.3",
        "--interval=0.1",
        "--intervals=0.05,0.1",
    ])?;
    assert!(report.copy_cost.recycled_us > 0.0 && report.copy_cost.fresh_us > 0.0);
    assert_eq!(report.sizes.len(), 2);
    let points: Vec<usize> = report.sizes.iter().map(|size| size.curve.len()).collect();
    assert_eq!(points, [1, 4], "the curve, uniform and skewed, at the largest size only");
    for size in &report.sizes {
        assert_eq!(size.data_bytes, size.rows * 128);
        assert!(size.take_us_p50 > 0.0 && size.take_us_p50 <= size.take_us_p99);
        assert!(size.attach_us_p50 >= size.take_us_p50, "attaching includes taking");
        assert!(size.bytes_copied > 0 && size.extents_copied > 0, "a writer copied");
        assert_eq!(size.checks.len(), 2);
        for check in &size.checks {
            assert_eq!(check.rows, size.rows);
            assert!((check.least..=check.most).contains(&check.updates_shown));
        }
        assert!(size.checks[1].updates_shown > size.checks[0].updates_shown);
        assert!(size.updates_per_s_without > 0.0 && size.updates_per_s_with > 0.0);
        let fork = size.fork.as_ref().ok_or("fork() was measured")?;
        assert!(fork.fork_us.p50 > 0.0 && fork.updates_per_s_with.is_some_and(|rate| rate > 0.0));
        let socket = size.socket.as_ref().ok_or("the socket was measured")?;
        assert_eq!(socket.sent_bytes, size.data_bytes);
    }
    for point in report.sizes.iter().flat_map(|size| &size.curve) {
        assert!(point.snapshots > 0 && point.bytes_copied > 0 && point.floor_percent > 0.0);
    }
    let (json, table) = (serde_json::to_string(&report)?, report.to_string());
    for key in ["take_us_p50", "take_us_p99", "attach_us_p50", "attach_us_p99", "bytes_copied"] {
        assert!(json.contains(&format!("\"{key}\":")), "{key} is in the report");
    }
    assert!(table.contains("take p50") && table.contains("floor %"));
    Ok(())
}

fn what_is_left_out_is_not_in_the_report() -> Result<(), Box<dyn std::error::Error>> {
    let report = run(&[
        "--gib=0.004",
        "--quick",
        "--rounds=2",
        "--seconds=0.05",
        "--interval=0.05",
        "--no-curve",
        "--no-peers",
        "--no-pin",
        "--writers=2",
    ])?;
    let size = &report.sizes[0];
    assert!(size.curve.len() == 1 && size.fork.is_none() && size.socket.is_none());
    Ok(())
}

fn arguments_that_make_no_sense_are_refused() {
    for bad in ["--gib=0", "--gib=-1", "--seconds=0", "--writers=0", "--rounds=0", "--theta=-1"] {
        let error = run(&[bad]).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|text| text.contains("but")), "{bad}: {error:?}");
    }
    let error = run(&["--gib=4000"]).err().map(|error| error.to_string());
    assert!(error.is_some_and(|text| text.contains("choose a smaller size")));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    snapshot::reader_main_if_asked();
    arguments_that_make_no_sense_are_refused();
    a_run_fills_every_part_of_its_report()?;
    what_is_left_out_is_not_in_the_report()?;
    println!("3 tests passed");
    Ok(())
}
