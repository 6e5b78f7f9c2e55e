//! `atoll torture` without the rest of the command, for work on the engine. Prints what a run found
//! as JSON.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use atoll_bench::BenchError;
use atoll_bench::progress::Unwatched;
use atoll_torture::TortureArgs;
use clap::Parser;

#[derive(Parser)]
struct Torture {
    #[command(flatten)]
    args: TortureArgs,
}

fn main() -> Result<(), BenchError> {
    let report = atoll_torture::run(&Torture::parse().args, &mut Unwatched)?;
    println!("{}", serde_json::to_string(&report).unwrap());
    Ok(())
}
