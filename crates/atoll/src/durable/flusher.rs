//! The threads that flush what nobody waits for, prepare files of the logs and take checkpoints.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use atoll_log::Logs;
use atoll_machine::Medium;

use super::checkpoint::{self, Checkpointer, Form, Progress};
use super::health::Notes;
use super::{BackupReport, CheckpointReport};
use crate::acknowledger::due::Due;
use crate::core::Core;
use crate::durability::{Durability, PERIOD_MIN};
use crate::error::{Error, Result};
use crate::restore_point::now_us;

/// How often it looks whether there is something to do.
const PERIOD_MAX: Duration = Duration::from_millis(50);
/// How often a moment is marked at most.
const MARK_PERIOD: Duration = Duration::from_secs(1);
/// Share of the memory that a checkpoint may keep alive before the next is taken.
const KEPT_SHARE: u64 = 8;
/// Pause after a checkpoint that failed; twice as long after each that fails as well, up to the
/// greatest, since each may have written a home in vain.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// When checkpoints are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) durability: Durability,
    /// After so many bytes of log.
    pub(crate) checkpoint_log_bytes: u64,
    /// So long after the last one, if anything has been logged since.
    pub(crate) checkpoint_interval: Option<Duration>,
}

impl Policy {
    /// How often it is looked whether a checkpoint is due.
    fn period(&self) -> Duration {
        self.checkpoint_interval.map_or(PERIOD_MAX, |time| time.clamp(PERIOD_MIN, PERIOD_MAX))
    }
}

/// See the module. Dropping it closes the database.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    checkpointer: Mutex<Checkpointer>,
    logs: Arc<Logs>,
    progress: Progress,
    notes: Arc<Notes>,
    due: Arc<Due>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flusher {
    pub(crate) fn start(
        core: &Arc<Core>,
        checkpointer: Checkpointer,
        policy: Policy,
        due: Arc<Due>,
    ) -> Self {
        let logs = Arc::clone(&checkpointer.logs);
        let progress = Progress::new(&checkpointer.control);
        let checkpointer = Mutex::new(checkpointer);
        let (stopped, stop) = (Mutex::default(), Condvar::new());
        let notes = Arc::default();
        let shared = Shared { checkpointer, logs, progress, notes, due, stopped, stop };
        let shared = Arc::new(shared);
        // Apart, so that neither files nor a checkpoint keep a flush waiting.
        let preparing = {
            let shared = Arc::clone(&shared);
            move || shared.prepare_until_stopped()
        };
        let flushing = {
            let shared = Arc::clone(&shared);
            move || shared.flush_until_stopped(policy.durability)
        };
        let checkpointing = {
            let (shared, core) = (Arc::clone(&shared), Arc::downgrade(core));
            move || shared.checkpoint_until_stopped(&core, policy)
        };
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(body).ok()
        };
        // Without threads left, commits flush for themselves and the logs grow.
        let flusher = spawn("atoll-flusher", Box::new(flushing));
        flusher.iter().for_each(|thread| shared.due.served_by(thread.thread()));
        let threads = [
            flusher,
            spawn("atoll-files", Box::new(preparing)),
            spawn("atoll-home", Box::new(checkpointing)),
        ];
        Self { shared, threads: threads.into_iter().flatten().collect() }
    }

    pub(crate) fn checkpoint(&self, core: &Arc<Core>) -> Result<CheckpointReport> {
        self.shared.checkpoint(&mut lock(&self.shared.checkpointer), core)
    }

    /// Checkpoints taken so far, by itself and by others.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.shared.progress.taken()
    }

    /// Takes a checkpoint and copies it.
    pub(crate) fn backup(&self, core: &Arc<Core>, root: &dyn Medium) -> Result<BackupReport> {
        let mut checkpointer = lock(&self.shared.checkpointer);
        let checkpoint = self.shared.take(&mut checkpointer, core, Form::Map)?;
        let bytes = checkpointer.copy_to(root)?;
        Ok(BackupReport { checkpoint, bytes })
    }

    /// What its threads meet, to be asked for while they are at work.
    pub(crate) fn notes(&self) -> Arc<Notes> {
        Arc::clone(&self.shared.notes)
    }

    fn stop(&mut self) {
        *lock(&self.shared.stopped) = true;
        self.shared.stop.notify_all();
        self.shared.due.wake();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != std::thread::current().id() {
                // A panic there has been reported; there is nothing to add here.
                let _ = thread.join();
            }
        }
    }

    /// Ends the threads and says on the medium that the database is closed.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.stop();
        let mut checkpointer = lock(&self.shared.checkpointer);
        checkpointer.baseline = None;
        Ok(checkpointer.close()?)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // Who wants to know calls `Database::close`. What was acknowledged is durable anyway.
        let _ = self.close();
    }
}

