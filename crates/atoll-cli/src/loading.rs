//! Loading a file into a table, for `atoll load` and `\load` of the shell: the table is created if
//! it may be, a bar shows the progress, and a report tells what was loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll::Database;
use atoll_sql::{Cause, Format, Input, LoadOptions, Question, SqlError, quoted_if_needed};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::error::{CliError, Result};
use crate::output::Output;
use crate::size;

/// The file name that denotes the standard input.
pub const STANDARD_INPUT: &str = "-";

/// A file on its way into a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The file; `-` is the standard input.
    pub file: PathBuf,
    /// The table.
    pub table: String,
    /// Columns of its primary key; empty when it must exist.
    pub key: Vec<String>,
    /// Whether the table is created if there is none.
    pub create: bool,
    /// The format of the file.
    pub format: Format,
    /// The treatment of rows and values that are refused by default.
    pub options: LoadOptions,
}

/// A file that was loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Done {
    table: String,
    file: String,
    rows: u64,
    skipped: u64,
    replaced: u64,
    bytes: u64,
    seconds: f64,
    /// Columns of a table created for the file that need quotes in SQL.
    quoted: Vec<String>,
    /// Columns of it that have no name in the file, with the name that they were given.
    named: Vec<String>,
    /// Columns of it without any value in the file, which are text.
    untyped: Vec<String>,
}

/// The names of a list; a name in double quotes may contain commas.
pub fn split_names(list: &str) -> Vec<String> {
    let mut quoted = false;
    let parts = list.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    let bare = |part: &str| {
        let part = part.trim();
        let inner = part.strip_prefix('"').and_then(|part| part.strip_suffix('"'));
        inner.map_or_else(|| part.to_owned(), |inner| inner.replace("\"\"", "\""))
    };
    parts.map(bare).collect()
}

/// The error for a file name that does not imply a format.
pub fn unknown_format(file: &Path) -> CliError {
    CliError::with_hint(
        format!("the name of {} does not tell its format", file.display()),
        "names end in .csv, .tsv or .parquet, perhaps with .gz or .zst behind; `atoll load` also \
         takes --format",
    )
}

/// Loads a file with a progress bar on the standard error output, if that is a terminal.
///
/// # Errors
/// Errors of the file, and a table that cannot be created. Nothing is loaded then.
pub fn load(database: &Database, job: &Job, question: Option<Arc<Question>>) -> Result<Done> {
    let begin = Instant::now();
    let input = open(&job.file)?;
    let (file, bytes) = (input.name().to_owned(), input.bytes());
    let in_file = |error: SqlError| {
        let hint = way_out(&error).map_or_else(|| error.hint().map(str::to_owned), Some);
        // Some errors name the file themselves.
        let named = error.message().contains(&file);
        let mut message = if named { error.to_string() } else { format!("{file}: {error}") };
        if let Some(detail) = error.detail() {
            message.push_str(&format!("\ndetail: {detail}"));
        }
        CliError::Said { message, hint }
    };
    let (mut quoted, mut named, mut untyped) = (Vec::new(), Vec::new(), Vec::new());
    let exists = database.tables().contains(&job.table);
    if !exists {
        check_may_create(job)?;
        let key: Vec<&str> = job.key.iter().map(String::as_str).collect();
        let (table, format, options) = (&job.table, &job.format, &job.options);
        let made = atoll_sql::create_table_from(database, table, &input, format, options, &key);
        let made = made.map_err(in_file)?;
        named = made.named;
        untyped = made.untyped;
        let columns = made.table.schema().columns().iter();
        let shown = columns.map(|column| (&column.name, quoted_if_needed(&column.name)));
        let needed = shown.filter(|(name, shown)| *name != shown);
        quoted = needed.map(|(_, shown)| shown.into_owned()).collect();
    }
    let bar = progress_bar(bytes);
    bar.set_prefix(job.table.clone());
    let mut progress = |p: atoll_sql::Progress| {
        bar.set_length(p.bytes_total);
        bar.set_position(p.bytes_done);
        let seconds = begin.elapsed().as_secs_f64().max(0.001);
        let rate = size::count((p.rows as f64 / seconds) as u64);
        bar.set_message(format!("{} rows, {rate}/s", size::count(p.rows)));
    };
    let (table, format, options) = (&job.table, &job.format, &job.options);
    let loaded =
        atoll_sql::copy_from(database, table, &input, format, options, question, &mut progress);
    bar.finish_and_clear();
    let loaded = loaded.map_err(in_file)?;
    let seconds = begin.elapsed().as_secs_f64();
    let (table, rows) = (job.table.clone(), loaded.rows());
    let (skipped, replaced) = (loaded.skipped, loaded.replaced);
    Ok(Done { table, file, rows, skipped, replaced, bytes, seconds, quoted, named, untyped })
}

