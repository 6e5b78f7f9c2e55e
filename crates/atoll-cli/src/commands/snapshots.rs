//! `atoll snapshots`: the snapshots of a database, their holders and their costs, and where the
//! memory of its owner is.

use crate::args::{GlobalArgs, SnapshotsArgs};
use crate::error::Result;
use crate::output::Output;
use crate::render::{memory, snapshots};

/// Runs the command.
///
/// # Errors
/// A name without an owner, and an owner that does not answer.
pub fn run(args: &SnapshotsArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("snapshots")?;
    global.refuse_nodes("`atoll snapshots`")?;
    let attachment = atoll::attach(&args.name, global.runtime_dir.as_deref())?;
    let status = attachment.status()?;
    if output.json {
        return Ok(output.json(&status)?);
    }
    snapshots::write(output, &status.snapshots)?;
    memory::write(output, &status.memory)
}
