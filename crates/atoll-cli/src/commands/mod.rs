//! The commands of `atoll`, one module each.

pub mod attach;
pub mod bench;
pub mod check;
pub mod list;
pub mod load;
pub mod log;
pub mod nodes;
pub mod progress;
pub mod restore;
pub mod snapshots;
pub mod sql;
pub mod torture;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ScriptArgs;
use crate::error::{CliError, Result};
use crate::output::say;
use crate::shell::Shell;

/// Runs the scripts of a command that owns a database, lets others or the person before the
/// terminal work on it, and closes it at last.
///
/// # Errors
/// The first error of a script, and what could not be made durable, or archived.
pub fn work(shell: &mut Shell<'_>, name: &str, serves: bool, script: &ScriptArgs) -> Result<()> {
    let database = shell.session().database()?.clone();
    if serves {
        shell.run_scripts(script)?;
        serve(name)?;
    } else {
        shell.run(script)?;
    }
    Ok(database.close()?)
}

/// Keeps a published database until Ctrl-C or a request to terminate.
///
/// # Errors
/// Signals that cannot be waited for.
fn serve(name: &str) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| CliError::new(format!("cannot wait for Ctrl-C: {error}")))?;
    say(&format!("serving {name}; Ctrl-C ends this process, which owns it"));
    let _ = signals.forever().next();
    Ok(())
}
