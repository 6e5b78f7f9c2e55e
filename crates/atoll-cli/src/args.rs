//! The command line: arguments of the `atoll` command and its subcommands.

use std::path::PathBuf;
use std::time::Duration;

use atoll_bench::crash::CrashArgs;
use atoll_bench::durable::checkpoint::CheckpointArgs;
use atoll_bench::durable::commit::CommitArgs;
use atoll_bench::durable::recovery::RecoveryArgs;
use atoll_bench::floor::FloorArgs;
use atoll_bench::snapshot::SnapshotArgs;
use atoll_bench::timestamps::TimestampsArgs;
use atoll_bench::torture::TortureArgs;
use atoll_bench::tpcb::TpcbArgs;
use atoll_bench::tpcc::TpccArgs;
use atoll_bench::ycsb::YcsbArgs;
use atoll_sql::QueryLimits;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::demo::DemoArgs;
use crate::error::{CliError, Result};
use crate::{moment, size};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "atoll",
    version,
    about = "A database for one big machine: transactions in one process, instant zero-copy \
             snapshots of it in any other",
    after_help = EXAMPLES,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  atoll sql bank                        own a database in memory, named bank, with a SQL shell
  atoll attach bank                     read an instant snapshot of it from another process
  atoll load flights flights.parquet --key id
                                        load a file into a new database, then open the shell
  atoll snapshots bank                  the snapshots that processes hold, and their memory
  atoll list                            the databases that are open
  atoll nodes                           what the machine looks like

A database lives in the memory of the process that owns it and goes when that process ends, unless
it is kept in a folder with --data DIR.";

const QUERIES: &str = "Limits of queries (for commands that run SQL)";
const LIMITS: &str = "Settings of a database (for commands that own one)";

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Directory where databases find each other by name [default: $ATOLL_RUNTIME_DIR, else
    /// $XDG_RUNTIME_DIR/atoll]
    #[arg(long, global = true, display_order = 100, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,

    /// Write JSON for programs
    #[arg(long, global = true, display_order = 100)]
    pub json: bool,

    /// When to use colours
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    pub color: ColorChoice,

    /// Divide the machine into N logical nodes, to try the paths of a large machine on a small one;
    /// for a database in a folder (--data), `atoll nodes` and some benchmarks
    #[arg(long, global = true, display_order = 100, value_name = "N")]
    pub nodes: Option<usize>,

    /// Most memory that the database may take [default: 80% of what the process may use; with
    /// --memory-budget sixteen times that, but at most half of the free disk; with --cold-node the
    /// budget and 80% of the node]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = LIMITS)]
    pub memory: Option<u64>,

    /// Oldest age of a snapshot; an older one expires [default: none]
    #[arg(long, global = true, value_name = "TIME", value_parser = size::parse_time)]
    #[arg(help_heading = LIMITS)]
    pub snapshot_age_max: Option<Duration>,

    /// Most memory that snapshots together may keep from being freed [default: half of --memory]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = LIMITS)]
    pub snapshot_bytes_max: Option<u64>,

    /// Most memory that the queries of this process may take together, results included [default:
    /// an eighth of what the process may use]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = QUERIES)]
    pub query_memory: Option<u64>,

    /// Most bytes of spill files, for query data that exceeds --query-memory [default: half of the
    /// free disk]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = QUERIES)]
    pub spill_limit: Option<u64>,

    /// Parent of the folder atoll-spill-UID of spill files [default: $TMPDIR, else /var/tmp]
    #[arg(long, global = true, value_name = "DIR", help_heading = QUERIES)]
    pub spill_folder: Option<PathBuf>,
}

/// Settings of commands that own a database.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("beyond").multiple(true))]
pub struct OwnerArgs {
    /// The scheme.
    #[arg(long, value_name = "SCHEME", default_value_t, help = scheme_help())]
    #[arg(help_heading = LIMITS)]
    pub scheme: atoll::SchemeKind,

    /// Keep the database in this folder, so that it survives any end of the process [default: in
    /// memory only]
    #[arg(long, value_name = "DIR", help_heading = LIMITS, group = "beyond")]
    pub data: Option<PathBuf>,

