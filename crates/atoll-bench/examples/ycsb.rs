//! YCSB without the command line's program, which takes minutes to build: the arguments of
//! `atoll bench ycsb`, and its report, for people or for programs.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use atoll_bench::progress::Unwatched;
use atoll_bench::ycsb::{self, YcsbArgs};
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: YcsbArgs,
    /// Write the whole report
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = Line::parse();
    let report = ycsb::run(&line.args, &mut Unwatched)?;
    if line.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("{report}");
    Ok(())
}
