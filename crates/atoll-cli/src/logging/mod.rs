//! The log of `atoll serve`: events of the server as lines, on the standard error output or in a
//! file.

mod rotating;

use std::io;
use std::sync::Arc;

use atoll_server::LogOptions;
use tracing::level_filters::LevelFilter;

use crate::args::{LogLevel, ServerLogArgs};
use crate::error::{CliError, Result};
use rotating::{Limits, Rotating};

/// Begins to log. What is logged before is lost.
///
/// # Errors
/// The file cannot be written.
pub fn begin(args: &ServerLogArgs) -> Result<()> {
    let level = match args.log_level {
        LogLevel::Off => return Ok(()),
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // One event is one line: texts are quoted, and line breaks in them are escaped.
    let lines = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    let begun = match &args.log_file {
        None => {
            let subscriber = lines.with_writer(io::stderr).finish();
            tracing::subscriber::set_global_default(subscriber)
        }
        Some(path) => {
            let limits = Limits {
                bytes: args.log_rotate_size,
                age: args.log_rotate_age,
                kept: args.log_keep as usize,
            };
            let file = Rotating::open(path, limits).map_err(|source| CliError::File {
                doing: "write",
                path: path.clone(),
                source,
            })?;
            let subscriber = lines.with_writer(Arc::new(file)).finish();
            tracing::subscriber::set_global_default(subscriber)
        }
    };
    begun.map_err(|error| CliError::new(format!("the log cannot begin: {error}")))
}

/// What the server logs of statements.
pub fn options(args: &ServerLogArgs) -> LogOptions {
    LogOptions { min_duration: args.log_min_duration, values: args.log_values }
}
