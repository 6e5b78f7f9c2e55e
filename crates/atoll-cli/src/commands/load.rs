//! `atoll load`: files into the tables of a database that this process owns from then on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atoll::Database;
use atoll_sql::Format;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::{FileFormat, GlobalArgs, LoadArgs};
use crate::commands::work;
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::session::Session;
use crate::shell::Shell;
use crate::size;

/// A file on its way into a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The file.
    pub file: PathBuf,
    /// The table.
    pub table: String,
    /// Columns of its primary key; empty when it must exist.
    pub key: Vec<String>,
    /// Whether the table is created if there is none.
    pub create: bool,
    /// What the file holds.
    pub format: Format,
}

/// A file that was loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Done {
    table: String,
    file: String,
    rows: u64,
    bytes: u64,
    seconds: f64,
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
        let done = load(shell.session().database()?, job)?;
        write(shell.output(), &done)?;
    }
    work(&mut shell, &args.name, args.serve, &args.script)
}

/// What a command line asks to load.
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
            Ok(Job { file, table, key, create, format })
        })
        .collect()
}

/// The primary key of each table; that of all tables stands under the empty name.
fn keys(keys: &[String], pairs: &[(String, PathBuf)]) -> Result<HashMap<String, Vec<String>>> {
    let mut found = HashMap::new();
    for key in keys {
        let (table, columns) = key.split_once('=').unwrap_or(("", key));
        if !table.is_empty() && !pairs.iter().any(|(name, _)| name == table) {
            return Err(CliError::new(format!(
                "--key {key} is for table \"{table}\", which is not loaded"
            )));
        }
        let columns = columns.split(',').map(|column| column.trim().to_owned()).collect();
        found.insert(table.to_owned(), columns);
    }
    Ok(found)
}

/// The name that a table gets from its file: what stands before the first dot, in lower case.
fn table_of(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default().to_lowercase();
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    match stem.is_empty() {
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

/// The error for a file whose name does not tell what it holds.
pub fn unknown_format(file: &Path) -> CliError {
    CliError::with_hint(
        format!("the name of {} does not tell its format", file.display()),
        "names end in .csv, .tsv or .parquet; `atoll load` also takes --format",
    )
}

/// Loads a file with a progress bar on the standard error output, if that is a terminal.
///
/// # Errors
/// What was wrong with the file, and a table that cannot be made. Nothing is loaded then.
pub fn load(database: &Database, job: &Job) -> Result<Done> {
    let begin = Instant::now();
    let file = job.file.display().to_string();
    let bytes = std::fs::metadata(&job.file).map_err(CliError::reading(&job.file))?.len();
    let in_file = |error: atoll_sql::SqlError| {
        let hint = error.hint().map(str::to_owned);
        // Some errors name the file themselves.
        let named = error.message().contains(&file);
        let message = if named { error.to_string() } else { format!("{file}: {error}") };
        CliError::Said { message, hint }
    };
    let exists = database.tables().contains(&job.table);
    if !exists {
        check_may_create(job)?;
        let key: Vec<&str> = job.key.iter().map(String::as_str).collect();
        let made = atoll_sql::create_table_from(database, &job.table, &job.file, &job.format, &key);
        made.map_err(in_file)?;
    }
    let bar = progress_bar(bytes);
    bar.set_prefix(job.table.clone());
    let loaded =
        atoll_sql::copy_from(database, &job.table, &job.file, job.format.clone(), &mut |p| {
            bar.set_length(p.bytes_total);
            bar.set_position(p.bytes_done);
            let seconds = begin.elapsed().as_secs_f64().max(0.001);
            let rate = size::count((p.rows as f64 / seconds) as u64);
            bar.set_message(format!("{} rows, {rate}/s", size::count(p.rows)));
        });
    bar.finish_and_clear();
    let rows = loaded.map_err(in_file)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Done { table: job.table.clone(), file, rows, bytes, seconds })
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

/// Tells of a file that was loaded.
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
    fn the_format_comes_from_the_name_or_is_said() {
        let semicolon = &parsed(&["a.csv", "--delimiter", ";", "--null", "NA"]).unwrap()[0];
        let wanted = Format::Csv { header: true, delimiter: b';', null: "NA".to_owned() };
        assert_eq!(semicolon.format, wanted);
        assert_eq!(parsed(&["a.dat", "--format", "parquet"]).unwrap()[0].format, Format::Parquet);
        assert!(parsed(&["a.dat"]).is_err());
        assert!(parsed(&["a.parquet", "--no-header"]).is_err());
    }

    #[test]
    fn tables_are_created_unless_a_schema_makes_them() {
        assert!(parsed(&["a.csv"]).unwrap()[0].create);
        assert!(!parsed(&["a.csv", "--schema", "s.sql"]).unwrap()[0].create);
        assert!(parsed(&["a.csv", "--schema", "s.sql", "--create"]).unwrap()[0].create);
    }
}
