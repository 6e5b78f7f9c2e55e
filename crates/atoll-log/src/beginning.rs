//! The beginning of an incarnation: what is written before the first commit after opening.
//!
//! Reading a database needs no space, but the first change does: the control file records the new
//! incarnation, each log needs a file with room, and an open block in each log says that the
//! incarnation has begun. All of this is written when the database is opened. If the medium is full
//! then, the database opens all the same and can be read; each change tries to begin the
//! incarnation again, so the first change for which there is room succeeds.
//!
//! - `BEGIN-1`: no block of an incarnation is appended before its announcement is durable.
//! - `BEGIN-2`: an incarnation begins once. An attempt that failed because the medium was full has
//!   appended nothing.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::LogError;

/// Durably writes to the control file that an incarnation begins. [`crate::Logs::begin`] calls it
/// again after it has failed.
pub type Announce = Box<dyn FnMut() -> Result<(), LogError> + Send>;

/// Whether the logs accept changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The incarnation has not begun.
    Waiting,
    /// They do.
    Open,
    /// They do not any more.
    Closed,
}

/// The state of an incarnation, and what is needed to begin it.
pub(crate) struct Beginning {
    /// A [`State`].
    state: AtomicU8,
    /// `None` once the incarnation has begun, or once it never will.
    announce: Mutex<Option<Announce>>,
    /// Why the last attempt failed. A mutex of its own, because an attempt holds the other one.
    failed: Mutex<Option<LogError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beginning {
    /// An incarnation that waits for its beginning.
    pub(crate) fn new(announce: Announce) -> Self {
        let state = AtomicU8::new(State::Waiting as u8);
        Self { state, announce: Mutex::new(Some(announce)), failed: Mutex::default() }
    }

    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::Waiting,
            1 => State::Open,
            _ => State::Closed,
        }
    }

    /// Begins the incarnation unless it has begun or has ended: announces it, then reserves room
    /// with `admit` and writes the first blocks with `append`. Returns whether this call began it.
    ///
    /// # Errors
    /// Those of the announcement and of `admit`; `append` is not called then, and the incarnation
    /// can be begun again (`BEGIN-2`).
    pub(crate) fn begin(
        &self,
        admit: impl FnOnce() -> Result<(), LogError>,
        append: impl FnOnce(),
    ) -> Result<bool, LogError> {
        if self.state() != State::Waiting {
            return Ok(false);
        }
        let mut announce = lock(&self.announce);
        let Some(announcement) = announce.as_mut() else { return Ok(false) };
        let admitted = announcement().and_then(|()| admit());
        *lock(&self.failed) = admitted.as_ref().err().cloned();
        admitted?;
        append();
        *announce = None;
        self.state.store(State::Open as u8, Ordering::SeqCst);
        Ok(true)
    }

    /// Why the last attempt to begin failed, while the incarnation still waits.
    pub(crate) fn failure(&self) -> Option<LogError> {
        let failed = lock(&self.failed).clone();
        failed.filter(|_| self.state() == State::Waiting)
    }

    /// Accepts no more changes. Returns whether the incarnation had begun.
    pub(crate) fn end(&self) -> bool {
        let mut announce = lock(&self.announce); // Waits for an attempt that is running.
        self.state.store(State::Closed as u8, Ordering::SeqCst);
        announce.take().is_none()
    }
}
