//! Recovery: opens a database with a number of rows in the checkpoint and an amount of log behind
//! it.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use atoll::{Database, DatabaseOptions, Durability, RecoveryReport, SchemeKind, Value};
use clap::Args;
use serde::Serialize;

use super::{accounts, probe};
use crate::error::BenchError;
use crate::folder::Folder;
use crate::keys::Random;
use crate::oltp::args::as_text;
use crate::progress::Progress;

/// Rows changed by one transaction.
const UPDATES: u64 = 8;

/// Measures recovery.
#[derive(Debug, Clone, Args, Serialize)]
pub struct RecoveryArgs {
    /// MiB of log behind the last checkpoint
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub log_mib: u64,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub rows: u64,
    /// Tablespaces, each with a log; rows are in as many tables
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub tablespaces: usize,
    /// The concurrency-control scheme
    #[arg(long, default_value_t, value_name = "SCHEME")]
    #[serde(serialize_with = "as_text")]
    pub scheme: SchemeKind,
    /// Where the folder of the database is created and removed [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RecoveryBenchReport {
    /// The arguments.
    pub config: RecoveryArgs,
    /// Seconds of opening in total.
    pub seconds: f64,
    /// MiB of log read and applied per second.
    pub mib_s: f64,
    /// MiB per second of only reading the log files, measured before and after.
    pub probe_mib_s: f64,
    /// MiB of log per second if only memory mattered: the stores of its changes in random order,
    /// and nothing else.
    pub store_mib_s: f64,
    /// MiB in the checkpoint store.
    pub home_mib: f64,
    /// MiB of the checkpoint store that were loaded per second.
    pub home_mib_s: f64,
    /// Transactions redone.
    pub redone: u64,
    /// Transactions dropped; the checkpoint contains nothing of them, so nothing is undone.
    pub undone: u64,
    /// The report of the database.
    pub recovery: RecoveryReport,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &RecoveryArgs, progress: Progress<'_>) -> Result<RecoveryBenchReport, BenchError> {
    if args.rows == 0 {
        let (what, value) = ("--rows", "0".to_owned());
        return Err(BenchError::Argument { what, value, need: "at least one is needed" });
    }
    let folder = Folder::new(args.data.as_deref())?;
    let data = folder.path().join("db");
    let options = || DatabaseOptions {
        scheme: args.scheme,
        durability: Durability::None,
        tablespaces: Some(args.tablespaces),
        checkpoint_log_bytes: u64::MAX,
        ..DatabaseOptions::default()
    };
    progress.say(&format!("loading {} rows", args.rows));
    let db = Database::open(&data, options())?;
    let table = accounts::load(&db, args.rows)?;
    db.checkpoint()?;
    let mut session = db.session()?;
    let mut random = Random::new(1);
    let log = || -> Result<u64, BenchError> {
        let files = probe::files(&data, "log-")?;
        Ok((files.len() as u64 * DatabaseOptions::default().logs.file_bytes) >> 20)
    };
    let first = log()?;
    progress.say(&format!("writing {} MiB of log", args.log_mib));
    let mut sum = 0;
    while log()? < first + args.log_mib {
        for _ in 0..2000 {
            let filler = vec![random.word() as u8; accounts::FILLER_BYTES as usize];
            let filler = Value::Binary(filler);
            session.transaction(|tx| {
                for _ in 0..UPDATES {
                    let key = [Value::Int64(random.below(args.rows) as i64)];
                    tx.update_with(&table, &key, |row| {
                        row.set_i64(1, row.i64(1) + 1);
                        row.set(2, &filler);
                    })?;
                }
                Ok(())
            })?;
            sum += UPDATES as i64;
        }
    }
    drop(session);
    db.close()?;
    let logs = probe::files(&data, "log-")?;
    let homes = probe::files(&data, "home")?;
    let probe_before = probe::read_mib_s(&logs)?;
    let home_bytes: u64 =
        homes.iter().map(|path| path.metadata().map_or(0, |file| file.len())).sum();
    probe::forget(&logs)?;
    probe::forget(&homes)?;
    progress.say("opening");
    let begin = Instant::now();
    let db = Database::open(&data, options())?;
    let seconds = begin.elapsed().as_secs_f64();
    let recovery = db.recovery().cloned().unwrap_or_default();
    check(&db, sum)?;
    let home_mib = home_bytes as f64 / (1 << 20) as f64;
    let log_mib = recovery.log_bytes as f64 / (1 << 20) as f64;
    drop(db);
    // A shared or rate-limited medium can be slower a second later, so the probe is repeated.
    let probe_after = probe::read_mib_s(&logs)?;
    let probe_mib_s = 2.0 / (1.0 / probe_before + 1.0 / probe_after);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let store_s = probe::store_s(args.rows, recovery.redone * UPDATES, threads);
    Ok(RecoveryBenchReport {
        config: args.clone(),
        seconds,
        mib_s: log_mib / recovery.log_s,
        probe_mib_s,
        store_mib_s: log_mib / store_s,
        home_mib,
        home_mib_s: home_mib / recovery.home_s,
        redone: recovery.redone,
        undone: recovery.dropped,
        recovery,
    })
}

/// Checks that every update is there.
fn check(db: &Database, expected: i64) -> Result<(), BenchError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let snapshot = db.snapshot()?;
    let table = snapshot.table("accounts")?;
    let mut sum = 0;
    for number in 0..table.segment_count() {
        let balances = table.segment(number)?.array(1)?;
        sum += balances.as_primitive::<Int64Type>().values().iter().sum::<i64>();
    }
    if sum == expected {
        return Ok(());
    }
    Err(BenchError::Inconsistent(format!("{sum} updates were found of {expected}")))
}

impl fmt::Display for RecoveryBenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, mib_s, probe_mib_s, home_mib, home_mib_s, redone, .. } = self;
        let RecoveryReport { rows, log_bytes, home_s, log_s, index_s, .. } = &self.recovery;
        let mib = *log_bytes as f64 / (1 << 20) as f64;
        writeln!(f, "opened in {seconds:.2} s: {rows} rows")?;
        writeln!(f, "home:    {home_s:>7.2} s  {home_mib:.0} MiB, {home_mib_s:.0} MiB/s")?;
        let share = mib_s / probe_mib_s * 100.0;
        writeln!(
            f,
            "log:     {log_s:>7.2} s  {mib:.0} MiB, {mib_s:.0} MiB/s, {share:.0} % of reading it \
             alone ({probe_mib_s:.0} MiB/s) and {:.0} % of its stores alone ({:.0} MiB/s); \
             {redone} transactions",
            mib_s / self.store_mib_s * 100.0,
            self.store_mib_s,
        )?;
        writeln!(f, "indexes: {index_s:>7.2} s")
    }
}
