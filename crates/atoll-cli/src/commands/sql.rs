//! `atoll sql`: own a database and work on it.

use crate::args::{GlobalArgs, SqlArgs};
use crate::commands::work;
use crate::error::Result;
use crate::output::Output;
use crate::session::Session;
use crate::shell::Shell;

/// Runs the command.
///
/// # Errors
/// A name that is taken, limits that cannot be had, and the first error of a script.
pub fn run(args: &SqlArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let session = Session::own(&args.name, &args.owner, global)?;
    let mut shell = Shell::new(session, output);
    work(&mut shell, &args.name, args.serve, &args.script)
}
