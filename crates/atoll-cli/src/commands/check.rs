//! `atoll check`: verifies the files of a database that is not open.

use atoll::inspect;

use crate::args::{CheckArgs, GlobalArgs};
use crate::error::{CliError, Result};
use crate::output::Output;

/// Runs the command.
///
/// # Errors
/// A folder that is no database or cannot be read, and damage.
pub fn run(args: &CheckArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("check")?;
    let report = inspect::check(&args.folder)?;
    if output.json {
        output.json(&report)?;
    } else {
        for damage in &report.damages {
            output.line(damage)?;
        }
        let inspect::CheckReport { checkpoints, home_blocks, log_blocks, log_bytes, damages } =
            &report;
        output.line(&format!(
            "{checkpoints} checkpoints, {home_blocks} blocks at home, {log_blocks} in the logs \
             ({log_bytes} bytes): {} damaged",
            damages.len()
        ))?;
    }
    match report.damages.len() {
        0 => Ok(()),
        found => Err(CliError::with_hint(
            format!("{found} places are damaged"),
            "restore the database from a backup; do not write to it before you have a copy",
        )),
    }
}
