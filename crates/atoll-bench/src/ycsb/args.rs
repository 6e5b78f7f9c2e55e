//! The arguments of YCSB, and the plan of a run.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::floor::FloorArgs;
use crate::oltp::{OltpArgs, require};

/// Most accesses of a transaction.
const ACCESSES_MAX: usize = 4096;
/// Longest measurement of the floor, once with the keys together and once key by key.
const FLOOR_SECONDS_MAX: f64 = 1.0;

/// Transactions of reads and updates by key, as in "Staring into the Abyss", or the workloads A to
/// F.
#[derive(Debug, Clone, Args, Serialize)]
pub struct YcsbArgs {
    /// The arguments that all workloads share.
    #[command(flatten)]
    #[serde(flatten)]
    pub oltp: OltpArgs,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Columns beside the key
    #[arg(long, default_value_t = 10)]
    pub columns: usize,
    /// Bytes of each of them
    #[arg(long, default_value_t = 100)]
    pub column_bytes: u32,
    /// One of the standard workloads, with one operation for each transaction unless --accesses
    /// says otherwise
    #[arg(long, value_enum, ignore_case = true)]
    pub workload: Option<Letter>,
    /// Accesses of a transaction; keys may repeat [default: 16, with --workload 1]
    #[arg(long, value_name = "N")]
    pub accesses: Option<usize>,
    /// Share of the accesses that read; the others update [default: 0.5]
    #[arg(long, value_name = "SHARE", conflicts_with = "workload")]
    pub reads: Option<f64>,
    /// Skew of the keys, 0 for none [default: 0.6, with --workload 0.99]
    #[arg(long)]
    pub theta: Option<f64>,
    /// Columns that an access needs: one, chosen at random; the first; or, for a read, all
    /// [default: one, with --workload all]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub read_columns: Option<ReadColumns>,
    /// Give the keys of a transaction to the database together, so that it prefetches them together
    /// (the default)
    #[arg(long, conflicts_with = "key_by_key")]
    pub batch: bool,
    /// Give the keys one by one
    #[arg(long)]
    pub key_by_key: bool,
    /// Lanes of each thread: transactions that it interleaves, so that others run while one waits
    /// for memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub lanes: usize,
    /// Access the keys of a transaction in ascending order, so that locks cannot deadlock
    #[arg(long)]
    pub sort_keys: bool,
    /// Share of the transactions with keys in several partitions; all keys of the others are in the
    /// partition of the thread
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub multi_partition: f64,
    /// Number of partitions of such a transaction
    #[arg(long, value_name = "K", default_value_t = 2)]
    pub partitions_per_txn: u32,
    /// Most rows of a scan (workload E)
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub scan_max: u64,
    /// First measure what bare arrays of as many values allow (`bench floor`), and report the
    /// throughput as a share of that
    #[arg(long, conflicts_with_all = ["workload", "read_columns"])]
    pub floor: bool,
}

/// The standard workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Letter {
    /// Half reads, half updates
    A,
    /// 95 % reads, 5 % updates
    B,
    /// Only reads
    C,
    /// 95 % reads of recently inserted rows, 5 % inserts
    D,
    /// 95 % scans, 5 % inserts
    E,
    /// Half reads, half reads that write back a changed column
    F,
}

/// The columns that an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadColumns {
    /// One, chosen at random
    One,
    /// Always the first, as in DBx1000
    First,
    /// All of them in a read, one in an update
    All,
}

/// Shares of the kinds of accesses; they add up to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Mix {
    /// Reads.
    pub reads: f64,
    /// Updates of one column.
    pub updates: f64,
    /// Inserts of rows.
    pub inserts: f64,
    /// Scans.
    pub scans: f64,
    /// Reads of a whole row that write back one changed column.
    pub read_modify_writes: f64,
}

impl Mix {
    fn of(letter: Option<Letter>, reads: f64) -> Self {
        let none = Self::default();
        match letter {
            None => Self { reads, updates: 1.0 - reads, ..none },
            Some(Letter::A) => Self { reads: 0.5, updates: 0.5, ..none },
            Some(Letter::B) => Self { reads: 0.95, updates: 0.05, ..none },
            Some(Letter::C) => Self { reads: 1.0, ..none },
            Some(Letter::D) => Self { reads: 0.95, inserts: 0.05, ..none },
            Some(Letter::E) => Self { scans: 0.95, inserts: 0.05, ..none },
            Some(Letter::F) => Self { reads: 0.5, read_modify_writes: 0.5, ..none },
        }
    }
}

