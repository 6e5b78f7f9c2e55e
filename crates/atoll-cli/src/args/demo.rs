//! Arguments of `demo`.

use std::path::PathBuf;

use clap::Args;

use super::owner::OwnerArgs;

/// `atoll demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll demo                            in the root of the repository
  atoll demo --python .venv/bin/python --seconds 10
  atoll demo --json                     the summary on one line, for programs

The demo needs Python with the package atolldb and what demo/requirements.txt names. While it runs,
look at it from another terminal: atoll snapshots board, or atoll attach board.")]
pub struct DemoArgs {
    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// Folder with the demo's Parquet files; the Python programs are in the folder above
    #[arg(long, value_name = "DIR", default_value = "demo/data")]
    pub flights: PathBuf,
    /// Folder for the charts and summary.json
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Python interpreter [default: $ATOLL_PYTHON, else .venv/bin/python, else python3]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// Threads that run transactions [default: the cores of the machine, at least 2, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Seconds that are measured before and after the snapshots, and at least while they are held
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub seconds: u16,
}