    /// Keep the tablespace of the next node in this folder, on its own persistent memory or disk;
    /// once for each node, when the database is created [default: in the database's folder]
    #[arg(long = "node-folder", value_name = "DIR", help_heading = LIMITS, requires = "data")]
    pub node_folders: Vec<PathBuf>,

    /// Touch this much free memory when the database is opened, and as much for indexes, so that no
    /// transaction waits while the system clears it [default: none]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = LIMITS, conflicts_with = "memory_budget")]
    pub ready_memory: Option<u64>,

    /// Keep this much of the database in DRAM and the least recently used rest on the disk, in DIR
    /// or in DIR/spill if that exists, or on the cold node [default: everything in DRAM]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes)]
    #[arg(help_heading = LIMITS, requires = "beyond")]
    pub memory_budget: Option<u64>,

    /// Keep data beyond --memory-budget on this node of slower memory (persistent or CXL memory
    /// that the system uses as memory; `atoll nodes` lists them), and read it there
    #[arg(long, value_name = "NODE", help_heading = LIMITS)]
    #[arg(requires = "memory_budget", group = "beyond")]
    pub cold_node: Option<u32>,

    /// Archive the logs of the database in this folder before their files are reused, so that
    /// `atoll restore` can restore any moment since a backup [default: no archive]
    #[arg(long, value_name = "DIR", help_heading = LIMITS, requires = "data")]
    pub archive: Option<PathBuf>,

    /// What an acknowledged commit survives. strict: a killed process and a loss of power. group,
    /// or group:N: both, except for the last 10, or N, milliseconds. none: neither; the database
    /// returns to some earlier moment. In SQL: SET durability
    #[arg(long, value_name = "WHAT", default_value_t, help_heading = LIMITS, requires = "data")]
    pub durability: atoll::Durability,

    /// Take a checkpoint after this time with changes (seconds, or 10m, 1h30m), besides those that
    /// growing logs cause [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, requires = "data")]
    #[arg(help_heading = LIMITS)]
    pub checkpoint_every: Option<Duration>,
}

/// Help of `--scheme`.
fn scheme_help() -> String {
    format!("How transactions are kept apart, one of {}", atoll::SchemeKind::names())
}

fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let time = size::parse_time(text)?;
    if time.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(time) }
}

