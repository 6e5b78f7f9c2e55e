//! The arguments of a command line, with those of its configuration file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};

use super::file::{Mistake, read};
use super::options::{self, is_said, key_of};
use crate::args::Cli;
use crate::error::{CliError, Result};

/// The arguments, and the options among them that come from a file.
#[derive(Debug)]
pub struct Line {
    pub arguments: Vec<OsString>,
    pub file: Option<PathBuf>,
    /// Their names, with underscores.
    pub from_file: Vec<String>,
}

/// The arguments of this process, with those of the file that they name.
///
/// # Errors
/// The file cannot be read, or has mistakes.
pub fn of_command_line(arguments: Vec<OsString>) -> Result<Line> {
    let plain = |arguments| Line { arguments, file: None, from_file: Vec::new() };
    // What is wrong with them is told when all of them are there.
    let partial = Cli::command().ignore_errors(true).try_get_matches_from(&arguments);
    let Ok(partial) = partial else { return Ok(plain(arguments)) };
    let Some((matches, file)) = of_serve(&partial).and_then(|matches| {
        let file = matches.try_get_one::<PathBuf>("config").ok()??;
        Some((matches, file.clone()))
    }) else {
        return Ok(plain(arguments));
    };
    let config = read(&file)?.map_err(|mistakes| refused(&file, &mistakes))?;
    let given = given(matches);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let more = options::arguments(&config, &given);
    let from_file = config
        .entries()
        .into_iter()
        .filter(|(key, value)| is_said(value) && !given.contains(&key.name.as_str()));
    let from_file = from_file.map(|(key, _)| key.name).collect();
    // Behind `--` they would be no options.
    let at = arguments.iter().position(|one| one == "--").unwrap_or(arguments.len());
    let (before, behind) = arguments.split_at(at);
    let arguments = [before, &more, behind].concat();
    Ok(Line { arguments, file: Some(file), from_file })
}

/// The matches of the command that serves, or shows how it would.
pub fn of_serve(matches: &ArgMatches) -> Option<&ArgMatches> {
    match matches.subcommand()? {
        ("serve", serve) => Some(serve),
        ("config", config) => match config.subcommand()? {
            ("show", show) => Some(show),
            _ => None,
        },
        _ => None,
    }
}

/// The options, by their names with underscores, that a command line has.
fn given(matches: &ArgMatches) -> Vec<String> {
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand("serve");
    let arguments = serve.into_iter().flat_map(clap::Command::get_arguments);
    let arguments = arguments.filter(|argument| {
        let id = argument.get_id().as_str();
        // Asked of an argument that there is not, it would panic.
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    arguments.map(key_of).collect()
}

fn refused(file: &Path, mistakes: &[Mistake]) -> CliError {
    let first = mistakes.first();
    let place = match first.and_then(|mistake| mistake.line) {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    };
    let message = first.map_or("", |mistake| mistake.message.as_str());
    let message = match mistakes.len() {
        0 | 1 => format!("{place}: {message}"),
        count => format!("{place}: {message} (and {} more)", count - 1),
    };
    let check = format!("atoll config check {}", file.display());
    let hint = first.and_then(|mistake| mistake.hint.clone()).filter(|_| mistakes.len() == 1);
    CliError::with_hint(message, hint.unwrap_or(format!("{check} says all that is wrong")))
}
