//! `atoll check`: verifies the files of a database that is not open.

use atoll::inspect;

use crate::args::{CheckArgs, GlobalArgs};
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::size::{bytes, count, counted};

/// Runs the command.
///
/// # Errors
/// A folder that is no database or cannot be read, and damage.
pub fn run(args: &CheckArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("check")?;
    global.refuse_nodes("`atoll check`")?;
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
            files => format!(", {}", counted(files, "archived file")),
        };
        output.line(&format!(
            "{}, {} at home, {} in the logs ({}){archived}: {} damaged",
            counted(checkpoints, "checkpoint"),
            counted(home_blocks, "block"),
            count(log_blocks),
            bytes(log_bytes),
            count(report.damages.len() as u64)
        ))?;
    }
    match report.damages.len() {
        0 => Ok(()),
        found => Err(CliError::with_hint(
            match found {
                1 => "1 place is damaged".to_owned(),
                found => format!("{} places are damaged", count(found as u64)),
            },
            "restore the database from a backup; do not write to it before you have a copy",
        )),
    }
}
