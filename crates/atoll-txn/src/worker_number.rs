//! Numbers of workers.
//!
//! A living worker has a number that no other living worker has. Schemes and tables keep arrays by
//! worker number, so a number is used again when its worker is gone.

use std::sync::{Arc, Mutex, PoisonError};

/// Most workers at a time; one member of the gate is kept for upkeep.
pub const WORKERS_MAX: usize = atoll_memory::gate::MEMBERS_MAX - 1;

/// Hands out numbers of workers.
#[derive(Default)]
pub(crate) struct WorkerNumbers(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    /// Free numbers, each with the count of undo lists that its workers have shown.
    free: Vec<(u32, u64)>,
    used: u32,
}

/// The number of one worker; free again when this is dropped.
pub(crate) struct WorkerNumber {
    numbers: Arc<WorkerNumbers>,
    pub(crate) number: u32,
    /// How many undo lists all workers with this number have shown to takers.
    pub(crate) shown: u64,
}

impl WorkerNumbers {
    /// A number below [`WORKERS_MAX`] that no living worker has, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<WorkerNumber> {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, shown) = match numbers.free.pop() {
            Some(free) => free,
            None if (numbers.used as usize) < WORKERS_MAX => {
                numbers.used += 1;
                (numbers.used - 1, 0)
            }
            None => return None,
        };
        drop(numbers);
        Some(WorkerNumber { numbers: Arc::clone(self), number, shown })
    }
}

impl Drop for WorkerNumber {
    fn drop(&mut self) {
        let numbers = self.numbers.0.lock();
        numbers.unwrap_or_else(PoisonError::into_inner).free.push((self.number, self.shown));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_stay_below_the_limit_and_are_used_again() {
        let numbers = Arc::<WorkerNumbers>::default();
        let mut taken: Vec<_> = (0..WORKERS_MAX).map(|_| numbers.take().unwrap()).collect();
        assert!(numbers.take().is_none());
        let freed = taken.pop().unwrap().number;
        assert_eq!(numbers.take().unwrap().number, freed);
        assert!(taken.iter().all(|taken| (taken.number as usize) < WORKERS_MAX));
    }
}
