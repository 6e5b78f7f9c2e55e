//! SQL: the transactions of TPC-C, and single statements.
//!
//! The statements are those of `atoll bench tpcc --sql` and `atoll bench statements`, from the same
//! program text. SQLite is in memory and in this process; PostgreSQL is a server, which a program
//! reaches by a Unix socket.

mod postgres;
mod sqlite;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll_bench::oltp::{Histogram, Latency, Outcome};
use atoll_bench::progress::Unwatched;
use atoll_bench::sql::Connection;
use atoll_bench::statements::StatementsReport;
use atoll_bench::tpcc::Size;
use atoll_bench::tpcc::sql::{KINDS, client};
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::postgres::Postgres;
use self::sqlite::Sqlite;
use crate::engine::PeerError;

/// Transactions that a thread draws beforehand.
const DRAWS: usize = 20_000;

/// A database with SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Peer {
    /// SQLite in memory, a connection for each thread
    Sqlite,
    /// A server of PostgreSQL
    Postgres,
}

/// Which database.
#[derive(Debug, Clone, Args, Serialize)]
struct Where {
    /// The database
    #[arg(long)]
    peer: Peer,
    /// How to reach PostgreSQL, such as "host=/tmp/pg user=postgres"; tables of the names of the
    /// workload are dropped
    #[arg(long, required_if_eq("peer", "postgres"))]
    url: Option<String>,
}

/// Arguments of `tpcc`.
#[derive(Debug, Clone, Args, Serialize)]
pub struct TpccArgs {
    #[command(flatten)]
    #[serde(flatten)]
    at: Where,
    /// Warehouses
    #[arg(long, default_value_t = 1)]
    warehouses: u16,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: u16,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Customers of a district
    #[arg(long, default_value_t = 3000, hide = true)]
    customers_per_district: u32,
    /// Items
    #[arg(long, default_value_t = 100_000, hide = true)]
    items: u32,
}

/// Arguments of `statements`.
#[derive(Debug, Clone, Args)]
pub struct StatementsArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    statements: atoll_bench::statements::StatementsArgs,
}

/// The result of TPC-C, with the keys of Atoll's benchmark.
#[derive(Debug, Serialize)]
pub struct TpccReport {
    version: String,
    config: TpccArgs,
    load_s: f64,
    seconds: f64,
    throughput_txn_s: f64,
    commits: u64,
    rollbacks: u64,
    aborts: u64,
    transactions: Vec<KindReport>,
}

#[derive(Debug, Serialize)]
struct KindReport {
    name: &'static str,
    commits: u64,
    latency_us: Latency,
}

/// A database that threads connect to.
trait Server: Sync {
    type Connection: Connection;

    /// Its version.
    fn version(&self) -> String;

    /// Creates and fills the tables of TPC-C.
    fn fill(&self, size: Size, seed: u64) -> Result<(), PeerError>;

    /// A connection of a thread.
    fn connect(&self) -> Result<Self::Connection, PeerError>;
}

/// Runs single statements.
///
/// # Errors
/// [`PeerError`].
pub fn statements(args: &StatementsArgs) -> Result<StatementsReport, PeerError> {
    let run = &args.statements;
    Ok(match args.at.peer {
        Peer::Sqlite => {
            let server = Sqlite::open(1)?;
            atoll_bench::statements::run(&mut server.connect()?, run, &mut Unwatched)?
        }
        Peer::Postgres => {
            let server = Postgres::at(args.at.url.as_deref().unwrap_or_default());
            let mut connection = server.connect()?;
            connection.run("DROP TABLE IF EXISTS t")?;
            atoll_bench::statements::run(&mut connection, run, &mut Unwatched)?
        }
    })
}

