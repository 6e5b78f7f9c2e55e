//! `atoll dump`: a database as a script of SQL.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use atoll::Snapshot;
use atoll_sql::{DumpError, DumpOptions};

use crate::args::{DumpArgs, GlobalArgs};
use crate::error::{CliError, Result};
use crate::opening;
use crate::output::{Output, Style};

/// Runs the command.
///
/// # Errors
/// A name without an owner, a folder that cannot be opened, a table that does not exist, and those
/// of writing.
pub fn run(args: &DumpArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let tables = args.tables.iter().map(|table| {
        atoll_sql::relation_in_text(table)
            .ok_or_else(|| CliError::new(format!("\"{table}\" is not the name of a table")))
    });
    let options = DumpOptions {
        definitions: !args.data_only,
        rows: !args.schema_only,
        tables: tables.collect::<Result<_>>()?,
    };
    match (&args.name, &args.owner.data) {
        (Some(name), None) => {
            global.refuse_database_limits("dump")?;
            global.refuse_nodes("`atoll dump` of a database that is open")?;
            let attachment = atoll::attach(name, global.runtime_dir.as_deref())?;
            write(&attachment.snapshot()?, &options, args, output)
        }
        (None, Some(folder)) => {
            let style = Style::of_stderr(global.color);
            let database = opening::open(folder, global.database_options(&args.owner), style)?;
            write(&database.snapshot()?, &options, args, output)?;
            Ok(database.close()?)
        }
        _ => Err(CliError::with_hint(
            "dump takes the name of a database that is open, or the folder of one that is not",
            "atoll dump NAME, or atoll dump --data DIR",
        )),
    }
}

fn write(
    snapshot: &Snapshot,
    options: &DumpOptions,
    args: &DumpArgs,
    output: &mut Output,
) -> Result<()> {
    let Some(path) = &args.output else {
        return atoll_sql::dump(snapshot, options, output).map_err(|error| failed(error, None));
    };
    let file = File::create(path).map_err(|error| unwritten(path, &error))?;
    let mut file = BufWriter::new(file);
    let dumped = atoll_sql::dump(snapshot, options, &mut file);
    let written = dumped.and_then(|()| Ok(file.flush()?));
    written.map_err(|error| failed(error, Some(path)))
}

fn failed(error: DumpError, path: Option<&Path>) -> CliError {
    match (error, path) {
        (DumpError::Sql(error), _) => error.into(),
        (DumpError::Write(error), Some(path)) => unwritten(path, &error),
        (DumpError::Write(error), None) => error.into(),
        (other, _) => CliError::new(other.to_string()),
    }
}

fn unwritten(path: &Path, error: &io::Error) -> CliError {
    CliError::new(format!("cannot write {}: {error}", path.display()))
}
