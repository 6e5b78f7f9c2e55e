//! `atoll sql`: own a database and work on it.

use crate::args::{GlobalArgs, SqlArgs};
use crate::commands::serve;
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
    let database = session.database()?.clone();
    let mut shell = Shell::new(session, output);
    if args.serve {
        shell.run_scripts(&args.script)?;
        serve(&args.name)?;
    } else {
        shell.run(&args.script)?;
    }
    // So that what could not be made durable, or archived, is told.
    Ok(database.close()?)
}
