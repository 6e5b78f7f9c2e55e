//! `atoll restore`: makes a database as it was at a moment.

use atoll::{RestoreReport, Until, restore};

use crate::args::{GlobalArgs, OwnerArgs, RestoreArgs};
use crate::error::Result;
use crate::output::Output;
use crate::size;

/// Runs the command.
///
/// # Errors
/// Those of [`restore::restore`].
pub fn run(args: &RestoreArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let until = match (args.to, args.to_gsn) {
        (Some(time), _) => Until::Time(time),
        (None, Some(gsn)) => Until::Gsn(gsn),
        (None, None) => Until::Latest,
    };
    let (node_folders, scheme) = (args.node_folders.clone(), args.scheme);
    let owner = OwnerArgs { node_folders, scheme, ..OwnerArgs::default() };
    let from = (args.backup.as_path(), args.archive.as_path(), args.logs.as_deref());
    let report = restore::restore(from, &args.new, until, global.database_options(&owner))?;
    if output.json {
        return Ok(output.json(&report)?);
    }
    let RestoreReport { gsn, moment, log_bytes, recovery, .. } = report;
    let (rows, redone, bytes) = (recovery.rows, recovery.redone, size::bytes(log_bytes));
    output.line(&format!(
        "{rows} rows, with {redone} transactions from {bytes} of logs, up to GSN {gsn}; the last \
         moment in it is {moment}"
    ))?;
    Ok(())
}
