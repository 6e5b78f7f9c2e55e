//! Commands of the shell: lines that start with `\`, and the words `help`, `refresh`, `quit` and
//! `exit` on a line of their own.

use std::path::PathBuf;

use atoll_sql::Format;

use crate::error::{CliError, Result};
use crate::loading::{self, Job};
use crate::render::snapshots;
use crate::shell::describe::Listed;
use crate::shell::{Flow, Shell, describe, objects};
use crate::size;

/// Each command with its arguments, and what it does.
pub const COMMANDS: [(&str, &str); 24] = [
    (r"\?", "this help"),
    (r"\backup DIR", "a copy of the database in an empty folder, as it is now"),
    (r"\bind [VALUE] …", r"values of $1, $2, … in the next statement; \N is NULL"),
    (r"\checkpoint", "take a checkpoint, so that opening again is fast"),
    (r"\d [TABLE]", r"the tables, or the columns and key of one; \d+ with comments"),
    (r"\dD", "the domains"),
    (r"\di", r"the indexes; \di+ with comments"),
    (r"\dn", r"the schemas; \dn+ with comments"),
    (r"\ds", "the sequences"),
    (r"\dT", "the types of CREATE TYPE, with their labels"),
    (r"\dt [SCHEMA.*]", "the tables, or those of a schema"),
    (r"\dv", r"the views; \dv+ with comments and queries"),
    (r"\health", "problems of its files, if there are any"),
    (r"\i FILE", "run the statements of a file"),
    (r"\load FILE TABLE [KEY]", "load a CSV or Parquet file; KEY (a,b) creates the table"),
    (r"\memory", "counters and memory of the database"),
    (r"\q", "end (as Ctrl-D)"),
    (r"\refresh", "take a newer snapshot (in `atoll attach`)"),
    (r"\restrict KEY", r"refuse commands until \unrestrict KEY, as dumps do"),
    (r"\rows N|all", "how many rows of a result are shown"),
    (r"\snapshots", "the snapshots and their holders"),
    (r"\timing [on|off]", "tell how long each statement takes"),
    (r"\x [on|off]", "write each row as lines of names and values"),
    ("help, refresh, quit", "the same as \\?, \\refresh and \\q"),
];

/// A command that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    /// `\?`.
    Help,
    /// `\q`.
    Quit,
    /// `\d`, with a table or without, and `\dt`; with more or less detail.
    Describe { what: Described, more: bool },
    /// `\timing`; without a value it is turned over.
    Timing(Option<bool>),
    /// `\x`, likewise.
    Expanded(Option<bool>),
    /// `\rows`; `None` shows all.
    Rows(Option<usize>),
    /// `\i`.
    Include(PathBuf),
    /// `\load`.
    Load {
        /// The file.
        file: PathBuf,
        /// The table.
        table: String,
        /// Columns of its primary key; empty when it exists.
        key: Vec<String>,
    },
    /// `\refresh`.
    Refresh,
    /// `\snapshots`.
    Snapshots,
    /// `\memory`.
    Memory,
    /// `\health`.
    Health,
    /// `\backup`.
    Backup(PathBuf),
    /// `\bind`.
    Bind(Vec<Word>),
    /// `\restrict`.
    Restrict(String),
    /// `\unrestrict`.
    Unrestrict(String),
    /// `\checkpoint`.
    Checkpoint,
}

/// What `\d` and its kin show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// All relations, or tables only.
    List(Listed<'static>),
    /// One table or view.
    One(String),
    /// The tables of a schema.
    Schema(String),
    /// All schemas.
    Schemas,
    /// All views.
    Views,
    /// All indexes.
    Indexes,
    /// All types that statements have defined.
    Types,
    /// All domains.
    Domains,
    /// All sequences.
    Sequences,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word without its quotes.
    pub text: String,
    /// Whether it had quotes.
    pub is_quoted: bool,
}

/// Whether a line is a command and not SQL.
pub fn is_command(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('\\') || bare(line).is_some()
}

/// Whether a line is the command that ends the shell.
pub fn is_quit(line: &str) -> bool {
    matches!(parse(line), Ok(Meta::Quit))
}

/// The command on the last line of an unfinished statement, as a way out of it.
pub fn behind_statement(text: &str) -> Option<&str> {
    let (statement, last) = text.trim_end().rsplit_once('\n')?;
    (last.starts_with('\\') && !atoll_sql::statement_is_complete(statement)).then_some(last)
}