/// Runs TPC-C.
///
/// # Errors
/// [`PeerError`].
pub fn tpcc(args: &TpccArgs) -> Result<TpccReport, PeerError> {
    if !(1..=100).contains(&args.threads) || args.warehouses == 0 || args.seconds <= 0.0 {
        return Err(PeerError::Argument {
            what: "--threads, --warehouses or --seconds",
            value: format!("{}, {}, {}", args.threads, args.warehouses, args.seconds),
            need: "at least 1 of each and at most 100 threads are needed",
        });
    }
    match args.at.peer {
        Peer::Sqlite => run(&Sqlite::open(args.threads)?, args),
        Peer::Postgres => run(&Postgres::at(args.at.url.as_deref().unwrap_or_default()), args),
    }
}

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

#[derive(Default)]
struct Tally {
    commits: [u64; 5],
    rollbacks: u64,
    aborts: u64,
    latency: [Histogram; 5],
}

fn run<S: Server>(server: &S, args: &TpccArgs) -> Result<TpccReport, PeerError> {
    let size = Size {
        warehouses: args.warehouses,
        customers: args.customers_per_district,
        items: args.items,
    };
    let begin = Instant::now();
    server.fill(size, args.seed)?;
    let load_s = begin.elapsed().as_secs_f64();
    let phase = AtomicU8::new(WARM_UP);
    let start = Barrier::new(usize::from(args.threads) + 1);
    let measured_ns = AtomicU64::new(0);
    let tallies = std::thread::scope(|scope| {
        let (phase, start) = (&phase, &start);
        let threads: Vec<_> = (0..args.threads)
            .map(|worker| scope.spawn(move || work(server, size, args.seed, worker, phase, start)))
            .collect();
        start.wait();
        std::thread::sleep(Duration::from_secs_f64(args.warm_up));
        let from = Instant::now();
        phase.store(MEASURE, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs_f64(args.seconds));
        phase.store(STOP, Ordering::Relaxed);
        measured_ns.store(from.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(tally) => tally,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Result<Vec<Tally>, PeerError>>()
    })?;
    let seconds = measured_ns.into_inner() as f64 / 1e9;
    let sum = |of: &dyn Fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let transactions = KINDS.iter().enumerate().map(|(at, name)| {
        let mut latency = Histogram::default();
        tallies.iter().for_each(|tally| latency.merge(&tally.latency[at]));
        let commits = sum(&|tally| tally.commits[at]);
        KindReport { name, commits, latency_us: latency.latency() }
    });
    let transactions: Vec<KindReport> = transactions.collect();
    let commits = transactions.iter().map(|kind| kind.commits).sum();
    Ok(TpccReport {
        version: server.version(),
        config: args.clone(),
        load_s,
        seconds,
        throughput_txn_s: commits as f64 / seconds,
        commits,
        rollbacks: sum(&|tally| tally.rollbacks),
        aborts: sum(&|tally| tally.aborts),
        transactions,
    })
}

fn work<S: Server>(
    server: &S,
    size: Size,
    seed: u64,
    worker: u16,
    phase: &AtomicU8,
    start: &Barrier,
) -> Result<Tally, PeerError> {
    let ready = server.connect().and_then(|one| Ok(client(one, size, seed, worker, DRAWS)?));
    start.wait();
    let (mut client, mut tally, mut aborts_before) = (ready?, Tally::default(), None);
    let epoch = Instant::now();
    loop {
        let begin = Instant::now();
        let kind = client.draw((begin - epoch).as_nanos() as u64);
        let outcome = client.run()?;
        match phase.load(Ordering::Relaxed) {
            STOP => break,
            MEASURE if aborts_before.is_some() => {}
            MEASURE => aborts_before = Some(client.aborted()),
            _ => continue,
        }
        tally.latency[kind].record(begin.elapsed().as_nanos() as u64);
        match outcome {
            Outcome::Committed => tally.commits[kind] += 1,
            Outcome::RolledBack => tally.rollbacks += 1,
        }
    }
    tally.aborts = client.aborted() - aborts_before.unwrap_or(client.aborted());
    Ok(tally)
}
