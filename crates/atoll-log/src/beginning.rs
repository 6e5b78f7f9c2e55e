//! The beginning of a life: what is written before the first commit of a database that was opened.
//!
//! Reading a database needs no space and its first change does: the control file names the life,
//! each log needs a file with room, and a block says that the life has begun. All of that is
//! written when the database is opened. Where the medium is full then, the database opens all the
//! same, can be read, and each change tries to begin the life again, so that the first one for
//! which there is room goes on.
//!
//! - `BEGIN-1`: no block of a life is appended before its announcement is durable.
//! - `BEGIN-2`: a life begins once. An attempt that failed for want of space has appended nothing.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::{Kind, block_bytes};
use crate::error::LogError;
use crate::log::Log;
use crate::logs::{Logs, State};

/// Writes durably, to the control file, that a life begins. Called again after it has failed.
pub type Announce = Box<dyn FnMut() -> Result<(), LogError> + Send>;

/// A life that has not begun yet, or has.
pub(crate) struct Beginning {
    /// Gone once the life has begun, or never will.
    announce: Mutex<Option<Announce>>,
    /// Why the last attempt failed. Apart from the other, which is held during an attempt.
    failed: Mutex<Option<LogError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beginning {
    pub(crate) fn new(announce: Announce) -> Self {
        Self { announce: Mutex::new(Some(announce)), failed: Mutex::default() }
    }
}

impl Logs {
    /// Begins the life if it has not begun. Changes do so by themselves.
    ///
    /// # Errors
    /// [`LogError::Medium`] when there is no space: it can be tried again. Other errors are those
    /// of the announcement and of a flush.
    pub fn begin(&self) -> Result<(), LogError> {
        if self.state() != State::Waiting {
            return Ok(());
        }
        let mut announce = lock(&self.beginning.announce);
        let Some(announcement) = announce.as_mut() else { return Ok(()) };
        let admitted = announcement().and_then(|()| self.admit_beginning());
        *lock(&self.beginning.failed) = admitted.as_ref().err().cloned();
        admitted?;
        for number in 0..self.logs().len() {
            self.append_admitted(number, Kind::Open, &[]);
        }
        *announce = None;
        self.state.store(State::Open as u8, Ordering::SeqCst);
        drop(announce);
        self.settle(self.clock())
    }

    /// Room for the first block of every log, or of none (`BEGIN-2`).
    fn admit_beginning(&self) -> Result<(), LogError> {
        let bytes = block_bytes(0);
        for (number, log) in self.logs().iter().enumerate() {
            if let Err(error) = log.admit(bytes) {
                self.logs()[..number].iter().for_each(|before| before.withdraw(bytes));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Why the life could not begin, so that no change is taken, if that is so.
    pub fn waits_for(&self) -> Option<LogError> {
        let failed = lock(&self.beginning.failed).clone();
        failed.filter(|_| self.state() == State::Waiting)
    }

    /// Takes no more changes. Returns whether the life had begun.
    pub(crate) fn end(&self) -> bool {
        let mut announce = lock(&self.beginning.announce); // Not while it begins.
        self.state.store(State::Closed as u8, Ordering::SeqCst);
        announce.take().is_none()
    }

    /// As [`Log::seal`], of all logs.
    pub(crate) fn seal(&self) {
        self.logs().iter().for_each(Log::seal);
    }
}
