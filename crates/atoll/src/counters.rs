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

/// Where the memory of a database is, in bytes. The parts of the store and of the private memory
/// add up to what the system reports for the process, except for stacks and for pages of the
/// allocators that are partly used.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct MemoryAccount {
    /// Store: values of rows, with presence and validity bits, long values and the directory.
    pub tables_bytes: u64,
    /// Store: replaced data that snapshots keep alive.
    pub kept_bytes: u64,
    /// Store: free, but taken from the machine.
    pub free_bytes: u64,
    /// Private: row headers, which hold the state of rows for transactions.
    pub headers_bytes: u64,
    /// Private: hash indexes and ordered indexes.
    pub indexes_bytes: u64,
    /// Private: the heap of the whole process. Transactions keep their changes there, loads their
    /// buffers, and the rest of the program what it needs.
    pub heap_bytes: u64,
    /// Private: free in the heap, but not given back to the machine.
    pub heap_free_bytes: u64,
    /// Memory of the whole process, as the system reports it, without its program files.
    pub process_bytes: u64,
}

/// The memory of a table, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableBytes {
    /// Values of rows, with presence and validity bits and long values; not what only older
    /// snapshots show.
    pub rows: u64,
    /// Row headers, which hold the state of rows for transactions.
    pub headers: u64,
    /// Hash indexes and ordered indexes.
    pub indexes: u64,
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
