//! The shell: statements and `\` commands, typed by a person or read from a script.
//!
//! Input is text in lines. A line that starts with `\` where a statement could start is a command
//! of the shell ([`meta`]); everything else is collected until an [`atoll_sql::StatementScanner`]
//! says that a statement has ended. Statements run one at a time, and each result is written before
//! the next statement starts.
//!
//! A script stops at its first error. An interactive shell reports the error and continues.

pub mod complete;
pub mod describe;
pub mod history;
pub mod interactive;
pub mod interrupt;
pub mod meta;
pub mod split;
pub mod values;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use atoll_sql::{Outcome, QueryResult};

use crate::args::ScriptArgs;
use crate::error::{CliError, FailedStatement, Origin, Result};
use crate::output::{Output, say};
use crate::render::table::Fit;
use crate::render::{json, rows};
use crate::session::Session;
use crate::shell::split::{Item, Pending, Script};
use crate::shell::values::Values;
use crate::size;

/// Rows that are shown on a terminal unless `\rows` says otherwise.
const ROWS_SHOWN: usize = 100;
/// Deepest nesting of scripts that run scripts.
const SCRIPTS_DEEP_MAX: usize = 16;

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// `\q` was said.
    Quit,
}

/// The settings of a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether the time of each statement is told.
    pub timing: bool,
    /// Whether rows are written as lines of names and values.
    pub expanded: bool,
    /// Rows shown of a result; `None` shows all.
    pub rows: Option<usize>,
}

/// A shell on a session.
pub struct Shell<'a> {
    session: Session,
    output: &'a mut Output,
    settings: Settings,
    values: Values,
    /// Scripts that are being read, the innermost last.
    scripts: usize,
}

impl<'a> Shell<'a> {
    /// A shell with results to `output`.
    pub fn new(session: Session, output: &'a mut Output) -> Self {
        let settings = Settings { timing: false, expanded: false, rows: None };
        Self { session, output, settings, values: Values::default(), scripts: 0 }
    }

    /// The target of the shell.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Where its results go.
    pub fn output(&mut self) -> &mut Output {
        self.output
    }

    /// Runs the scripts of the command line, or the standard input if it is not a terminal, or the
    /// interactive shell.
    ///
    /// # Errors
    /// The first error of a script, and values of `--param` for the interactive shell.
    pub fn run(&mut self, script: &ScriptArgs) -> Result<()> {
        if !script.is_empty() {
            return self.run_scripts(script);
        }
        if io::stdin().is_terminal() {
            if !script.params.is_empty() {
                return Err(CliError::with_hint(
                    "--param gives values to the statements of scripts, and there is none",
                    "-c and -f name some; in the shell, \\bind gives values to the next statement",
                ));
            }
            return interactive::run(self);
        }
        self.values.give(&script.params);
        self.run_script(io::stdin().lock(), Some("(standard input)")).map(|_| ())?;
        self.warn_of_rest();
        Ok(())
    }

    /// Runs the files and statements of the command line.
    ///
    /// # Errors
    /// The first error.
    pub fn run_scripts(&mut self, script: &ScriptArgs) -> Result<()> {
        self.values.give(&script.params);
        let mut left = script.scripts.len() + script.commands.len();
        // After the output was closed, further sources are not run.
        let mut cut = |done: Result<Flow>| {
            left -= 1;
            match done {
                Err(CliError::OutputClosed) if left > 0 => Err(CliError::ScriptCut),
                done => done,
            }
        };
        for path in &script.scripts {
            let done = match path.to_str() {
                Some("-") => self.run_script(io::stdin().lock(), Some("(standard input)")),
                _ => self.run_file(path),
            };
            if cut(done)? == Flow::Quit {
                return Ok(());
            }
        }
        for command in &script.commands {
            if cut(self.run_script(command.as_bytes(), None))? == Flow::Quit {
                break;
            }
        }
        self.warn_of_rest();
        Ok(())
    }

    /// Warns of what the scripts have left: an open transaction, values that were not used.
    fn warn_of_rest(&self) {
        self.warn_if_open();
        if let Some(unused) = self.values.unused() {
            say(&format!("warning: {unused}"));
        }
    }

    fn warn_if_open(&self) {
        if self.session.in_transaction() {
            say("warning: a transaction is open and is rolled back now; COMMIT keeps its changes");
        }
    }