fn open(file: &Path) -> Result<Input> {
    let opened = match file.to_str() {
        Some(STANDARD_INPUT) => Input::spool("(standard input)", std::io::stdin().lock()),
        _ => Input::open(file),
    };
    opened.map_err(|error| CliError::Said {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
    })
}

/// The option with which a failed load would succeed, if there is one.
fn way_out(error: &SqlError) -> Option<String> {
    let hint = match error.cause()? {
        Cause::DuplicateKey => {
            "`atoll load` leaves such rows out with --on-conflict skip and lets them replace \
             the others with --on-conflict replace; so does COPY … WITH (ON_CONFLICT skip)"
        }
        Cause::FineTimestamp => {
            "`atoll load` cuts what is finer with --truncate-timestamps, and so does COPY … WITH \
             (TRUNCATE_TIMESTAMPS)"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn check_may_create(job: &Job) -> Result<()> {
    let table = &job.table;
    if !job.create {
        return Err(CliError::with_hint(
            format!("there is no table \"{table}\""),
            "add --create (in the shell: a KEY) to make it from the columns of the file",
        ));
    }
    if job.key.is_empty() {
        return Err(CliError::with_hint(
            format!("table \"{table}\" needs a primary key to be created"),
            format!("add --key COLUMNS or --key {table}=COLUMNS"),
        ));
    }
    Ok(())
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let template = "{prefix} {wide_bar:.cyan/dim} {bytes}/{total_bytes} · {msg} · {eta} left";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─");
    ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr()).with_style(style)
}

/// Reports a loaded file.
///
/// # Errors
/// Those of writing.
pub fn write(output: &mut Output, done: &Done) -> Result<()> {
    if output.json {
        return Ok(output.json(done)?);
    }
    let seconds = done.seconds.max(1e-6);
    let rate = size::count((done.rows as f64 / seconds) as u64);
    let text = format!(
        "{}: {} from {} ({}) in {}, {rate} rows/s",
        output.style.bold(&done.table),
        size::counted(done.rows, "row"),
        done.file,
        size::bytes(done.bytes),
        size::elapsed(Duration::from_secs_f64(seconds)),
    );
    output.line(&text)?;
    if done.skipped > 0 {
        let rows = size::counted(done.skipped, "row");
        output.line(&format!("  {rows} skipped, with keys that existed already"))?;
    }
    if done.replaced > 0 {
        let rows = size::counted(done.replaced, "row");
        output.line(&format!("  {rows} of them replaced another with the same key"))?;
    }
    if !done.named.is_empty() {
        let named = done.named.join(", ");
        output.line(&format!("  columns without a name in the file: {named}"))?;
    }
    if !done.untyped.is_empty() {
        let untyped = done.untyped.join(", ");
        output.line(&format!("  columns without a value in the file, made text: {untyped}"))?;
    }
    if !done.quoted.is_empty() {
        let quoted = done.quoted.join(", ");
        output.line(&format!("  columns that SQL needs in quotes: {quoted}"))?;
    }
    Ok(std::io::Write::flush(output)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_may_have_commas() {
        assert_eq!(split_names("a, B"), ["a", "B"]);
        assert_eq!(split_names(r#""a,b" , "say ""x""","#), ["a,b", r#"say "x""#, ""]);
    }
}
