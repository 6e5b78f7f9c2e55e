//! The keeper: a background thread that enforces limits on snapshots and frees memory.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::core::Core;
use crate::errands::Errands;

const PERIOD: Duration = Duration::from_millis(20);

/// The thread expires snapshots that are over a limit, ends leases that forked children no longer
/// read, frees what ended leases kept, returns free memory to the system, compacts heap blocks that
/// are mostly empty, frees dropped tables, and collects the garbage queues of idle workers. It
/// stops when dropped.
pub(crate) struct Keeper {
    errands: Arc<Errands>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread. If the system has no thread left, limits are enforced only when a
    /// snapshot is taken.
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
                    core.free_dropped();
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
            // The panic was reported by its own thread.
            let _ = thread.join();
        }
    }
}
