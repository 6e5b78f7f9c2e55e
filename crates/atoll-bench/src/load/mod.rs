//! Loading: how fast many rows come into a new table, and how much memory they take.
//!
//! The rows are pairs of numbers in Arrow arrays, with the first number as the key. They are loaded
//! in bulk, or inserted by transactions. Afterwards every row is read once by its key, so that each
//! has the state that transactions need. With many tables of few rows, it shows what a table takes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array};
use atoll::load::LoadOptions;
use atoll::{
    ArrowRows, Column, DataType, Database, DatabaseOptions, IndexSpec, MemoryAccount, Result,
    Schema, SchemeKind, Session, Table, TableOptions, Value,
};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::folder::Folder;
use crate::keys::Random;
use crate::machine_facts::resident_bytes;
use crate::oltp::args::as_text;
use crate::progress::Progress;

/// Rows of a batch.
const BATCH: usize = 1 << 16;
/// Rows that one transaction reads or inserts.
const ROWS_TOGETHER: usize = 1000;

/// The order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Random.
    Random,
    /// Ascending, without gaps.
    Sorted,
}

/// How the rows come into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// In bulk, with all CPUs.
    Bulk,
    /// By transactions of a thousand rows, on one thread.
    Transactions,
}

/// Measures loading.
#[derive(Debug, Clone, Args, Serialize)]
pub struct LoadArgs {
    /// Rows of each table
    #[arg(long, default_value_t = 10_000_000, value_name = "N")]
    pub rows: usize,
    /// Tables, each of which gets the same rows
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub tables: usize,
    /// Columns beside the key
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub columns: usize,
    /// Order of the keys
    #[arg(long, value_enum, default_value_t = Order::Random, value_name = "ORDER")]
    pub order: Order,
    /// Ordered indexes over the second column
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub indexes: usize,
    /// How the rows come into the table
    #[arg(long, value_enum, default_value_t = How::Bulk, value_name = "HOW")]
    pub how: How,
    /// The concurrency-control scheme
    #[arg(long, default_value_t, value_name = "SCHEME")]
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// Keep the database in a folder that is created here, and removed afterwards [default: in
    /// memory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct LoadBenchReport {
    /// The arguments.
    pub config: LoadArgs,
    /// Seconds of loading.
    pub seconds: f64,
    /// Rows that were loaded per second.
    pub rows_s: f64,
    /// Bytes of the process for each table, before loading.
    pub empty_table_bytes: f64,
    /// The same, after loading and reading.
    pub table_bytes: f64,
    /// Bytes of the process for each row, after loading.
    pub row_bytes: f64,
    /// The same, after every row was read once.
    pub row_bytes_read: f64,
    /// Where the memory is at the end.
    pub memory: MemoryAccount,
    /// Seconds of reading every row once, in transactions of a thousand rows on one thread.
    pub read_seconds: f64,
}

impl fmt::Display for LoadBenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadArgs { rows, tables, columns, order, how, scheme, .. } = &self.config;
        write!(f, "{rows} rows of {} numbers, {order:?} keys, {how:?}, {scheme}", columns + 1)?;
        writeln!(f, "{}", if *tables > 1 { format!(", {tables} tables") } else { String::new() })?;
        writeln!(f, "loaded in     {:10.3} s, {:.0} rows/s", self.seconds, self.rows_s)?;
        writeln!(f, "bytes per row {:10.1} after loading", self.row_bytes)?;
        writeln!(f, "              {:10.1} after reading every row", self.row_bytes_read)?;
        if *tables > 1 {
            writeln!(f, "a table takes {:10.0} bytes when it is empty", self.empty_table_bytes)?;
            writeln!(f, "              {:10.0} bytes at the end", self.table_bytes)?;
        }
        write!(f, "all rows read {:10.3} s", self.read_seconds)
    }
}

