//! The memory pool of all queries of the process.
//!
//! - `QUERYPOOL-1`: an operator that cannot spill takes free memory, first come, first served; an
//!   operator that can spill gets at most an even share of the rest, so it spills before it can
//!   starve another. A small part of the pool is kept for operators that cannot spill: some
//!   operators that can spill take memory that they are not asked about ([`MemoryPool::grow`]),
//!   and may then hold more than the limit.
//! - `QUERYPOOL-2`: a refused request changes nothing. Operators that can spill do so when they are
//!   refused with [`DataFusionError::ResourcesExhausted`]; for all others it ends their query.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The share of the pool that operators that cannot spill always get.
const FIXED_SHARE: usize = 16;

/// Memory that queries share, up to a limit that may be changed at any time.
#[derive(Debug)]
pub(super) struct Pool {
    limit_bytes: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Operators that can spill.
    spillers: usize,
    /// Bytes of these operators, and of all others.
    spillable: usize,
    fixed: usize,
}

impl Pool {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes: AtomicUsize::new(limit_bytes), state: Mutex::default() }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// A query above the new limit keeps its memory and gets no more.
    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn part(&mut self, can_spill: bool) -> &mut usize {
        if can_spill { &mut self.spillable } else { &mut self.fixed }
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &'static str {
        "query memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state().spillers += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state().spillers -= usize::from(consumer.can_spill());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        *self.state().part(reservation.consumer().can_spill()) += additional;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        *self.state().part(reservation.consumer().can_spill()) -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (limit, can_spill) = (self.limit(), reservation.consumer().can_spill());
        let mut state = self.state();
        let kept = limit / FIXED_SHARE;
        let fits = if can_spill {
            let share = limit.saturating_sub(state.fixed.max(kept)) / state.spillers.max(1);
            reservation.size().saturating_add(additional) <= share
        } else {
            let fixed = state.fixed.saturating_add(additional);
            fixed <= kept || fixed.saturating_add(state.spillable) <= limit
        };
        if !fits {
            let name = reservation.consumer().name();
            let text = format!("{name} asked for {additional} bytes");
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        *state.part(can_spill) += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state();
        state.spillable + state.fixed
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit())
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.name(), self.limit())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;

    fn consumer(pool: &Arc<dyn MemoryPool>, name: &str, spills: bool) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(spills).register(pool)
    }

    #[test]
    fn what_can_spill_shares_what_the_others_leave() {
        let own = Arc::new(Pool::new(100));
        let pool: Arc<dyn MemoryPool> = own.clone();
        let fixed = consumer(&pool, "a hash table", false);
        fixed.try_grow(40).unwrap();
        let (one, other) = (consumer(&pool, "a sort", true), consumer(&pool, "a sort", true));
        one.try_grow(30).unwrap();
        let refused = one.try_grow(1).unwrap_err();
        assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)), "{refused}");
        drop(other);
        one.try_grow(30).unwrap();
        assert_eq!(pool.reserved(), 100);
        assert!(fixed.try_grow(1).is_err());
        drop(one);
        fixed.try_grow(60).unwrap();
        drop(fixed);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_cannot_spill_gets_a_little_beside_an_operator_above_the_limit() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(160));
        let sort = consumer(&pool, "a sort", true);
        assert!(sort.try_grow(151).is_err());
        sort.try_grow(150).unwrap();
        sort.grow(50);
        let count = consumer(&pool, "a count", false);
        count.try_grow(0).unwrap();
        count.try_grow(10).unwrap();
        assert!(count.try_grow(1).is_err());
    }

    #[test]
    fn a_limit_that_is_lowered_takes_nothing_away() {
        let own = Arc::new(Pool::new(100));
        let pool: Arc<dyn MemoryPool> = own.clone();
        let fixed = consumer(&pool, "rows", false);
        fixed.try_grow(80).unwrap();
        own.set_limit(50);
        assert!(fixed.try_grow(1).is_err());
        assert_eq!(pool.reserved(), 80);
        own.set_limit(81);
        fixed.try_grow(1).unwrap();
    }
}
