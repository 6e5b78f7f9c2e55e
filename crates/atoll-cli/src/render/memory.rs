//! The account of a database's memory, as `atoll snapshots` and the shell show it.

use atoll::MemoryAccount;

use crate::error::Result;
use crate::output::Output;
use crate::render::table::{Align, Grid};
use crate::size;

/// Writes an account for people.
///
/// # Errors
/// Those of writing.
pub fn write(output: &mut Output, account: &MemoryAccount) -> Result<()> {
    let parts = [
        ("tables", account.tables_bytes),
        ("kept for snapshots", account.kept_bytes),
        ("free in the store", account.free_bytes),
        ("row headers", account.headers_bytes),
        ("indexes", account.indexes_bytes),
        ("heap", account.heap_bytes),
        ("free in the heap", account.heap_free_bytes),
        ("the process, for the system", account.process_bytes),
    ];
    let mut grid = Grid::new([("memory", Align::Left), ("bytes", Align::Right)]);
    for (name, bytes) in parts {
        grid.push(vec![Some(name.to_owned()), Some(size::bytes(bytes))]);
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    Ok(())
}
