//! Arguments of the commands that run SQL: `sql`, `attach` and `load`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::owner::OwnerArgs;

/// Statements to run instead of the shell.
#[derive(Debug, Clone, Default, Args)]
pub struct ScriptArgs {
    /// Run a statement (or several, separated by `;`) and end; may be given again
    #[arg(short = 'c', long = "command", value_name = "STATEMENT")]
    pub commands: Vec<String>,

    /// Run the statements of a file and end (`-` is the standard input); files come before -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub scripts: Vec<PathBuf>,

    /// A value for the parameters of the statements: the first for $1, the next for $2, …; \N is
    /// NULL
    #[arg(long = "param", value_name = "VALUE", allow_hyphen_values = true)]
    pub params: Vec<String>,
}

impl ScriptArgs {
    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.scripts.is_empty()
    }
}

/// `atoll sql`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll sql bank                        a shell; \\? inside it shows its commands
  atoll sql bank --memory 4GiB --snapshot-age-max 10m
  atoll sql bank -c 'SELECT 1 + 1'      run one statement
  atoll sql bank --data ./bank -c 'INSERT INTO t VALUES ($1, $2)' --param 7 --param=a
                                        with values, which need no quotes of SQL
  atoll sql bank -f schema.sql --serve  run a script, then serve snapshots until Ctrl-C
  atoll sql bank < script.sql           run a script from the standard input
  atoll sql bank --data ./bank          keep it in a folder; open it again the same way
  atoll sql bank --data ./bank -c 'CREATE TABLE t (id bigint PRIMARY KEY) TABLESPACE node1'
                                        a table that belongs to a node, on a machine with several

While the command runs, other processes read the database with `atoll attach NAME`. When it ends,
the database is gone unless it has a folder; snapshots that others hold stay readable.
In the shell, Ctrl-C cancels the line, or the statement that runs; twice, it ends the shell, as
Ctrl-D does. Ctrl-\\ ends the process at once.")]
pub struct SqlArgs {
    /// Name under which other processes find the database
    pub name: String,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Keep owning the database after -c and -f, until Ctrl-C
    #[arg(long)]
    pub serve: bool,
    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
}

/// `atoll attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll attach bank                     a shell on a snapshot; `refresh` takes a newer one
  atoll attach bank -c 'SELECT sum(balance) FROM accounts'
  atoll attach bank --json -c 'SELECT * FROM accounts'

The snapshot shows the commits up to one moment, costs the owner some microseconds, and copies
nothing. It never changes: `refresh` in the shell releases it and takes a new one.")]
pub struct AttachArgs {
    /// Name of the database
    pub name: String,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
}

/// `atoll dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll dump bank > bank.sql            a database that another process has open
  atoll dump --data ./bank -o bank.sql  one that is kept in a folder and not open
  atoll dump bank --schema-only         definitions without rows
  atoll dump bank --table t --table sales.orders
  atoll sql copy --data ./copy -f bank.sql
                                        makes it again; psql -f bank.sql in PostgreSQL

All of it is as it was at one moment. The script has every name with its schema, rows as COPY has
them, and indexes and foreign keys behind the rows. A column of type binary(n) becomes one of type
bytea with a condition, since PostgreSQL has no such type; tablespaces are left away.")]
pub struct DumpArgs {
    /// Name of a database that is open
    pub name: Option<String>,
    /// Definitions only
    #[arg(long, conflicts_with = "data_only")]
    pub schema_only: bool,
    /// Rows and the state of sequences only
    #[arg(long)]
    pub data_only: bool,
    /// Only this table, with its sequences; may be given again
    #[arg(long = "table", short = 't', value_name = "TABLE")]
    pub tables: Vec<String>,
    /// File for the script [default: the standard output]
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Settings of a database that is opened.
    #[command(flatten)]
    pub owner: OwnerArgs,
}

/// `atoll load`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll load flights flights.parquet --key id
                                        one table, named after its file, then the shell
  atoll load shop --table orders=o.csv --key orders=id --table items=i.csv --key items=order,pos
  atoll load shop --table orders o.csv --schema schema.sql
                                        into the columns that a CREATE TABLE in schema.sql gives
  atoll load shop o.csv --key id --serve &
                                        serve snapshots until Ctrl-C, without a shell
  zcat logs.gz | atoll load db --table logs=- --format csv --key id -c 'SELECT count(*) FROM logs'
  atoll load db o.csv.zst --key id --on-conflict skip

A file is loaded completely or not at all. CSV files need a first line that names the columns; their
types are found by reading every line. Files may be compressed with gzip or zstd. A column has the
name that it has in the file; SQL needs quotes for one like \"Name\", as the report says. In the
shell, \\load FILE TABLE does the same.")]
pub struct LoadArgs {
    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// Name under which other processes find the database
    pub name: String,
    /// CSV or Parquet files, or `-` for the standard input; each becomes a table named after it
    /// unless --table says otherwise
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A table and its file (T=FILE), or the name of the table for the FILE in the same place
    #[arg(long = "table", value_name = "T[=FILE]")]
    pub tables: Vec<String>,
    /// Primary key of a table that is created: columns for all (a,b), or for one table (T=a,b)
    #[arg(long = "key", value_name = "[T=]COLUMNS")]
    pub keys: Vec<String>,
    /// Create tables that do not exist from the columns of their file (always so without --schema)
    #[arg(long)]
    pub create: bool,
    /// Run this script first, to create the tables
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Format of the files [default: what their names end in]
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    /// Character between the fields of a CSV file (`\t` is a tab)
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,
    /// Field of a CSV file that means NULL where it has no quotes [default: an empty one]
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// The CSV files have no line of names; their tables must exist
    #[arg(long)]
    pub no_header: bool,
    /// Treatment of a row with a key that the table has already
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_conflict: Conflict,
    /// Cut timestamps that are finer than a microsecond [default: refuse them]
    #[arg(long)]
    pub truncate_timestamps: bool,
    /// What to run.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Serve snapshots until Ctrl-C instead of opening the shell
    #[arg(long)]
    pub serve: bool,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    Csv,
    Parquet,
}

/// The treatment of a row with a key that the table has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Conflict {
    /// Load nothing
    #[default]
    Fail,
    /// Skip the row
    Skip,
    /// Let the row replace the other
    Replace,
}

pub(super) fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    let byte = match text.as_bytes() {
        b"\\t" => b'\t',
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => *byte,
        _ => return Err("use one ASCII character such as ';', or \\t for a tab".to_owned()),
    };
    Ok(byte)
}
