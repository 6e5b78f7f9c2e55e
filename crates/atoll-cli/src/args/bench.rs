//! Arguments of `bench` and `torture`; those of each benchmark are in `atoll-bench`.

use atoll::SchemeKind;
use atoll_bench::durable::checkpoint::CheckpointArgs;
use atoll_bench::durable::commit::CommitArgs;
use atoll_bench::durable::recovery::RecoveryArgs;
use atoll_bench::floor::FloorArgs;
use atoll_bench::load::LoadArgs;
use atoll_bench::snapshot::SnapshotArgs;
use atoll_bench::timestamps::TimestampsArgs;
use atoll_bench::tpcb::TpcbArgs;
use atoll_bench::tpcc::TpccArgs;
use atoll_bench::ycsb::YcsbArgs;
use atoll_torture::TortureArgs;
use atoll_torture::crash::CrashArgs;
use clap::{Args, Subcommand};

/// `atoll bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll bench ycsb --scheme silo --theta 0.8
                                        16 reads and updates a transaction, skewed keys
  atoll bench tpcc --warehouses 4 --seconds 60
                                        all five transactions, consistency checked at the end
  atoll bench snapshot --quick          what snapshots cost, in a few minutes
  atoll bench snapshot --gib 1,4 --json")]
pub struct BenchArgs {
    /// The benchmark.
    #[command(subcommand)]
    pub bench: Bench,
}

/// `atoll bench statements`.
#[derive(Debug, Args)]
pub struct StatementsArgs {
    /// What it runs.
    #[command(flatten)]
    pub run: atoll_bench::statements::StatementsArgs,
    /// Concurrency-control scheme
    #[arg(long, value_name = "SCHEME", default_value_t = atoll_sql::default_scheme())]
    pub scheme: SchemeKind,
}

/// A benchmark.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Bench {
    /// Take snapshots under a writer, and compare with fork() and a Unix socket
    #[command(after_help = "\
Examples:
  atoll bench snapshot --quick --gib 1
  atoll bench snapshot --gib 1,2,4,8 --json > report.json

Progress is told on the standard error output, the report on the standard output.")]
    Snapshot(SnapshotArgs),
    /// Run YCSB: transactions that read and update rows by key
    #[command(after_help = "\
Examples:
  atoll bench ycsb                      half reads, half updates, 16 a transaction, theta 0.6
  atoll bench ycsb --scheme mvcc --reads 0.9 --theta 0.8 --threads 8
  atoll bench ycsb --workload a         a standard workload, one operation a transaction
  atoll bench ycsb --scheme hstore --multi-partition 0.1 --partitions-per-txn 2
  atoll bench ycsb --key-by-key         without fetching the keys of a transaction together
  atoll bench ycsb --json > report.json

Keys may repeat within a transaction. The latency of a transaction includes all its attempts.")]
    Ycsb(YcsbArgs),
    /// Run TPC-B: transfers in a bank, with a check of its sums at the end
    #[command(after_help = "\
Examples:
  atoll bench tpcb --scale 10
  atoll bench tpcb --scale 100 --operation select
  atoll bench tpcb --scheme wait_die --seconds 600 --json

A branch has 10 tellers and 100,000 accounts, some 20 MiB.")]
    Tpcb(TpcbArgs),
    /// Run TPC-C: all five transactions, and the twelve consistency conditions at the end
    #[command(after_help = "\
Examples:
  atoll bench tpcc --warehouses 4 --scheme tictoc
  atoll bench tpcc --mix new-order=50,payment=50
  atoll bench tpcc --sql                each transaction as SQL statements on a session
  atoll bench tpcc --reduced            new-order and payment as the engine of the study has them
  atoll bench tpcc --seconds 600 --json throughput second by second, memory before and after

A warehouse takes some 150 MiB at first. Threads do not wait between transactions, so the figures
are no audited TPC-C results and must not be compared with such.")]
    Tpcc(TpccArgs),
    /// Time single SQL statements that are prepared once
    #[command(after_help = "\
Examples:
  atoll bench statements
  atoll bench statements --rows 1000000 --json

The table is in memory, and each statement is a transaction by itself.")]
    Statements(StatementsArgs),
    /// Count how many timestamps a second each source gives out
    #[command(after_help = "\
Examples:
  atoll bench timestamps
  atoll bench timestamps --threads 1,2,4 --json")]
    Timestamps(TimestampsArgs),
    /// Run YCSB on bare arrays: what memory allows, with nothing of an engine
    #[command(after_help = "\
Examples:
  atoll bench floor
  atoll bench floor --theta 0 --reads 1 --threads 1 --json")]
    Floor(FloorArgs),
    /// Load rows into a new table, and measure the memory that they take
    #[command(after_help = "\
Examples:
  atoll bench load                      ten million rows in bulk
  atoll bench load --how transactions --scheme mvcc
  atoll bench load --data /mnt/ssd --json")]
    Load(LoadArgs),
    /// Commit as clients that wait until it is durable
    #[command(after_help = "\
Examples:
  atoll bench commit --clients 64 --data /mnt/ssd
  atoll bench commit --clients 1 --durability group:5 --json

Measured against the time that a flush of 4 KiB takes in the same folder.")]
    Commit(CommitArgs),
    /// Open a database with the given amount of log behind its last checkpoint
    #[command(after_help = "\
Examples:
  atoll bench recovery --log-mib 1024 --rows 10000000 --data /mnt/ssd
  atoll bench recovery --json

Files are read from the medium, not from the system's memory.")]
    Recovery(RecoveryArgs),
    /// Take checkpoints after random updates of 8 bytes
    #[command(after_help = "\
Examples:
  atoll bench checkpoint --rows 10000000 --updates 1000,100000 --json")]
    Checkpoint(CheckpointArgs),
}

/// `atoll torture`, of transactions or of files.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TortureCommand {
    /// Transactions against each other.
    #[command(flatten)]
    pub schedules: TortureArgs,
    /// Something else.
    #[command(subcommand)]
    pub other: Option<OtherTorture>,
}

/// Other torture.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum OtherTorture {
    /// Crash a database at any moment of its run, and in the recovery after it
    #[command(after_help = "\
Examples:
  atoll torture crash                   20 runs of every scheme, 50 crashes of each
  atoll torture crash --scheme mvcc --seeds 1000 --json

A run is on a medium in memory that remembers every write and sync. Of what was not synced at a
crash, any subset of sectors survives. The status is 1 when something is wrong afterwards.")]
    Crash(CrashArgs),
}
