//! Counters and times that a database reports about itself.

/// What a database has done and what it uses.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted, those tried again included.
    pub aborts: u64,
    /// Extents copied because a snapshot shows them.
    pub extents_copied: u64,
    /// Bytes of those copies.
    pub bytes_copied_on_write: u64,
    /// Bytes allocated in the store.
    pub memory_allocated_bytes: u64,
    /// Bytes that the store takes from the machine.
    pub memory_committed_bytes: u64,
    /// Most that it may take.
    pub memory_limit_bytes: u64,
    /// Bytes of replaced data that snapshots keep alive.
    pub memory_kept_bytes: u64,
    /// Snapshots held.
    pub snapshots: u64,
    /// The current epoch.
    pub epoch: u64,
}

/// What transactions have spent their time on, and why they were rolled back, since the database
/// was opened.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Accounting {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back for each reason.
    pub aborts: Vec<(&'static str, u64)>,
    /// Nanoseconds for each component, of the transactions that were measured: a sample.
    pub components_ns: Vec<(&'static str, u64)>,
}
