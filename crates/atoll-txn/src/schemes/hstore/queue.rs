//! The lock of a partition: among those who wait for it, the one with the smallest timestamp is
//! next.
//!
//! Mostly nobody waits, and one exchange of a word takes the lock. Who finds it taken gets into the
//! queue: each worker has a word in each partition where it says with which timestamp it waits, and
//! the lock's word counts them. Whoever finds the lock free and itself the eldest takes it.
//!
//! - `QUEUE-1`: the word is 0 only if nobody holds the lock and nobody waits, so who takes it
//!   without a timestamp overtakes nobody.

use atoll_machine::{Machine, Ordering, Word};

use crate::worker_number::WORKERS_MAX;

/// In the lock's word: somebody holds it. Above, how many wait.
const HELD: u64 = 1;
const WAITER: u64 = 2;

#[repr(align(128))]
struct Line<W>(W);

/// See the module.
pub struct Queue<M: Machine> {
    lock: Line<M::Word>,
    used: M::Word,
    waiting: Box<[M::Word]>,
}

impl<M: Machine> Default for Queue<M> {
    fn default() -> Self {
        Self {
            lock: Line(M::Word::new(0)),
            used: M::Word::new(0),
            waiting: (0..WORKERS_MAX).map(|_| M::Word::new(0)).collect(),
        }
    }
}

impl<M: Machine> Queue<M> {
    /// Takes the lock if nobody holds it or waits for it.
    #[inline]
    pub fn take_idle(&self) -> bool {
        let lock = &self.lock.0;
        lock.compare_exchange(0, HELD, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock if it is this worker's turn, and waits in the queue otherwise.
    pub fn take(&self, worker: u32, timestamp: u64) -> bool {
        let mine = &self.waiting[worker as usize];
        if mine.load(Ordering::Relaxed) != timestamp {
            self.join(worker, timestamp);
        }
        let mut lock = self.lock.0.load(Ordering::SeqCst);
        loop {
            if lock & HELD != 0 {
                return false;
            }
            let used = self.used.load(Ordering::SeqCst) as usize;
            let mut others = self.waiting[..used].iter().map(|word| word.load(Ordering::SeqCst));
            if others.any(|other| other != 0 && other < timestamp) {
                return false;
            }
            let taken = lock - WAITER + HELD;
            match self.exchange(lock, taken) {
                Ok(_) => break,
                Err(now) => lock = now,
            }
        }
        mine.store(0, Ordering::Release);
        true
    }

    /// Gets into the queue.
    fn join(&self, worker: u32, timestamp: u64) {
        let mut used = self.used.load(Ordering::Relaxed);
        while used <= worker.into() {
            let wanted = u64::from(worker) + 1;
            let grown =
                self.used.compare_exchange(used, wanted, Ordering::SeqCst, Ordering::Relaxed);
            used = grown.err().unwrap_or(wanted);
        }
        self.waiting[worker as usize].store(timestamp, Ordering::SeqCst);
        self.change(|lock| lock + WAITER);
    }

    /// Waits no longer, if it did.
    pub fn leave(&self, worker: u32) {
        let mine = &self.waiting[worker as usize];
        if mine.load(Ordering::Relaxed) != 0 {
            mine.store(0, Ordering::Release);
            self.change(|lock| lock - WAITER);
        }
    }

    /// Lets the lock go.
    #[inline]
    pub fn release(&self) {
        if self.exchange(HELD, 0).is_err() {
            self.change(|lock| lock - HELD);
        }
    }

    fn exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.lock.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
    }

    fn change(&self, new: impl Fn(u64) -> u64) {
        let mut lock = self.lock.0.load(Ordering::Relaxed);
        while let Err(now) = self.exchange(lock, new(lock)) {
            lock = now;
        }
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
        queue.leave(0);
        queue.release();
        assert!(queue.take(2, 15), "who has left is not waited for");
    }

    #[test]
    fn who_takes_it_at_once_overtakes_nobody() {
        let queue = Queue::<Native>::default();
        assert!(queue.take_idle());
        assert!(!queue.take_idle() && !queue.take(1, 5));
        queue.release();
        assert!(!queue.take_idle(), "worker 1 waits");
        assert!(queue.take(1, 5));
        assert!(!queue.take_idle());
        queue.release();
        assert!(queue.take_idle());
        assert!(!queue.take(2, 6));
        queue.leave(2);
        queue.release();
        assert!(queue.take_idle(), "nobody waits any more");
    }
}
