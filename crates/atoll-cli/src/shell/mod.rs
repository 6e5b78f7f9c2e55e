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
pub mod objects;
pub mod split;
pub mod values;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use atoll_sql::{Input, Outcome, SqlError, SqliteScript};

use crate::args::ScriptArgs;
use crate::error::{CliError, FailedStatement, Origin, Result};
use crate::output::{Output, say};
use crate::render::table::Fit;
use crate::render::{json, rows};
use crate::session::Session;
use crate::shell::split::{Item, Pending, Piece, Script};
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

/// What a statement has returned.
enum Returned {
    Rows(Shown),
    /// A command tag, and how many rows were touched.
    Done(String, u64),
}

/// The rows of a query that may be shown, and how many it has.
struct Shown {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    count: usize,
}

/// A shell on a session.
pub struct Shell<'a> {
    session: Session,
    output: &'a mut Output,
    settings: Settings,
    values: Values,
    /// Scripts that are being read, the innermost last.
    scripts: usize,
    /// Notices that have been told.
    told: Vec<String>,
    /// The key of `\\restrict`, until `\\unrestrict`.
    restricted: Option<String>,
}

impl<'a> Shell<'a> {
    /// A shell with results to `output`.
    pub fn new(session: Session, output: &'a mut Output) -> Self {
        let settings = Settings { timing: false, expanded: false, rows: None };
        let (values, told, restricted) = (Values::default(), Vec::new(), None);
        Self { session, output, settings, values, scripts: 0, told, restricted }
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
        let mut sqlite: Option<SqliteScript> = None;
        while let Some(item) = script.next()? {
            let done = match item {
                Item::Command(line) => self.command(&line),
                Item::Statement(piece) if atoll_sql::copies_from_stdin(&piece.text) => {
                    let origin = piece.origin(name);
                    let (data, first) = script.data();
                    let data = Input::spool(name.unwrap_or("(command line)"), data)?;
                    let data = Some(data.at_line(first));
                    self.run_statement(&piece.text, origin, data).map(|()| Flow::Continue)
                }
                Item::Statement(piece) => {
                    if sqlite.is_none() && SqliteScript::begins(&piece.text) {
                        sqlite = Some(SqliteScript::default());
                    }
                    let done = match &mut sqlite {
                        Some(sqlite) => self.run_of_sqlite(sqlite, &piece, name),
                        None => self.run_statement(&piece.text, piece.origin(name), None),
                    };
                    done.map(|()| Flow::Continue)
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

    /// Runs a statement of a dump of sqlite3.
    fn run_of_sqlite(
        &mut self,
        sqlite: &mut SqliteScript,
        piece: &Piece,
        name: Option<&str>,
    ) -> Result<()> {
        let statements = sqlite.translate(&piece.text).map_err(|error| {
            let (sql, origin) = (piece.text.clone(), piece.origin(name));
            CliError::Statement(Box::new(FailedStatement { error, sql, origin }))
        })?;
        for statement in statements {
            self.run_statement(&statement, piece.origin(name), None)?;
        }
        Ok(())
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
                self.run_statement(&piece.text, None, None)?;
            }
        }
        if let Some(piece) = pending.rest() {
            self.run_statement(&piece.text, None, None)?;
        }
        Ok(Flow::Continue)
    }

    fn command(&mut self, line: &str) -> Result<Flow> {
        if let Some(key) = &self.restricted {
            let wanted = format!(r"\unrestrict {key}");
            if line.trim() != wanted {
                let message = format!("{} is refused behind \\restrict", line.trim());
                let hint = "a dump has statements between \\restrict and \\unrestrict, no commands";
                return Err(CliError::with_hint(message, hint));
            }
        }
        let flow = meta::run(self, meta::parse(line)?);
        self.output.flush()?;
        flow
    }

    fn run_statement(
        &mut self,
        statement: &str,
        origin: Option<Origin>,
        data: Option<Input>,
    ) -> Result<()> {
        let begin = Instant::now();
        let returned = self.returned(statement, data);
        for notice in self.session.take_notices() {
            if !self.told.contains(&notice) {
                say(&format!("notice: {notice}"));
                self.told.push(notice);
            }
        }
        let returned = returned.map_err(|error| {
            let sql = statement.to_owned();
            CliError::Statement(Box::new(FailedStatement { error, sql, origin }))
        })?;
        let elapsed = begin.elapsed();
        match returned {
            Returned::Rows(shown) => self.show_rows(&shown, elapsed)?,
            Returned::Done(tag, rows) => self.show_done(&tag, rows, elapsed)?,
        }
        Ok(self.output.flush()?)
    }

    /// Runs a statement. Of a query, only the rows that are shown are kept.
    fn returned(
        &mut self,
        statement: &str,
        data: Option<Input>,
    ) -> std::result::Result<Returned, SqlError> {
        if let Some(data) = data {
            let outcome = self.session.copy_in(statement, data)?;
            let tag = outcome.tag().unwrap_or_default().to_owned();
            return Ok(Returned::Done(tag, outcome.row_count()));
        }
        let values = self.values.of(&mut self.session, statement)?;
        let Some(most) = self.settings.rows.filter(|_| !self.output.json) else {
            return Ok(match self.session.execute(statement, &values)? {
                Outcome::Rows(rows) => {
                    let (schema, count) = (rows.schema(), rows.row_count());
                    Returned::Rows(Shown { schema, batches: rows.batches().to_vec(), count })
                }
                outcome => {
                    let rows = outcome.row_count();
                    Returned::Done(outcome.tag().unwrap_or_default().to_owned(), rows)
                }
            });
        };
        let mut stream = self.session.stream(statement, &values)?;
        let schema = stream.schema();
        if let Some((tag, rows)) = stream.change()
            && schema.fields().is_empty()
        {
            return Ok(Returned::Done(tag.to_owned(), rows));
        }
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(batch) = stream.next_batch()? {
            let wanted = count < most;
            count += batch.num_rows();
            if wanted {
                batches.push(batch);
            }
        }
        Ok(Returned::Rows(Shown { schema, batches, count }))
    }

    fn show_done(&mut self, tag: &str, rows: u64, elapsed: Duration) -> Result<()> {
        if self.output.json {
            return json::write_done(self.output, tag, rows);
        }
        let time = self.time(elapsed);
        Ok(self.output.line(&format!("{tag}{time}"))?)
    }

    fn show_rows(&mut self, shown: &Shown, elapsed: Duration) -> Result<()> {
        if self.output.json {
            return json::write_rows(self.output, &shown.schema, &shown.batches);
        }
        let grid = rows::grid(&shown.schema, &shown.batches, self.settings.rows)?;
        let style = self.output.style;
        let fit = if self.settings.expanded {
            grid.write_expanded(self.output, style)?;
            Fit::default()
        } else {
            let width = self.output.width();
            grid.write(self.output, width, style)?
        };
        let count = size::counted(shown.count as u64, "row");
        let time = self.time(elapsed);
        self.output.line(&format!("{count}{time}"))?;
        for note in notes(&fit, shown.count, self.settings.rows) {
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
