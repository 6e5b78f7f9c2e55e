//! Help while typing: completion of words, colours, and the question whether a statement has ended.

use std::borrow::Cow;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Hinter};

use crate::output::Style;
use crate::session::Session;
use crate::shell::meta;

/// Words of SQL that are completed and coloured.
const KEYWORDS: [&str; 108] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASE",
    "CAST",
    "COALESCE",
    "COMMIT",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "CSV",
    "CURRENT_DATE",
    "DATE",
    "DECIMAL",
    "DELETE",
    "DELIMITER",
    "DESC",
    "DISTINCT",
    "DOUBLE PRECISION",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FIRST",
    "FORMAT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "HEADER",
    "ILIKE",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LAST",
    "LEFT",
    "LENGTH",
    "LIKE",
    "LIMIT",
    "LOCAL",
    "LOWER",
    "MAX",
    "MIN",
    "NOT",
    "NULL",
    "NULLS",
    "NUMERIC",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PRIMARY",
    "RANK",
    "REAL",
    "RESET",
    "RIGHT",
    "ROLLBACK",
    "ROUND",
    "ROWS",
    "ROW_NUMBER",
    "SELECT",
    "SET",
    "SHOW",
    "SMALLINT",
    "SUBSTRING",
    "SUM",
    "TABLE",
    "TABLES",
    "TEXT",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "UPPER",
    "USING",
    "VALUES",
    "VARCHAR",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Words behind which a table comes.
const BEFORE_TABLE: [&str; 6] = ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "COPY"];

/// The tables and their columns, as the completion needs them.
#[derive(Debug, Default)]
pub struct Names {
    /// Each table with its columns.
    pub tables: Vec<(String, Vec<String>)>,
}

impl Names {
    /// The names of a session; none when it cannot tell.
    pub fn of(session: &Session) -> Self {
        let tables = session.tables().unwrap_or_default().into_iter().map(|table| {
            let columns = table.schema.visible().iter().map(|column| column.name.clone());
            (table.name, columns.collect())
        });
        let views = session.views().unwrap_or_default().into_iter().map(|(name, view)| {
            (name, view.columns.into_iter().map(|column| column.name).collect())
        });
        Self { tables: tables.chain(views).collect() }
    }

    /// What a word may become, and where the word starts.
    fn complete(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = &line[..at];
        let start = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| c.is_alphanumeric() || matches!(c, '_' | '.' | '"'))
            .last()
            .map_or(at, |(start, _)| start);
        let word = &before[start..];
        if let Some((table, column)) = word.rsplit_once('.') {
            let table = table.trim_matches('"').to_ascii_lowercase();
            let own = self.tables.iter().filter(|(name, _)| *name == table);
            let mut columns: Vec<&String> = own.flat_map(|(_, columns)| columns).collect();
            if columns.is_empty() {
                // An alias, which may stand for any table.
                columns = self.columns();
            }
            let names = matching(columns, column);
            return (at - column.len(), names);
        }
        let previous = before[..start].split_whitespace().next_back().unwrap_or("");
        let mut names = matching(self.tables.iter().map(|(table, _)| table), word);
        if !BEFORE_TABLE.contains(&previous.to_uppercase().as_str()) {
            names.extend(matching(self.columns(), word));
            names.sort();
            names.dedup();
            names.extend(keywords(word));
        }
        (start, names)
    }

    fn columns(&self) -> Vec<&String> {
        self.tables.iter().flat_map(|(_, columns)| columns).collect()
    }
}

