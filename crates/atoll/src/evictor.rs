//! The thread that keeps a database's store within its budget of DRAM, see
//! [`atoll_memory::Residency`]. Nobody waits for it, and it waits for nobody but the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atoll_machine::NodeId;
use atoll_memory::{MemoryError, Residency};

use crate::error::Result;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(20);
/// How long it waits when all that it can do is in vain.
const STUCK: Duration = Duration::from_millis(200);
/// It looks for at most this share of the time, however large the store is.
const LOOKING_SHARE: u32 = 20;
/// Most page faults a second that it causes only to see what is used.
const FAULTS_PER_S: u32 = 50_000;

/// A budget of DRAM, and how it is kept.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Budget {
    /// Bytes of the store that are to be in DRAM at most. Passed for moments, while more comes
    /// than goes; by what other processes have mapped; and when the cold node is full.
    pub budget_bytes: u64,
    /// Bytes of it that are in DRAM.
    pub resident_bytes: u64,
    /// Bytes that have left DRAM so far, those that came back meanwhile included.
    pub evicted_bytes: u64,
    /// Bytes that were brought back from the cold node so far.
    pub returned_bytes: u64,
    /// The number of that node; `None` if what leaves waits on a file.
    pub cold_node: Option<u32>,
    /// Whether writing what does not fit has failed: nothing leaves memory any more then, and no
    /// checkpoint is taken.
    pub has_failed: bool,
}

/// The thread and what it works on. Stops when dropped.
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

    /// Waits so long, or until it is time to stop.
    fn wait(&self, time: Duration) {
        let latch = self.latch.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic of another thread under this latch has changed nothing.
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
                        // The system is short of something; it can be better next time.
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
            // A panic there has been reported; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
