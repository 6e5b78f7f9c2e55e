//! Arguments that all transactional workloads share.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde::Serialize;

use atoll::machine::NodeId;
use atoll::{Database, DatabaseOptions, Durability, SchemeKind, TimestampKind};

use crate::error::BenchError;
use crate::folder::Folder;

/// Most threads of a workload.
const THREADS_MAX: usize = 1024;

/// The settings of a run, for any workload.
#[derive(Debug, Clone, Args, Serialize)]
#[command(group = ArgGroup::new("beyond").multiple(true))]
pub struct OltpArgs {
    /// Concurrency-control scheme
    #[arg(long, value_name = "SCHEME", default_value_t)]
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// How timestamps are allocated, for schemes that need them
    #[arg(long, value_name = "KIND", default_value_t, value_parser = parse_timestamps)]
    #[serde(serialize_with = "as_text")]
    pub timestamps: TimestampKind,
    /// Take a timestamp when a transaction begins even if its scheme does not need one: as in
    /// "Staring into the Abyss"
    #[arg(long)]
    pub begin_timestamps: bool,
    /// Partitions of the database [default: chosen from the workload and the threads]
    #[arg(long, value_name = "N")]
    pub partitions: Option<u32>,
    /// Threads, each with a session of its own [default: one for each CPU]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Seconds that are measured
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds of warm-up before the measurement
    #[arg(long, default_value_t = 2.0)]
    pub warmup: f64,
    /// Run this many transactions on each thread instead of a fixed time, and measure all of them
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Do not measure the time by component
    #[arg(long)]
    pub no_accounting: bool,
    /// Let the system place the threads
    #[arg(long)]
    pub no_pin: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Keep the database in a folder that is created here, and removed afterwards [default: in
    /// memory]
    #[arg(long, value_name = "DIR", group = "beyond")]
    pub data: Option<PathBuf>,
    /// What a commit survives: strict, group, group:N (milliseconds) or none
    #[arg(long, default_value_t, value_name = "WHAT", requires = "data")]
    #[serde(serialize_with = "as_text")]
    pub durability: Durability,
    /// Take a checkpoint every SECONDS seconds, besides those for the bytes of log [default: none]
    #[arg(long, value_name = "SECONDS", requires = "data")]
    pub checkpoint_every: Option<f64>,
    /// Take a checkpoint after MIB MiB of log [default: 256]
    #[arg(long, value_name = "MIB", requires = "data")]
    pub checkpoint_log_mib: Option<u64>,
    /// Touch MIB MiB of free memory before the load, and as much for indexes, so that no
    /// transaction waits while the system clears pages [default: 0]
    #[arg(long, value_name = "MIB", conflicts_with = "budget_mib")]
    pub ready_mib: Option<u64>,
    /// Keep MIB MiB of the database in DRAM, and what was not used for longest in a file in that
    /// folder or on the cold node [default: everything in DRAM]
    #[arg(long, value_name = "MIB", requires = "beyond")]
    pub budget_mib: Option<u64>,
    /// Move what exceeds the budget to this node of slower memory, and read it there
    #[arg(long, value_name = "NODE", requires = "budget_mib", group = "beyond")]
    pub cold_node: Option<u32>,
    /// Transactions wait for each other as long as it takes, where deadlocks are found; set by the
    /// workload.
    #[arg(skip)]
    #[serde(skip)]
    pub waits: bool,
    /// Number of logical nodes; set by the program that embeds the benchmark.
    #[arg(skip)]
    pub nodes: Option<usize>,
}

fn parse_timestamps(text: &str) -> Result<TimestampKind, String> {
    text.parse().map_err(|_| {
        let names: Vec<_> = TimestampKind::ALL.iter().map(ToString::to_string).collect();
        format!("there is no such kind; use one of {}", names.join(", "))
    })
}

/// Serializes a value with its `Display` text.
pub(crate) fn as_text<S: serde::Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Returns an error unless an argument is valid.
///
/// # Errors
/// [`BenchError::Argument`].
pub(crate) fn require(
    ok: bool,
    what: &'static str,
    value: impl std::fmt::Debug,
    need: &'static str,
) -> Result<(), BenchError> {
    let value = format!("{value:?}");
    if ok { Ok(()) } else { Err(BenchError::Argument { what, value, need }) }
}

impl OltpArgs {
    /// Checks the arguments.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn check(&self) -> Result<(), BenchError> {
        let threads = self.threads.unwrap_or(1);
        require((1..=THREADS_MAX).contains(&threads), "--threads", threads, "1 to 1024 will do")?;
        let need = "it must be more than 0 and at most 86400 s";
        let is_time = self.seconds > 0.0 && self.seconds <= 86_400.0;
        require(is_time, "--seconds", self.seconds, need)?;
        let is_time = (0.0..=86_400.0).contains(&self.warmup);
        require(is_time, "--warmup", self.warmup, "it must be at least 0 and at most 86400 s")?;
        let some = self.transactions != Some(0);
        require(some, "--transactions", 0, "at least one is needed")?;
        let every = self.checkpoint_every;
        let is_time = every.is_none_or(|every| (0.001..=86_400.0).contains(&every));
        let need = "it must be at least 0.001 and at most 86400 s";
        require(is_time, "--checkpoint-every", every, need)?;
        let partitions = self.partitions.unwrap_or(1);
        require((1..=1024).contains(&partitions), "--partitions", partitions, "1 to 1024 will do")
    }

