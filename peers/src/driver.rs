//! Threads that run transactions for a while, and what comes of it.
//!
//! Threads run from the moment they have a client. What they do before the warm-up is over is
//! forgotten; a transaction counts if it ends within the time measured. Its latency includes the
//! attempts that were rolled back.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use atoll_bench::keys::{Keys, Random};
use atoll_bench::machine_facts::resident_bytes;
use serde::Serialize;

use crate::engine::{Access, COLUMN_BYTES, COLUMNS, Client, Engine, PeerError};
use crate::histogram::Histogram;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// The workload.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The peer.
    pub peer: String,
    /// Name and version of its library.
    pub version: String,
    /// What concurrent transactions can see of each other.
    pub isolation: String,
    /// Rows of the table.
    pub rows: u64,
    /// Columns beside the key.
    pub columns: usize,
    /// Bytes of each.
    pub column_bytes: usize,
    /// Accesses of a transaction.
    pub accesses: usize,
    /// Share of accesses that read, 0 to 1; the others update.
    pub read_share: f64,
    /// Skew of the keys, 0 for none.
    pub theta: f64,
    /// Threads.
    pub threads: usize,
    /// Seconds measured.
    pub seconds: f64,
    /// Seconds before that.
    pub warm_up_s: f64,
    /// Where all random numbers start.
    pub seed: u64,
}

/// Microseconds of a transaction, retries included.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// Half of them at most this.
    pub p50: f64,
    /// 99 of 100 at most this.
    pub p99: f64,
    /// 999 of 1000 at most this.
    pub p999: f64,
}

/// What a run measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was asked for.
    pub config: Plan,
    /// Committed transactions in a second, all threads together.
    pub throughput_txn_s: f64,
    /// Attempts that a conflict rolled back.
    pub aborts: u64,
    /// Their share of all attempts.
    pub abort_rate: f64,
    /// Latency.
    pub latency_us: Latency,
    /// Committed transactions.
    pub commits: u64,
    /// Seconds that loading took.
    pub load_s: f64,
    /// Bytes of this process in memory afterwards; those of files in memory are counted if mapped.
    pub resident_bytes: u64,
}

/// What one thread has counted.
#[derive(Debug, Clone)]
struct Counts {
    commits: u64,
    aborts: u64,
    latency: Histogram,
}

impl Counts {
    fn new() -> Self {
        Self { commits: 0, aborts: 0, latency: Histogram::new() }
    }
}

/// What a thread does next, from its seed.
struct Choices {
    keys: Keys,
    random: Random,
    read_share: f64,
}

impl Choices {
    fn new(plan: &Plan, thread: usize) -> Self {
        let mut seeds = Random::new(plan.seed.wrapping_add(thread as u64));
        let keys = Keys::new(plan.rows, plan.theta, seeds.word());
        Self { keys, random: Random::new(seeds.word()), read_share: plan.read_share }
    }

    fn fill(&mut self, accesses: &mut [Access]) {
        for access in accesses {
            let is_read = self.random.unit() < self.read_share;
            *access = Access {
                key: self.keys.key(),
                column: self.random.below(COLUMNS as u64) as usize,
                update: (!is_read).then(|| self.random.word() as u8),
            };
        }
    }
}

fn run_client(
    client: &mut dyn Client,
    plan: &Plan,
    thread: usize,
    phase: &AtomicU8,
) -> Result<Counts, PeerError> {
    let mut choices = Choices::new(plan, thread);
    let mut accesses = vec![Access { key: 0, column: 0, update: None }; plan.accesses];
    let (mut counts, mut counted) = (Counts::new(), false);
    let mut read = [0; COLUMN_BYTES];
    loop {
        choices.fill(&mut accesses);
        let from = Instant::now();
        let aborts = client.transaction(&accesses, &mut read)?;
        let took = from.elapsed();
        black_box(&read);
        match phase.load(Ordering::Relaxed) {
            STOP => return Ok(counts),
            MEASURE if counted => {
                counts.commits += 1;
                counts.aborts += aborts;
                counts.latency.add(took.as_nanos() as u64);
            }
            // The transaction that saw the end of the warm-up began before it.
            MEASURE => counted = true,
            _ => {}
        }
    }
}

/// Runs the plan; the table has been loaded in `load_s` seconds.
///
/// # Errors
/// [`PeerError`] of the first thread that failed.
pub fn run(engine: &dyn Engine, plan: &Plan, load_s: f64) -> Result<Report, PeerError> {
    let phase = &AtomicU8::new(WARM_UP);
    let (counts, measured_s) = std::thread::scope(|scope| {
        let start = |thread| {
            scope.spawn(move || {
                let mut counts = Counts::new();
                engine.with_client(&mut |client| {
                    counts = run_client(client, plan, thread, phase)?;
                    Ok(())
                })?;
                Ok(counts)
            })
        };
        let threads: Vec<_> = (0..plan.threads).map(start).collect();
        std::thread::sleep(Duration::from_secs_f64(plan.warm_up_s));
        phase.store(MEASURE, Ordering::Relaxed);
        let from = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(plan.seconds));
        phase.store(STOP, Ordering::Relaxed);
        let measured_s = from.elapsed().as_secs_f64();
        let ended = threads.into_iter().map(|thread| thread.join());
        let counts: Result<Vec<Counts>, PeerError> =
            ended.map(|end| end.unwrap_or(Err(PeerError::Panicked))).collect();
        (counts, measured_s)
    });
    let mut all = Counts::new();
    for counts in counts? {
        all.commits += counts.commits;
        all.aborts += counts.aborts;
        all.latency.merge(&counts.latency);
    }
    Ok(report(plan.clone(), &all, measured_s, load_s))
}

fn report(config: Plan, all: &Counts, measured_s: f64, load_s: f64) -> Report {
    let microseconds = |p| all.latency.percentile(p) / 1e3;
    Report {
        config,
        throughput_txn_s: all.commits as f64 / measured_s,
        aborts: all.aborts,
        abort_rate: all.aborts as f64 / (all.aborts + all.commits).max(1) as f64,
        latency_us: Latency {
            p50: microseconds(0.5),
            p99: microseconds(0.99),
            p999: microseconds(0.999),
        },
        commits: all.commits,
        load_s,
        resident_bytes: resident_bytes(),
    }
}
