//! Progress of opening a database.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that grow while a database is opened with them ([`crate::DatabaseOptions::progress`]),
/// for another thread to read. The parts follow one another, and the total of a part is 0 until the
/// part begins.
#[derive(Debug, Default)]
pub struct OpenProgress {
    /// Bytes of the checkpoint stores that were read.
    pub checkpoint: OpenPart,
    /// Bytes of the logs that were read. The end of a log that was not closed is known only when it
    /// has been read; until then the total is estimated from its files.
    pub log: OpenPart,
    /// Segments that have been entered into the indexes.
    pub indexes: OpenPart,
}

/// One part of opening.
#[derive(Debug, Default)]
pub struct OpenPart {
    done: AtomicU64,
    total: AtomicU64,
}

impl OpenPart {
    /// The amount done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The total amount; 0 before the part begins.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Ends the part: sets the total to the amount done.
    pub(crate) fn end(&self) {
        self.total.store(self.done(), Ordering::Relaxed);
    }
}
