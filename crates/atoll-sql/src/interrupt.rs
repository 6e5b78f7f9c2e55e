//! Cancellation of statements, and their limits of time.
//!
//! A session may have a question ([`crate::SqlSession::set_interrupt`]) and limits
//! (`crate::settings`). The thread that runs a statement asks every [`PERIOD`] while it waits for
//! other threads, and between rows. If the statement is to end, it fails and has changed nothing
//! (`SQL-2`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use atoll::Patience;

use crate::error::{Cause, SqlError, SqlErrorKind};

/// Time between two checks for cancellation.
pub(crate) const PERIOD: Duration = Duration::from_millis(20);
/// Rows between two checks.
const ROWS: u32 = 4096;

/// Tells whether the running statement is to end.
pub type Question = dyn Fn() -> bool + Send + Sync;

/// Whether a statement is to end. One that nothing can end allocates nothing.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Option<Arc<Asked>>);

struct Asked {
    question: Option<Arc<Question>>,
    deadline: Option<Instant>,
    /// Longest wait for another transaction.
    lock: Option<Duration>,
    /// For threads that work for the asking thread.
    is_cancelled: Arc<AtomicBool>,
    /// A [`Why`], once it is to end.
    why: AtomicU8,
    rows: AtomicU32,
}

/// Why a statement is to end.
#[derive(Clone, Copy)]
enum Why {
    Cancelled = 1,
    StatementTimeout,
    LockTimeout,
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The statement is to end.
    Cancelled,
    /// The answering thread has ended.
    Gone,
}

impl Asked {
    fn end(&self, why: Why) -> bool {
        self.why.store(why as u8, Ordering::Relaxed);
        self.is_cancelled.store(true, Ordering::Relaxed);
        true
    }

    /// Asks; on the thread that runs the statement.
    fn ask(&self) -> bool {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return true;
        }
        if self.question.as_ref().is_some_and(|question| question()) {
            return self.end(Why::Cancelled);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            && self.end(Why::StatementTimeout)
    }
}

impl Interrupt {
    /// For a statement with the question of its session, that ends at a deadline and waits for
    /// another transaction no longer than `lock`.
    pub(crate) fn new(
        question: Option<Arc<Question>>,
        deadline: Option<Instant>,
        lock: Option<Duration>,
    ) -> Self {
        if question.is_none() && deadline.is_none() && lock.is_none() {
            return Self(None);
        }
        let (is_cancelled, why, rows) = (Arc::default(), AtomicU8::new(0), AtomicU32::new(0));
        Self(Some(Arc::new(Asked { question, deadline, lock, is_cancelled, why, rows })))
    }

    /// For a statement that waits for no other transaction.
    pub(crate) fn without_waiting() -> Self {
        Self::new(None, None, Some(Duration::ZERO))
    }

    /// The same limits with another question.
    pub(crate) fn with_question(&self, question: Option<Arc<Question>>) -> Self {
        let asked = self.0.as_ref();
        Self::new(question, asked.and_then(|one| one.deadline), asked.and_then(|one| one.lock))
    }

    fn ask(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked.ask())
    }

    /// Asks now and then; for loops over rows.
    ///
    /// # Errors
    /// [`Interrupt::error`].
    pub(crate) fn check_row(&self) -> Result<(), SqlError> {
        let Some(asked) = &self.0 else { return Ok(()) };
        let row = asked.rows.fetch_add(1, Ordering::Relaxed);
        if row % ROWS == ROWS - 1 && asked.ask() { Err(self.error()) } else { Ok(()) }
    }

    /// What a transaction asks while it waits for others; `None` for a statement that nothing can
    /// end.
    pub(crate) fn patience(&self) -> Option<Patience> {
        let asked = Arc::clone(self.0.as_ref()?);
        let (mut began, mut next) = (Instant::now(), Instant::now());
        Some(Box::new(move |is_first| {
            let now = Instant::now();
            if is_first {
                (began, next) = (now, now + PERIOD);
            }
            if asked.lock.is_some_and(|limit| now - began > limit) {
                return asked.end(Why::LockTimeout);
            }
            now >= next && {
                next = now + PERIOD;
                asked.ask()
            }
        }))
    }

    /// Asks; between batches of rows.
    ///
    /// # Errors
    /// [`Interrupt::error`].
    pub(crate) fn check_now(&self) -> Result<(), SqlError> {
        if self.ask() { Err(self.error()) } else { Ok(()) }
    }

    /// The error of a statement that was to end.
    pub(crate) fn error(&self) -> SqlError {
        let why = self.0.as_ref().map_or(0, |asked| asked.why.load(Ordering::Relaxed));
        let ended = |kind, message: &str| SqlError::new(kind, message);
        if why == Why::LockTimeout as u8 {
            let message = "the statement waited for another transaction longer than lock_timeout";
            return ended(SqlErrorKind::Aborted, message).with_cause(Cause::LockNotAvailable);
        }
        if why == Why::StatementTimeout as u8 {
            let message = "the statement ran longer than statement_timeout and has changed nothing";
            return ended(SqlErrorKind::Cancelled, message);
        }
        ended(SqlErrorKind::Cancelled, "the statement was cancelled and has changed nothing")
    }

    /// Waits for an answer and asks meanwhile.
    pub(crate) fn wait<T>(&self, answers: &Receiver<T>) -> Result<T, NoAnswer> {
        if self.0.is_none() {
            return answers.recv().map_err(|_| NoAnswer::Gone);
        }
        loop {
            match answers.recv_timeout(PERIOD) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(NoAnswer::Gone),
                Err(RecvTimeoutError::Timeout) if self.ask() => return Err(NoAnswer::Cancelled),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
