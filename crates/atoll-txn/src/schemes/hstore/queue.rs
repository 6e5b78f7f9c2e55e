//! The lock of a partition, with a queue: among the waiting transactions, the one with the smallest
//! timestamp is next.
//!
//! Mostly no transaction waits, and one compare-and-exchange takes the lock. A transaction that
//! finds the lock taken joins the queue: each transaction number has a word in each partition for
//! the timestamp with which it waits, and the lock's word counts the waiters. A waiter that finds
//! the lock free and itself the oldest takes the lock.
//!
//! - `QUEUE-1`: the word is 0 only if no transaction holds the lock and none waits, so a
//!   transaction that takes the lock without a timestamp overtakes no other.

use atoll_machine::{Machine, Ordering, Word};

use crate::scheme::TXNS_MAX;

/// In the lock's word: a transaction holds the lock.
const HELD: u64 = 1;
/// In the lock's word: the unit of the count of waiters.
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
            waiting: (0..TXNS_MAX).map(|_| M::Word::new(0)).collect(),
        }
    }
}

impl<M: Machine> Queue<M> {
    /// Takes the lock if no transaction holds it or waits for it.
    #[inline]
    pub fn take_idle(&self) -> bool {
        let lock = &self.lock.0;
        lock.compare_exchange(0, HELD, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock if it is this transaction's turn; otherwise joins the queue.
    pub fn take(&self, number: u32, timestamp: u64) -> bool {
        let mine = &self.waiting[number as usize];
        if mine.load(Ordering::Relaxed) != timestamp {
            self.join(number, timestamp);
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

    /// Joins the queue.
    fn join(&self, number: u32, timestamp: u64) {
        let mut used = self.used.load(Ordering::Relaxed);
        while used <= number.into() {
            let wanted = u64::from(number) + 1;
            let grown =
                self.used.compare_exchange(used, wanted, Ordering::SeqCst, Ordering::Relaxed);
            used = grown.err().unwrap_or(wanted);
        }
        self.waiting[number as usize].store(timestamp, Ordering::SeqCst);
        self.change(|lock| lock + WAITER);
    }

    /// Leaves the queue, if the transaction is in it.
    pub fn leave(&self, number: u32) {
        let mine = &self.waiting[number as usize];
        if mine.load(Ordering::Relaxed) != 0 {
            mine.store(0, Ordering::Release);
            self.change(|lock| lock - WAITER);
        }
    }

    /// Releases the lock.
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
        assert!(!queue.take(1, 12), "transaction 2 is older");
        assert!(queue.take(2, 11));
        queue.release();
        assert!(queue.take(1, 12));
        queue.release();
        assert!(queue.take(1, 13), "the queue is empty");
        assert!(!queue.take(0, 14) && !queue.take(2, 15));
        queue.leave(0);
        queue.leave(0);
        queue.release();
        assert!(queue.take(2, 15), "a transaction that has left is not next");
    }

    #[test]
    fn who_takes_it_at_once_overtakes_nobody() {
        let queue = Queue::<Native>::default();
        assert!(queue.take_idle());
        assert!(!queue.take_idle() && !queue.take(1, 5));
        queue.release();
        assert!(!queue.take_idle(), "transaction 1 waits");
        assert!(queue.take(1, 5));
        assert!(!queue.take_idle());
        queue.release();
        assert!(queue.take_idle());
        assert!(!queue.take(2, 6));
        queue.leave(2);
        queue.release();
        assert!(queue.take_idle(), "no transaction waits any more");
    }
}
