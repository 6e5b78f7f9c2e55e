//! `atoll torture`: looks for anomalies, with progress on the standard error output.

use atoll_torture::TortureArgs;
use atoll_torture::crash::{self, CrashArgs};

use super::bench::tell;
use crate::args::{GlobalArgs, OtherTorture, TortureCommand};
use crate::error::{CliError, Result};
use crate::output::{Output, Style};
use crate::progress::Progress;

/// Runs the command.
///
/// # Errors
/// Arguments that make no sense, and anomalies.
pub fn run(args: &TortureCommand, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("torture")?;
    global.refuse_nodes("`atoll torture`")?;
    match &args.other {
        None => schedules(&args.schedules, global, output),
        Some(OtherTorture::Crash(args)) => crashes(args, global, output),
    }
}

fn schedules(args: &TortureArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let mut progress = Progress::new(Style::of_stderr(global.color));
    let report = atoll_torture::run(args, &mut progress);
    drop(progress);
    let report = report?;
    tell(output, &report)?;
    match report.anomalies() {
        0 => Ok(()),
        found => Err(CliError::with_hint(
            format!("{found} anomalies were found"),
            "the report names the seed of each; run it again with --first-seed SEED --seeds 1",
        )),
    }
}

fn crashes(args: &CrashArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let mut progress = Progress::new(Style::of_stderr(global.color));
    let report = crash::run(args, &mut progress);
    drop(progress);
    let report = report?;
    tell(output, &report)?;
    match report.violations {
        0 => Ok(()),
        found => Err(CliError::with_hint(
            format!("{found} crashes left something wrong"),
            "the report names the seed and the event of each",
        )),
    }
}
