//! Threads that repeat an operation for a time, and their counts.
//!
//! Threads start as soon as they have a client. Operations before the end of the warm-up are not
//! counted; a transaction counts if it ends within the measured time. Its latency includes the
//! attempts that were rolled back.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use atoll_bench::oltp::histogram::Histogram;

use crate::engine::PeerError;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// The number of threads, and the times.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Threads.
    pub threads: usize,
    /// Seconds before the measurement.
    pub warm_up_s: f64,
    /// Seconds measured.
    pub seconds: f64,
}

/// The counts of threads.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that a conflict rolled back.
    pub aborts: u64,
    /// Latencies of the transactions in nanoseconds.
    pub latency: Histogram,
}

impl Counts {
    /// Share of attempts that a conflict rolled back.
    pub fn abort_rate(&self) -> f64 {
        self.aborts as f64 / (self.aborts + self.commits).max(1) as f64
    }
}

/// The current phase of all threads.
pub struct Phase(AtomicU8);

impl Phase {
    /// Calls `one` until the run is over. `one` draws and runs a transaction, and returns when it
    /// began and how many of its attempts were rolled back.
    ///
    /// # Errors
    /// Those of `one`.
    pub fn repeat(
        &self,
        mut one: impl FnMut() -> Result<(Instant, u64), PeerError>,
    ) -> Result<Counts, PeerError> {
        let (mut counts, mut counted) = (Counts::default(), false);
        loop {
            let (begun, aborts) = one()?;
            let took = begun.elapsed();
            match self.0.load(Ordering::Relaxed) {
                STOP => return Ok(counts),
                MEASURE if counted => {
                    counts.commits += 1;
                    counts.aborts += aborts;
                    counts.latency.record(took.as_nanos() as u64);
                }
                // The transaction that saw the end of the warm-up began before it.
                MEASURE => counted = true,
                _ => {}
            }
        }
    }
}

/// Runs `thread` on each of `threads` threads, with its number from 0; returns their counts
/// together, the seconds measured, and the result of each.
///
/// # Errors
/// [`PeerError`] of the first thread that failed.
pub fn run<R: Send>(
    times: Times,
    thread: impl Fn(usize, &Phase) -> Result<(Counts, R), PeerError> + Sync,
) -> Result<(Counts, f64, Vec<R>), PeerError> {
    let (phase, thread) = (&Phase(AtomicU8::new(WARM_UP)), &thread);
    let (ended, seconds) = std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || thread(number, phase));
        let threads: Vec<_> = (0..times.threads).map(start).collect();
        std::thread::sleep(Duration::from_secs_f64(times.warm_up_s));
        phase.0.store(MEASURE, Ordering::Relaxed);
        let from = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(times.seconds));
        phase.0.store(STOP, Ordering::Relaxed);
        let seconds = from.elapsed().as_secs_f64();
        let ended = threads.into_iter().map(|thread| thread.join());
        let ended: Vec<_> = ended.map(|end| end.unwrap_or(Err(PeerError::Panicked))).collect();
        (ended, seconds)
    });
    let (mut all, mut beside) = (Counts::default(), Vec::with_capacity(ended.len()));
    for end in ended {
        let (counts, more) = end?;
        all.commits += counts.commits;
        all.aborts += counts.aborts;
        all.latency.merge(&counts.latency);
        beside.push(more);
    }
    Ok((all, seconds, beside))
}
