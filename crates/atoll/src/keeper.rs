//! The thread that sees to a database's limits and tidiness while nobody calls it.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::core::Core;
use crate::errands::Errands;

const PERIOD: Duration = Duration::from_millis(20);

/// Expires snapshots that are over their limits, frees what ended leases kept, returns memory that
/// nobody waits for, writes long values again that keep mostly empty blocks, and has deleted rows
/// taken away that wait in workers which nobody uses. Stops when dropped.
pub(crate) struct Keeper {
    errands: Arc<Errands>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread; without one (no threads left) limits are seen to when snapshots are
    /// taken.
    pub(crate) fn start(core: &Arc<Core>) -> Self {
        let errands = Arc::clone(&core.errands);
        let core: Weak<Core> = Arc::downgrade(core);
        let thread = std::thread::Builder::new().name("atoll-keeper".into()).spawn({
            let errands = Arc::clone(&errands);
            move || {
                while let Some(reclaim) = errands.next(PERIOD) {
                    let Some(core) = core.upgrade() else { return };
                    if core.end_inherited() || reclaim {
                        core.memory().reclaim();
                    }
                    core.enforce();
                    core.memory().tidy();
                    core.compact();
                    core.collect_garbage();
                }
            }
        });
        Self { errands, thread: thread.ok() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.errands.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
