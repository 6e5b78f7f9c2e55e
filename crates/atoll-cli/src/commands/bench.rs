//! `atoll bench`: benchmarks, told on the standard error output while they run.

use std::fmt::Display;

use atoll_bench::{floor, snapshot, timestamps, tpcb, tpcc, ycsb};
use serde::Serialize;

use crate::args::{Bench, BenchArgs, GlobalArgs};
use crate::error::Result;
use crate::output::{Output, Style, say};

/// Runs the command.
///
/// # Errors
/// A benchmark that does not fit this machine, or whose result is wrong.
pub fn run(args: &BenchArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("bench")?;
    let style = Style::of_stderr(global.color);
    let mut progress = |doing: &str| say(&style.dim(doing));
    match &args.bench {
        Bench::Snapshot(args) => {
            let mut args = args.clone();
            args.runtime_dir = args.runtime_dir.or_else(|| global.runtime_dir.clone());
            show(output, &snapshot::run(&args, &mut progress)?)
        }
        Bench::Ycsb(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            show(output, &ycsb::run(&args, &mut progress)?)
        }
        Bench::Tpcb(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            show(output, &tpcb::run(&args, &mut progress)?)
        }
        Bench::Tpcc(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            show(output, &tpcc::run(&args, &mut progress)?)
        }
        Bench::Timestamps(args) => show(output, &timestamps::run(args, &mut progress)?),
        Bench::Floor(args) => show(output, &floor::run(args, &mut progress)?),
    }
}

/// Writes a report, for a program or for a person.
fn show(output: &mut Output, report: &(impl Serialize + Display)) -> Result<()> {
    if output.json {
        return Ok(output.json(report)?);
    }
    Ok(output.line(report.to_string().trim_end())?)
}