/// When to use colours; `Auto` is on a terminal, unless NO_COLOR is set.
// The values have no help of their own: it would make every `--help` three times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl GlobalArgs {
    /// The settings of a database that this process owns.
    pub fn database_options(&self, owner: &OwnerArgs) -> atoll::DatabaseOptions {
        atoll::DatabaseOptions {
            memory_limit_bytes: self.memory,
            nodes: self.nodes,
            snapshot_age_max: self.snapshot_age_max,
            snapshot_bytes_max: self.snapshot_bytes_max,
            scheme: owner.scheme,
            durability: owner.durability,
            checkpoint_interval: owner.checkpoint_every,
            node_folders: owner.node_folders.clone(),
            ready_bytes: owner.ready_memory.unwrap_or(0),
            memory_budget_bytes: owner.memory_budget,
            cold_node: owner.cold_node.map(atoll::machine::NodeId),
            archive: owner.archive.clone(),
            ..atoll::DatabaseOptions::default()
        }
    }

    /// Refuses `--nodes` where it has no effect, rather than to ignore it.
    ///
    /// # Errors
    /// [`CliError::Said`].
    pub fn refuse_nodes(&self, what: &str) -> Result<()> {
        match self.nodes {
            Some(_) => Err(CliError::with_hint(
                format!("--nodes has no meaning for {what}"),
                "it divides the tables of a database in a folder (--data), and the machine for \
                 `atoll nodes` and `atoll bench ycsb`, `tpcb` and `tpcc`",
            )),
            None => Ok(()),
        }
    }

    /// Refuses limits for a command that owns no database, rather than to ignore them.
    ///
    /// # Errors
    /// [`CliError::Said`] with the option.
    pub fn refuse_limits(&self, command: &str) -> Result<()> {
        self.refuse_query_limits(command)?;
        self.refuse_database_limits(command)
    }

    /// Refuses limits of queries for a command that runs none.
    ///
    /// # Errors
    /// [`CliError::Said`] with the option.
    pub fn refuse_query_limits(&self, command: &str) -> Result<()> {
        let given = [
            ("--query-memory", self.query_memory.is_some()),
            ("--spill-limit", self.spill_limit.is_some()),
            ("--spill-folder", self.spill_folder.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(CliError::with_hint(
                format!("{option} has no meaning for `atoll {command}`, which runs no queries"),
                "give it to a command that does, such as `atoll sql` or `atoll attach`",
            )),
            None => Ok(()),
        }
    }

    /// Sets the limits of queries.
    pub fn set_query_limits(&self) {
        atoll_sql::set_query_limits(QueryLimits {
            memory_bytes: self.query_memory,
            spill_bytes: self.spill_limit,
            spill_folder: self.spill_folder.clone(),
        });
    }

    /// Refuses limits of a database for a command that owns none.
    ///
    /// # Errors
    /// [`CliError::Said`] with the option.
    pub fn refuse_database_limits(&self, command: &str) -> Result<()> {
        let given = [
            ("--memory", self.memory.is_some()),
            ("--snapshot-age-max", self.snapshot_age_max.is_some()),
            ("--snapshot-bytes-max", self.snapshot_bytes_max.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(CliError::with_hint(
                format!("{option} has no meaning for `atoll {command}`, which owns no database"),
                "give it to the command that owns the database, such as `atoll sql`",
            )),
            None => Ok(()),
        }
    }
}

/// A command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Own a database in memory, published under NAME, with a SQL shell
    Sql(SqlArgs),
    /// Read a snapshot of a database that another process owns, with a SQL shell
    Attach(AttachArgs),
    /// Own a database and load CSV or Parquet files into it
    Load(LoadArgs),
    /// Show the snapshots of a database, their holders and what they keep in memory
    Snapshots(SnapshotsArgs),
    /// List the databases that are open
    #[command(alias = "names")]
    List(ListArgs),
    /// Show the machine: nodes, CPUs, memory, distances, and the restrictions of this process
    Nodes(NodesArgs),
    /// Measure transactions and snapshots on this machine
    Bench(BenchArgs),
    /// Look for anomalies: every scheme under seeded schedules, or under threads
    #[command(after_help = "\
Examples:
  atoll torture                         1,000 schedules of every scheme
  atoll torture --scheme mvcc --seeds 100000 --json
  atoll torture --scheme mvcc --first-seed 4711 --seeds 1
                                        the run of one seed again
  atoll torture --native --threads 8 --seconds 60

A schedule is a function of its seed, so an anomaly that was found is found again. The status is 1
when there is an anomaly; the report says which transactions show it.")]
    Torture(TortureCommand),
    /// Verify the files of a database that is not open
    Check(CheckArgs),
    /// Show the log of a database that is not open
    Log(LogArgs),
    /// Restore a database as it was at a moment, from a backup and archived logs
    Restore(RestoreArgs),
    /// Replay a year of flights as transactions while two other processes analyse snapshots
    Demo(DemoArgs),
}

/// Statements to run instead of the shell.
#[derive(Debug, Clone, Default, Args)]
pub struct ScriptArgs {
    /// Run a statement (or several, separated by `;`) and end; may be given again
    #[arg(short = 'c', long = "command", value_name = "STATEMENT")]
    pub commands: Vec<String>,

    /// Run the statements of a file and end (`-` is the standard input); files come before -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub scripts: Vec<PathBuf>,
}

impl ScriptArgs {
    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.scripts.is_empty()
    }
}

/// `atoll sql`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll sql bank                        a shell; \\? inside it shows its commands
  atoll sql bank --memory 4GiB --snapshot-age-max 10m
  atoll sql bank -c 'SELECT 1 + 1'      run one statement
  atoll sql bank -f schema.sql --serve  run a script, then serve snapshots until Ctrl-C
  atoll sql bank < script.sql           run a script from the standard input
  atoll sql bank --data ./bank          keep it in a folder; open it again the same way
  atoll sql bank --data ./bank -c 'CREATE TABLE t (id bigint PRIMARY KEY) TABLESPACE node1'
                                        a table that belongs to a node, on a machine with several

While the command runs, other processes read the database with `atoll attach NAME`. When it ends,
the database is gone unless it has a folder; snapshots that others hold stay readable.
In the shell, Ctrl-C cancels the line, or the statement that runs; twice, it ends the shell, as
Ctrl-D does. Ctrl-\\ ends the process at once.")]
pub struct SqlArgs {
    /// Name under which other processes find the database
    pub name: String,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Keep owning the database after -c and -f, until Ctrl-C
    #[arg(long)]
    pub serve: bool,
    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
}

