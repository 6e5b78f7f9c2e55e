//! The options that keys stand for.

use std::ffi::OsString;

use clap::CommandFactory;
use serde_json::Value as Json;

use super::keys::Config;
use crate::args::Cli;

/// The key of an option.
pub fn key_of(argument: &clap::Arg) -> String {
    argument.get_long().map_or(argument.get_id().to_string(), |long| long.replace('-', "_"))
}

/// What the help of an option says.
pub fn help(key: &str) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    let argument = command.find_subcommand("serve")?.get_arguments().find(|one| key_of(one) == key);
    argument?.get_help().map(ToString::to_string)
}

/// Whether a key has a value that says something.
pub fn is_said(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// The arguments that say what a file says, without those of these keys.
pub fn arguments(config: &Config, without: &[&str]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for (key, value) in config.entries() {
        if without.contains(&key.name.as_str()) || !is_said(&value) {
            continue;
        }
        let option = format!("--{}", key.name.replace('_', "-"));
        let text = |value: &Json| match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        match &value {
            Json::Bool(_) => arguments.push(option.into()),
            Json::Array(items) => {
                arguments
                    .extend(items.iter().map(|item| format!("{option}={}", text(item)).into()));
            }
            one if key.name == "name" => arguments.push(text(one).into()),
            one => arguments.push(format!("{option}={}", text(one)).into()),
        }
    }
    arguments
}
