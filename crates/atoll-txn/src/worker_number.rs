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
    /// A number that no living worker has.
    pub(crate) fn take(self: &Arc<Self>) -> WorkerNumber {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, shown) = numbers.free.pop().unwrap_or_else(|| {
            numbers.used += 1;
            (numbers.used - 1, 0)
        });
        drop(numbers);
        WorkerNumber { numbers: Arc::clone(self), number, shown }
    }
}

impl Drop for WorkerNumber {
    fn drop(&mut self) {
        let numbers = self.numbers.0.lock();
        numbers.unwrap_or_else(PoisonError::into_inner).free.push((self.number, self.shown));
    }
}
