//! `atoll bench`: benchmarks, with progress on the standard error output.

use std::fmt::Display;

use atoll::{Database, DatabaseOptions};
use atoll_bench::durable::{checkpoint, commit, recovery};
use atoll_bench::statements::StatementsReport;
use atoll_bench::{BenchError, floor, load, snapshot, statements, timestamps, tpcb, tpcc, ycsb};
use serde::Serialize;

use super::sql_connection::SqlConnection;
use crate::args::{Bench, BenchArgs, GlobalArgs, StatementsArgs};
use crate::error::Result;
use crate::output::{Output, Style};
use crate::progress::Progress;

/// Runs the command.
///
/// # Errors
/// A benchmark that does not fit this machine, or with a wrong result.
pub fn run(args: &BenchArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("bench")?;
    if !matches!(args.bench, Bench::Ycsb(_) | Bench::Tpcb(_) | Bench::Tpcc(_)) {
        global.refuse_nodes("this benchmark")?;
    }
    let mut progress = Progress::new(Style::of_stderr(global.color));
    match &args.bench {
        Bench::Snapshot(args) => {
            let mut args = args.clone();
            args.runtime_dir = args.runtime_dir.or_else(|| global.runtime_dir.clone());
            show(output, snapshot::run(&args, &mut progress), progress)
        }
        Bench::Ycsb(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            show(output, ycsb::run(&args, &mut progress), progress)
        }
        Bench::Tpcb(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            show(output, tpcb::run(&args, &mut progress), progress)
        }
        Bench::Tpcc(args) => {
            let mut args = args.clone();
            args.oltp.nodes = global.nodes;
            let report = match args.sql {
                true => tpcc::run_sql(&args, SqlConnection::new, &mut progress),
                false => tpcc::run(&args, &mut progress),
            };
            show(output, report, progress)
        }
        Bench::Statements(args) => {
            let report = statements(args, &mut progress);
            show(output, report, progress)
        }
        Bench::Timestamps(args) => show(output, timestamps::run(args, &mut progress), progress),
        Bench::Floor(args) => show(output, floor::run(args, &mut progress), progress),
        Bench::Load(args) => show(output, load::run(args, &mut progress), progress),
        Bench::Commit(args) => show(output, commit::run(args, &mut progress), progress),
        Bench::Recovery(args) => show(output, recovery::run(args, &mut progress), progress),
        Bench::Checkpoint(args) => show(output, checkpoint::run(args, &mut progress), progress),
    }
}

/// Times statements on a database in memory.
fn statements(
    args: &StatementsArgs,
    progress: &mut Progress,
) -> std::result::Result<StatementsReport, BenchError> {
    let options = DatabaseOptions { scheme: args.scheme, ..atoll_sql::database_options() };
    let db = Database::create(options)?;
    statements::run(&mut SqlConnection::new(&db)?, &args.run, progress)
}

/// Writes a report after its progress was cleared from the screen.
fn show<R: Serialize + Display>(
    output: &mut Output,
    report: std::result::Result<R, BenchError>,
    progress: Progress,
) -> Result<()> {
    drop(progress);
    tell(output, &report?)
}

/// Writes a report, for a program or for a person.
pub(super) fn tell<R: Serialize + Display>(output: &mut Output, report: &R) -> Result<()> {
    if output.json {
        return Ok(output.json(report)?);
    }
    Ok(output.line(report.to_string().trim_end())?)
}
