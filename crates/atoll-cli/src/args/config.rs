//! Arguments of `atoll config`.

use std::path::PathBuf;

use clap::Subcommand;

use super::serve::ServeArgs;

/// What is done with a configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say all that is wrong in a configuration file, with its lines; the status is 1 then
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show the options with which `atoll serve` would run, as a configuration file
    Show(Box<ServeArgs>),
}
