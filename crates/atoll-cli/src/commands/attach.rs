//! `atoll attach`: read a snapshot of a database that another process owns.

use crate::args::{AttachArgs, GlobalArgs};
use crate::error::Result;
use crate::output::Output;
use crate::session::Session;
use crate::shell::Shell;

/// Runs the command.
///
/// # Errors
/// A name without an owner, a snapshot that is refused, and the first error of a script.
pub fn run(args: &AttachArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_database_limits("attach")?;
    global.refuse_nodes("`atoll attach`")?;
    let session = Session::attach(&args.name, global.runtime_dir.as_deref())?;
    Shell::new(session, output).run(&args.script)
}
