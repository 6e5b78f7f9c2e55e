//! The commands of `atoll`, one module each.

pub mod attach;
pub mod backup;
pub mod bench;
pub mod check;
pub mod config;
pub mod dump;
pub mod list;
pub mod load;
pub mod log;
pub mod nodes;
mod notify;
pub mod restore;
pub mod serve;
pub mod snapshots;
pub mod sql;
mod sql_connection;
pub mod torture;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ScriptArgs;
use crate::error::{CliError, Result};
use crate::output::say;
use crate::shell::Shell;

/// Runs the scripts of a command that owns a database, serves it or opens a shell, and closes it at
/// last.
///
/// # Errors
/// The first error of a script, and failures to make the database durable or to archive it.
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

/// Keeps a published database until Ctrl-C, a request to terminate, or the end of its terminal
/// (unless that signal is ignored, as under `nohup`).
///
/// # Errors
/// Signals that cannot be waited for.
fn serve(name: &str) -> Result<()> {
    let signals = signals()?;
    say(&format!("serving {name}; Ctrl-C ends this process, which owns it"));
    wait(signals);
    Ok(())
}

/// Waits for Ctrl-C or its like.
///
/// # Errors
/// Signals that cannot be waited for.
fn wait_for_end() -> Result<()> {
    wait(signals()?);
    Ok(())
}

fn wait(mut signals: Signals) {
    let _ = signals.forever().next();
}

fn signals() -> Result<Signals> {
    let ends = [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP));
    Signals::new(ends).map_err(|error| CliError::new(format!("cannot wait for Ctrl-C: {error}")))
}

/// Whether this process ignores a signal; false if that is unknown.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signals that a process ignores, a bit for each, from the status that the kernel reports.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGKILL, SIGPIPE};

    use super::*;

    #[test]
    fn ignored_signals_are_found_in_the_status_of_a_process() {
        let status = "Name:\tatoll\nSigBlk:\t0000000000000002\nSigIgn:\t0000000001001001\n";
        assert_eq!(ignored(status), Some(0x100_1001));
        assert_eq!(ignored("Name:\tatoll\n"), None);
        // Rust ignores the one; the other cannot be ignored.
        assert!(is_ignored(SIGPIPE));
        assert!(!is_ignored(SIGKILL));
    }
}
