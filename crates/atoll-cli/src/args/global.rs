//! Options that every command takes, and the refusal of those that have no meaning for one.

use std::path::PathBuf;
use std::time::Duration;

use atoll_sql::QueryLimits;
use clap::Args;

use super::owner::{LIMITS, OwnerArgs};
use crate::error::{CliError, Result};
use crate::output::ColorChoice;
use crate::size;

/// Heading of the limits of queries.
const QUERIES: &str = "Limits of queries (for commands that run SQL)";

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

impl GlobalArgs {
    /// The settings of a database that this process owns.
    pub fn database_options(&self, owner: &OwnerArgs) -> atoll::DatabaseOptions {
        let scheme = owner.scheme.unwrap_or_else(atoll_sql::default_scheme);
        atoll::DatabaseOptions {
            memory_limit_bytes: self.memory,
            nodes: self.nodes,
            snapshot_age_max: self.snapshot_age_max,
            snapshot_bytes_max: self.snapshot_bytes_max,
            scheme,
            lock_timeout: atoll_sql::lock_timeout(scheme),
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