/// The plan of a run; part of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The arguments that all workloads share.
    #[serde(flatten)]
    pub oltp: OltpArgs,
    /// The standard workload, if one was chosen.
    pub workload: Option<Letter>,
    /// Rows of the table.
    pub rows: u64,
    /// Columns beside the key.
    pub columns: usize,
    /// Bytes of each of them.
    pub column_bytes: u32,
    /// Accesses of a transaction.
    pub accesses: usize,
    /// Shares of the kinds of accesses.
    pub mix: Mix,
    /// Skew of the keys.
    pub theta: f64,
    /// Columns that a read fetches.
    pub read_columns: ReadColumns,
    /// Whether the keys are given together.
    pub batch: bool,
    /// Lanes of each thread.
    pub lanes: usize,
    /// Whether keys are accessed in ascending order.
    pub sort_keys: bool,
    /// Share of transactions over several partitions.
    pub multi_partition: f64,
    /// Number of partitions of such a transaction.
    pub partitions_per_txn: u32,
    /// Most rows of a scan.
    pub scan_max: u64,
    /// Whether the floor is measured.
    pub floor: bool,
}

impl Plan {
    /// Completes the arguments with defaults.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn new(args: &YcsbArgs) -> Result<Self, BenchError> {
        args.oltp.check()?;
        let standard = args.workload.is_some();
        let reads = args.reads.unwrap_or(0.5);
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        require(is_share(reads), "--reads", reads, "a share is from 0 to 1")?;
        let columns = if standard { ReadColumns::All } else { ReadColumns::One };
        let plan = Self {
            oltp: args.oltp.clone(),
            workload: args.workload,
            rows: args.rows,
            columns: args.columns,
            column_bytes: args.column_bytes,
            accesses: args.accesses.unwrap_or(if standard { 1 } else { 16 }),
            mix: Mix::of(args.workload, reads),
            theta: args.theta.unwrap_or(if standard { 0.99 } else { 0.6 }),
            read_columns: args.read_columns.unwrap_or(columns),
            batch: !args.key_by_key,
            lanes: args.lanes,
            sort_keys: args.sort_keys,
            multi_partition: args.multi_partition,
            partitions_per_txn: args.partitions_per_txn,
            scan_max: args.scan_max,
            floor: args.floor,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), BenchError> {
        require((1..=1 << 40).contains(&self.rows), "--rows", self.rows, "at least one is needed")?;
        let need = "1 to 255 will do";
        require((1..=255).contains(&self.columns), "--columns", self.columns, need)?;
        let need = "1 to 4096 will do";
        let bytes = self.column_bytes;
        require((1..=4096).contains(&bytes), "--column-bytes", bytes, need)?;
        let accesses = self.accesses;
        require((1..=ACCESSES_MAX).contains(&accesses), "--accesses", accesses, need)?;
        require((1..=256).contains(&self.lanes), "--lanes", self.lanes, "1 to 256 will do")?;
        let theta = (0.0..=10.0).contains(&self.theta);
        require(theta, "--theta", self.theta, "it must be from 0 to 10")?;
        let share = self.multi_partition;
        let is_share = (0.0..=1.0).contains(&share);
        require(is_share, "--multi-partition", share, "a share is from 0 to 1")?;
        let several = self.partitions_per_txn >= 1;
        let need = "at least one is needed";
        require(several, "--partitions-per-txn", self.partitions_per_txn, need)?;
        require(self.scan_max >= 1, "--scan-max", self.scan_max, need)
    }

    /// The same transactions on bare arrays, for `threads` threads.
    pub fn floor(&self, threads: usize) -> FloorArgs {
        FloorArgs {
            threads,
            rows: self.rows,
            columns: self.columns,
            column_bytes: self.column_bytes as usize,
            accesses: self.accesses,
            reads: self.mix.reads,
            theta: self.theta,
            work: 0,
            seconds: self.oltp.seconds.min(FLOOR_SECONDS_MAX),
            seed: self.oltp.seed,
        }
    }

    /// Whether the ordered index on the key is needed.
    pub fn has_scans(&self) -> bool {
        self.mix.scans > 0.0
    }
}

/// The plan of a command line; the first word is the command.
#[cfg(test)]
pub fn plan_of(words: &str) -> Plan {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: YcsbArgs,
    }
    let line = <Line as clap::Parser>::parse_from(words.split(' '));
    Plan::new(&line.args).expect("sensible")
}
