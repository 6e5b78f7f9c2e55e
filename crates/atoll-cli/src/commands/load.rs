//! `atoll load`: files into the tables of a database that this process owns from then on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use atoll_sql::{Format, LoadOptions, OnConflict};

use crate::args::{Conflict, FileFormat, GlobalArgs, LoadArgs};
use crate::commands::work;
use crate::error::{CliError, Result};
use crate::loading::{self, Job, STANDARD_INPUT};
use crate::output::Output;
use crate::session::Session;
use crate::shell::Shell;

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
        let done = loading::load(shell.session().database()?, job, None)?;
        loading::write(shell.output(), &done)?;
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
        found.insert(table.to_owned(), loading::split_names(columns));
    }
    Ok(found)
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
        None => Format::of_path(file).ok_or_else(|| loading::unknown_format(file))?,
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