/// The command that a word without a backslash is.
fn bare(line: &str) -> Option<Meta> {
    match line.trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "help" | "?" => Some(Meta::Help),
        "quit" | "exit" => Some(Meta::Quit),
        "refresh" => Some(Meta::Refresh),
        _ => None,
    }
}

/// Reads a command.
///
/// # Errors
/// An unknown command, and arguments that it does not take.
pub fn parse(line: &str) -> Result<Meta> {
    let line = line.trim();
    if let Some(meta) = bare(line) {
        return Ok(meta);
    }
    let words = words(line)?;
    let (name, arguments) = match words.split_first() {
        Some((name, arguments)) => (name.text.trim_end_matches(';'), arguments),
        None => (line, &[][..]),
    };
    if name == r"\bind" {
        return Ok(Meta::Bind(arguments.to_vec()));
    }
    let arguments: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    match (name, arguments.as_slice()) {
        (r"\?" | r"\h" | r"\help", []) => Ok(Meta::Help),
        (r"\q" | r"\quit", []) => Ok(Meta::Quit),
        (name, arguments) if name.starts_with(r"\d") => described(name, arguments),
        (r"\timing", value @ ([] | [_])) => Ok(Meta::Timing(switch(name, value)?)),
        (r"\x", value @ ([] | [_])) => Ok(Meta::Expanded(switch(name, value)?)),
        (r"\rows", ["all"]) => Ok(Meta::Rows(None)),
        (r"\rows", [number]) => match number.parse() {
            Ok(rows) => Ok(Meta::Rows(Some(rows))),
            Err(_) => Err(CliError::new(format!("\\rows takes a number or all, not {number}"))),
        },
        (r"\i", [file]) => Ok(Meta::Include(PathBuf::from(file))),
        (r"\load", [file, table, key @ ..]) if key.len() <= 1 => Ok(Meta::Load {
            file: PathBuf::from(file),
            table: (*table).to_owned(),
            key: key.iter().flat_map(|key| loading::split_names(key)).collect(),
        }),
        (r"\restrict", [key]) => Ok(Meta::Restrict((*key).to_owned())),
        (r"\unrestrict", [key]) => Ok(Meta::Unrestrict((*key).to_owned())),
        (r"\refresh", []) => Ok(Meta::Refresh),
        (r"\snapshots", []) => Ok(Meta::Snapshots),
        (r"\memory", []) => Ok(Meta::Memory),
        (r"\health", []) => Ok(Meta::Health),
        (r"\backup", [folder]) => Ok(Meta::Backup(PathBuf::from(folder))),
        (r"\checkpoint", []) => Ok(Meta::Checkpoint),
        _ => Err(misunderstood(name)),
    }
}

/// `\d` and its kin.
fn described(name: &str, arguments: &[&str]) -> Result<Meta> {
    let (plain, more) = match name.strip_suffix('+') {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    let what = match (plain, arguments) {
        (r"\d", []) => Described::List(Listed::All),
        (r"\dt", []) => Described::List(Listed::Tables),
        (r"\dt", [pattern]) if pattern.trim_end_matches(';').ends_with(".*") => {
            Described::Schema(pattern.trim_end_matches(';').trim_end_matches(".*").to_owned())
        }
        (r"\dn", []) => Described::Schemas,
        (r"\d", [one]) => Described::One(one.trim_end_matches(';').to_owned()),
        (r"\dv", []) => Described::Views,
        (r"\di", []) => Described::Indexes,
        (r"\ds", []) => Described::Sequences,
        (r"\dT", []) => Described::Types,
        (r"\dD", []) => Described::Domains,
        _ => return Err(misunderstood(plain)),
    };
    Ok(Meta::Describe { what, more })
}

fn misunderstood(name: &str) -> CliError {
    let usage = COMMANDS.iter().find(|(usage, _)| usage.split(' ').next() == Some(name));
    match usage {
        Some((usage, what)) => CliError::with_hint(
            format!("{name} does not take these arguments"),
            format!("{usage}: {what}"),
        ),
        None => CliError::with_hint(
            format!("there is no command {name}"),
            "\\? shows those that there are",
        ),
    }
}

fn switch(name: &str, value: &[&str]) -> Result<Option<bool>> {
    match value {
        [] => Ok(None),
        ["on"] => Ok(Some(true)),
        ["off"] => Ok(Some(false)),
        _ => Err(CliError::new(format!("{name} takes on or off, not {}", value.join(" ")))),
    }
}

/// Splits a line at its spaces. Text in single or double quotes stays together; a quote inside is
/// written twice.
fn words(line: &str) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_quoted = matches!(first, '\'' | '"');
        let (text, after) = if is_quoted {
            quoted(rest, first)?
        } else {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (word.to_owned(), after)
        };
        words.push(Word { text, is_quoted });
        rest = after.trim_start();
    }
    Ok(words)
}

