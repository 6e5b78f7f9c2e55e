//! Errors of commands and their report: one sentence, the place if there is one, and a hint.
//!
//! Everything that a command does returns [`CliError`]; `main` prints it with [`report`] and ends
//! with status 1. A closed output (`atoll … | head`) is no error of the command, so
//! [`CliError::OutputClosed`] is silent. If statements are not run because of it, the error is
//! [`CliError::ScriptCut`].

use std::io;
use std::path::{Path, PathBuf};

use atoll::LeaseError;
use atoll_sql::{Cause, SqlError};
use unicode_width::UnicodeWidthStr;

use crate::output::Style;

/// Most columns of a statement's line that are shown around the place of an error.
const SOURCE_WIDTH: usize = 100;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// An error in words.
    #[error("{message}")]
    Said {
        /// One sentence about the fault and the input.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] atoll::Error),
    /// A benchmark.
    #[error(transparent)]
    Bench(#[from] atoll_bench::BenchError),
    /// A statement that failed.
    #[error("{}", .0.error)]
    Statement(Box<FailedStatement>),
    /// A file could not be read or written.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// The operation: "read", "write".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}")]
    Terminal(String),
    /// The reader of the output has closed it.
    #[error("the reader of the output has closed it")]
    OutputClosed,
    /// The output was closed before a script had ended.
    #[error("the output was closed, and the rest of the script was not run")]
    ScriptCut,
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// A statement that failed, with the data to show its place.
#[derive(Debug)]
pub struct FailedStatement {
    /// What was wrong.
    pub error: SqlError,
    /// The statement.
    pub sql: String,
    /// The source of the statement; `None` for typed text.
    pub origin: Option<Origin>,
}

/// Where a statement of a script starts.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The script's name.
    pub script: String,
    /// Line of the script on which the statement starts, from 1.
    pub line: u64,
    /// Characters of that line before the statement.
    pub column: u64,
}

/// Result of everything that a command does.
pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    /// An error in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Said { message: message.into(), hint: None }
    }

    /// An error in words, with what to do about it.
    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { message: message.into(), hint: Some(hint.into()) }
    }

    /// A file that cannot be read.
    pub fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { doing: "read", path: path.to_owned(), source }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Said { hint, .. } => hint.clone(),
            Self::Statement(failed) => match failed.error.hint() {
                Some(hint) => Some(hint.to_owned()),
                None => values_hint(failed.error.cause()).map(str::to_owned),
            },
            Self::Database(atoll::Error::Lease(LeaseError::NameTaken { name, .. })) => {
                Some(format!("to read that database, run: atoll attach {name}"))
            }
            Self::Database(atoll::Error::Lease(LeaseError::UnknownName {
                name, known, ..
            })) if known.is_empty() => {
                Some(format!("to start one under this name, run: atoll sql {name}"))
            }
            _ => None,
        }
    }
}

/// How the shell gives values to parameters.
fn values_hint(cause: Option<Cause>) -> Option<&'static str> {
    let hint = "\\bind VALUE … gives values to the next statement, --param VALUE … to a script";
    matches!(cause, Some(Cause::ParameterCount | Cause::UnknownParameter)).then_some(hint)
}

impl From<io::Error> for CliError {
    /// Errors of writing to the standard output; files have [`CliError::File`].
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }
}

impl From<SqlError> for CliError {
    /// An error without a statement, such as one of loading a file.
    fn from(error: SqlError) -> Self {
        Self::Statement(Box::new(FailedStatement { error, sql: String::new(), origin: None }))
    }
}

/// The text that tells of an error, without a line break at its end.
pub fn report(error: &CliError, style: Style) -> String {
    let mut text = format!("{} {error}", style.error("error:"));
    if let CliError::Statement(failed) = error {
        text.push_str(&place(failed, style));
        if let Some(detail) = failed.error.detail() {
            text.push_str(&format!("\n{} {detail}", style.hint("detail:")));
        }
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\n{} {hint}", style.hint("hint:")));
    }
    text
}

/// The line of the statement that an error is about, with a caret under the place.
fn place(failed: &FailedStatement, style: Style) -> String {
    let position = failed.error.position().and_then(|(line, column)| {
        let source = failed.sql.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
        Some((line, usize::try_from(column.checked_sub(1)?).ok()?, source))
    });
    let Some((line, column, source)) = position else {
        return match &failed.origin {
            Some(origin) => style.dim(&format!("\n in {}, line {}", origin.script, origin.line)),
            None => String::new(),
        };
    };
    let first = failed.origin.as_ref().map_or(1, |origin| origin.line);
    let number = (first + line - 1).to_string();
    let gutter = " ".repeat(number.len());
    let (shown, before) = clip(source, column);
    let mut text = String::new();
    if let Some(origin) = &failed.origin {
        let indent = if line == 1 { origin.column } else { 0 };
        let column = indent + column as u64 + 1;
        let arrow = format!("\n{gutter}--> {}:{number}:{column}", origin.script);
        text.push_str(&style.dim(&arrow));
    }
    let pad = " ".repeat(before);
    let bar = style.dim("|");
    text.push_str(&format!(
        "\n{gutter} {bar}\n{} {bar} {shown}\n{gutter} {bar} {pad}{}",
        style.dim(&number),
        style.error("^")
    ));
    text
}

/// The part of a line around a character, and how many columns of the screen come before it.
fn clip(line: &str, column: usize) -> (String, usize) {
    // One column each, so that the caret can be placed by counting.
    let plain: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let column = column.min(plain.len());
    if plain.len() <= SOURCE_WIDTH {
        let before: String = plain[..column].iter().collect();
        return (plain.iter().collect(), before.width());
    }
    let start = column.saturating_sub(SOURCE_WIDTH * 2 / 3);
    let end = (start + SOURCE_WIDTH).min(plain.len());
    let mut shown: String = plain[start..end].iter().collect();
    let before: String = plain[start..column].iter().collect();
    let mut width = before.width();
    if start > 0 {
        shown.insert(0, '…');
        width += 1;
    }
    if end < plain.len() {
        shown.push('…');
    }
    (shown, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_wide_characters_too() {
        assert_eq!(clip("SELECT '日本', x", 13), ("SELECT '日本', x".to_owned(), 15));
        assert_eq!(clip("\ta", 1), (" a".to_owned(), 1));
        assert_eq!(clip("ab", 9).1, 2);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let (shown, before) = clip(&line, 500);
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(shown.chars().nth(before), Some('X'));
        assert_eq!(shown.chars().count(), SOURCE_WIDTH + 2);
    }

    #[test]
    fn a_closed_output_is_told_from_a_full_disk() {
        let closed = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, CliError::OutputClosed));
        let full = CliError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, CliError::Output(_)));
    }

    #[test]
    fn an_error_is_a_sentence_and_a_hint() {
        let error = CliError::with_hint("the file is empty", "write something into it");
        assert_eq!(
            report(&error, Style::plain()),
            "error: the file is empty\nhint: write something into it"
        );
    }
}
