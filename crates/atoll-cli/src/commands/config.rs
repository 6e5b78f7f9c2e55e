//! `atoll config`: checks a configuration file, and shows what it and the command line say.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use serde::Serialize;
use serde_json::Value as Json;

use crate::args::{Cli, ConfigCommand};
use crate::config::{self, Key, Line};
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::size::counted;

/// Column of the remark behind a value.
const REMARK_COLUMN: usize = 44;

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, or that has mistakes.
pub fn run(command: &ConfigCommand, line: &Line, output: &mut Output) -> Result<()> {
    match command {
        ConfigCommand::Check { file } => {
            let mistakes = config::read(file)?.err().unwrap_or_default();
            if output.json {
                output.json(&mistakes)?;
            } else {
                for mistake in &mistakes {
                    let line = mistake.line.map_or(String::new(), |line| format!(":{line}"));
                    output.line(&format!("{}{line}: {}", file.display(), mistake.message))?;
                    if let Some(hint) = &mistake.hint {
                        output.line(&format!("    {hint}"))?;
                    }
                }
            }
            match mistakes.len() {
                0 if output.json => Ok(()),
                0 => Ok(output.line(&format!("{} is right", file.display()))?),
                found => {
                    let message =
                        format!("{} has {}", file.display(), counted(found as u64, "mistake"));
                    Err(CliError::new(message))
                }
            }
        }
        ConfigCommand::Show(_) => show(line, output),
    }
}

/// An option, as it is.
#[derive(Serialize)]
struct Shown {
    section: Option<String>,
    key: String,
    value: Option<Json>,
    /// Where it is from.
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Origin {
    CommandLine,
    File,
    Default,
    NotSet,
}

fn show(line: &Line, output: &mut Output) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let matches = command.clone().get_matches_from(&line.arguments);
    let (Some(serve), Some(matches)) =
        (command.find_subcommand("serve"), config::of_serve(&matches))
    else {
        return Ok(());
    };
    let options: Vec<(Shown, &Arg)> = config::keys()
        .into_iter()
        .filter_map(|key| {
            let argument = serve.get_arguments().find(|one| config::key_of(one) == key.name)?;
            Some((shown(key, argument, matches, line), argument))
        })
        .collect();
    if output.json {
        let options: Vec<&Shown> = options.iter().map(|(shown, _)| shown).collect();
        return Ok(output.json(&options)?);
    }
    let mut section = None;
    for (shown, argument) in &options {
        if shown.section != section {
            section.clone_from(&shown.section);
            let section = section.as_deref().unwrap_or_default();
            output.line(&format!("\n[{section}]"))?;
        }
        let set = match &shown.value {
            // These values are written alike in JSON and in TOML. A default that is said may need
            // another option beside it.
            Some(value) if shown.origin == Origin::Default => format!("# {} = {value}", shown.key),
            Some(value) => format!("{} = {value}", shown.key),
            None => format!("# {} =", shown.key),
        };
        let remark = match shown.origin {
            Origin::CommandLine => "the command line".to_owned(),
            Origin::File => {
                line.file.as_ref().map_or(String::new(), |file| file.display().to_string())
            }
            Origin::Default => "default".to_owned(),
            Origin::NotSet => {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let default = help.rsplit_once("[default: ").map(|(_, text)| text.to_owned());
                let default = default.and_then(|text| Some(text.split_once(']')?.0.to_owned()));
                default.map_or("not set".to_owned(), |text| format!("default: {text}"))
            }
        };
        output.line(&format!("{set:REMARK_COLUMN$} # {remark}"))?;
    }
    Ok(())
}

fn shown(key: Key, argument: &Arg, matches: &ArgMatches, line: &Line) -> Shown {
    let id = argument.get_id().as_str();
    let texts = matches.get_raw(id).map(|raw| raw.map(|one| one.to_string_lossy().into_owned()));
    let texts: Vec<String> = texts.map(Iterator::collect).unwrap_or_default();
    let is_flag = !argument.get_action().takes_values();
    let is_list = matches!(argument.get_action(), clap::ArgAction::Append);
    let value = match texts.as_slice() {
        _ if is_flag => Some(Json::from(matches.get_flag(id))),
        [] => None,
        texts if is_list => Some(texts.iter().map(|text| of_text(text)).collect()),
        [text, ..] => Some(of_text(text)),
    };
    let origin = match matches.value_source(id) {
        _ if line.from_file.contains(&key.name) => Origin::File,
        Some(ValueSource::CommandLine) => Origin::CommandLine,
        _ if value.is_some() => Origin::Default,
        _ => Origin::NotSet,
    };
    Shown { section: key.section, key: key.name, value, origin }
}

/// A number without quotes, and any other text with them.
fn of_text(text: &str) -> Json {
    text.parse::<i64>().map_or_else(|_| Json::from(text), Json::from)
}
