//! YCSB on a peer: the transactions of the threads, and the report.

use std::hint::black_box;
use std::time::Instant;

use atoll_bench::keys::{Keys, Random};
use atoll_bench::machine_facts::resident_bytes;
use atoll_bench::oltp::histogram::Latency;
use serde::Serialize;

use crate::engine::{Access, COLUMN_BYTES, COLUMNS, Client, Engine, PeerError};
use crate::threads::{self, Counts, Phase, Times};

/// The workload.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The peer.
    pub peer: String,
    /// Name and version of its library.
    pub version: String,
    /// The isolation of concurrent transactions.
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
    /// Seconds of warm-up before that.
    pub warm_up_s: f64,
    /// The seed.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The workload.
    pub config: Plan,
    /// Transactions committed per second, of all threads together.
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
    /// Resident bytes of this process afterwards; files in memory are counted if they are mapped.
    pub resident_bytes: u64,
}

/// The choices of a thread, from its seed.
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
    phase: &Phase,
) -> Result<Counts, PeerError> {
    let mut choices = Choices::new(plan, thread);
    let mut accesses = vec![Access { key: 0, column: 0, update: None }; plan.accesses];
    let mut read = [0; COLUMN_BYTES];
    phase.repeat(|| {
        choices.fill(&mut accesses);
        let begun = Instant::now();
        let aborts = client.transaction(&accesses, &mut read)?;
        black_box(&read);
        Ok((begun, aborts))
    })
}

/// Runs the plan; the table has been loaded in `load_s` seconds.
///
/// # Errors
/// [`PeerError`] of the first thread that failed.
pub fn run(engine: &dyn Engine, plan: &Plan, load_s: f64) -> Result<Report, PeerError> {
    let Plan { threads, warm_up_s, seconds, .. } = *plan;
    let (all, measured_s, _) =
        threads::run(Times { threads, warm_up_s, seconds }, |thread, phase| {
            let mut counts = Counts::default();
            engine.with_client(&mut |client| {
                counts = run_client(client, plan, thread, phase)?;
                Ok(())
            })?;
            Ok((counts, ()))
        })?;
    Ok(report(plan.clone(), &all, measured_s, load_s))
}

fn report(config: Plan, all: &Counts, measured_s: f64, load_s: f64) -> Report {
    Report {
        config,
        throughput_txn_s: all.commits as f64 / measured_s,
        aborts: all.aborts,
        abort_rate: all.abort_rate(),
        latency_us: all.latency.latency(),
        commits: all.commits,
        load_s,
        resident_bytes: resident_bytes(),
    }
}