/// `atoll attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll attach bank                     a shell on a snapshot; `refresh` takes a newer one
  atoll attach bank -c 'SELECT sum(balance) FROM accounts'
  atoll attach bank --json -c 'SELECT * FROM accounts'

The snapshot shows the commits up to one moment, costs the owner some microseconds, and copies
nothing. It never changes: `refresh` in the shell releases it and takes a new one.")]
pub struct AttachArgs {
    /// Name of the database
    pub name: String,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
}

/// `atoll load`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll load flights flights.parquet --key id
                                        one table, named after its file, then the shell
  atoll load shop --table orders=o.csv --key orders=id --table items=i.csv --key items=order,pos
  atoll load shop --table orders o.csv --schema schema.sql
                                        into the columns that a CREATE TABLE in schema.sql gives
  atoll load shop o.csv --key id --serve &
                                        serve snapshots until Ctrl-C, without a shell
  zcat logs.gz | atoll load db --table logs=- --format csv --key id -c 'SELECT count(*) FROM logs'
  atoll load db o.csv.zst --key id --on-conflict skip

A file is loaded completely or not at all. CSV files need a first line that names the columns; their
types are found by reading every line. Files may be compressed with gzip or zstd. A column has the
name that it has in the file; SQL needs quotes for one like \"Name\", as the report says. In the
shell, \\load FILE TABLE does the same.")]
pub struct LoadArgs {
    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// Name under which other processes find the database
    pub name: String,
    /// CSV or Parquet files, or `-` for the standard input; each becomes a table named after it
    /// unless --table says otherwise
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A table and its file (T=FILE), or the name of the table for the FILE in the same place
    #[arg(long = "table", value_name = "T[=FILE]")]
    pub tables: Vec<String>,
    /// Primary key of a table that is created: columns for all (a,b), or for one table (T=a,b)
    #[arg(long = "key", value_name = "[T=]COLUMNS")]
    pub keys: Vec<String>,
    /// Create tables that do not exist from the columns of their file (always so without --schema)
    #[arg(long)]
    pub create: bool,
    /// Run this script first, to create the tables
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Format of the files [default: what their names end in]
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    /// Character between the fields of a CSV file (`\t` is a tab)
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,
    /// Field of a CSV file that means NULL where it has no quotes [default: an empty one]
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// The CSV files have no line of names; their tables must exist
    #[arg(long)]
    pub no_header: bool,
    /// Treatment of a row with a key that the table has already
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_conflict: Conflict,
    /// Cut timestamps that are finer than a microsecond [default: refuse them]
    #[arg(long)]
    pub truncate_timestamps: bool,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Serve snapshots until Ctrl-C instead of opening the shell
    #[arg(long)]
    pub serve: bool,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    Csv,
    Parquet,
}

/// The treatment of a row with a key that the table has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Conflict {
    /// Load nothing
    #[default]
    Fail,
    /// Skip the row
    Skip,
    /// Let the row replace the other
    Replace,
}

fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    let byte = match text.as_bytes() {
        b"\\t" => b'\t',
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => *byte,
        _ => return Err("use one ASCII character such as ';', or \\t for a tab".to_owned()),
    };
    Ok(byte)
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

/// `atoll check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll check ./bank
  atoll check ./bank --json
  atoll check ./bank --archive ./bank-logs
                                        the copies of logs in its archive, too

Everything that opening the database could need is read: the control file, the last two checkpoints
and the logs behind them; of a backup, where in the logs it begins. Every damage is told with its
file, its offset there, and what was expected and found. The status is 1 when there is any.")]
pub struct CheckArgs {
    /// The folder of the database
    pub folder: PathBuf,

    /// The archive of its logs: to be checked as well
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
}

/// `atoll log`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll log ./bank                      what has been committed since the older checkpoint
  atoll log ./bank --tablespace 1 --limit 20 --json")]
pub struct LogArgs {
    /// The folder of the database
    pub folder: PathBuf,
    /// The log of this tablespace only
    #[arg(long, value_name = "N")]
    pub tablespace: Option<usize>,
    /// Blocks that are shown
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: u64,
}

