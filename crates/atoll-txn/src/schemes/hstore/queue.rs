//! The lock of a partition: among those who wait for it, the one with the smallest timestamp is
//! next.
//!
//! Each worker has a word in each partition where it says with which timestamp it waits. Whoever
//! finds the lock free and itself the eldest takes it.

use atoll_machine::{Machine, Ordering, Word};

use crate::engine::WORKERS_MAX;

#[repr(align(128))]
struct Line<W>(W);

/// See the module.
pub struct Queue<M: Machine> {
    owner: Line<M::Word>,
    used: M::Word,
    waiting: Box<[M::Word]>,
}

impl<M: Machine> Default for Queue<M> {
    fn default() -> Self {
        Self {
            owner: Line(M::Word::new(0)),
            used: M::Word::new(0),
            waiting: (0..WORKERS_MAX).map(|_| M::Word::new(0)).collect(),
        }
    }
}

impl<M: Machine> Queue<M> {
    /// Takes the lock if it is this worker's turn, and waits in the queue otherwise.
    pub fn take(&self, worker: u32, timestamp: u64) -> bool {
        let mine = &self.waiting[worker as usize];
        if mine.load(Ordering::Relaxed) != timestamp {
            let mut used = self.used.load(Ordering::Relaxed);
            while used <= worker.into() {
                let wanted = u64::from(worker) + 1;
                let grown =
                    self.used.compare_exchange(used, wanted, Ordering::SeqCst, Ordering::Relaxed);
                used = grown.err().unwrap_or(wanted);
            }
            mine.store(timestamp, Ordering::SeqCst);
        }
        if self.owner.0.load(Ordering::SeqCst) != 0 {
            return false;
        }
        let used = self.used.load(Ordering::SeqCst) as usize;
        let mut others = self.waiting[..used].iter().map(|word| word.load(Ordering::SeqCst));
        if others.any(|other| other != 0 && other < timestamp) {
            return false;
        }
        let owner =
            self.owner.0.compare_exchange(0, timestamp, Ordering::SeqCst, Ordering::Relaxed);
        if owner.is_ok() {
            mine.store(0, Ordering::Release);
        }
        owner.is_ok()
    }

    /// Waits no longer.
    pub fn leave(&self, worker: u32) {
        self.waiting[worker as usize].store(0, Ordering::Release);
    }

    /// Lets the lock go.
    pub fn release(&self) {
        self.owner.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::Queue;

    #[test]
    fn the_eldest_who_waits_is_next() {
        let queue = Queue::<Native>::default();
        assert!(queue.take(0, 10));
        assert!(!queue.take(1, 12) && !queue.take(2, 11));
        queue.release();
        assert!(!queue.take(1, 12), "worker 2 is older");
        assert!(queue.take(2, 11));
        queue.release();
        assert!(queue.take(1, 12));
        queue.release();
        assert!(queue.take(1, 13), "nobody is left in the queue");
        assert!(!queue.take(0, 14) && !queue.take(2, 15));
        queue.leave(0);
        queue.release();
        assert!(queue.take(2, 15), "who has left is not waited for");
    }
}
