//! Timestamps per second that each source can allocate, as in the micro-benchmark of "Staring into
//! the Abyss", figure 6: threads allocate one timestamp after the other and do nothing else.
//!
//! `ycsb` with the scheme TIMESTAMP and each of the sources shows the effect on transactions
//! (figure 7). Without contention the sources differ as here. With contention, batches fall behind,
//! because a transaction that was too late restarts with the next timestamp of the same old batch.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll::TimestampKind;
use atoll::machine::Native;
use atoll_txn::common::timestamp::{TimestampLocal, Timestamps};
use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::progress::Progress;
use crate::stats::median;

/// Timestamps between two checks of the clock.
const BETWEEN_LOOKS: u64 = 64;

/// Measures how many timestamps a second each source can allocate.
#[derive(Debug, Clone, Args, Serialize)]
pub struct TimestampsArgs {
    /// Numbers of threads [default: 1, 2, 4, ... up to the CPUs]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    pub threads: Option<Vec<usize>>,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Measurements of each, interleaved; the report has the median
    #[arg(long, default_value_t = 3)]
    pub repeats: usize,
}

/// The rate of one source with one number of threads.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    /// The source.
    pub timestamps: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// Timestamps per second of all threads together.
    pub per_s: f64,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct TimestampsReport {
    /// The arguments.
    pub config: TimestampsArgs,
    /// The rates.
    pub rates: Vec<Rate>,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Argument`].
pub fn run(args: &TimestampsArgs, progress: Progress<'_>) -> Result<TimestampsReport, BenchError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let doubling = || std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= cpus);
    let threads = args.threads.clone().unwrap_or_else(|| doubling().collect());
    if threads.is_empty() || threads.iter().any(|count| !(1..=1024).contains(count)) {
        let value = format!("{threads:?}");
        return Err(BenchError::Argument { what: "--threads", value, need: "1 to 1024 each" });
    }
    if args.repeats == 0 || !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        let value = format!("{} and {}", args.seconds, args.repeats);
        let need = "--seconds must be more than 0 and --repeats at least 1";
        return Err(BenchError::Argument { what: "--seconds and --repeats", value, need });
    }
    let mut rates = Vec::new();
    for threads in threads {
        progress.say(&format!("{threads} threads"));
        let mut measured = TimestampKind::ALL.map(|_| Vec::new());
        for _ in 0..args.repeats {
            for (kind, rates) in TimestampKind::ALL.into_iter().zip(&mut measured) {
                rates.push(measure(kind, threads, args.seconds));
            }
        }
        rates.extend(TimestampKind::ALL.into_iter().zip(measured).map(|(kind, measured)| Rate {
            timestamps: kind.name(),
            threads,
            per_s: median(&measured),
        }));
    }
    Ok(TimestampsReport { config: args.clone(), rates })
}

fn measure(kind: TimestampKind, threads: usize, seconds: f64) -> f64 {
    let source = Timestamps::<Native>::new(kind);
    let (ready, stop, taken) =
        (Barrier::new(threads + 1), AtomicBool::new(false), AtomicU64::new(0));
    let mut measured = 0.0;
    std::thread::scope(|scope| {
        for worker in 0..threads as u32 {
            let (source, ready, stop, taken) = (&source, &ready, &stop, &taken);
            scope.spawn(move || {
                let mut local = TimestampLocal::new(worker);
                let mut count = 0u64;
                ready.wait();
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..BETWEEN_LOOKS {
                        std::hint::black_box(source.next(&mut local));
                    }
                    count += BETWEEN_LOOKS;
                }
                taken.fetch_add(count, Ordering::Relaxed);
            });
        }
        ready.wait();
        let begin = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        measured = begin.elapsed().as_secs_f64();
    });
    taken.into_inner() as f64 / measured
}

impl std::fmt::Display for TimestampsReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<10} {:>8} {:>16}", "timestamps", "threads", "million per s")?;
        for Rate { timestamps, threads, per_s } in &self.rates {
            write!(f, "\n{timestamps:<10} {threads:>8} {:>16.2}", per_s / 1e6)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{TimestampsArgs, run};
    use crate::progress::Unwatched;

    #[test]
    fn every_source_gives_timestamps_out_at_every_number_of_threads() {
        let args = TimestampsArgs { threads: Some(vec![1, 2]), seconds: 0.01, repeats: 1 };
        let report = run(&args, &mut Unwatched).expect("the arguments are fine");
        assert_eq!(report.rates.len(), 8);
        assert!(report.rates.iter().all(|rate| rate.per_s > 0.0), "{report}");
        let none = TimestampsArgs { threads: Some(vec![0]), ..args };
        assert!(run(&none, &mut Unwatched).is_err());
    }
}
