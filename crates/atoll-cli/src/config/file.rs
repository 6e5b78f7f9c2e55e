//! What is wrong in a configuration file.

use std::ops::Range;
use std::path::Path;

use clap::Parser;
use serde::Serialize;
use serde_json::{Value as Json, json};
use toml::de::{DeTable, DeValue};

use super::keys::{Config, Key, keys};
use super::options;
use crate::args::{Cli, Command};
use crate::error::{CliError, Result};

/// Something that is wrong in a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The line, from 1; none for what several keys have in common.
    pub line: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

/// Reads a file, with all that is wrong in it.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<std::result::Result<Config, Vec<Mistake>>> {
    let text = std::fs::read_to_string(path).map_err(CliError::reading(path))?;
    Ok(parse(&text).and_then(|config| match together(&config) {
        Some(mistake) => Err(vec![mistake]),
        None => Ok(config),
    }))
}

/// What the values have in common that cannot be: as for the command line.
fn together(config: &Config) -> Option<Mistake> {
    let mut arguments = vec!["atoll".into(), "serve".into()];
    arguments.extend(options::arguments(config, &[]));
    if config.name.is_none() {
        arguments.push("name".into());
    }
    let error = match Cli::try_parse_from(arguments) {
        Ok(Cli { command: Command::Serve(args), .. }) => {
            let (message, hint) = args.contradiction()?;
            let (message, hint) = (message.to_owned(), Some(hint.to_owned()));
            return Some(Mistake { line: None, message, hint });
        }
        Ok(_) => return None,
        Err(error) => error,
    };
    let text = error.to_string();
    let mut lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let first = lines.next().unwrap_or_default();
    let rest = lines.map(str::trim).filter(|line| !line.is_empty());
    let message = std::iter::once(first.trim_start_matches("error: ")).chain(rest);
    let message = message.collect::<Vec<_>>().join(" ");
    let hint = Some("a key has the name of the option, with underscores".to_owned());
    Some(Mistake { line: None, message, hint })
}

fn parse(text: &str) -> std::result::Result<Config, Vec<Mistake>> {
    let line_of =
        |place: Range<usize>| text[..place.start.min(text.len())].matches('\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mistake = |error: toml::de::Error| Mistake {
            line: error.span().map(line_of),
            message: error.message().replace('\n', " "),
            hint: Some("the file is in TOML (https://toml.io)".to_owned()),
        };
        return Err(errors.into_iter().map(mistake).collect());
    }
    let mut mistakes = Vec::new();
    let known = keys();
    let mut check = |section: Option<&str>, name: &str, key: Range<usize>, value: Value<'_>| {
        if let Err((message, hint)) = value.check(&known, section, name) {
            mistakes.push(Mistake { line: Some(line_of(key)), message, hint });
        }
    };
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        let is_section = known.iter().any(|known| known.section.as_deref() == Some(name));
        match value.get_ref() {
            DeValue::Table(section) if is_section => {
                for (key, value) in section {
                    let found = Value(value.get_ref());
                    check(Some(name), key.get_ref(), key.span(), found);
                }
            }
            found => {
                let found = Value(found);
                check(None, name, key.span(), found);
            }
        }
    }
    mistakes.sort_by_key(|mistake| mistake.line);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let whole = json_of(&DeValue::Table(table.into_inner()));
    serde_json::from_value(whole)
        .map_err(|error| vec![Mistake { line: None, message: error.to_string(), hint: None }])
}

/// A value of TOML in the form that `serde` reads here.
fn json_of(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => Json::from(text.as_ref()),
        DeValue::Integer(number) => {
            let read = i64::from_str_radix(number.as_str(), number.radix());
            read.map_or_else(|_| Json::from(number.as_str()), Json::from)
        }
        DeValue::Float(number) => Json::from(number.as_str()),
        DeValue::Boolean(is_on) => Json::from(*is_on),
        DeValue::Datetime(moment) => Json::from(moment.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(values) => {
            let each = values.iter();
            let each =
                each.map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref())));
            Json::Object(each.collect())
        }
    }
}

/// A value in a file.
struct Value<'v>(&'v DeValue<'v>);

