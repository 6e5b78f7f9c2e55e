//! `atoll bench snapshot` as a program of its own, for work on the engine without the command line.

use std::process::ExitCode;

use atoll_bench::progress::Unwatched;
use atoll_bench::snapshot::{self, SnapshotArgs};
use clap::Parser;

/// What snapshots cost
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: SnapshotArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    snapshot::reader_main_if_asked();
    let cli = Cli::parse();
    let report = match snapshot::run(&cli.args, &mut Unwatched) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("snapshot: {error}");
            return ExitCode::FAILURE;
        }
    };
    if cli.json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("snapshot: the report cannot be written as JSON: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{report}");
    }
    ExitCode::SUCCESS
}
