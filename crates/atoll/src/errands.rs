//! Work that other threads leave for the keeper's thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See the module. To free the thousands of extents of a snapshot takes a millisecond, which the
/// thread that answers other processes must not spend.
#[derive(Default)]
pub(crate) struct Errands {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reclaim: bool,
    stop: bool,
}

impl Errands {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the keeper's thread.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_one();
    }

    /// Tells the keeper that memory can be reclaimed.
    pub(crate) fn reclaim(&self) {
        self.lock().reclaim = true;
        self.changed.notify_one();
    }

    /// Waits at most `period` until memory can be reclaimed. Returns whether it can be, or `None`
    /// when the keeper is to stop.
    pub(crate) fn next(&self, period: Duration) -> Option<bool> {
        let state = self.lock();
        let idle = |state: &mut State| !state.reclaim && !state.stop;
        let waited = self.changed.wait_timeout_while(state, period, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!state.stop).then(|| std::mem::take(&mut state.reclaim))
    }
}
