//! The arguments of the durable workloads, their run and their report.

use std::path::PathBuf;
use std::time::Instant;

use atoll_bench::durable::probe;
use atoll_bench::machine_facts::resident_bytes;
use atoll_bench::oltp::histogram::Latency;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::bank::Shape;
use super::check::{Done, check};
use super::choices::Choices;
use super::{Engine, Peer, Tables, open};
use crate::engine::PeerError;
use crate::folder::Folder;
use crate::threads::{self, Counts, Phase, Times};

/// The arguments that both workloads share.
#[derive(Debug, Clone, Args, Serialize)]
pub struct DurableArgs {
    /// The database
    #[arg(long)]
    #[serde(serialize_with = "as_name")]
    pub peer: Peer,
    /// Clients, each a thread that waits for its commit before it begins the next
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub clients: u16,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the folder of the database is created and removed [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Durable changes of one row.
#[derive(Debug, Clone, Args, Serialize)]
pub struct CommitArgs {
    /// The arguments that both workloads share.
    #[command(flatten)]
    #[serde(flatten)]
    pub durable: DurableArgs,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub rows: u32,
}

/// Durable transfers.
#[derive(Debug, Clone, Args, Serialize)]
pub struct TpcbArgs {
    /// The arguments that both workloads share.
    #[command(flatten)]
    #[serde(flatten)]
    pub durable: DurableArgs,
    /// Branches; each has 10 tellers and 100,000 accounts
    #[arg(long, default_value_t = 10, value_name = "BRANCHES")]
    pub scale: u16,
    /// Accounts of a branch
    #[arg(long, default_value_t = 100_000, hide = true)]
    pub accounts_per_branch: u32,
}

fn as_name<S: serde::Serializer>(peer: &Peer, serializer: S) -> Result<S::Ok, S::Error> {
    let value = peer.to_possible_value();
    serializer.serialize_str(value.as_ref().map_or("", |value| value.get_name()))
}

/// The result of a run. `R` is the rate with its name.
#[derive(Debug, Clone, Serialize)]
pub struct Report<A, R> {
    /// The arguments.
    pub config: A,
    /// Name and version of the library.
    pub version: String,
    /// The isolation of concurrent transactions.
    pub isolation: String,
    /// Durable commits per second of all clients together.
    #[serde(flatten)]
    pub rate: R,
    /// Median of writing 4 KiB and `fdatasync`, before the run and after it.
    pub flush_probe_us: f64,
    /// Commits per second, divided by the rate if every flush took the probe's time and held one
    /// commit of every client.
    pub share_of_floor: f64,
    /// From the begin of a transaction until its client was acknowledged, retries included.
    pub latency_us: Latency,
    /// Commits that were measured.
    pub commits: u64,
    /// Attempts that a conflict rolled back.
    pub aborts: u64,
    /// Their share of all attempts.
    pub abort_rate: f64,
    /// Seconds that loading took.
    pub load_s: f64,
    /// Resident bytes of this process afterwards.
    pub resident_bytes: u64,
}

/// The rate of `commit`.
#[derive(Debug, Clone, Serialize)]
pub struct Commits {
    /// Commits per second.
    pub commits_s: f64,
}

/// The rate of `tpcb`.
#[derive(Debug, Clone, Serialize)]
pub struct Transfers {
    /// Transactions per second.
    pub throughput_txn_s: f64,
}

impl DurableArgs {
    fn check(&self) -> Result<(), PeerError> {
        // LMDB supports 126 readers, and a scan is one.
        require((1..=100).contains(&self.clients), "--clients", self.clients, "1 to 100 will do")?;
        let day = 0.0..=86_400.0;
        require(day.contains(&self.seconds), "--seconds", self.seconds, "it is 0 to 86400")?;
        require(day.contains(&self.warm_up), "--warm-up", self.warm_up, "it is 0 to 86400")
    }
}

fn require(
    ok: bool,
    what: &'static str,
    value: impl ToString,
    need: &'static str,
) -> Result<(), PeerError> {
    if ok { Ok(()) } else { Err(PeerError::Argument { what, value: value.to_string(), need }) }
}

/// Runs durable changes of one row.
///
/// # Errors
/// [`PeerError`]; [`PeerError::Inconsistent`] when the balances do not agree with the acknowledged
/// commits.
pub fn commit(args: &CommitArgs) -> Result<Report<CommitArgs, Commits>, PeerError> {
    require(args.rows > 0, "--rows", args.rows, "at least one is needed")?;
    let shape = Shape::Commit { rows: args.rows };
    run(&args.durable, shape, args, |commits_s| Commits { commits_s })
}

/// Runs durable transfers.
///
/// # Errors
/// [`PeerError`]; [`PeerError::Inconsistent`] when sums do not agree.
pub fn tpcb(args: &TpcbArgs) -> Result<Report<TpcbArgs, Transfers>, PeerError> {
    require(args.scale > 0, "--scale", args.scale, "at least one branch is needed")?;
    let accounts = args.accounts_per_branch;
    require(accounts > 0, "--accounts-per-branch", accounts, "at least one is needed")?;
    let shape = Shape::Tpcb { branches: args.scale, accounts };
    run(&args.durable, shape, args, |throughput_txn_s| Transfers { throughput_txn_s })
}

fn run<A: Clone, R>(
    durable: &DurableArgs,
    shape: Shape,
    args: &A,
    rate: impl Fn(f64) -> R,
) -> Result<Report<A, R>, PeerError> {
    durable.check()?;
    let clients = usize::from(durable.clients);
    let folder = Folder::new(durable.data.as_deref().unwrap_or(&std::env::temp_dir()))?;
    let before = probe::flush_us_in(folder.path())?;
    eprintln!("a flush of 4 KiB takes {before:.0} us there; loading {} rows", shape.rows());
    let from = Instant::now();
    let engine = open(durable.peer, folder.path(), shape, clients, Tables::New)?;
    let engine = engine.as_ref();
    let load_s = from.elapsed().as_secs_f64();
    eprintln!("loaded in {load_s:.1} s, running for {} s", durable.warm_up + durable.seconds);
    let DurableArgs { warm_up, seconds, seed, .. } = *durable;
    let times = Times { threads: clients, warm_up_s: warm_up, seconds };
    let (counts, measured_s, done) = threads::run(times, |thread, phase| {
        run_client(engine, &mut Choices::new(shape, seed, thread as u16), phase)
    })?;
    let flush_probe_us = (before + probe::flush_us_in(folder.path())?) / 2.0;
    let done = done.iter().fold(Done::default(), |all, one| Done {
        changed: all.changed + one.changed,
        committed: all.committed + one.committed,
    });
    check(engine, shape, done)?;
    let commits_s = counts.commits as f64 / measured_s;
    Ok(Report {
        config: args.clone(),
        version: engine.version(),
        isolation: engine.isolation().to_owned(),
        rate: rate(commits_s),
        flush_probe_us,
        share_of_floor: commits_s / (f64::from(durable.clients) * 1e6 / flush_probe_us),
        latency_us: counts.latency.latency(),
        commits: counts.commits,
        aborts: counts.aborts,
        abort_rate: counts.abort_rate(),
        load_s,
        resident_bytes: resident_bytes(),
    })
}

/// Runs the transactions of one client; returns what was acknowledged, warm-up included.
fn run_client(
    engine: &dyn Engine,
    choices: &mut Choices,
    phase: &Phase,
) -> Result<(Counts, Done), PeerError> {
    let (mut counts, mut done) = (Counts::default(), Done::default());
    engine.with_client(&mut |client| {
        counts = phase.repeat(|| {
            let transaction = choices.next();
            let begun = Instant::now();
            let aborts = client.commit(&transaction)?;
            done.changed += transaction.delta;
            done.committed += 1;
            Ok((begun, aborts))
        })?;
        Ok(())
    })?;
    Ok((counts, done))
}
