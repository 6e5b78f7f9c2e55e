//! How far the opening of a database is, for whoever waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that grow while a database is opened with them
/// ([`crate::DatabaseOptions::progress`]); another thread looks. The parts come one after the
/// other, and the total of one is 0 until it begins.
#[derive(Debug, Default)]
pub struct OpenProgress {
    /// Bytes of the homes that were read.
    pub checkpoint: OpenPart,
    /// Bytes of the logs that were read. Where a log ends that was not closed shows when it is
    /// read; until then the total is what its files suggest.
    pub log: OpenPart,
    /// Segments whose rows have their entries in the indexes.
    pub indexes: OpenPart,
}

/// A part of the opening.
#[derive(Debug, Default)]
pub struct OpenPart {
    done: AtomicU64,
    total: AtomicU64,
}

impl OpenPart {
    /// What has been done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// What there is to do; 0 before it begins.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Nothing is left to do.
    pub(crate) fn end(&self) {
        self.total.store(self.done(), Ordering::Relaxed);
    }
}
