//! Writers: threads that increment the counters of random rows, each in a transaction of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atoll::{Database, Table, Value};

use super::args::Plan;
use super::rows::{COUNTER, Loaded};
use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::keys::Keys;

/// The counter of one writer, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Default)]
struct Counts {
    lines: Vec<Line>,
    stop: AtomicBool,
    /// The error that ended a writer.
    failure: OnceLock<String>,
}

impl Counts {
    fn sum(&self) -> u64 {
        self.lines.iter().map(|line| line.0.load(Ordering::Acquire)).sum()
    }
}

/// Writers that run until [`Writers::stop`].
pub struct Writers<'l> {
    loaded: &'l Loaded,
    /// Skew of the choice of rows, 0 for none.
    pub theta: f64,
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

/// Reads the counter of a row and stores it incremented by one.
pub fn increase(db: &Database, table: &Table, id: u64) -> Result<(), atoll::Error> {
    let key = [Value::Int64(id.cast_signed())];
    db.transaction(|tx| {
        let Some(counter) = tx.read_with(table, &key, |row| row.i64(COUNTER))? else {
            return Ok(());
        };
        tx.update(table, &key, &[(COUNTER, Value::Int64(counter + 1))]).map(|_| ())
    })
}

impl<'l> Writers<'l> {
    /// Starts the writers of the plan.
    ///
    /// # Errors
    /// [`BenchError::System`] when the system has no more threads.
    pub fn start(
        loaded: &'l Loaded,
        cpus: &Cpus,
        plan: &Plan,
        theta: f64,
    ) -> Result<Self, BenchError> {
        let lines = (0..plan.writers).map(|_| Line::default()).collect();
        let counts = Arc::new(Counts { lines, ..Counts::default() });
        let mut writers = Self { loaded, theta, counts, threads: Vec::new() };
        for number in 0..plan.writers {
            let counts = Arc::clone(&writers.counts);
            let (db, table) = (loaded.db.clone(), loaded.table.clone());
            let mut keys = Keys::new(loaded.rows, theta, plan.seed + number as u64);
            let cpus = cpus.clone();
            let mut work = move || -> Result<(), BenchError> {
                cpus.pin_writer(number)?;
                let mut done = 0;
                while !counts.stop.load(Ordering::Relaxed) {
                    increase(&db, &table, keys.key())?;
                    done += 1;
                    counts.lines[number].0.store(done, Ordering::Release);
                }
                Ok(())
            };
            let counts = Arc::clone(&writers.counts);
            let body = move || {
                if let Err(error) = work() {
                    // The first failure is the one that is returned.
                    let _ = counts.failure.set(error.to_string());
                }
            };
            let thread = std::thread::Builder::new().name(format!("writer-{number}")).spawn(body);
            writers.threads.push(thread.map_err(BenchError::system("starting a writer"))?);
        }
        Ok(writers)
    }

    /// Number of writers.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Updates by these writers and all before them.
    pub fn updates_ever(&self) -> u64 {
        self.loaded.past_updates.load(Ordering::Relaxed) + self.counts.sum()
    }

    /// Begins a measurement of throughput.
    pub fn begin(&self) -> Window {
        Window { begin: Instant::now(), updates: self.counts.sum() }
    }

    /// Updates per second since the window began, and its seconds.
    ///
    /// # Errors
    /// The error that ended a writer.
    pub fn rate(&self, window: &Window) -> Result<(f64, f64), BenchError> {
        let updates = self.counts.sum() - window.updates;
        let seconds = window.begin.elapsed().as_secs_f64();
        self.check()?;
        Ok((updates as f64 / seconds, seconds))
    }

    fn check(&self) -> Result<(), BenchError> {
        if let Some(why) = self.counts.failure.get() {
            return Err(BenchError::Writer(why.clone()));
        }
        let ended = self.threads.iter().any(JoinHandle::is_finished);
        if ended { Err(BenchError::Panicked("writer")) } else { Ok(()) }
    }

    /// Updates per second over the next `seconds`.
    ///
    /// # Errors
    /// As [`Writers::rate`].
    pub fn rate_over(&self, seconds: f64) -> Result<f64, BenchError> {
        let window = self.begin();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        Ok(self.rate(&window)?.0)
    }

    fn join(&mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        if !threads.is_empty() {
            // The panic was reported, and `check` returns an error for it.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            self.loaded.past_updates.fetch_add(self.counts.sum(), Ordering::Relaxed);
        }
    }

    /// Stops them.
    ///
    /// # Errors
    /// The error that ended a writer.
    pub fn stop(mut self) -> Result<(), BenchError> {
        let before = self.check();
        self.join();
        before
    }
}

impl Drop for Writers<'_> {
    fn drop(&mut self) {
        self.join();
    }
}

/// A measurement of throughput that has begun.
pub struct Window {
    begin: Instant,
    updates: u64,
}
