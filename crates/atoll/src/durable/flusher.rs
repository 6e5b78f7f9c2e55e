//! The background threads of a durable database: they flush commits that no transaction waits for,
//! prepare log files, and take checkpoints.

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

/// Longest time between two looks for work.
const PERIOD_MAX: Duration = Duration::from_millis(50);
/// Shortest time between two restore points.
const MARK_PERIOD: Duration = Duration::from_secs(1);
/// The next checkpoint is taken when the last one keeps this share of the memory alive.
const KEPT_SHARE: u64 = 8;
/// Pause after a failed checkpoint; doubled after each further failure up to [`PAUSE_MAX`], since
/// each attempt may have written a whole checkpoint store without effect.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// When checkpoints are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) durability: Durability,
    /// After this many bytes of log.
    pub(crate) checkpoint_log_bytes: u64,
    /// This long after the last one, if something was logged since.
    pub(crate) checkpoint_interval: Option<Duration>,
}

impl Policy {
    /// Time between two looks whether a checkpoint is due.
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
        // Separate threads, so that neither preparing files nor a checkpoint delays a flush.
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
        // If the system has no thread left, transactions flush by themselves and the logs grow.
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

    /// Number of checkpoints so far, by the thread and by callers.
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

    /// The failures that the threads record.
    pub(crate) fn notes(&self) -> Arc<Notes> {
        Arc::clone(&self.shared.notes)
    }

    fn stop(&mut self) {
        *lock(&self.shared.stopped) = true;
        self.shared.stop.notify_all();
        self.shared.due.wake();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != std::thread::current().id() {
                // The panic was reported by its own thread.
                let _ = thread.join();
            }
        }
    }

    /// Ends the threads and records in the control file that the database is closed.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.stop();
        let mut checkpointer = lock(&self.shared.checkpointer);
        checkpointer.baseline = None;
        Ok(checkpointer.close()?)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // A caller that needs the result calls `Database::close`. Acknowledged commits are durable
        // anyway.
        let _ = self.close();
    }
}

/// Whether something was logged, and the logs have grown enough, the last checkpoint is long ago,
/// or it keeps much memory alive.
fn is_due(core: &Core, progress: &Progress, logs: &Logs, policy: Policy) -> bool {
    let log = progress.log_bytes(logs);
    let is_long_ago = policy.checkpoint_interval.is_some_and(|time| progress.elapsed() >= time);
    let memory = core.memory();
    let keeps_much = memory.kept_bytes_all() > memory.store().limit_bytes() / KEPT_SHARE;
    log > 0 && (log >= policy.checkpoint_log_bytes || is_long_ago || keeps_much)
}

impl Shared {
    /// Waits; returns true when the thread is to stop.
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
            // A failed log reports its error to every transaction that waits for a flush, and in
            // `Health`.
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
            // Decided under the lock, so that it does not take a checkpoint for log that a
            // concurrent checkpoint covers.
            let mut checkpointer = lock(&self.checkpointer);
            let due = is_due(&core, &self.progress, &self.logs, policy);
            if !due {
                continue;
            }
            match self.checkpoint(&mut checkpointer, &core) {
                Ok(_) => after_failure = PAUSE,
                Err(_) => {
                    // The logs go on; a later attempt may find space or memory.
                    pause = after_failure;
                    after_failure = (2 * after_failure).min(PAUSE_MAX);
                }
            }
        }
    }

    /// As [`Shared::take`]; drops the snapshot of the last checkpoint if memory is short.
    fn checkpoint(
        &self,
        checkpointer: &mut Checkpointer,
        core: &Arc<Core>,
    ) -> Result<CheckpointReport> {
        let before = checkpointer.baseline.is_some();
        let done = self.take(checkpointer, core, Form::Any);
        if before && matches!(done, Err(Error::SnapshotLimit { .. } | Error::Memory(_))) {
            checkpointer.baseline = None; // It may keep the missing memory.
        }
        done
    }

    /// Takes a checkpoint and records the result.
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
        // Without this mark and flush, blocks that the checkpoint itself causes to be written would
        // count as log after it. The checkpoint itself returns an error, if there is one.
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
