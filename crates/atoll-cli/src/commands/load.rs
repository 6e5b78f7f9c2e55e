//! `atoll load`: files into the tables of a database that this process owns from then on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll::Database;
use atoll_sql::{
    Cause, Format, Input, LoadOptions, OnConflict, Question, SqlError, quoted_if_needed,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::{Conflict, FileFormat, GlobalArgs, LoadArgs};
use crate::commands::work;
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::session::Session;
use crate::shell::Shell;
use crate::size;

/// The file name that denotes the standard input.
const STANDARD_INPUT: &str = "-";

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

/// Runs the command.
///
/// # Errors
/// A command line that does not fit together, a name that is taken, and the first file that cannot
/// be loaded.
pub fn run(args: &LoadArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let jobs = jobs(args)?;
    let session = Session::own(&args.name, &args.owner, global)?;
    let mut shell = Shell::new(session, output);
    if let Some(schema) = &args.schema {
        shell.run_file(schema)?;
    }
    for job in &jobs {
        let done = load(shell.session().database()?, job, None)?;
        write(shell.output(), &done)?;
    }
    work(&mut shell, &args.name, args.serve, &args.script)
}

/// The loads that a command line requests.
fn jobs(args: &LoadArgs) -> Result<Vec<Job>> {
    let mut files = args.files.iter();
    let mut pairs: Vec<(String, PathBuf)> = Vec::new();
    for table in &args.tables {
        let pair = match table.split_once('=') {
            Some((table, file)) => (table.to_owned(), PathBuf::from(file)),
            None => match files.next() {
                Some(file) => (table.clone(), file.clone()),
                None => {
                    return Err(CliError::with_hint(
                        format!("--table {table} has no file"),
                        format!("write --table {table}=FILE, or name the file at the end"),
                    ));
                }
            },
        };
        pairs.push(pair);
    }
    for file in files {
        pairs.push((table_of(file)?, file.clone()));
    }
    if pairs.is_empty() {
        return Err(CliError::with_hint(
            "there is nothing to load",
            format!("name a file: atoll load {} flights.parquet --key id", args.name),
        ));
    }
    let keys = keys(&args.keys, &pairs)?;
    pairs
        .into_iter()
        .map(|(table, file)| {
            let key = keys.get(&table).or_else(|| keys.get("")).cloned().unwrap_or_default();
            let format = format(args, &file)?;
            let create = args.create || args.schema.is_none();
            let options = options(args);
            Ok(Job { file, table, key, create, format, options })
        })
        .collect()
}

fn options(args: &LoadArgs) -> LoadOptions {
    let on_conflict = match args.on_conflict {
        Conflict::Fail => OnConflict::Fail,
        Conflict::Skip => OnConflict::Skip,
        Conflict::Replace => OnConflict::Replace,
    };
    LoadOptions { on_conflict, truncate_timestamps: args.truncate_timestamps }
}

/// The primary key of each table; that of all tables has the empty name.
fn keys(keys: &[String], pairs: &[(String, PathBuf)]) -> Result<HashMap<String, Vec<String>>> {
    let mut found = HashMap::new();
    for key in keys {
        let (table, columns) = key.split_once('=').unwrap_or(("", key));
        if !table.is_empty() && !pairs.iter().any(|(name, _)| name == table) {
            return Err(CliError::new(format!(
                "--key {key} is for table \"{table}\", which is not loaded"
            )));
        }
        found.insert(table.to_owned(), split_names(columns));
    }
    Ok(found)
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

/// The name that a table gets from its file: the part before the first dot, in lower case.
fn table_of(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    // A pipe of the shell, /dev/fd/63, has a number.
    let is_stream = file == Path::new(STANDARD_INPUT) || file.starts_with("/dev");
    match stem.is_empty() || is_stream {
        false => Ok(stem.chars().map(plain).collect()),
        true => Err(CliError::with_hint(
            format!("the name of {} gives no name for a table", file.display()),
            format!("write --table NAME={}", file.display()),
        )),
    }
}

fn format(args: &LoadArgs, file: &Path) -> Result<Format> {
    let csv_options = args.delimiter.is_some() || args.null.is_some() || args.no_header;
    let found = match args.format {
        Some(FileFormat::Csv) => Format::csv(),
        Some(FileFormat::Parquet) => Format::Parquet,
        None => Format::of_path(file).ok_or_else(|| unknown_format(file))?,
    };
    match found {
        Format::Csv { header, delimiter, null } => Ok(Format::Csv {
            header: header && !args.no_header,
            delimiter: args.delimiter.unwrap_or(delimiter),
            null: args.null.clone().unwrap_or(null),
        }),
        _ if csv_options => Err(CliError::new(format!(
            "--delimiter, --null and --no-header are for CSV files, and {} is none",
            file.display()
        ))),
        other => Ok(other),
    }
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
        let message = if named { error.to_string() } else { format!("{file}: {error}") };
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parsed(line: &[&str]) -> Result<Vec<Job>> {
        let words = ["atoll", "load", "db"].iter().chain(line);
        let Command::Load(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("the command is load");
        };
        jobs(&args)
    }

    fn pairs(line: &[&str]) -> Vec<(String, String)> {
        let jobs = parsed(line).unwrap().into_iter();
        jobs.map(|job| (job.table, job.file.display().to_string())).collect()
    }

    fn pair(table: &str, file: &str) -> (String, String) {
        (table.to_owned(), file.to_owned())
    }

    #[test]
    fn tables_and_files_are_paired_in_each_way() {
        assert_eq!(pairs(&["d/Big-Flights.csv"]), [pair("big_flights", "d/Big-Flights.csv")]);
        assert_eq!(
            pairs(&["--table", "t=a.csv", "b.tsv"]),
            [pair("t", "a.csv"), pair("b", "b.tsv")]
        );
        assert_eq!(pairs(&["--table", "t", "a.csv"]), [pair("t", "a.csv")]);
        assert!(parsed(&["--table", "t"]).is_err());
        assert!(parsed(&[]).is_err());
    }

    #[test]
    fn keys_belong_to_one_table_or_to_all() {
        let line = ["a.csv", "b.csv", "--key", "id", "--key", "b=x, y"];
        let jobs = parsed(&line).unwrap();
        assert_eq!(jobs[0].key, ["id"]);
        assert_eq!(jobs[1].key, ["x", "y"]);
        assert!(parsed(&["a.csv", "--key", "c=x"]).is_err());
    }

    #[test]
    fn names_in_quotes_may_have_commas() {
        assert_eq!(split_names("a, B"), ["a", "B"]);
        assert_eq!(split_names(r#""a,b" , "say ""x""","#), ["a,b", r#"say "x""#, ""]);
    }

    #[test]
    fn streams_give_no_name_to_a_table() {
        let csv = ["--format", "csv"];
        for stream in ["-", "/dev/stdin", "/dev/fd/63"] {
            assert!(parsed(&[&[stream], &csv[..]].concat()).is_err(), "{stream}");
            let table = format!("t={stream}");
            let jobs = parsed(&[&["--table", &table], &csv[..]].concat()).unwrap();
            assert_eq!((jobs[0].table.as_str(), jobs[0].file.as_path()), ("t", Path::new(stream)));
        }
    }

    #[test]
    fn the_format_comes_from_the_name_or_is_said() {
        let semicolon = &parsed(&["a.csv", "--delimiter", ";", "--null", "NA"]).unwrap()[0];
        let wanted = Format::Csv { header: true, delimiter: b';', null: "NA".to_owned() };
        assert_eq!(semicolon.format, wanted);
        assert_eq!(parsed(&["a.dat", "--format", "parquet"]).unwrap()[0].format, Format::Parquet);
        assert!(parsed(&["a.dat"]).is_err());
        for name in ["a.csv.gz", "a.CSV.ZST", "a.csv.bz2"] {
            assert_eq!(parsed(&[name]).unwrap()[0].format, Format::csv(), "{name}");
        }
        assert_eq!(parsed(&["a.pq.gz"]).unwrap()[0].format, Format::Parquet);
        assert!(parsed(&["a.gz"]).is_err());
        assert!(parsed(&["a.parquet", "--no-header"]).is_err());
    }

    #[test]
    fn tables_are_created_unless_a_schema_makes_them() {
        assert!(parsed(&["a.csv"]).unwrap()[0].create);
        assert!(!parsed(&["a.csv", "--schema", "s.sql"]).unwrap()[0].create);
        assert!(parsed(&["a.csv", "--schema", "s.sql", "--create"]).unwrap()[0].create);
    }
}