/// A message and a hint.
type Told = (String, Option<String>);

impl Value<'_> {
    /// Checks that there is such a key, and that this is a value of it.
    fn check(
        &self,
        known: &[Key],
        section: Option<&str>,
        name: &str,
    ) -> std::result::Result<(), Told> {
        let is_here = |key: &&Key| key.section.as_deref() == section;
        if !known.iter().filter(is_here).any(|key| key.name == name) {
            return Err(self.unknown(known, section, name));
        }
        if self.0.is_table() {
            return Err((format!("{name} is a value, not a section"), None));
        }
        let alone = json!({ name: json_of(self.0) });
        let alone = section.map_or(alone.clone(), |section| json!({ section: alone }));
        match serde_json::from_value::<Config>(alone) {
            Ok(_) => Ok(()),
            Err(error) => Err((format!("{name}: {error}"), options::help(name))),
        }
    }

    fn unknown(&self, known: &[Key], section: Option<&str>, name: &str) -> Told {
        let message = match section {
            Some(section) => format!("there is no key {name} in [{section}]"),
            None if self.0.is_table() => format!("there is no section [{name}]"),
            None => format!("there is no key {name} above the sections"),
        };
        let is_called = |key: &&Key| key.name == name;
        let hint = match known.iter().find(is_called) {
            Some(Key { section: Some(section), .. }) => format!("it belongs to [{section}]"),
            Some(Key { section: None, .. }) => "it belongs above all sections".to_owned(),
            None if section.is_none() && self.0.is_table() => {
                let mut sections: Vec<_> =
                    known.iter().filter_map(|key| key.section.as_deref()).collect();
                sections.dedup();
                format!("the sections are {}", sections.join(", "))
            }
            None => {
                let here = known.iter().filter(|key| key.section.as_deref() == section);
                let here: Vec<&str> = here.map(|key| key.name.as_str()).collect();
                format!("the keys there are {}", here.join(", "))
            }
        };
        (message, Some(hint))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const EXAMPLE: &str = include_str!("../../../../docs/server.toml");

    fn mistakes(text: &str) -> Vec<(Option<usize>, String)> {
        let found = parse(text).unwrap_err().into_iter();
        found.map(|mistake| (mistake.line, mistake.message)).collect()
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        let text = "nam = 'x'\n[server]\nport = 99999\n\nmax_connections = 2\ndata = 'x'\n\
                    listen = ['here']\n[servers]\na = 1\n";
        let told = mistakes(text);
        let lines: Vec<_> = told.iter().map(|(line, _)| line.unwrap()).collect();
        assert_eq!(lines, [1, 3, 5, 6, 7, 8], "{told:?}");
        for ((_, message), word) in told.iter().zip([
            "no key nam",
            "port",
            "from 4 to 100000",
            "no key data in [server]",
            "an address such as",
            "no section [servers]",
        ]) {
            assert!(message.contains(word), "{message}: {word}");
        }
        let hint = parse("[server]\ndata = 'x'").unwrap_err().remove(0).hint;
        assert_eq!(hint.as_deref(), Some("it belongs to [database]"));
        assert_eq!(mistakes("a = \n[server]\nport =").len(), 2);
        assert_eq!(mistakes("[server]\nport = 1\nport = 2")[0].0, Some(3));
    }

    #[test]
    fn values_that_do_not_go_together_are_told() {
        let config = parse("[database]\ndurability = 'strict'").unwrap();
        let mistake = together(&config).unwrap();
        assert!(mistake.message.contains("--data"), "{mistake:?}");
        let config = parse("[database]\ndurability = 'group 5ms'\ndata = 'x'").unwrap();
        assert_eq!(together(&config), None);
    }

    #[test]
    fn the_example_has_all_keys() {
        // What is commented out there is the default, or an example.
        let is_key =
            |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let lines = EXAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(is_key).unwrap_or(line).to_owned() + "\n");
        let config = parse(&lines.collect::<String>()).unwrap();
        for (key, value) in config.entries() {
            assert!(!value.is_null() && value != Json::Array(Vec::new()), "{key:?}");
        }
    }
}
