//! The thread that sees to a database's limits and tidiness while nobody calls it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::database::Inner;

const PERIOD: Duration = Duration::from_millis(20);

/// Expires snapshots that are over their limits, returns memory that nobody waits for, and writes
/// long values again that keep mostly empty blocks. Stops when dropped.
pub(crate) struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread; without one (no threads left) limits are seen to when snapshots are
    /// taken.
    pub(crate) fn start(inner: &Arc<Inner>) -> Self {
        let (stop, stopped) = channel();
        let inner: Weak<Inner> = Arc::downgrade(inner);
        let thread = std::thread::Builder::new().name("atoll-keeper".into()).spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let Some(inner) = inner.upgrade() else { return };
                inner.enforce();
                inner.memory().tidy();
                inner.compact();
            }
        });
        Self { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