    /// Number of threads: the argument, or one for each CPU.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn thread_count(&self) -> Result<usize, BenchError> {
        Ok(match self.threads {
            Some(threads) => threads,
            None => atoll::machine::allowed_cpus()?.len(),
        })
    }

    /// Whether keys are chosen by partition: for a partitioned scheme, or when the number of
    /// partitions was given, so that other schemes can be compared on the same keys.
    pub fn is_partitioned(&self) -> bool {
        self.scheme.is_partitioned() || self.partitions.is_some()
    }

    /// The options of the database; it has `partitions` partitions unless the arguments say
    /// otherwise.
    pub fn database_options(&self, partitions: u32) -> DatabaseOptions {
        let usual = DatabaseOptions::default();
        let log_mib = self.checkpoint_log_mib;
        DatabaseOptions {
            checkpoint_log_bytes: log_mib
                .map_or(usual.checkpoint_log_bytes, |mib| mib.saturating_mul(1 << 20)),
            nodes: self.nodes,
            scheme: self.scheme,
            timestamps: self.timestamps,
            begin_timestamps: self.begin_timestamps,
            partitions: Some(self.partitions.unwrap_or(partitions)),
            accounting: !self.no_accounting,
            durability: self.durability,
            checkpoint_interval: self.checkpoint_every.map(Duration::from_secs_f64),
            ready_bytes: self.ready_mib.unwrap_or(0).saturating_mul(1 << 20),
            memory_budget_bytes: self.budget_mib.map(|mib| mib.saturating_mul(1 << 20)),
            cold_node: self.cold_node.map(NodeId),
            lock_timeout: match self.waits && self.scheme.releases_reads() {
                true => Duration::MAX,
                false => usual.lock_timeout,
            },
            ..usual
        }
    }

    /// Creates a database with these options.
    ///
    /// # Errors
    /// [`BenchError::Database`], [`BenchError::System`].
    pub fn open(&self, partitions: u32) -> Result<Opened, BenchError> {
        let options = self.database_options(partitions);
        let Some(parent) = &self.data else {
            return Ok(Opened { db: Database::create(options)?, _folder: None });
        };
        let folder = Folder::new(Some(parent))?;
        let db = Database::open(&folder.path().join("db"), options)?;
        Ok(Opened { db, _folder: Some(folder) })
    }
}

/// The database of a benchmark, and its folder, which is removed after the database is closed.
pub struct Opened {
    db: Database,
    _folder: Option<Folder>,
}

impl Deref for Opened {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.db
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: OltpArgs,
    }

    #[test]
    fn a_budget_needs_a_folder_or_a_cold_node_and_a_cold_node_a_budget() {
        let parse = |line: &str| Program::try_parse_from(line.split(' ')).map(|it| it.args);
        for refused in ["x --budget-mib 9", "x --cold-node 1", "x --data d --cold-node 1"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
        let both = parse("x --budget-mib 9 --data d --cold-node 1").unwrap();
        assert_eq!((both.budget_mib, both.cold_node), (Some(9), Some(1)));
        let options = parse("x --budget-mib 9 --cold-node 1").unwrap().database_options(1);
        assert_eq!(options.memory_budget_bytes, Some(9 << 20));
        assert_eq!(options.cold_node, Some(NodeId(1)));
        assert!(parse("x --budget-mib 9 --data d").unwrap().cold_node.is_none());
    }
}