fn keys(args: &LoadArgs) -> Vec<i64> {
    let mut keys: Vec<i64> = (0..args.rows as i64).collect();
    if args.order == Order::Random {
        let mut random = Random::new(1);
        for at in (1..keys.len()).rev() {
            keys.swap(at, random.below(at as u64 + 1) as usize);
        }
    }
    keys
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; [`BenchError::Inconsistent`] when a row is missing.
pub fn run(
    args: &LoadArgs,
    progress: Progress<'_>,
) -> std::result::Result<LoadBenchReport, BenchError> {
    progress.say("making the rows");
    let keys = keys(args);
    let array = |keys: &[i64], column: usize| {
        let values = keys.iter().map(|key| key.wrapping_mul(column as i64 + 1));
        Some(Arc::new(values.collect::<Int64Array>()) as ArrayRef)
    };
    let batches: Vec<ArrowRows> = keys
        .chunks(BATCH)
        .map(|keys| ArrowRows {
            rows: keys.len(),
            columns: (0..=args.columns).map(|column| array(keys, column)).collect(),
        })
        .collect();
    let options = DatabaseOptions { scheme: args.scheme, ..DatabaseOptions::default() };
    let folder = args.data.as_deref().map(|parent| Folder::new(Some(parent))).transpose()?;
    let db = match &folder {
        Some(folder) => Database::open(folder.path(), options)?,
        None => Database::create(options)?,
    };
    let names = (0..=args.columns).map(|column| format!("c{column}"));
    let columns = names.map(|name| Column::new(name, DataType::Int64)).collect();
    let index = |at: usize| IndexSpec {
        name: format!("i{at}"),
        columns: vec![format!("c{}", args.columns.min(1))],
        unique: false,
        nulls_not_distinct: false,
    };
    let indexes = (0..args.indexes).map(index).collect();
    let options = TableOptions { indexes, ..TableOptions::default() };
    let schema = Schema::new(columns, &["c0"])?;
    // What the first table of a database takes is not counted.
    db.create_table("first", schema.clone())?;
    let (began_bytes, count) = (resident_bytes(), args.tables.max(1));
    let bytes_since = |before: u64, parts: usize| {
        resident_bytes().saturating_sub(before) as f64 / parts.max(1) as f64
    };
    let table = |at: usize| db.create_table_with(&format!("t{at}"), schema.clone(), &options);
    let tables = (0..count).map(table).collect::<Result<Vec<Table>>>()?;
    let empty_table_bytes = bytes_since(began_bytes, count);
    let before = resident_bytes();
    let row_bytes = || bytes_since(before, args.rows * count);
    progress.say("loading");
    let began = Instant::now();
    for table in &tables {
        match args.how {
            How::Bulk => drop(db.insert_arrow(table, &batches, LoadOptions::default())?),
            How::Transactions => insert(&mut db.session()?, table, &batches)?,
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let loaded_bytes = row_bytes();
    progress.say("reading every row");
    let began = Instant::now();
    let mut session = db.session()?;
    for table in &tables {
        let found = read(&mut session, table, &keys)?;
        if found != args.rows {
            let told = format!("{found} of {} rows were found", args.rows);
            return Err(BenchError::Inconsistent(told));
        }
    }
    Ok(LoadBenchReport {
        config: args.clone(),
        seconds,
        rows_s: (args.rows * count) as f64 / seconds,
        empty_table_bytes,
        table_bytes: bytes_since(began_bytes, count),
        row_bytes: loaded_bytes,
        row_bytes_read: row_bytes(),
        memory: db.memory(),
        read_seconds: began.elapsed().as_secs_f64(),
    })
}

fn insert(session: &mut Session, table: &Table, batches: &[ArrowRows]) -> Result<()> {
    let mut rows = Vec::new();
    for batch in batches {
        for first in (0..batch.rows).step_by(ROWS_TOGETHER) {
            rows.clear();
            for row in first..batch.rows.min(first + ROWS_TOGETHER) {
                let columns = batch.columns.iter().flatten();
                rows.extend(columns.map(|array| atoll::load::value(array, DataType::Int64, row)));
            }
            session.transaction(|tx| tx.insert(table, &rows))?;
        }
    }
    Ok(())
}

/// Reads all rows; returns how many there are.
fn read(session: &mut Session, table: &Table, keys: &[i64]) -> Result<usize> {
    let mut found = 0;
    for keys in keys.chunks(ROWS_TOGETHER) {
        found += session.transaction(|tx| {
            let mut found = 0;
            for key in keys {
                let read = tx.read_with(table, &[Value::Int64(*key)], |row| row.value(1))?;
                found += usize::from(read.is_some());
            }
            Ok(found)
        })?;
    }
    Ok(found)
}
