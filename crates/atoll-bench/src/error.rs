//! What can go wrong in a benchmark.

use atoll::machine::MachineError;
use atoll_memory::MemoryError;

/// Why a benchmark gave no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The database.
    #[error(transparent)]
    Database(#[from] atoll::Error),
    /// Memory for a measurement of its own.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Something about this machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// An argument that makes no sense.
    #[error("{what} is {value}, but {need}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// What was given.
        value: String,
        /// What it must be.
        need: &'static str,
    },
    /// A name that no scheme has, where `all` would stand for all of them.
    #[error("{0}, or `all`")]
    Scheme(#[from] atoll::UnknownScheme),
    /// The database of this size does not fit.
    #[error(
        "{gib} GiB of rows need about {need_mib} MiB with their index, locks and copies, but only \
         {available_mib} MiB are available; choose a smaller size"
    )]
    TooLarge {
        /// The size asked for.
        gib: f64,
        /// What it would need.
        need_mib: u64,
        /// What there is.
        available_mib: u64,
    },
    /// A call of the system.
    #[error("{call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The reading process did not do what it was told.
    #[error("the reading process failed: {0}")]
    Reader(String),
    /// A snapshot was wrong: the most important thing that a benchmark can find.
    #[error("a snapshot is wrong: {0}")]
    Wrong(String),
    /// A condition that a workload must keep was broken when it had ended.
    #[error("the database is wrong after the run: {0}")]
    Inconsistent(String),
    /// A writer could not go on.
    #[error("a writer ended: {0}")]
    Writer(String),
    /// A thread ended by a panic.
    #[error("a {0} thread panicked; its message is above")]
    Panicked(&'static str),
}

impl BenchError {
    /// For `map_err`: a system call that failed.
    pub(crate) fn system(call: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}