/// Whether something has been logged, and the logs have grown enough, the last checkpoint is long
/// ago, or what it keeps alive takes much memory.
fn is_due(core: &Core, progress: &Progress, logs: &Logs, policy: Policy) -> bool {
    let log = progress.log_bytes(logs);
    let is_long_ago = policy.checkpoint_interval.is_some_and(|time| progress.elapsed() >= time);
    let memory = core.memory();
    let keeps_much = memory.kept_bytes_all() > memory.store().limit_bytes() / KEPT_SHARE;
    log > 0 && (log >= policy.checkpoint_log_bytes || is_long_ago || keeps_much)
}

impl Shared {
    /// Waits; true when it is time to stop.
    fn wait(&self, most: Duration) -> bool {
        let stopped = lock(&self.stopped);
        let waited = self.stop.wait_timeout_while(stopped, most, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn flush_until_stopped(&self, durability: Durability) {
        let period = durability.period().max(PERIOD_MIN);
        let mut last = Instant::now();
        let mut marked = last;
        loop {
            let left = period.saturating_sub(last.elapsed());
            park_timeout(left.min(PERIOD_MAX).min(self.due.left()));
            if *lock(&self.stopped) {
                return;
            }
            // A log that fails says so: to those who wait for a flush, and in `Health`.
            if marked.elapsed() >= MARK_PERIOD && self.logs.has_unmarked() {
                let _ = self.logs.mark(now_us);
                marked = Instant::now();
            }
            if self.due.take() || last.elapsed() >= period {
                let _ = self.logs.flush(); // DUE-1
                last = Instant::now();
            }
        }
    }

    fn prepare_until_stopped(&self) {
        while !self.wait(PERIOD_MAX) {
            let made = self.logs.prepare_ahead(|| *lock(&self.stopped));
            self.notes.note_files(made);
        }
    }

    fn checkpoint_until_stopped(&self, core: &Weak<Core>, policy: Policy) {
        let mut pause = policy.period();
        let mut after_failure = PAUSE;
        while !self.wait(pause) {
            pause = policy.period();
            let Some(core) = core.upgrade() else { return };
            // Decided while nobody else takes one, so that none is taken for what that one shows.
            let mut checkpointer = lock(&self.checkpointer);
            let due = is_due(&core, &self.progress, &self.logs, policy);
            if !due {
                continue;
            }
            match self.checkpoint(&mut checkpointer, &core) {
                Ok(_) => after_failure = PAUSE,
                Err(_) => {
                    // The logs go on; perhaps there is space, or memory, later.
                    pause = after_failure;
                    after_failure = (2 * after_failure).min(PAUSE_MAX);
                }
            }
        }
    }

    /// As [`Shared::take`]; lets go of what the last one keeps if memory is short.
    fn checkpoint(
        &self,
        checkpointer: &mut Checkpointer,
        core: &Arc<Core>,
    ) -> Result<CheckpointReport> {
        let before = checkpointer.baseline.is_some();
        let done = self.take(checkpointer, core, Form::Any);
        if before && matches!(done, Err(Error::SnapshotLimit { .. } | Error::Memory(_))) {
            checkpointer.baseline = None; // What it keeps may be what is missing.
        }
        done
    }

    /// Takes a checkpoint and notes how that went.
    fn take(
        &self,
        checkpointer: &mut Checkpointer,
        core: &Arc<Core>,
        form: Form,
    ) -> Result<CheckpointReport> {
        let done = self.try_to_take(checkpointer, core, form);
        self.notes.note_checkpoint(&done);
        self.notes.note_archive(checkpointer.not_archived.clone());
        done
    }

    fn try_to_take(
        &self,
        checkpointer: &mut Checkpointer,
        core: &Arc<Core>,
        form: Form,
    ) -> Result<CheckpointReport> {
        // What the checkpoint itself would have to flush would look as if it had come after it, and
        // so would a moment that is marked for what comes before. A failure is told when it gets
        // there.
        if self.logs.has_unmarked() {
            let _ = self.logs.mark(now_us);
        }
        let _ = self.logs.flush();
        let end = checkpoint::end(&self.logs); // before the cut
        let report = checkpointer.take(core, form)?;
        self.progress.reset(end);
        Ok(report)
    }
}
