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
    let report = inspect::check(&args.folder, args.archive.as_deref())?;
    if output.json {
        output.json(&report)?;
    } else {
        for damage in &report.damages {
            output.line(&damage.to_string())?;
        }
        let inspect::CheckReport { checkpoints, home_blocks, log_blocks, log_bytes, .. } = report;
        let archived = match report.archived_files {
            0 => String::new(),
            files => format!(", {files} archived files"),
        };
        output.line(&format!(
            "{checkpoints} checkpoints, {home_blocks} blocks at home, {log_blocks} in the logs \
             ({log_bytes} bytes){archived}: {} damaged",
            report.damages.len()
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
