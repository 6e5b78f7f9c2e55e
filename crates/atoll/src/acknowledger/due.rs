//! When at the latest the logs are to be flushed, for transactions that asked for a shorter bound
//! than the database has.
//!
//! - `DUE-1`: a moment is forgotten before the flush that keeps it begins, so what is committed
//!   while it runs has its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use atoll_machine::{Machine, Native};

/// No moment.
const NEVER: u64 = u64::MAX;

/// See the module.
pub(crate) struct Due {
    at_ns: AtomicU64,
    /// Who flushes then.
    flusher: OnceLock<Thread>,
}

impl Default for Due {
    fn default() -> Self {
        Self { at_ns: AtomicU64::new(NEVER), flusher: OnceLock::new() }
    }
}

impl Due {
    /// Something has been committed that is to be flushed within so much time.
    pub(crate) fn within(&self, bound: Duration) {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(NEVER);
        let at_ns = Native::now_ns().saturating_add(bound);
        // If there was an earlier one, it has not been taken, and the flush at it shows this too.
        if at_ns < self.at_ns.fetch_min(at_ns, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// How long until then.
    pub(crate) fn left(&self) -> Duration {
        let at_ns = self.at_ns.load(Ordering::Acquire);
        Duration::from_nanos(at_ns.saturating_sub(Native::now_ns()))
    }

    /// Forgets the moment; whether there was one and it has come.
    pub(crate) fn take(&self) -> bool {
        self.left().is_zero() && self.at_ns.swap(NEVER, Ordering::AcqRel) != NEVER
    }

    /// Names the thread that flushes.
    pub(crate) fn served_by(&self, thread: &Thread) {
        // There is one for a database.
        let _ = self.flusher.set(thread.clone());
    }

    /// Has that thread look.
    pub(crate) fn wake(&self) {
        self.flusher.get().into_iter().for_each(Thread::unpark);
    }
}