/// `atoll restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll sql bank --data ./bank --archive ./bank-logs
                                        own a database and archive its logs
  \\backup ./bank-monday                 in its shell: a copy that it can be restored from
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --to '2026-11-21 10:00:00'
                                        the state of that time, by the clock of this machine
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --to '2026-11-21 10:00:00+01:00'
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --logs ./bank
                                        all of it, with what was not archived yet

Restore points are written once a second: the last one not after the given time counts. The
backup must not have been opened since it was made. The archive, the backup and the folder of
--logs are only read; the database of --logs must not be open.")]
pub struct RestoreArgs {
    /// A backup, as `\backup` has written it
    pub backup: PathBuf,
    /// The folder of the new database, which is empty or is made
    pub new: PathBuf,
    /// The archive of the logs
    #[arg(long, value_name = "DIR")]
    pub archive: PathBuf,
    /// The folder of the database that was archived, if it is still there: for its last logs
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// The moment, in local time or with an offset from UTC [default: the last one there is]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    pub to: Option<u64>,
    /// The global sequence number up to which to restore, as `atoll log` shows them
    #[arg(long, value_name = "N", conflicts_with = "to")]
    pub to_gsn: Option<u64>,
    /// Keep the tablespace of the next node in this folder; once for each node
    #[arg(long = "node-folder", value_name = "DIR")]
    pub node_folders: Vec<PathBuf>,
    /// Keep this much of it in DRAM while it is restored, and the rest in the folder of the new
    /// database or in its folder spill [default: everything in DRAM]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes)]
    pub memory_budget: Option<u64>,
    /// The scheme that the database is opened with.
    #[arg(long, value_name = "SCHEME", default_value_t, help = scheme_help())]
    pub scheme: atoll::SchemeKind,
}

/// `atoll snapshots`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll snapshots bank
  atoll snapshots bank --json

Columns:
  shared  bytes of the database when the snapshot was taken, which it reads without a copy
  copied  bytes that writers have copied since, because this or another snapshot showed them
  kept    bytes of replaced data that live for this snapshot and older ones alone")]
pub struct SnapshotsArgs {
    /// Name of the database
    pub name: String,
}

/// `atoll list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll list
  atoll list --runtime-dir /run/user/1000/atoll
  atoll list --json

After its owner was killed, a database is listed as stale until its name is used again.")]
pub struct ListArgs {}

/// `atoll nodes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll nodes
  atoll nodes --nodes 4                 as four logical nodes
  atoll nodes --sysfs DIR               a machine that a copy of its /sys describes
  atoll nodes --json

Distances are the kernel's: 10 is a node's own memory, 20 is twice as far.")]
pub struct NodesArgs {
    /// Read the machine from a folder that holds what its /sys holds
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
}

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
  atoll bench tpcc --reduced            new-order and payment as the engine of the study has them
  atoll bench tpcc --seconds 600 --json throughput second by second, memory before and after

