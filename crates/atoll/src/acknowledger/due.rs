//! The deadline of the next flush, for transactions that asked for a shorter bound than the
//! database has.
//!
//! - `DUE-1`: the deadline is cleared before the flush that meets it begins, so a commit during the
//!   flush sets a deadline of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use atoll_machine::{Machine, Native};

/// No deadline.
const NEVER: u64 = u64::MAX;

/// See the module.
pub(crate) struct Due {
    at_ns: AtomicU64,
    /// The thread that flushes.
    flusher: OnceLock<Thread>,
}

impl Default for Due {
    fn default() -> Self {
        Self { at_ns: AtomicU64::new(NEVER), flusher: OnceLock::new() }
    }
}

impl Due {
    /// Sets a deadline for a commit that must be flushed within `bound`.
    pub(crate) fn within(&self, bound: Duration) {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(NEVER);
        let at_ns = Native::now_ns().saturating_add(bound);
        // An earlier deadline has not been taken yet, so its flush covers this commit too.
        if at_ns < self.at_ns.fetch_min(at_ns, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// The time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        let at_ns = self.at_ns.load(Ordering::Acquire);
        Duration::from_nanos(at_ns.saturating_sub(Native::now_ns()))
    }

    /// Clears the deadline if it has passed; returns whether it had.
    pub(crate) fn take(&self) -> bool {
        self.left().is_zero() && self.at_ns.swap(NEVER, Ordering::AcqRel) != NEVER
    }

    /// Sets the thread that flushes.
    pub(crate) fn served_by(&self, thread: &Thread) {
        // There is one for each database.
        let _ = self.flusher.set(thread.clone());
    }

    /// Unparks that thread.
    pub(crate) fn wake(&self) {
        self.flusher.get().into_iter().for_each(Thread::unpark);
    }
}