/// Names that start with a word, quoted where SQL asks for it.
fn matching<'a>(names: impl IntoIterator<Item = &'a String>, word: &str) -> Vec<String> {
    let word = word.trim_matches('"').to_ascii_lowercase();
    let mut found: Vec<String> = names
        .into_iter()
        .filter(|name| name.to_lowercase().starts_with(&word))
        .map(|name| if is_plain(name) { name.clone() } else { format!("\"{name}\"") })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether a name means itself without quotes.
fn is_plain(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    first && name.chars().all(rest) && !KEYWORDS.contains(&name.to_uppercase().as_str())
}

/// Keywords that start with a word, in its case.
fn keywords(word: &str) -> Vec<String> {
    let upper = word.to_uppercase();
    if upper.is_empty() {
        return Vec::new();
    }
    let lower_case = word.chars().all(|c| !c.is_uppercase());
    let found = KEYWORDS.iter().filter(|keyword| keyword.starts_with(&upper));
    found.map(|word| if lower_case { word.to_lowercase() } else { (*word).to_owned() }).collect()
}

/// What the line editor asks.
#[derive(Helper, Hinter)]
pub struct ShellHelper {
    /// The names to complete.
    pub names: Names,
    /// The prompt with its colours.
    pub prompt: String,
    files: FilenameCompleter,
    style: Style,
}

impl ShellHelper {
    /// A helper that knows no names yet.
    pub fn new(style: Style) -> Self {
        let files = FilenameCompleter::new();
        Self { names: Names::default(), prompt: String::new(), files, style }
    }

    /// Completes a command of the shell.
    fn command(&self, line: &str, at: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let Some((command, rest)) = before.trim_start().split_once(char::is_whitespace) else {
            let start = before.len() - before.trim_start().len();
            let words = meta::COMMANDS.iter().filter_map(|(usage, _)| usage.split(' ').next());
            let found = words.filter(|word| word.starts_with(&before[start..]));
            return Ok((start, pairs(found.map(str::to_owned))));
        };
        let last = rest.rsplit(char::is_whitespace).next().unwrap_or("");
        let start = at - last.len();
        let tables = || matching(self.names.tables.iter().map(|(table, _)| table), last);
        match command {
            r"\i" => self.files.complete_path(line, at),
            r"\load" if !rest.contains(char::is_whitespace) => self.files.complete_path(line, at),
            r"\d" | r"\load" => Ok((start, pairs(tables()))),
            r"\timing" | r"\x" => {
                let found = ["on", "off"].into_iter().filter(|word| word.starts_with(last));
                Ok((start, pairs(found.map(str::to_owned))))
            }
            _ => Ok((at, Vec::new())),
        }
    }
}

fn pairs(words: impl IntoIterator<Item = String>) -> Vec<Pair> {
    words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if line.trim_start().starts_with('\\') {
            return self.command(line, at);
        }
        // Inside a string there are no names; in COPY it is a file.
        if line[..at].matches('\'').count() % 2 == 1 {
            let copies = line.trim_start().get(..4).is_some_and(|w| w.eq_ignore_ascii_case("copy"));
            return if copies { self.files.complete_path(line, at) } else { Ok((at, Vec::new())) };
        }
        let (start, words) = self.names.complete(line, at);
        Ok((start, pairs(words)))
    }
}

impl Validator for ShellHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let ended = text.trim().is_empty()
            || meta::is_command(text)
            || meta::behind_statement(text).is_some()
            || atoll_sql::statement_is_complete(text);
        Ok(if ended { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for ShellHelper {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        if !self.style.has_color() || line.trim_start().starts_with('\\') {
            return Cow::Borrowed(line);
        }
        Cow::Owned(colored(line, self.style))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        if self.prompt.is_empty() { Cow::Borrowed(prompt) } else { Cow::Borrowed(&self.prompt) }
    }

    fn highlight_char(&self, _line: &str, _at: usize, kind: CmdKind) -> bool {
        self.style.has_color() && kind != CmdKind::MoveCursor
    }
}

/// A text with its keywords, strings and comments coloured.
fn colored(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |at| at + 2),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            c if c.is_alphabetic() || c == '_' => {
                let inside = |c: char| c.is_alphanumeric() || c == '_';
                rest.find(|c| !inside(c)).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(end);
        let keyword = || KEYWORDS.contains(&piece.to_uppercase().as_str());
        match first {
            '\'' => out.push_str(&style.string(piece)),
            '-' if piece.len() > 1 => out.push_str(&style.dim(piece)),
            c if c.is_alphabetic() && keyword() => out.push_str(&style.keyword(piece)),
            _ => out.push_str(piece),
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::ColorChoice;

    fn names() -> Names {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Names {
            tables: vec![
                ("flights".to_owned(), columns(&["id", "carrier", "Dep Time"])),
                ("airlines".to_owned(), columns(&["carrier", "name"])),
            ],
        }
    }

    fn completed(line: &str) -> Vec<String> {
        names().complete(line, line.len()).1
    }

    #[test]
    fn tables_come_behind_from_and_columns_elsewhere() {
        assert_eq!(completed("SELECT * FROM fl"), ["flights"]);
        assert_eq!(completed("SELECT * FROM "), ["airlines", "flights"]);
        assert_eq!(completed("SELECT car"), ["carrier"]);
        assert_eq!(completed("SELECT flights.c"), ["carrier"]);
        assert_eq!(completed("SELECT f.na"), ["name"]);
        assert_eq!(completed("SELECT dep"), ["\"Dep Time\""]);
    }

    #[test]
    fn keywords_keep_the_case_that_was_typed() {
        assert_eq!(completed("SEL"), ["SELECT"]);
        assert_eq!(completed("sel"), ["select"]);
        assert_eq!(completed("SELECT id FROM flights WHE"), ["WHEN", "WHERE"]);
    }

    #[test]
    fn what_is_completed_starts_where_the_word_does() {
        assert_eq!(names().complete("SELECT car", 10).0, 7);
        assert_eq!(names().complete("SELECT flights.car", 18).0, 15);
        assert_eq!(names().complete("SELECT (ca", 10).0, 8);
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let text = "select 'a''b', \"Über\" -- düe\nFROM t -- \"";
        let plain = colored(text, Style::plain());
        assert_eq!(plain, text);
        let style = Style::of(ColorChoice::Always, false);
        assert!(colored(text, style).contains(&style.keyword("select")));
        assert!(colored("'open", style).contains("'open"));
    }

    #[test]
    fn keywords_are_sorted_and_each_there_once() {
        assert!(KEYWORDS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
