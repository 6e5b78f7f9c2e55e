//! The thread that sees to a database's limits and tidiness while nobody calls it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::inner::Inner;

const PERIOD: Duration = Duration::from_millis(20);

/// Expires snapshots that are over their limits, frees what ended leases kept, returns memory that
/// nobody waits for, writes long values again that keep mostly empty blocks, and has deleted rows
/// taken away that wait in workers which nobody uses. Stops when dropped.
pub(crate) struct Keeper {
    errands: Arc<Errands>,
    thread: Option<JoinHandle<()>>,
}

/// What others leave for the keeper to do. Freeing the thousands of extents of a snapshot takes a
/// millisecond, which the thread that answers other processes must not spend.
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

    /// Memory can be reclaimed.
    pub(crate) fn reclaim(&self) {
        self.lock().reclaim = true;
        self.changed.notify_one();
    }

    /// Waits for something to do, at most for [`PERIOD`]; `None` when it is time to stop.
    fn next(&self) -> Option<bool> {
        let state = self.lock();
        let idle = |state: &mut State| !state.reclaim && !state.stop;
        let waited = self.changed.wait_timeout_while(state, PERIOD, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!state.stop).then(|| std::mem::take(&mut state.reclaim))
    }
}

impl Keeper {
    /// Starts the thread; without one (no threads left) limits are seen to when snapshots are
    /// taken.
    pub(crate) fn start(inner: &Arc<Inner>) -> Self {
        let errands = Arc::clone(&inner.errands);
        let inner: Weak<Inner> = Arc::downgrade(inner);
        let thread = std::thread::Builder::new().name("atoll-keeper".into()).spawn({
            let errands = Arc::clone(&errands);
            move || {
                while let Some(reclaim) = errands.next() {
                    let Some(inner) = inner.upgrade() else { return };
                    if inner.end_inherited() || reclaim {
                        inner.memory().reclaim();
                    }
                    inner.enforce();
                    inner.memory().tidy();
                    inner.compact();
                    inner.collect_garbage();
                }
            }
        });
        Self { errands, thread: thread.ok() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.errands.lock().stop = true;
        self.errands.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
