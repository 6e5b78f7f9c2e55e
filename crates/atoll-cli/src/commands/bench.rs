//! `atoll bench`: benchmarks, told on the standard error output while they run.

use atoll_bench::snapshot;

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
            let report = snapshot::run(&args, &mut progress)?;
            if output.json {
                return Ok(output.json(&report)?);
            }
            Ok(output.line(report.to_string().trim_end())?)
        }
    }
}
