//! The memory of one query within the pool of all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};

use super::SORT_SHARE;

/// What a query holds of the pool, which outlives the query by its result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account(Arc<AtomicUsize>);

impl Account {
    /// Bytes that the query holds.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The environment in which the plan of the query runs.
    pub(crate) fn context(&self, settings: &SessionState) -> TaskContext {
        let context = TaskContext::from(settings);
        let shared = context.runtime_env();
        let counting =
            Counting { pool: Arc::clone(&shared.memory_pool), held: Arc::clone(&self.0) };
        let own = RuntimeEnv { memory_pool: Arc::new(counting), ..(*shared).clone() };
        let limit = match shared.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        };
        let context = context.with_runtime(Arc::new(own));
        // Memory that each part of a sort reserves for merging spilled data: not all there is.
        let usual = settings.config().options().execution.sort_spill_reservation_bytes;
        let most = limit / (SORT_SHARE * settings.config().target_partitions().max(1));
        if most >= usual {
            return context;
        }
        let config = settings.config().clone().with_sort_spill_reservation_bytes(most);
        context.with_session_config(config)
    }
}

/// The pool of all queries, with the bytes of one counted.
#[derive(Debug)]
struct Counting {
    pool: Arc<dyn MemoryPool>,
    held: Arc<AtomicUsize>,
}

impl MemoryPool for Counting {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.held.fetch_add(additional, Ordering::Relaxed);
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.held.fetch_add(additional, Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}
