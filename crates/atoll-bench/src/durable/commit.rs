//! Commits: clients that change a row, wait until the change is durable, and begin again.
//!
//! The clients are lanes of a few threads, like the sessions of a server: while one client waits,
//! its thread runs others, and when all of them wait, one flush serves all.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atoll::machine::{Medium, MediumKind};
use atoll::{
    Database, DatabaseOptions, Durability, Request, SchemeKind, TransactionOptions, Value,
};
use clap::Args;
use serde::Serialize;

use super::pm::EmulatedPm;
use super::{accounts, probe};
use crate::error::BenchError;
use crate::folder::Folder;
use crate::keys::Random;
use crate::oltp::args::as_text;
use crate::oltp::histogram::{Histogram, Latency};
use crate::progress::Progress;

/// Most clients of a thread before another thread is started.
const CLIENTS_OF_THREAD: usize = 32;

/// Measures durable commits.
#[derive(Debug, Clone, Args, Serialize)]
pub struct CommitArgs {
    /// Clients, each of which waits for its commit before it begins the next
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub clients: usize,
    /// What a commit survives: strict, group, group:N (milliseconds) or none
    #[arg(long, default_value_t, value_name = "WHAT")]
    #[serde(serialize_with = "as_text")]
    pub durability: Durability,
    /// Threads that the clients share [default: one for 32 of them, up to the CPUs]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The concurrency-control scheme
    #[arg(long, default_value_t, value_name = "SCHEME")]
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub rows: u64,
    /// Tablespaces, each with a log
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub tablespaces: usize,
    /// Seconds that are measured
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds of warm-up before the measurement
    #[arg(long, default_value_t = 1.0)]
    pub warmup: f64,
    /// Where the folder of the database is created and removed [default: the folder for temporary
    /// files, or /dev/shm for emulated persistent memory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Emulation of persistent memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub pm: EmulatedPm,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct CommitReport {
    /// The arguments.
    pub config: CommitArgs,
    /// Threads that the clients shared.
    pub threads: usize,
    /// Acknowledged commits per second.
    pub commits_s: f64,
    /// Flushes per second.
    pub flushes_s: f64,
    /// Commits per flush.
    pub commits_per_flush: f64,
    /// The medium of the folder.
    pub medium: &'static str,
    /// Bytes of log per flush.
    pub bytes_per_flush: f64,
    /// Median time to make 4 KiB durable (on persistent memory: the average bytes of a flush),
    /// measured before the run and after it.
    pub flush_probe_us: f64,
    /// Commits per second, divided by the rate if every flush took the probe's time and held one
    /// commit of every client.
    pub share_of_floor: f64,
    /// From the begin of a transaction until its client was acknowledged.
    pub latency_us: Latency,
    /// From the commit call until the client was acknowledged.
    pub commit_us: Latency,
}

struct Update {
    key: Value,
    begun: Instant,
    /// The time of the commit call.
    asked: Cell<Instant>,
    options: TransactionOptions,
}

