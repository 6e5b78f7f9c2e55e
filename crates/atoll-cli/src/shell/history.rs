//! The lines that were typed before: `$XDG_STATE_HOME/atoll/history`, or
//! `~/.local/state/atoll/history`.
//!
//! A history that cannot be read or written costs a warning and nothing else: the shell works
//! without. Shells that run at once append, so none loses another's lines.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Editor, Helper};

/// Lines that are kept.
pub const LINES_MAX: usize = 10_000;

/// Path of the history; `None` without a home directory.
pub fn path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    choose(variable("XDG_STATE_HOME"), variable("HOME"))
}

/// The XDG rules say to ignore a relative path.
fn choose(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let state = state.filter(absolute);
    let folder = state.or_else(|| Some(home.filter(absolute)?.join(".local/state")))?;
    Some(folder.join("atoll/history"))
}

/// Reads the history into an editor.
///
/// # Errors
/// Why it cannot be read; a file that does not exist is an empty history.
pub fn load<H: Helper>(editor: &mut Editor<H, FileHistory>) -> Result<(), ReadlineError> {
    let Some(path) = path() else { return Ok(()) };
    match editor.load_history(&path) {
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Appends the lines typed since the last call to the file.
///
/// # Errors
/// Why it cannot be written.
pub fn save<H: Helper>(editor: &mut Editor<H, FileHistory>) -> Result<(), ReadlineError> {
    let Some(path) = path() else { return Ok(()) };
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    editor.append_history(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_lies_where_the_xdg_rules_say() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(choose(path("/s"), path("/h")), path("/s/atoll/history"));
        assert_eq!(choose(path("s"), path("/h")), path("/h/.local/state/atoll/history"));
        assert_eq!(choose(None, path("/h")), path("/h/.local/state/atoll/history"));
        assert_eq!(choose(None, None), None);
    }
}