/// The text in the quotes with which `rest` starts, and what comes behind them.
fn quoted(rest: &str, quote: char) -> Result<(String, &str)> {
    let mut text = String::new();
    let mut left = &rest[1..];
    loop {
        let (piece, after) = left
            .split_once(quote)
            .ok_or_else(|| CliError::new(format!("the quote {quote} is not closed: {rest}")))?;
        text.push_str(piece);
        let Some(more) = after.strip_prefix(quote) else {
            return Ok((text, after));
        };
        text.push(quote);
        left = more;
    }
}

/// Carries a command out.
///
/// # Errors
/// Those of the command.
pub fn run(shell: &mut Shell<'_>, meta: Meta) -> Result<Flow> {
    match meta {
        Meta::Help => help(shell)?,
        Meta::Quit => return Ok(Flow::Quit),
        Meta::Describe { what, more } => {
            let (session, output) = (&shell.session, &mut *shell.output);
            match what {
                Described::List(listed) => describe::tables(session, output, listed, more)?,
                Described::One(name) => describe::table(session, output, &name, more)?,
                Described::Schema(schema) => {
                    let listed = Listed::Schema(&schema);
                    describe::tables(session, output, listed, more)?;
                }
                Described::Schemas => objects::schemas(session, output, more)?,
                Described::Views => objects::views(session, output, more)?,
                Described::Indexes => objects::indexes(session, output, more)?,
                Described::Sequences => objects::sequences(session, output)?,
                Described::Types => objects::types(session, output)?,
                Described::Domains => objects::domains(session, output)?,
            }
        }
        Meta::Timing(value) => {
            let timing = value.unwrap_or(!shell.settings.timing);
            shell.settings.timing = timing;
            confirm(shell, &format!("timing is {}", on_off(timing)))?;
        }
        Meta::Expanded(value) => {
            let expanded = value.unwrap_or(!shell.settings.expanded);
            shell.settings.expanded = expanded;
            confirm(shell, &format!("expanded rows are {}", on_off(expanded)))?;
        }
        Meta::Rows(rows) => {
            shell.settings.rows = rows;
            let rows = rows.map_or("all".to_owned(), |rows| format!("the first {rows}"));
            confirm(shell, &format!("{rows} rows of a result are shown"))?;
        }
        Meta::Include(path) => return shell.run_file(&path),
        Meta::Load { file, table, key } => load_file(shell, file, table, key)?,
        Meta::Refresh => refresh(shell)?,
        Meta::Snapshots => {
            let held = shell.session.snapshots()?;
            snapshots::write(shell.output, &held)?;
        }
        Meta::Memory => describe::memory(&shell.session, shell.output)?,
        Meta::Health => describe::health(&shell.session, shell.output)?,
        Meta::Backup(folder) => {
            let report = shell.session.database()?.backup(&folder)?;
            let (bytes, folder) = (size::bytes(report.bytes), folder.display());
            confirm(shell, &format!("{bytes} of tables in {folder}"))?;
        }
        Meta::Restrict(key) => shell.restricted = Some(key),
        Meta::Unrestrict(key) => {
            if shell.restricted.take().is_none() {
                let message = format!(r"\unrestrict {key} without \restrict");
                return Err(CliError::new(message));
            }
        }
        Meta::Bind(words) => shell.values.bind(&words),
        Meta::Checkpoint => {
            let report = shell.session.database()?.checkpoint()?;
            let bytes = size::bytes(report.bytes);
            confirm(shell, &format!("checkpoint {}: {bytes} written", report.number))?;
        }
    }
    Ok(Flow::Continue)
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

/// Answers a setting; a program that reads JSON did not ask for an answer.
fn confirm(shell: &mut Shell<'_>, text: &str) -> Result<()> {
    if shell.output.json { Ok(()) } else { Ok(shell.output.line(text)?) }
}

fn help(shell: &mut Shell<'_>) -> Result<()> {
    let style = shell.output.style;
    for (usage, what) in COMMANDS {
        shell.output.line(&format!("  {}  {what}", style.bold(&format!("{usage:<24}"))))?;
    }
    shell.output.line(
        "\nStatements end with a semicolon and may have several lines. Tab completes words,\n\
         Ctrl-R searches the history, Ctrl-C cancels the line, Ctrl-D ends.",
    )?;
    Ok(())
}

fn refresh(shell: &mut Shell<'_>) -> Result<()> {
    shell.session.refresh()?;
    let text = shell.session.snapshot().map_or_else(String::new, |(snapshot, _)| {
        let took = std::time::Duration::from_nanos(snapshot.attach_ns());
        format!("snapshot of epoch {}, taken in {}", snapshot.epoch(), size::elapsed(took))
    });
    confirm(shell, &text)
}

fn load_file(shell: &mut Shell<'_>, file: PathBuf, table: String, key: Vec<String>) -> Result<()> {
    let format = Format::of_path(&file).ok_or_else(|| loading::unknown_format(&file))?;
    let options = atoll_sql::LoadOptions::default();
    let job = Job { create: !key.is_empty(), file, table, key, format, options };
    let done = loading::load(shell.session.database()?, &job, shell.session.question())?;
    loading::write(shell.output, &done)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn commands_are_told_from_sql() {
        for line in [r"\d", r"  \d flights", "help", "Quit;", "refresh ;", "?"] {
            assert!(is_command(line), "{line}");
        }
        for line in ["SELECT 1;", "refresh materialized view x;", "helper", ""] {
            assert!(!is_command(line), "{line}");
        }
    }

    #[test]
    fn a_command_behind_an_unfinished_statement_is_seen() {
        assert_eq!(behind_statement("SELECT 'a\n\\q"), Some("\\q"));
        assert_eq!(behind_statement("SELECT 1;\n\\q"), None);
        assert_eq!(behind_statement("SELECT 1\nFROM t"), None);
    }

    fn word(text: &str, is_quoted: bool) -> Word {
        Word { text: text.to_owned(), is_quoted }
    }

    #[test]
    fn commands_are_read_with_their_arguments() {
        let wanted = [
            (
                r"\d flights;",
                Meta::Describe { what: Described::One("flights".to_owned()), more: false },
            ),
            (r"\dt;", Meta::Describe { what: Described::List(Listed::Tables), more: false }),
            (r"\d+", Meta::Describe { what: Described::List(Listed::All), more: true }),
            (r"\dv+", Meta::Describe { what: Described::Views, more: true }),
            (r"\timing", Meta::Timing(None)),
            (r"\timing off", Meta::Timing(Some(false))),
            (r"\rows all", Meta::Rows(None)),
            (r"\rows 20", Meta::Rows(Some(20))),
            (r#"\i 'my file.sql'"#, Meta::Include(PathBuf::from("my file.sql"))),
            (
                r"\load a.csv t id,pos",
                Meta::Load {
                    file: PathBuf::from("a.csv"),
                    table: "t".to_owned(),
                    key: vec!["id".to_owned(), "pos".to_owned()],
                },
            ),
            (r"\bind", Meta::Bind(Vec::new())),
            (
                r#"\bind a 'it''s' \N "" 5;"#,
                Meta::Bind(vec![
                    word("a", false),
                    word("it's", true),
                    word(r"\N", false),
                    word("", true),
                    word("5;", false),
                ]),
            ),
            ("exit", Meta::Quit),
            (r"\q;", Meta::Quit),
        ];
        for (line, meta) in wanted {
            assert_eq!(parse(line).unwrap(), meta, "{line}");
        }
    }

    #[test]
    fn a_command_that_is_not_understood_says_how_it_goes() {
        let unknown = parse(r"\frobnicate").unwrap_err();
        assert!(unknown.to_string().contains(r"\frobnicate") && unknown.hint().is_some());
        let usage = parse(r"\load").unwrap_err().hint().unwrap();
        assert!(usage.contains("FILE TABLE"), "{usage}");
        assert!(parse(r"\i 'open").is_err());
        assert!(parse(r"\bind 'open''").is_err());
        assert!(parse(r"\rows many").is_err());
        assert!(parse(r"\timing maybe").is_err());
    }
}
