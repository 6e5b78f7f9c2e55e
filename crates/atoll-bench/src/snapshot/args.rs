//! The arguments of the benchmark, and the plan of a run.

use std::path::PathBuf;

use atoll::SchemeKind;
use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::oltp::args::as_text;

/// Largest size of a table in GiB.
const GIB_MAX: f64 = 4096.0;

/// Measures the cost of snapshots, compared with fork() and a Unix socket.
#[derive(Debug, Clone, Args)]
pub struct SnapshotArgs {
    /// Sizes of the table in GiB of column data
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_name = "GIB,...")]
    pub gib: Vec<f64>,
    /// The concurrency-control scheme
    #[arg(long, default_value_t, value_name = "SCHEME")]
    pub scheme: SchemeKind,
    /// Snapshots taken for the percentiles [default: 200, quick 50]
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Threads that update rows
    #[arg(long, default_value_t = 1)]
    pub writers: usize,
    /// Threads that fill the table [default: one for each CPU]
    #[arg(long)]
    pub fill_threads: Option<usize>,
    /// Shortest measurement of throughput in seconds [default: 4, quick 1]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Measurements with and without snapshots, interleaved [default: 3, quick 1]
    #[arg(long)]
    pub repeats: Option<usize>,
    /// Seconds from one snapshot to the next for the figure of each size [default: 10, quick 2]
    #[arg(long)]
    pub interval: Option<f64>,
    /// Seconds from one snapshot to the next for the curve
    /// [default: 0.2,0.5,1,2,5,10,20, quick 0.2,1,2]
    #[arg(long, value_delimiter = ',', value_name = "SECONDS,...")]
    pub intervals: Option<Vec<f64>>,
    /// Skew of the second half of the curve (0: only the uniform half)
    #[arg(long, default_value_t = 0.8)]
    pub theta: f64,
    /// Measure the curve at every size, not only at the largest
    #[arg(long)]
    pub curve_all: bool,
    /// Do not measure the curve
    #[arg(long, conflicts_with = "curve_all")]
    pub no_curve: bool,
    /// Do not compare with fork() and a Unix socket
    #[arg(long)]
    pub no_peers: bool,
    /// Shorter and less precise
    #[arg(long)]
    pub quick: bool,
    /// Let the system place the threads
    #[arg(long)]
    pub no_pin: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder of the database's socket [default: the user's own]
    #[arg(long, value_name = "FOLDER")]
    pub runtime_dir: Option<PathBuf>,
}

/// The plan of a run; part of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Sizes in GiB of column data.
    pub gib: Vec<f64>,
    /// The concurrency-control scheme.
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// Snapshots taken for the percentiles.
    pub rounds: usize,
    /// Seconds for which each of them is held.
    pub pause_s: f64,
    /// Threads that update rows.
    pub writers: usize,
    /// Threads that fill the table; `None`: one for each CPU.
    pub fill_threads: Option<usize>,
    /// Shortest measurement of throughput, in seconds.
    pub seconds: f64,
    /// Measurements with and without snapshots, interleaved.
    pub repeats: usize,
    /// Interval of the figure of each size, in seconds.
    pub interval_s: f64,
    /// Intervals of the curve, in seconds.
    pub intervals_s: Vec<f64>,
    /// Skew of the second half of the curve.
    pub theta: f64,
    /// Whether the curve is measured.
    pub curve: bool,
    /// Whether it is measured at every size, not only at the largest.
    pub curve_all: bool,
    /// Whether peers are measured.
    pub peers: bool,
    /// Number of forks for the percentiles.
    pub forks: usize,
    /// Whether threads are pinned.
    pub pin: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Folder of the database's socket.
    #[serde(skip)]
    pub runtime_dir: Option<PathBuf>,
}

fn require(
    ok: bool,
    what: &'static str,
    value: impl std::fmt::Debug,
    need: &'static str,
) -> Result<(), BenchError> {
    let value = format!("{value:?}");
    if ok { Ok(()) } else { Err(BenchError::Argument { what, value, need }) }
}

impl Plan {
    /// Completes the arguments with defaults.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn new(args: &SnapshotArgs) -> Result<Self, BenchError> {
        let by = |quick: f64, full: f64| if args.quick { quick } else { full };
        let curve: &[f64] =
            if args.quick { &[0.2, 1.0, 2.0] } else { &[0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0] };
        let mut plan = Self {
            gib: args.gib.clone(),
            scheme: args.scheme,
            rounds: args.rounds.unwrap_or(by(50.0, 200.0) as usize),
            pause_s: 0.01,
            writers: args.writers,
            fill_threads: args.fill_threads,
            seconds: args.seconds.unwrap_or(by(1.0, 4.0)),
            repeats: args.repeats.unwrap_or(by(1.0, 3.0) as usize),
            interval_s: args.interval.unwrap_or(by(2.0, 10.0)),
            intervals_s: args.intervals.clone().unwrap_or_else(|| curve.to_vec()),
            theta: args.theta,
            curve: !args.no_curve,
            curve_all: args.curve_all,
            peers: !args.no_peers,
            forks: if args.quick { 5 } else { 11 },
            pin: !args.no_pin,
            seed: args.seed,
            runtime_dir: args.runtime_dir.clone(),
        };
        let is_size = |gib: &f64| *gib > 0.0 && *gib <= GIB_MAX;
        require(
            !plan.gib.is_empty() && plan.gib.iter().all(is_size),
            "--gib",
            &plan.gib,
            "each size must be more than 0 and at most 4096",
        )?;
        let is_time = |s: &f64| *s > 0.0 && *s <= 3600.0;
        let times = [plan.seconds, plan.interval_s].into_iter();
        let mut times = times.chain(plan.intervals_s.iter().copied());
        let need = "times must be more than 0 and at most 3600 s";
        require(times.all(|s| is_time(&s)), "--intervals", &plan.intervals_s, need)?;
        require((1..=256).contains(&plan.writers), "--writers", plan.writers, "1 to 256 will do")?;
        require(plan.rounds > 0, "--rounds", plan.rounds, "at least one is needed")?;
        require(plan.repeats > 0, "--repeats", plan.repeats, "at least one is needed")?;
        let theta = (0.0..=10.0).contains(&plan.theta);
        require(theta, "--theta", plan.theta, "it must be from 0 to 10")?;
        if !plan.intervals_s.contains(&plan.interval_s) {
            plan.intervals_s.push(plan.interval_s);
        }
        plan.intervals_s.sort_by(f64::total_cmp);
        Ok(plan)
    }
}
