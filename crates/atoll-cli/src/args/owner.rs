//! Settings of a database, for the commands that own one.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::size;

/// Heading of the settings of a database.
pub(super) const LIMITS: &str = "Settings of a database (for commands that own one)";

/// Settings of commands that own a database.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("beyond").multiple(true))]
pub struct OwnerArgs {
    /// The scheme.
    #[arg(long, value_name = "SCHEME", help = scheme_help(), help_heading = LIMITS)]
    pub scheme: Option<atoll::SchemeKind>,

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
pub(super) fn scheme_help() -> String {
    let (names, default) = (atoll::SchemeKind::names(), atoll_sql::default_scheme());
    format!("How transactions are kept apart, one of {names} [default: {default}]")
}

/// Reads a time that is not zero.
///
/// # Errors
/// A sentence that says how a time looks.
pub fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let time = size::parse_time(text)?;
    if time.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(time) }
}
