//! Checkpoints: bytes that a checkpoint writes after random updates of 8 bytes, compared with the
//! minimum.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use atoll::{CheckpointReport, Database, DatabaseOptions, Durability, SchemeKind, Value};
use clap::Args;
use serde::Serialize;

use super::accounts;
use crate::error::BenchError;
use crate::folder::Folder;
use crate::keys::Random;
use crate::oltp::args::as_text;
use crate::progress::Progress;

/// Measures checkpoints.
#[derive(Debug, Clone, Args, Serialize)]
pub struct CheckpointArgs {
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub rows: u64,
    /// Rows that are updated before each checkpoint
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    #[arg(default_values_t = [100, 1000, 10_000])]
    pub updates: Vec<u64>,
    /// The concurrency-control scheme
    #[arg(long, default_value_t, value_name = "SCHEME")]
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// Where the folder of the database is created and removed [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A checkpoint after a number of updates.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointRun {
    /// Rows updated.
    pub updates: u64,
    /// Bytes of the cache lines that changed: the least that could be written.
    pub cla_bytes: u64,
    /// Bytes of the blocks of 4 KiB that changed.
    pub block_bytes: u64,
    /// Bytes of the extents that changed.
    pub extent_bytes: u64,
    /// Bytes written, divided by those of the changed cache lines.
    pub ratio: f64,
    /// The report of the database.
    pub checkpoint: CheckpointReport,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointBenchReport {
    /// The arguments.
    pub config: CheckpointArgs,
    /// The first checkpoint, which writes everything.
    pub whole: CheckpointReport,
    /// The other checkpoints.
    pub runs: Vec<CheckpointRun>,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`].
pub fn run(
    args: &CheckpointArgs,
    progress: Progress<'_>,
) -> Result<CheckpointBenchReport, BenchError> {
    if args.rows == 0 {
        let (what, value) = ("--rows", "0".to_owned());
        return Err(BenchError::Argument { what, value, need: "at least one is needed" });
    }
    let folder = Folder::new(args.data.as_deref())?;
    let options = DatabaseOptions {
        scheme: args.scheme,
        durability: Durability::None,
        tablespaces: Some(1),
        checkpoint_log_bytes: u64::MAX,
        ..DatabaseOptions::default()
    };
    let db = Database::open(&folder.path().join("db"), options)?;
    progress.say(&format!("loading {} rows", args.rows));
    let table = accounts::load(&db, args.rows)?;
    let whole = db.checkpoint()?;
    let mut random = Random::new(1);
    let mut session = db.session()?;
    let mut runs = Vec::new();
    for updates in args.updates.iter().copied() {
        progress.say(&format!("{updates} updates"));
        let mut rows = BTreeSet::new();
        for _ in 0..updates {
            let row = random.below(args.rows);
            rows.insert(row);
            session.transaction(|tx| {
                let key = [Value::Int64(row as i64)];
                tx.update_with(&table, &key, |row| row.set_i64(1, row.i64(1) + 1))?;
                Ok(())
            })?;
        }
        let checkpoint = db.checkpoint()?;
        // One session inserted the rows in key order, so the values of adjacent keys are adjacent.
        let areas = |bytes: u64| {
            let each = bytes / 8;
            rows.iter().map(|row| row / each).collect::<BTreeSet<_>>().len() as u64 * bytes
        };
        let block_bytes = areas(4096);
        runs.push(CheckpointRun {
            updates,
            cla_bytes: areas(64),
            block_bytes,
            extent_bytes: areas(64 << 10),
            ratio: (checkpoint.bytes + checkpoint.file_bytes) as f64 / areas(64) as f64,
            checkpoint,
        });
    }
    Ok(CheckpointBenchReport { config: args.clone(), whole, runs })
}

impl fmt::Display for CheckpointBenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        let CheckpointReport { bytes, seconds, segments, .. } = self.whole;
        writeln!(f, "everything: {:.0} MiB of {segments} segments in {seconds:.2} s", mib(bytes))?;
        writeln!(
            f,
            "{:>9}{:>13}{:>13}{:>13}{:>13}{:>8}{:>9}",
            "updates", "areas KiB", "blocks KiB", "extents KiB", "written KiB", "ratio", "seconds"
        )?;
        for run in &self.runs {
            let kib = |bytes: u64| bytes as f64 / 1024.0;
            writeln!(
                f,
                "{:>9}{:>13.0}{:>13.0}{:>13.0}{:>13.0}{:>8.2}{:>9.3}",
                run.updates,
                kib(run.cla_bytes),
                kib(run.block_bytes),
                kib(run.extent_bytes),
                kib(run.checkpoint.bytes + run.checkpoint.file_bytes),
                run.ratio,
                run.checkpoint.seconds
            )?;
        }
        Ok(())
    }
}
