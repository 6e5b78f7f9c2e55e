//! The thread that keeps a database's store within its budget of memory, see
//! [`atoll_memory::Residency`]. Nobody waits for it, and it waits for nobody but the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atoll_memory::{MemoryError, Residency, Store};

use crate::error::Result;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(20);
/// How long it waits when all that it can do is in vain.
const STUCK: Duration = Duration::from_millis(200);
/// It looks for at most this share of the time, however large the store is.
const LOOKING_SHARE: u32 = 20;

/// A budget of memory, and how it is kept.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Budget {
    /// Bytes of the store that are to be in memory at most. Passed for moments, while more comes
    /// than goes; and by what other processes have mapped.
    pub budget_bytes: u64,
    /// Bytes of it that are in memory.
    pub resident_bytes: u64,
    /// Bytes that have left memory so far, those that came back meanwhile included.
    pub evicted_bytes: u64,
    /// Whether writing what does not fit has failed: nothing leaves memory any more then, and no
    /// checkpoint is taken.
    pub has_failed: bool,
}

/// The thread and what it works on. Stops when dropped.
pub(crate) struct Evictor {
    residency: Arc<Residency>,
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
    pub(crate) fn start(store: Arc<Store>, budget_bytes: u64) -> Result<Self> {
        let residency = Arc::new(Residency::new(store, budget_bytes)?);
        let stop = Arc::new(Stop::default());
        let thread = std::thread::Builder::new().name("atoll-evictor".into()).spawn({
            let (residency, stop) = (Arc::clone(&residency), Arc::clone(&stop));
            move || {
                while !stop.is_wanted() {
                    let pause = match residency.tend(|| stop.is_wanted()) {
                        Ok(tended) if tended.is_stuck => STUCK,
                        Ok(tended) => PERIOD.max(tended.measuring * LOOKING_SHARE),
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
        Ok(Self { residency, stop, thread: Some(thread) })
    }

    pub(crate) fn budget(&self) -> Result<Budget> {
        Ok(Budget {
            budget_bytes: self.residency.budget_bytes(),
            resident_bytes: self.residency.resident_bytes()?,
            evicted_bytes: self.residency.evicted_bytes(),
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
