//! What a server counts: relaxed atomics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll::MemoryAccount;

/// Upper ends of the classes of durations, in seconds.
pub(crate) const DURATIONS_S: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
/// Time for which the account of memory holds: making it looks at many pages.
const MEMORY_PERIOD: Duration = Duration::from_secs(10);

/// What a server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Clients that were let in.
    pub(crate) connections: AtomicU64,
    /// Clients that were not.
    pub(crate) refused: AtomicU64,
    pub(crate) statements: AtomicU64,
    /// Statements, and messages of the protocol, that failed, by the class of their SQLSTATE.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Statements by their durations: one class after the other, and the longer ones.
    pub(crate) durations: [AtomicU64; DURATIONS_S.len() + 1],
    pub(crate) nanos: AtomicU64,
    pub(crate) slow: AtomicU64,
    memory: Mutex<Option<(Instant, MemoryAccount)>>,
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// A statement has taken so long.
    pub(crate) fn took(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let class = DURATIONS_S.iter().position(|end| seconds <= *end);
        add(&self.durations[class.unwrap_or(DURATIONS_S.len())]);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Something has failed with a SQLSTATE.
    pub(crate) fn failed(&self, state: &str) {
        let class = state.get(..2).unwrap_or("XX").to_owned();
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(class).or_default() += 1;
    }

    /// The errors by the class of their SQLSTATE.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the memory of a database is, or was some seconds ago.
    pub(crate) fn memory(&self, make: impl FnOnce() -> MemoryAccount) -> MemoryAccount {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match &*memory {
            Some((made, account)) if made.elapsed() < MEMORY_PERIOD => *account,
            _ => {
                let account = make();
                *memory = Some((Instant::now(), account));
                account
            }
        }
    }
}
