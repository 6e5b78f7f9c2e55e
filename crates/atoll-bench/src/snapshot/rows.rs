//! The table: transactions fill it, and the database is published.
//!
//! A row is 16 columns of 8 bytes: the key `id`, the `counter` that writers increment, and 14
//! columns that never change and are computed from the key, so that sums check a whole snapshot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Table, TxnResult, Value};
use serde::Serialize;

use super::args::Plan;
use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::machine_facts::resident_bytes;
use crate::progress::Progress;

/// Columns of a row.
pub const COLUMNS: usize = 16;
/// Position of the column that writers change.
pub const COUNTER: usize = 1;
/// Two of the columns that never change, the first and the last.
pub const FIXED: [usize; 2] = [2, COLUMNS - 1];
/// Bytes of the values of a row.
pub const ROW_BYTES: u64 = COLUMNS as u64 * 8;
/// Name of the table.
pub const TABLE: &str = "rows";

/// Rows inserted by one transaction.
const BATCH: u64 = 1000;
/// Bytes for a row beside its values: its lock, and its entry in the index at half load, in the old
/// and the new index while it grows.
const BESIDE_BYTES: u64 = 8 + 32;

/// The result of filling the table.
#[derive(Debug, Clone, Serialize)]
pub struct FillReport {
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of threads.
    pub threads: usize,
    /// Microseconds of one thread for one row.
    pub us_per_row: f64,
    /// Resident bytes of this process afterwards.
    pub resident_bytes: u64,
    /// Bytes that the store takes.
    pub store_bytes: u64,
}

/// A filled and published database.
pub struct Loaded {
    /// The database.
    pub db: Database,
    /// Its table.
    pub table: Table,
    /// The name that it is published by.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// The result of filling it.
    pub fill: FillReport,
    /// Updates by writers that have ended.
    pub past_updates: AtomicU64,
}

/// The value of a column that never changes.
fn fixed_value(id: u64, column: usize) -> i64 {
    id.wrapping_mul(2 * column as u64 + 1).wrapping_add(column as u64).cast_signed()
}

fn schema() -> Result<Schema, BenchError> {
    let mut columns =
        vec![Column::new("id", DataType::Int64), Column::new("counter", DataType::Int64)];
    columns.extend((1..=14).map(|n| Column::new(format!("m{n:02}"), DataType::Int64)));
    Ok(Schema::new(columns, &["id"]).map_err(atoll::Error::from)?)
}

fn insert_range(
    db: &Database,
    table: &Table,
    ids: std::ops::Range<u64>,
    done: &AtomicU64,
) -> Result<(), BenchError> {
    let mut row = vec![Value::Int64(0); COLUMNS];
    let mut insert = |from: u64, end: u64| {
        db.transaction(|tx| {
            (from..end).try_for_each(|id| -> TxnResult<()> {
                row[0] = Value::Int64(id.cast_signed());
                for (at, value) in row.iter_mut().enumerate().skip(COUNTER + 1) {
                    *value = Value::Int64(fixed_value(id, at));
                }
                tx.insert(table, &row)
            })
        })
    };
    let mut from = ids.start;
    while from < ids.end {
        let end = (from + BATCH).min(ids.end);
        insert(from, end)?;
        done.fetch_add(end - from, Ordering::Relaxed);
        from = end;
    }
    Ok(())
}

impl Loaded {
    /// Fills a table of `gib` GiB and publishes it.
    ///
    /// # Errors
    /// [`BenchError::TooLarge`] before anything is done; [`BenchError::Database`].
    pub fn fill(
        plan: &Plan,
        cpus: &Cpus,
        gib: f64,
        progress: Progress<'_>,
    ) -> Result<Self, BenchError> {
        let rows = ((gib * (1u64 << 30) as f64) as u64 / ROW_BYTES).max(1);
        // Snapshots may keep all values of one column twice.
        let need = rows * (ROW_BYTES + BESIDE_BYTES + 2 * 8);
        let available = atoll::machine::memory_allowed().available_bytes;
        if need > available {
            let (need_mib, available_mib) = (need >> 20, available >> 20);
            return Err(BenchError::TooLarge { gib, need_mib, available_mib });
        }
        let options = DatabaseOptions { scheme: plan.scheme, ..DatabaseOptions::default() };
        let db = Database::create(options)?;
        let table = db.create_table(TABLE, schema()?)?;
        let threads = plan.fill_threads.unwrap_or(cpus.count()).max(1);
        let begin = Instant::now();
        progress.say(&format!("{gib} GiB: filling"));
        insert_all(&db, &table, rows, threads, cpus, &mut |done| {
            progress.reach(done as f64 / rows as f64, "filled");
        })?;
        let seconds = begin.elapsed().as_secs_f64();
        let name = format!("bench-snapshot-{}", std::process::id());
        db.publish(&name, plan.runtime_dir.as_deref())?;
        let fill = FillReport {
            seconds,
            threads,
            us_per_row: seconds * 1e6 * threads as f64 / rows as f64,
            resident_bytes: resident_bytes(),
            store_bytes: db.counters().memory_committed_bytes,
        };
        Ok(Self { db, table, name, rows, fill, past_updates: AtomicU64::new(0) })
    }

    /// The sums that the columns [`FIXED`] must have.
    pub fn fixed_sums(&self) -> [i64; 2] {
        let ids = (u128::from(self.rows) * u128::from(self.rows - 1) / 2) as u64;
        FIXED.map(|at| {
            let at = at as u64;
            ids.wrapping_mul(2 * at + 1).wrapping_add(self.rows.wrapping_mul(at)).cast_signed()
        })
    }
}

fn insert_all(
    db: &Database,
    table: &Table,
    rows: u64,
    threads: usize,
    cpus: &Cpus,
    progress: &mut dyn FnMut(u64),
) -> Result<(), BenchError> {
    let done = AtomicU64::new(0);
    let share = rows.div_ceil(threads as u64);
    let range = |n: u64| (n * share).min(rows)..((n + 1) * share).min(rows);
    let work = |n| cpus.unpin().and_then(|()| insert_range(db, table, range(n), &done));
    let work = &work;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads as u64).map(|n| scope.spawn(move || work(n))).collect();
        let mut told = Instant::now();
        while !started.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
            if told.elapsed() > Duration::from_millis(500) {
                told = Instant::now();
                progress(done.load(Ordering::Relaxed));
            }
        }
        let panicked = |_| BenchError::Panicked("filling");
        started.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
    })
}