    /// Runs a file as a script.
    ///
    /// # Errors
    /// A file that cannot be read, and its first error.
    pub fn run_file(&mut self, path: &Path) -> Result<Flow> {
        let file = File::open(path).map_err(CliError::reading(path))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(CliError::reading(path)(io::ErrorKind::IsADirectory.into()));
        }
        self.run_script(BufReader::new(file), Some(&path.display().to_string()))
    }

    /// Runs a script; its errors report `name`.
    fn run_script(&mut self, reader: impl BufRead, name: Option<&str>) -> Result<Flow> {
        if self.scripts == SCRIPTS_DEEP_MAX {
            return Err(CliError::new(format!(
                "scripts run scripts more than {SCRIPTS_DEEP_MAX} deep; does one run itself?"
            )));
        }
        self.scripts += 1;
        let flow = self.read_script(reader, name);
        self.scripts -= 1;
        flow
    }

    fn read_script(&mut self, reader: impl BufRead, name: Option<&str>) -> Result<Flow> {
        let mut script = Script::new(reader, name);
        while let Some(item) = script.next()? {
            let done = match item {
                Item::Command(line) => self.command(&line),
                Item::Statement(piece) => {
                    let origin = piece.origin(name);
                    self.run_statement(&piece.text, origin).map(|()| Flow::Continue)
                }
            };
            match done {
                Ok(Flow::Continue) => {}
                Err(CliError::OutputClosed) => return Err(script.cut()),
                ended => return ended,
            }
        }
        Ok(Flow::Continue)
    }

    /// Runs what a person typed: one or more statements, or a command.
    fn run_typed(&mut self, text: &str) -> Result<Flow> {
        if meta::is_command(text) {
            return self.command(text);
        }
        if let Some(command) = meta::behind_statement(text) {
            say("the statement above has no end and was not run");
            return self.command(command);
        }
        let mut pending = Pending::at_line(1);
        pending.push(text);
        while let Some(piece) = pending.next() {
            if !piece.is_empty() {
                self.run_statement(&piece.text, None)?;
            }
        }
        if let Some(piece) = pending.rest() {
            self.run_statement(&piece.text, None)?;
        }
        Ok(Flow::Continue)
    }

    fn command(&mut self, line: &str) -> Result<Flow> {
        let flow = meta::run(self, meta::parse(line)?);
        self.output.flush()?;
        flow
    }

    fn run_statement(&mut self, statement: &str, origin: Option<Origin>) -> Result<()> {
        let begin = Instant::now();
        let values = self.values.of(&mut self.session, statement);
        let run = values.and_then(|values| self.session.execute(statement, &values));
        let outcome = run.map_err(|error| {
            let sql = statement.to_owned();
            CliError::Statement(Box::new(FailedStatement { error, sql, origin }))
        })?;
        let elapsed = begin.elapsed();
        match outcome {
            Outcome::Rows(result) => self.show_rows(&result, elapsed)?,
            Outcome::Done { tag, rows } => self.show_done(&tag, rows, elapsed)?,
            // A kind of result that a later version of the engine may have.
            _ => {}
        }
        Ok(self.output.flush()?)
    }

    fn show_done(&mut self, tag: &str, rows: u64, elapsed: Duration) -> Result<()> {
        if self.output.json {
            return json::write_done(self.output, tag, rows);
        }
        let time = self.time(elapsed);
        Ok(self.output.line(&format!("{tag}{time}"))?)
    }

    fn show_rows(&mut self, result: &QueryResult, elapsed: Duration) -> Result<()> {
        let schema = result.schema();
        if self.output.json {
            return json::write_rows(self.output, &schema, result.batches());
        }
        let grid = rows::grid(&schema, result.batches(), self.settings.rows)?;
        let style = self.output.style;
        let fit = if self.settings.expanded {
            grid.write_expanded(self.output, style)?;
            Fit::default()
        } else {
            let width = self.output.width();
            grid.write(self.output, width, style)?
        };
        let count = size::counted(result.row_count() as u64, "row");
        let time = self.time(elapsed);
        self.output.line(&format!("{count}{time}"))?;
        for note in notes(&fit, result.row_count(), self.settings.rows) {
            self.output.line(&style.dim(&note))?;
        }
        Ok(())
    }

    fn time(&self, elapsed: Duration) -> String {
        if !self.settings.timing {
            return String::new();
        }
        self.output.style.dim(&format!("  ({})", size::elapsed(elapsed)))
    }
}

/// The remark under a table that is not shown completely.
fn notes(fit: &Fit, rows: usize, shown: Option<usize>) -> Vec<String> {
    const NAMES_MAX: usize = 8;
    let mut notes = Vec::new();
    if let Some(shown) = shown.filter(|shown| *shown < rows) {
        let first = size::count(shown as u64);
        notes.push(format!("the first {first} are shown; \\rows all shows every row"));
    }
    if !fit.hidden.is_empty() {
        let count = size::counted(fit.hidden.len() as u64, "column");
        let names = fit.hidden.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = if fit.hidden.len() > NAMES_MAX { ", …" } else { "" };
        let verb = if fit.hidden.len() == 1 { "does" } else { "do" };
        notes.push(format!(
            "{count} {verb} not fit the terminal ({}{more}); \\x shows every column",
            names.join(", ")
        ));
    } else if fit.cut {
        notes.push("long texts are cut to the terminal; \\x shows them whole".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_told() {
        assert!(notes(&Fit::default(), 10, Some(10)).is_empty());
        let all = notes(&Fit { hidden: vec!["b".to_owned()], cut: true }, 1000, Some(100));
        assert_eq!(
            all,
            [
                "the first 100 are shown; \\rows all shows every row",
                "1 column does not fit the terminal (b); \\x shows every column"
            ]
        );
        assert_eq!(notes(&Fit { hidden: Vec::new(), cut: true }, 1, None).len(), 1);
    }
}
