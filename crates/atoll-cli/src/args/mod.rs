//! The command line: the `atoll` command, its subcommands, and in a module for each group of them
//! their arguments.
//!
//! Every option that several commands take is declared once, in `global` or `owner`, so that it has
//! one name and one help text.

mod bench;
mod config;
mod demo;
mod files;
mod global;
mod inspect;
mod log;
mod owner;
mod serve;
mod sql;

pub use bench::{Bench, BenchArgs, OtherTorture, StatementsArgs, TortureCommand};
pub use config::ConfigCommand;
pub use demo::DemoArgs;
pub use files::{BackupArgs, CheckArgs, LogArgs, RestoreArgs};
pub use global::GlobalArgs;
pub use inspect::{ListArgs, NodesArgs, SnapshotsArgs};
pub use log::{LogLevel, ServerLogArgs};
pub use owner::{OwnerArgs, parse_interval};
pub use serve::{CONNECTIONS, Listen, ServeArgs, parse_listen};
pub use sql::{AttachArgs, Conflict, DumpArgs, FileFormat, LoadArgs, ScriptArgs, SqlArgs};

use clap::{Parser, Subcommand};

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
  atoll serve bank --data ./bank        serve clients of PostgreSQL
  atoll load flights flights.parquet --key id
                                        load a file into a new database, then open the shell
  atoll snapshots bank                  the snapshots that processes hold, and their memory
  atoll list                            the databases that are open
  atoll nodes                           what the machine looks like

A database lives in the memory of the process that owns it and goes when that process ends, unless
it is kept in a folder with --data DIR.";

/// A command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Own a database in memory, published under NAME, with a SQL shell
    Sql(SqlArgs),
    /// Own a database and serve clients of PostgreSQL
    Serve(ServeArgs),
    /// Read a snapshot of a database that another process owns, with a SQL shell
    Attach(AttachArgs),
    /// Own a database and load CSV or Parquet files into it
    Load(LoadArgs),
    /// Write a database as a script of SQL, which Atoll and PostgreSQL load
    Dump(DumpArgs),
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
    /// Check a configuration file of `atoll serve`, or show what it says
    #[command(
        subcommand,
        after_help = "\
Examples:
  atoll config check bank.toml          what is wrong in the file, with its lines
  atoll config show --config bank.toml  the options of `atoll serve` with it, and where each is from
  atoll config show --config bank.toml --port 6000
  atoll config show bank                the options without a file

What `show` writes can be read as a configuration file."
    )]
    Config(ConfigCommand),
    /// Copy a database that `atoll serve` serves into a folder, while clients work on it
    Backup(BackupArgs),
    /// Verify the files of a database that is not open
    Check(CheckArgs),
    /// Show the log of a database that is not open
    Log(LogArgs),
    /// Restore a database as it was at a moment, from a backup and archived logs
    Restore(RestoreArgs),
    /// Replay a year of flights as transactions while two other processes analyse snapshots
    Demo(DemoArgs),
}

#[cfg(test)]
mod tests;
