//! Workloads of Atoll on other embedded databases, each through its own interface.
//!
//! `atoll-peers --peer lmdb --rows 1000000 --read-share 0.5 --theta 0.6 --threads 2` loads a table,
//! runs the transactions of `atoll bench ycsb` in memory, and prints the results as JSON with the
//! keys of Atoll's benchmark. `atoll-peers commit` and `atoll-peers tpcb` run durable transactions,
//! like `atoll bench commit` and `atoll bench tpcb --data DIR`. `atoll-peers tpcc` and `atoll-peers
//! statements` run SQL, like `atoll bench tpcc --sql` and `atoll bench statements`. README.md lists
//! the differences between peers.

mod driver;
mod durable;
mod engine;
mod folder;
mod lmdb;
mod load;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;
mod sql;
mod sqlite;
#[cfg(test)]
mod tests;
mod threads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};

use crate::driver::Plan;
use crate::engine::{COLUMN_BYTES, COLUMNS, Engine, PeerError};
use crate::sqlite::Sharing;

/// A database, and its mode where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// SQLite, one connection to `:memory:` that threads share
    Sqlite,
    /// SQLite, a connection for each thread to a table in memory
    SqliteMemdb,
    /// SQLite, a connection for each thread to a file in memory with a write-ahead log
    SqliteWal,
    /// LMDB, a map of a file in memory
    Lmdb,
    /// RocksDB, optimistic transactions, no log
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// RocksDB, transactions that lock, no log
    #[cfg(feature = "rocksdb")]
    RocksdbPessimistic,
    /// redb in memory
    Redb,
}

/// Runs a workload on an embedded database and prints the result as JSON.
///
/// Without a command it is YCSB, in memory.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    ycsb: Option<Args>,
}

/// Other workloads.
#[derive(Debug, Subcommand)]
enum Command {
    /// Load pairs of numbers, and say what a pair takes in memory
    Load(load::LoadArgs),
    /// Change a row and wait until that is durable
    Commit(durable::CommitArgs),
    /// The bank of TPC-B, each transfer durable
    Tpcb(durable::TpcbArgs),
    /// TPC-C as SQL statements
    Tpcc(sql::TpccArgs),
    /// Single SQL statements that are prepared once
    Statements(sql::StatementsArgs),
}

/// YCSB.
#[derive(Debug, clap::Args)]
struct Args {
    /// The database
    #[arg(long)]
    peer: Peer,
    /// Rows of 10 columns of 100 bytes
    #[arg(long, default_value_t = 4 << 20)]
    rows: u64,
    /// Accesses of a transaction
    #[arg(long, default_value_t = 16)]
    accesses: usize,
    /// Share of accesses that read a column, 0 to 1; the others update one
    #[arg(long, default_value_t = 0.5)]
    read_share: f64,
    /// Exponent of Zipf's law for the keys, 0 for uniform
    #[arg(long, default_value_t = 0.6)]
    theta: f64,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Folder for files, if the database needs some: a file system in memory
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
}

fn open(peer: Peer, dir: &Path, rows: u64, threads: usize) -> Result<Box<dyn Engine>, PeerError> {
    let sqlite = |sharing| sqlite::Sqlite::open(sharing, dir, rows, threads);
    Ok(match peer {
        Peer::Sqlite => Box::new(sqlite(Sharing::OneConnection)?),
        Peer::SqliteMemdb => Box::new(sqlite(Sharing::Memdb)?),
        Peer::SqliteWal => Box::new(sqlite(Sharing::Wal)?),
        Peer::Lmdb => Box::new(lmdb::Lmdb::open(dir, rows)?),
        #[cfg(feature = "rocksdb")]
        Peer::Rocksdb => {
            Box::new(rocks::Rocks::<rocksdb::OptimisticTransactionDB>::open(dir, rows)?)
        }
        #[cfg(feature = "rocksdb")]
        Peer::RocksdbPessimistic => {
            Box::new(rocks::Rocks::<rocksdb::TransactionDB>::open(dir, rows)?)
        }
        Peer::Redb => Box::new(redb::Redb::open(rows)?),
    })
}

/// Checks the arguments.
fn check(args: &Args) -> Result<(), PeerError> {
    let wrong = |what, value: String, need| Err(PeerError::Argument { what, value, need });
    // SQLite's keys are signed.
    if args.rows == 0 || args.rows > i64::MAX as u64 >> 16 {
        return wrong("--rows", args.rows.to_string(), "it must be from 1 to 2^47");
    }
    if args.accesses == 0 {
        return wrong("--accesses", "0".to_owned(), "a transaction needs at least one");
    }
    if args.threads == 0 || args.threads > 100 {
        return wrong("--threads", args.threads.to_string(), "it must be from 1 to 100");
    }
    if !(0.0..=1.0).contains(&args.read_share) {
        return wrong("--read-share", args.read_share.to_string(), "it must be from 0 to 1");
    }
    if !(0.0..=10.0).contains(&args.theta) {
        return wrong("--theta", args.theta.to_string(), "it must be from 0 to 10");
    }
    for (what, value) in [("--seconds", args.seconds), ("--warm-up", args.warm_up)] {
        if !(0.0..=86_400.0).contains(&value) {
            return wrong(what, value.to_string(), "it must be from 0 to 86400");
        }
    }
    Ok(())
}

fn run(args: &Args) -> Result<driver::Report, PeerError> {
    check(args)?;
    let name = args.peer.to_possible_value().map(|value| value.get_name().to_owned());
    let name = name.unwrap_or_default();
    eprintln!("{name}: loading {} rows", args.rows);
    let from = Instant::now();
    let engine = open(args.peer, &args.dir, args.rows, args.threads)?;
    let load_s = from.elapsed().as_secs_f64();
    eprintln!("{name}: loaded in {load_s:.1} s, running for {} s", args.warm_up + args.seconds);
    let plan = Plan {
        peer: name,
        version: engine.version(),
        isolation: engine.isolation().to_owned(),
        rows: args.rows,
        columns: COLUMNS,
        column_bytes: COLUMN_BYTES,
        accesses: args.accesses,
        read_share: args.read_share,
        theta: args.theta,
        threads: args.threads,
        seconds: args.seconds,
        warm_up_s: args.warm_up,
        seed: args.seed,
    };
    driver::run(engine.as_ref(), &plan, load_s)
}

fn run_command(cli: Cli) -> Result<serde_json::Value, PeerError> {
    match (cli.command, cli.ycsb) {
        (Some(Command::Load(args)), _) => Ok(serde_json::json!(load::run(args)?)),
        (Some(Command::Commit(args)), _) => Ok(serde_json::json!(durable::commit(&args)?)),
        (Some(Command::Tpcb(args)), _) => Ok(serde_json::json!(durable::tpcb(&args)?)),
        (Some(Command::Tpcc(args)), _) => Ok(serde_json::json!(sql::tpcc(&args)?)),
        (Some(Command::Statements(args)), _) => Ok(serde_json::json!(sql::statements(&args)?)),
        (None, Some(args)) => Ok(serde_json::json!(run(&args)?)),
        (None, None) => Err(PeerError::Argument {
            what: "--peer",
            value: "missing".to_owned(),
            need: "YCSB needs one; see --help",
        }),
    }
}

fn main() -> ExitCode {
    match run_command(Cli::parse()) {
        Ok(report) => {
            println!("{report:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
