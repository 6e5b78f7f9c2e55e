//! The errors of a benchmark.

use atoll::machine::MachineError;
use atoll_memory::MemoryError;

use crate::sql::Failure;

/// The reason why a benchmark has no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] atoll::Error),
    /// Memory for a measurement could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An error about this machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// An argument is out of range.
    #[error("{what} is {value}, but {need}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// The value given.
        value: String,
        /// The requirement.
        need: &'static str,
    },
    /// There is no scheme of this name.
    #[error("{0}, or `all`")]
    Scheme(#[from] atoll::UnknownScheme),
    /// A database of this size does not fit into memory.
    #[error(
        "{gib} GiB of rows need about {need_mib} MiB with their index, locks and copies, but only \
         {available_mib} MiB are available; choose a smaller size"
    )]
    TooLarge {
        /// The requested size.
        gib: f64,
        /// The memory that it needs.
        need_mib: u64,
        /// The memory that is available.
        available_mib: u64,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The reading process did not do what it was asked to do.
    #[error("the reading process failed: {0}")]
    Reader(String),
    /// A snapshot is wrong. This is the most important finding of a benchmark.
    #[error("a snapshot is wrong: {0}")]
    Wrong(String),
    /// A consistency condition of the workload does not hold after the run.
    #[error("the database is wrong after the run: {0}")]
    Inconsistent(String),
    /// A writer ended early.
    #[error("a writer ended: {0}")]
    Writer(String),
    /// A SQL statement of the workload failed.
    #[error("a statement failed: {0}")]
    Statement(#[from] Failure),
    /// A thread panicked.
    #[error("a {0} thread panicked; its message is above")]
    Panicked(&'static str),
}

impl BenchError {
    /// For `map_err`: the error of a system call.
    pub(crate) fn system(call: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}