A warehouse takes some 150 MiB at first. Threads do not wait between transactions, so the figures
are no audited TPC-C results and must not be compared with such.")]
    Tpcc(TpccArgs),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{} has no examples", sub.get_name());
        }
    }

    /// The checks of `debug_assert`, which do nothing where debug assertions are off.
    fn check_ids(command: &clap::Command) {
        let mut ids: Vec<_> = command.get_arguments().map(|one| one.get_id().as_str()).collect();
        let mut longs: Vec<_> = command.get_arguments().filter_map(|one| one.get_long()).collect();
        for names in [&mut ids, &mut longs] {
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "of {}", command.get_name());
        }
        command.get_subcommands().for_each(check_ids);
    }

    #[test]
    fn no_command_has_two_options_of_one_name() {
        let mut command = Cli::command();
        command.build();
        check_ids(&command);
    }

    /// Commands without subcommands, and the words that lead there.
    fn leaves(command: &clap::Command, words: &str, out: &mut Vec<(String, clap::Command)>) {
        for sub in command.get_subcommands() {
            let words = format!("{words} {}", sub.get_name());
            leaves(sub, &words, out);
            if sub.get_subcommands().next().is_none() || sub.get_arguments().next().is_some() {
                out.push((words, sub.clone()));
            }
        }
    }

    #[test]
    fn every_command_that_opens_a_database_takes_a_scheme_and_its_help_knows_all_of_them() {
        // These read databases of other processes, read files, or need no database.
        let others = [
            " attach",
            " snapshots",
            " list",
            " nodes",
            " check",
            " log",
            " bench timestamps",
            " bench floor",
        ];
        let mut commands = Vec::new();
        leaves(&Cli::command(), "", &mut commands);
        assert!(commands.len() > 15, "{}", commands.len());
        for (words, command) in commands {
            let takes = command.get_arguments().any(|one| one.get_long() == Some("scheme"));
            assert_eq!(takes, !others.contains(&words.as_str()), "atoll{words}");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for named in help.split("--scheme ").skip(1) {
                let name = named.split_whitespace().next().unwrap_or_default();
                assert!(name.parse::<atoll::SchemeKind>().is_ok(), "atoll{words}: {name}");
            }
        }
        let mut command = Cli::command();
        let sql = command.find_subcommand_mut("sql").expect("there is one");
        let help = sql.render_long_help().to_string();
        for scheme in atoll::SchemeKind::ALL {
            assert!(help.contains(scheme.name()), "{scheme}");
        }
    }

    #[test]
    fn global_options_may_stand_before_and_behind_the_command() {
        for line in [
            ["atoll", "--memory", "4GiB", "sql", "bank"],
            ["atoll", "sql", "bank", "--memory", "4GiB"],
        ] {
            let cli = Cli::try_parse_from(line).expect("both orders are right");
            assert_eq!(cli.global.memory, Some(4 << 30));
        }
    }

    #[test]
    fn a_memory_budget_is_a_size_and_needs_a_folder_or_a_cold_node() {
        let line = ["atoll", "sql", "bank", "--memory-budget", "4GiB", "--data", "bank"];
        let Command::Sql(args) = Cli::try_parse_from(line).expect("parses").command else {
            panic!("it is sql")
        };
        assert_eq!(args.owner.memory_budget, Some(4 << 30));
        assert!(Cli::try_parse_from(&line[..5]).is_err(), "without a folder");
        let line = ["atoll", "sql", "bank", "--memory-budget", "4GiB", "--cold-node", "2"];
        let cli = Cli::try_parse_from(line).expect("parses");
        let Command::Sql(args) = &cli.command else { panic!("it is sql") };
        let options = cli.global.database_options(&args.owner);
        assert_eq!(options.cold_node, Some(atoll::machine::NodeId(2)));
        let alone = ["atoll", "sql", "bank", "--cold-node", "2"];
        assert!(Cli::try_parse_from(alone).is_err(), "without a budget");
    }

    #[test]
    fn a_delimiter_is_one_character() {
        assert_eq!(parse_delimiter("\\t"), Ok(b'\t'));
        assert_eq!(parse_delimiter(";"), Ok(b';'));
        assert!(parse_delimiter("ab").is_err() && parse_delimiter("\"").is_err());
    }

    #[test]
    fn checkpoints_by_time_are_for_databases_in_a_folder() {
        let parse = |more: &[&str]| {
            let line = ["atoll", "sql", "bank"].iter().chain(more);
            let cli = Cli::try_parse_from(line).ok()?;
            let Command::Sql(args) = &cli.command else { panic!("it is sql") };
            Some(cli.global.database_options(&args.owner).checkpoint_interval)
        };
        let of = |time| parse(&["--data", "d", "--checkpoint-every", time]);
        assert_eq!(parse(&["--data", "d"]), Some(None));
        assert_eq!(of("90"), Some(Some(Duration::from_secs(90))));
        assert_eq!(of("1h30m"), Some(Some(Duration::from_secs(5400))));
        assert_eq!((of("0"), of("-1"), of("soon")), (None, None, None));
        assert_eq!(parse(&["--checkpoint-every", "90"]), None);
    }

    #[test]
    fn limits_are_refused_where_no_database_is_owned() {
        let cli = Cli::try_parse_from(["atoll", "list", "--memory", "1GiB"]).expect("parses");
        let error = cli.global.refuse_limits("list").expect_err("it owns none");
        assert!(error.to_string().contains("--memory"), "{error}");
    }
}
