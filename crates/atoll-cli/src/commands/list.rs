//! `atoll list`: the databases of a runtime directory.

use atoll::{NameState, RuntimeDir};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::error::Result;
use crate::output::Output;
use crate::render::table::{Align, Grid};

#[derive(Serialize)]
struct Entry {
    name: String,
    state: &'static str,
    pid: Option<u32>,
    command: Option<String>,
}

#[derive(Serialize)]
struct List {
    runtime_dir: String,
    databases: Vec<Entry>,
}

/// Runs the command.
///
/// # Errors
/// A runtime directory that cannot be used.
pub fn run(global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("list")?;
    global.refuse_nodes("`atoll list`")?;
    let folder = RuntimeDir::open(global.runtime_dir.as_deref()).map_err(atoll::Error::from)?;
    let listed = folder.list().map_err(atoll::Error::from)?;
    let entries = listed.into_iter().map(|listed| Entry {
        name: listed.name,
        state: match listed.state {
            NameState::Alive => "alive",
            NameState::Stale => "stale",
        },
        command: listed.pid.and_then(command_of),
        pid: listed.pid,
    });
    let databases: Vec<Entry> = entries.collect();
    let runtime_dir = folder.path().display().to_string();
    if output.json {
        return Ok(output.json(&List { runtime_dir, databases })?);
    }
    if databases.is_empty() {
        return Ok(output.line(&format!("no databases are open in {runtime_dir}"))?);
    }
    let mut grid = Grid::new([
        ("database", Align::Left),
        ("owner", Align::Right),
        ("command", Align::Left),
        ("state", Align::Left),
    ]);
    for entry in databases {
        let pid = entry.pid.map_or_else(String::new, |pid| pid.to_string());
        let command = entry.command.unwrap_or_default();
        grid.push(vec![Some(entry.name), Some(pid), Some(command), Some(entry.state.to_owned())]);
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    Ok(())
}

/// The command line of a process, if the system shows it.
fn command_of(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    Some(words.join(" "))
}
