//! Cancellation of statements.
//!
//! A session may have a question ([`crate::SqlSession::set_interrupt`]). The thread that runs a
//! statement asks it every [`PERIOD`] while it waits for other threads, and between rows. If the
//! answer is yes, the statement ends with [`SqlErrorKind::Cancelled`] and has changed nothing
//! (`SQL-2`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use atoll::Patience;

use crate::error::{SqlError, SqlErrorKind};

/// Time between two checks for cancellation.
pub(crate) const PERIOD: Duration = Duration::from_millis(20);
/// Rows between two checks.
const ROWS: u32 = 4096;

/// Tells whether the running statement is to end.
pub type Question = dyn Fn() -> bool + Send + Sync;

/// Whether a statement is to end. One that nothing can cancel allocates nothing.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Option<Arc<Asked>>);

struct Asked {
    question: Arc<Question>,
    /// For threads that work for the asking thread.
    is_cancelled: Arc<AtomicBool>,
    rows: AtomicU32,
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The statement is to end.
    Cancelled,
    /// The answering thread has ended.
    Gone,
}

impl Interrupt {
    /// For a statement, with the question of its session.
    pub(crate) fn new(question: Option<Arc<Question>>) -> Self {
        Self(question.map(|question| {
            let (is_cancelled, rows) = (Arc::default(), AtomicU32::new(0));
            Arc::new(Asked { question, is_cancelled, rows })
        }))
    }

    /// Asks; on the thread that runs the statement.
    fn ask(&self) -> bool {
        let Some(asked) = &self.0 else { return false };
        if (asked.question)() {
            asked.is_cancelled.store(true, Ordering::Relaxed);
        }
        asked.is_cancelled.load(Ordering::Relaxed)
    }

    /// The flag that is set when the statement is to end, if it can be cancelled.
    pub(crate) fn flag(&self) -> Option<Arc<AtomicBool>> {
        self.0.as_ref().map(|asked| Arc::clone(&asked.is_cancelled))
    }

    /// Asks now and then; for loops over rows.
    ///
    /// # Errors
    /// [`cancelled`].
    pub(crate) fn check_row(&self) -> Result<(), SqlError> {
        let Some(asked) = &self.0 else { return Ok(()) };
        let row = asked.rows.fetch_add(1, Ordering::Relaxed);
        if row % ROWS == ROWS - 1 && self.ask() { Err(cancelled()) } else { Ok(()) }
    }

    /// What a transaction asks while it waits for others; `None` for a statement that nothing can
    /// cancel.
    pub(crate) fn patience(&self) -> Option<Patience> {
        self.0.as_ref()?;
        let (interrupt, mut next) = (self.clone(), Instant::now() + PERIOD);
        Some(Box::new(move || {
            let now = Instant::now();
            now >= next && {
                next = now + PERIOD;
                interrupt.ask()
            }
        }))
    }

    /// Asks; between batches of rows.
    ///
    /// # Errors
    /// [`cancelled`].
    pub(crate) fn check_now(&self) -> Result<(), SqlError> {
        if self.ask() { Err(cancelled()) } else { Ok(()) }
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

/// The error of a cancelled statement.
pub(crate) fn cancelled() -> SqlError {
    SqlError::new(SqlErrorKind::Cancelled, "the statement was cancelled and has changed nothing")
}
