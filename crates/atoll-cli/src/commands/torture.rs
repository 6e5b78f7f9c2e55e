//! `atoll torture`: looks for anomalies; told on the standard error output while it runs.

use atoll_bench::torture::{self, TortureArgs};

use super::progress::Progress;
use crate::args::GlobalArgs;
use crate::error::{CliError, Result};
use crate::output::{Output, Style};

/// Runs the command.
///
/// # Errors
/// Arguments that make no sense, and anomalies.
pub fn run(args: &TortureArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("torture")?;
    let mut progress = Progress::new(Style::of_stderr(global.color));
    let report = torture::run(args, &mut progress);
    drop(progress);
    let report = report?;
    if output.json {
        output.json(&report)?;
    } else {
        output.line(report.to_string().trim_end())?;
    }
    match report.anomalies() {
        0 => Ok(()),
        found => Err(CliError::with_hint(
            format!("{found} anomalies were found"),
            "the report names the seed of each; run it again with --first-seed SEED --seeds 1",
        )),
    }
}
