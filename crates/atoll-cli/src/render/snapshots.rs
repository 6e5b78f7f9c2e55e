//! The list of the snapshots of a database, as `atoll snapshots` and the shell show it.

use std::time::Duration;

use atoll::SnapshotInfo;

use crate::error::Result;
use crate::output::Output;
use crate::render::table::{Align, Grid};
use crate::size;

/// Writes a list of snapshots.
///
/// # Errors
/// Those of writing.
pub fn write(output: &mut Output, held: &[SnapshotInfo]) -> Result<()> {
    if output.json {
        return Ok(output.json(&held)?);
    }
    if held.is_empty() {
        return Ok(output.line("no snapshots are held")?);
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut grid = Grid::new([
        ("id", right),
        ("pid", right),
        ("command", left),
        ("age", right),
        ("epoch", right),
        ("shared", right),
        ("copied", right),
        ("kept", right),
        ("state", left),
    ]);
    for info in held {
        let age = Duration::try_from_secs_f64(info.age_s).unwrap_or_default();
        let cells = [
            info.id.to_string(),
            info.pid.to_string(),
            info.command.clone(),
            size::age(age),
            info.epoch.to_string(),
            size::bytes(info.bytes_shared),
            size::bytes(info.bytes_copied),
            size::bytes(info.bytes_kept),
            info.state.clone(),
        ];
        grid.push(cells.into_iter().map(Some).collect());
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    Ok(())
}
