//! Limits of the queries of a process: one pool of memory for all of them, and spill files for data
//! beyond it.
//!
//! - `LIMITS-1`: all memory that a query holds counts, its result included until that is dropped.
//!   Bytes in the store of a snapshot do not count: they exist anyway.
//! - `LIMITS-2`: data that does not fit is spilled, or causes an error that names the limit and
//!   leaves the session as it was.
//! - `LIMITS-3`: the pool belongs to this process. A forked child has its own and never returns
//!   memory to the pool of its parent, because a latch there may be held for ever.

mod account;
mod held;
mod pool;
mod spill;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll::machine::fork::{self, Here};
use atoll::machine::memory_allowed;
use datafusion::common::Result;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use crate::error::{SqlError, SqlErrorKind};
pub(crate) use account::Account;
pub use held::QueryMemory;
pub(crate) use held::{Counted, Ledger};
use pool::Pool;
use spill::{Factory, Spill};

/// Default share of the memory of the process that its queries may take. With the default of a
/// database (four fifths) some memory is left for everything else.
const MEMORY_SHARE: u64 = 8;

/// Share of the memory of queries that all parts of a sort keep for merging, at most.
const SORT_SHARE: usize = 4;

/// Limits of the queries of this process. A limit that is not set has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryLimits {
    /// Bytes of memory for all queries together, their results included; by default an eighth of
    /// what the process may use.
    pub memory_bytes: Option<u64>,
    /// Bytes of all spill files together; by default half of what is free on their disk when the
    /// first is made.
    pub spill_bytes: Option<u64>,
    /// The place of the folder `atoll-spill-UID` of spill files; by default `$TMPDIR`, else
    /// `/var/tmp`.
    pub spill_folder: Option<PathBuf>,
}

static LIMITS: Mutex<State> = Mutex::new(State {
    chosen: QueryLimits { memory_bytes: None, spill_bytes: None, spill_folder: None },
    shared: None,
});

struct State {
    chosen: QueryLimits,
    shared: Option<Here<Shared>>,
}

/// What all queries of the process share.
#[derive(Clone)]
struct Shared {
    pool: Arc<Pool>,
    spill: Arc<Spill>,
}

/// The state, while no fork begins; of a thread that sees to that itself.
fn state() -> MutexGuard<'static, State> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn shared(&mut self) -> &Shared {
        if self.shared.as_ref().is_some_and(|shared| !shared.mark().is_here()) {
            self.shared = None;
        }
        let chosen = &self.chosen;
        self.shared.get_or_insert_with(|| {
            let pool = Arc::new(Pool::new(memory_bytes(chosen)));
            let spill = Arc::new(Spill::new(spill_parent(chosen), chosen.spill_bytes));
            Here::new(Shared { pool, spill })
        })
    }
}

fn memory_bytes(chosen: &QueryLimits) -> usize {
    let bytes = chosen.memory_bytes.unwrap_or_else(|| memory_allowed().total_bytes / MEMORY_SHARE);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn spill_parent(chosen: &QueryLimits) -> PathBuf {
    if let Some(folder) = &chosen.spill_folder {
        return folder.clone();
    }
    match std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        // `/tmp` is often in memory, which spilling is to save.
        None => Some(Path::new("/var/tmp"))
            .filter(|folder| folder.is_dir())
            .map_or_else(std::env::temp_dir, Path::to_owned),
    }
}

/// Sets the limits of the queries of this process, for all its databases and snapshots. Running
/// queries keep the memory that they have.
pub fn set_query_limits(limits: QueryLimits) {
    let _no_fork = fork::delay();
    let mut state = state();
    state.chosen = limits;
    let chosen = state.chosen.clone();
    let shared = state.shared();
    shared.pool.set_limit(memory_bytes(&chosen));
    shared.spill.set(spill_parent(&chosen), chosen.spill_bytes);
}

/// The last arguments of [`set_query_limits`].
pub fn query_limits() -> QueryLimits {
    let _no_fork = fork::delay();
    state().chosen.clone()
}

/// The environment of queries; no fork begins meanwhile.
pub(crate) fn environment() -> Result<Arc<RuntimeEnv>> {
    let Shared { pool, spill } = state().shared().clone();
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::new(Factory(spill)));
    RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk).build_arc()
}

/// The error of a query that needs more memory than there is; `what` names its part.
pub(crate) fn exhausted(what: &str) -> SqlError {
    let limit = {
        let _no_fork = fork::delay();
        shown(state().shared().pool.limit() as u64)
    };
    let message = format!(
        "{what} more than the query memory, {limit} for all queries of this process together"
    );
    let hint = "ask for fewer rows or columns, drop results that are kept, or raise the limit: \
                --query-memory SIZE, in Python atolldb.set_query_limits(memory=…)";
    SqlError::new(SqlErrorKind::OutOfMemory, message).with_hint(Some(hint.to_owned()))
}

/// Bytes for display: in the largest unit of which they are a multiple.
fn shown(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}
