//! The evictor: a background thread that keeps a database's store within its DRAM budget, see
//! [`atoll_memory::Residency`]. No thread waits for the evictor, and it waits only for the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atoll_machine::NodeId;
use atoll_memory::{MemoryError, Residency};

use crate::error::Result;

/// Time between two rounds.
const PERIOD: Duration = Duration::from_millis(20);
/// Pause after a round that could not free anything.
const STUCK: Duration = Duration::from_millis(200);
/// The evictor measures the store during at most one part in this many of the time, however large
/// the store is.
const LOOKING_SHARE: u32 = 20;
/// Most page faults a second that it causes in order to find out which pages are used.
const FAULTS_PER_S: u32 = 50_000;

/// The DRAM budget of a database, and its current state.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Budget {
    /// Most bytes of the store that should be in DRAM. The store exceeds it briefly while more
    /// pages arrive than leave, by pages that other processes have mapped, and when the cold node
    /// is full.
    pub budget_bytes: u64,
    /// Bytes of the store that are in DRAM.
    pub resident_bytes: u64,
    /// Bytes that have been moved out of DRAM so far, including those that have returned.
    pub evicted_bytes: u64,
    /// Bytes that have returned from the cold node so far.
    pub returned_bytes: u64,
    /// The number of the cold node; `None` if evicted data goes to a file.
    pub cold_node: Option<u32>,
    /// Whether writing evicted data has failed: no data is evicted any more then, and no checkpoint
    /// is taken.
    pub has_failed: bool,
}

/// Handle of the thread; stops it when dropped.
pub(crate) struct Evictor {
    residency: Arc<Residency>,
    cold_node: Option<NodeId>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    is_wanted: AtomicBool,
    latch: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Waits for `time`, or until the thread is to stop.
    fn wait(&self, time: Duration) {
        let latch = self.latch.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that panicked under this latch cannot have changed anything.
        let _ = self.changed.wait_timeout_while(latch, time, |()| !self.is_wanted());
    }
}

impl Evictor {
    pub(crate) fn start(residency: Residency, cold_node: Option<NodeId>) -> Result<Self> {
        let residency = Arc::new(residency);
        let stop = Arc::new(Stop::default());
        let thread = std::thread::Builder::new().name("atoll-evictor".into()).spawn({
            let (residency, stop) = (Arc::clone(&residency), Arc::clone(&stop));
            move || {
                while !stop.is_wanted() {
                    let pause = match residency.tend(|| stop.is_wanted()) {
                        Ok(tended) if tended.is_stuck => STUCK,
                        Ok(tended) => {
                            let faults = Duration::from_secs(tended.faults) / FAULTS_PER_S;
                            PERIOD.max(tended.measuring * LOOKING_SHARE).max(faults)
                        }
                        Err(MemoryError::SpillFailed { .. }) => return,
                        // The system is out of some resource; the next round may succeed.
                        Err(_) => PERIOD,
                    };
                    stop.wait(pause);
                }
            }
        });
        let call = "spawn of the thread that evicts";
        let thread = thread.map_err(|source| MemoryError::System { call, source })?;
        Ok(Self { residency, cold_node, stop, thread: Some(thread) })
    }

    pub(crate) fn budget(&self) -> Result<Budget> {
        Ok(Budget {
            budget_bytes: self.residency.budget_bytes(),
            resident_bytes: self.residency.resident_bytes()?,
            evicted_bytes: self.residency.evicted_bytes(),
            returned_bytes: self.residency.returned_bytes(),
            cold_node: self.cold_node.map(|node| node.0),
            has_failed: self.residency.check().is_err(),
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        Ok(self.residency.check()?)
    }
}

impl Drop for Evictor {
    fn drop(&mut self) {
        self.stop.is_wanted.store(true, Ordering::Release);
        drop(self.stop.latch.lock().unwrap_or_else(PoisonError::into_inner));
        self.stop.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The panic was reported by its own thread.
            let _ = thread.join();
        }
    }
}
