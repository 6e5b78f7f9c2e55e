//! Arguments for the log of a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::size;

/// Heading of the log.
const LOG: &str = "Log";

/// The log of a server.
#[derive(Debug, Clone, Args)]
pub struct ServerLogArgs {
    /// What is logged: each level has those before it, too
    #[arg(long, value_name = "LEVEL", default_value = "warn", help_heading = LOG)]
    pub log_level: LogLevel,

    /// Log into this file, which only its owner may read [default: the standard error output]
    #[arg(long, value_name = "FILE", help_heading = LOG)]
    pub log_file: Option<PathBuf>,

    /// Begin another log file when this one has so many bytes; the old one keeps its name with the
    /// moment behind it
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes, default_value = "100MiB")]
    #[arg(help_heading = LOG, requires = "log_file")]
    pub log_rotate_size: u64,

    /// Begin another log file when this one is so old [default: none]
    #[arg(long, value_name = "TIME", value_parser = super::owner::parse_interval)]
    #[arg(help_heading = LOG, requires = "log_file")]
    pub log_rotate_age: Option<Duration>,

    /// Keep so many old log files
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = LOG)]
    #[arg(requires = "log_file")]
    pub log_keep: u32,

    /// Log statements that take this time or longer, with their plans (seconds, or 250ms, 1m)
    /// [default: none]
    #[arg(long, value_name = "TIME", value_parser = size::parse_time, help_heading = LOG)]
    pub log_min_duration: Option<Duration>,

    /// Log literals of statements, values of parameters and data in messages, too; passwords never
    #[arg(long, help_heading = LOG)]
    pub log_values: bool,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Nothing
    Off,
    /// Statements that fail because of the server: no memory, a full disk, a bug
    Error,
    /// Statements that fail, clients that are refused, and slow statements
    Warn,
    /// Clients that come and go
    Info,
    /// Each statement
    Debug,
}
