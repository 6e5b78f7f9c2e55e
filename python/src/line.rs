//! The way to the process that owns a database, which a connection shares with its snapshots: they
//! are refreshed after the connection is gone, and not after it was closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll::Attachment;

use crate::errors::{Fault, Outcome};

/// See the module.
pub(crate) struct Line(Mutex<Option<Arc<Attachment>>>);

impl Line {
    pub(crate) fn new(attachment: Attachment) -> Self {
        Self(Mutex::new(Some(Arc::new(attachment))))
    }

    /// Locked while this thread holds the GIL, and only briefly, so that a fork finds it unlocked.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Attachment>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attachment.
    ///
    /// # Errors
    /// [`Fault::Closed`].
    pub(crate) fn attachment(&self) -> Outcome<Arc<Attachment>> {
        let closed = Fault::Closed("the connection is closed; attach again");
        self.lock().as_ref().map(Arc::clone).ok_or(closed)
    }

    /// Closes it; the attachment ends when it is dropped.
    pub(crate) fn close(&self) -> Option<Arc<Attachment>> {
        self.lock().take()
    }
}