impl Request for Update {
    fn options(&self) -> &TransactionOptions {
        &self.options
    }
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &CommitArgs, progress: Progress<'_>) -> Result<CommitReport, BenchError> {
    let refuse = |what, value: String| {
        Err(BenchError::Argument { what, value, need: "at least one is needed" })
    };
    if args.clients == 0 {
        return refuse("--clients", "0".to_owned());
    }
    if args.rows == 0 {
        return refuse("--rows", "0".to_owned());
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let usual = args.clients.div_ceil(CLIENTS_OF_THREAD).min(cpus);
    let threads = args.threads.unwrap_or(usual).clamp(1, args.clients);
    let folder = Folder::new(args.pm.folder(args.data.as_deref()))?;
    let beside = args.pm.medium(folder.path())?;
    let before = probe::flush_us(&beside, probe::FLUSH_BYTES)?;
    progress.say(&format!("a flush of 4 KiB takes {before:.1} us there; loading"));
    let medium = args.pm.medium(&folder.path().join("db"))?;
    let options = DatabaseOptions {
        scheme: args.scheme,
        durability: Durability::None,
        tablespaces: Some(args.tablespaces),
        ..DatabaseOptions::default()
    };
    let db = Database::open_on(&medium, options)?;
    let table = accounts::load(&db, args.rows)?;
    db.flush()?;
    db.checkpoint()?;
    progress.say(&format!("{} clients on {threads} threads, {}", args.clients, args.durability));
    let (measuring, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let barrier = Barrier::new(threads + 1);
    let (histograms, seconds, flushes, bytes) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (db, table, barrier) = (&db, &table, &barrier);
                let (measuring, stopped) = (&measuring, &stopped);
                let clients = (args.clients + thread) / threads;
                scope.spawn(move || -> Result<(Histogram, Histogram), BenchError> {
                    let mut lanes = db.lanes(clients)?;
                    let mut random = Random::new(thread as u64 + 1);
                    let (mut whole, mut commit) = (Histogram::default(), Histogram::default());
                    let mut failed = None;
                    let durability = Some(args.durability);
                    barrier.wait();
                    lanes.run(
                        || {
                            let key = Value::Int64(random.below(args.rows) as i64);
                            let options =
                                TransactionOptions { durability, ..TransactionOptions::default() };
                            let begun = Instant::now();
                            let go_on = !stopped.load(Ordering::Relaxed);
                            let asked = Cell::new(begun);
                            go_on.then_some(Update { key, begun, asked, options })
                        },
                        async |tx, update| {
                            let key = std::slice::from_ref(&update.key);
                            tx.fetch(table, key, |_| &[1]).await;
                            tx.update_with(table, key, |row| row.set_i64(1, row.i64(1) + 1))?;
                            update.asked.set(Instant::now());
                            Ok(())
                        },
                        |update, done| match done {
                            Ok(()) if measuring.load(Ordering::Relaxed) => {
                                let now = Instant::now();
                                let since = |then| now.duration_since(then).as_nanos() as u64;
                                whole.record(since(update.begun));
                                commit.record(since(update.asked.get()));
                            }
                            Ok(()) => {}
                            Err(error) => {
                                stopped.store(true, Ordering::Relaxed);
                                failed = Some(error);
                            }
                        },
                    );
                    failed.map_or(Ok((whole, commit)), |error| Err(error.into()))
                })
            })
            .collect();
        barrier.wait();
        std::thread::sleep(Duration::from_secs_f64(args.warmup));
        let (begin, flushes, bytes) = (Instant::now(), db.flushes(), db.log_bytes()?);
        measuring.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs_f64(args.seconds));
        measuring.store(false, Ordering::Relaxed);
        let (seconds, flushes) = (begin.elapsed().as_secs_f64(), db.flushes() - flushes);
        let bytes = db.log_bytes()? - bytes;
        stopped.store(true, Ordering::Relaxed);
        let done = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        done.collect::<Result<Vec<_>, _>>().map(|all| (all, seconds, flushes, bytes))
    })?;
    let (mut all, mut commits) = (Histogram::default(), Histogram::default());
    for (whole, commit) in &histograms {
        all.merge(whole);
        commits.merge(commit);
    }
    db.close()?;
    let bytes_per_flush = bytes as f64 / flushes.max(1) as f64;
    let flush_probe_us = if beside.kind() == MediumKind::Files {
        (before + probe::flush_us(&beside, probe::FLUSH_BYTES)?) / 2.0
    } else {
        probe::flush_us(&beside, bytes_per_flush as usize)?
    };
    let commits_s = all.count() as f64 / seconds;
    Ok(CommitReport {
        config: args.clone(),
        threads,
        commits_s,
        flushes_s: flushes as f64 / seconds,
        commits_per_flush: all.count() as f64 / flushes.max(1) as f64,
        medium: beside.kind().name(),
        bytes_per_flush,
        flush_probe_us,
        share_of_floor: commits_s / (args.clients as f64 * 1e6 / flush_probe_us),
        latency_us: all.latency(),
        commit_us: commits.latency(),
    })
}

impl fmt::Display for CommitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commits_s, flushes_s, commits_per_flush, flush_probe_us, .. } = self;
        let Self { medium, bytes_per_flush, .. } = self;
        writeln!(f, "{commits_s:.0} commits/s in {flushes_s:.0} flushes/s")?;
        writeln!(f, "{commits_per_flush:.1} commits and {bytes_per_flush:.0} bytes of a flush")?;
        let share = self.share_of_floor * 100.0;
        writeln!(
            f,
            "the probe's flush takes {flush_probe_us:.2} us on {medium}: {share:.0} % of its floor"
        )?;
        let Latency { p50, p99, p999, .. } = self.latency_us;
        writeln!(f, "latency: median {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us")?;
        let Latency { p50, p99, p999, .. } = self.commit_us;
        writeln!(f, "commit alone: median {p50:.2} us, p99 {p99:.1} us, p99.9 {p999:.1} us")
    }
}
