//! Fills tables in parallel through the public interface: each free thread takes the next batch of
//! rows and inserts it in one transaction.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll::{Database, SEGMENT_ROWS, Session};
use serde::Serialize;

use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::machine_facts::resident_bytes;
use crate::progress::Progress;

/// Time between two progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Largest share of the memory limit, in percent, that the first rows may fill; the rest is for
/// rows that the run inserts, and for copies.
const FILL_PERCENT: u64 = 85;

/// The result of filling.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LoadReport {
    /// Rows of all tables.
    pub rows: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of threads.
    pub threads: usize,
    /// Resident bytes of this process afterwards.
    pub resident_bytes: u64,
}

/// Average bytes of a value of a column of this width: the values of a segment are in one extent,
/// and the size of an extent is a power of two.
pub fn value_bytes(width: u32) -> u64 {
    let rows = SEGMENT_ROWS as u64;
    (rows * u64::from(width)).next_power_of_two() / rows
}

/// Returns an error if the data would not fit, before anything is done.
///
/// # Errors
/// [`BenchError::TooLarge`].
pub fn check_room(need_bytes: u64) -> Result<(), BenchError> {
    let available = atoll::machine::memory_allowed().available_bytes / 100 * FILL_PERCENT;
    if need_bytes <= available {
        return Ok(());
    }
    Err(BenchError::TooLarge {
        gib: (need_bytes as f64 / (1u64 << 30) as f64 * 100.0).round() / 100.0,
        need_mib: need_bytes >> 20,
        available_mib: available >> 20,
    })
}

/// Runs `batch` for the numbers from 0 to `batches` − 1 on as many threads as there are CPUs;
/// `batch` returns the number of rows that it inserted.
///
/// # Errors
/// The first error that a batch returned.
pub fn fill(
    db: &Database,
    batches: u64,
    what: &str,
    progress: Progress<'_>,
    batch: &(dyn Fn(&mut Session, u64) -> Result<u64, BenchError> + Sync),
) -> Result<LoadReport, BenchError> {
    let cpus = Cpus::share(1, false)?;
    let threads = cpus.count().max(1);
    let (next, rows) = (AtomicU64::new(0), AtomicU64::new(0));
    progress.say(&format!("filling {what}"));
    let begin = Instant::now();
    let work = || -> Result<(), BenchError> {
        let mut session = db.session()?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= batches {
                return Ok(());
            }
            let inserted = batch(&mut session, number).inspect_err(|_| {
                // The other threads stop as well.
                next.store(batches, Ordering::Relaxed);
            })?;
            rows.fetch_add(inserted, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut told = Instant::now();
        while !started.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
            if told.elapsed() > LOOK_EVERY {
                told = Instant::now();
                let done = next.load(Ordering::Relaxed).min(batches);
                let rows = rows.load(Ordering::Relaxed);
                progress.reach(done as f64 / batches.max(1) as f64, &format!("{rows} rows"));
            }
        }
        let panicked = |_| BenchError::Panicked("filling");
        started.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
    })?;
    Ok(LoadReport {
        rows: rows.into_inner(),
        seconds: begin.elapsed().as_secs_f64(),
        threads,
        resident_bytes: resident_bytes(),
    })
}
