//! One snapshot for all threads that ask for one while another is being taken.
//!
//! Snapshots are taken one after the other, and one of a database with strict durability waits for
//! the disk. `SHARE-1`: a snapshot is given to threads that asked before its taking began, so it
//! shows all that they have committed. Threads that ask meanwhile wait outside every latch for
//! the next one, which one of them takes for all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// See the module; `S` is the snapshot.
pub(crate) struct Sharing<S> {
    state: Mutex<State<S>>,
    ended: Condvar,
}

struct State<S> {
    /// How many takings have begun, and the number of the last that succeeded.
    begun: u64,
    done: u64,
    is_taking: bool,
    /// Threads that wait.
    waiting: usize,
    /// What the last taking gave, while threads wait that may use it.
    taken: Option<S>,
}

impl<S> Default for Sharing<S> {
    fn default() -> Self {
        let state = State { begun: 0, done: 0, is_taking: false, waiting: 0, taken: None };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }
}

/// The time in which one thread takes a snapshot; ends by a panic, too.
struct Taking<'s, S>(&'s Sharing<S>);

impl<S> Drop for Taking<'_, S> {
    fn drop(&mut self) {
        self.0.lock().is_taking = false;
        self.0.ended.notify_all();
    }
}

impl<S: Clone> Sharing<S> {
    /// A snapshot that `take` takes, here or in a thread that has asked, too.
    ///
    /// # Errors
    /// Those of `take`; a thread does not get the error of another.
    pub(crate) fn take<E>(&self, take: impl FnOnce() -> Result<S, E>) -> Result<S, E> {
        let mut state = self.lock();
        let wanted = state.begun + 1;
        state.waiting += 1;
        while state.is_taking && state.done < wanted {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        if state.done >= wanted {
            // The last thread leaves nothing behind that would hold the snapshot.
            let taken = match state.waiting {
                0 => state.taken.take(),
                _ => state.taken.clone(),
            };
            // It is kept while a thread waits that may use it.
            return Ok(taken.expect("the snapshot that was waited for"));
        }
        state.begun += 1;
        state.is_taking = true;
        let number = state.begun;
        // Of the last taking, where those that waited for it have it, or have waited for this one.
        let left = if state.waiting == 0 { state.taken.take() } else { None };
        drop(state);
        drop(left);
        let taking = Taking(self);
        let taken = take()?;
        let mut state = self.lock();
        state.done = number;
        let kept = (state.waiting > 0).then(|| taken.clone());
        let before = std::mem::replace(&mut state.taken, kept);
        drop(state);
        drop(taking);
        // Dropping a snapshot ends its lease, which takes latches.
        drop(before);
        Ok(taken)
    }
}

impl<S> Sharing<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // Nothing under the latch panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// Of threads that ask while a snapshot is being taken, none gets that one, and one takes the
    /// next for all. Nothing is kept behind them.
    #[test]
    fn those_that_ask_meanwhile_share_the_next_one() {
        let sharing = Sharing::<Arc<u64>>::default();
        let count = AtomicU64::new(0);
        let take = || Ok::<_, ()>(Arc::new(count.fetch_add(1, Ordering::SeqCst) + 1));
        thread::scope(|scope| {
            let (begun, begins) = channel();
            let (end, ends) = channel();
            let (sharing, take) = (&sharing, &take);
            let first = scope.spawn(move || {
                sharing.take(|| {
                    begun.send(()).unwrap();
                    ends.recv().unwrap();
                    take()
                })
            });
            begins.recv().unwrap();
            let others: Vec<_> = (0..6).map(|_| scope.spawn(move || sharing.take(take))).collect();
            while sharing.lock().waiting < 6 {
                thread::yield_now();
            }
            end.send(()).unwrap();
            assert_eq!(*first.join().unwrap().unwrap(), 1);
            for other in others {
                assert_eq!(*other.join().unwrap().unwrap(), 2);
            }
        });
        assert!(sharing.lock().taken.is_none());
        assert_eq!(*sharing.take(take).unwrap(), 3);
    }

    /// What was taken while a thread waits for the next is not kept if that thread fails.
    #[test]
    fn a_taking_that_fails_leaves_nothing_behind() {
        let sharing = Sharing::<Arc<u64>>::default();
        thread::scope(|scope| {
            let (begun, begins) = channel();
            let (end, ends) = channel();
            let sharing = &sharing;
            let first = scope.spawn(move || {
                sharing.take(|| {
                    begun.send(()).unwrap();
                    ends.recv().unwrap();
                    Ok::<_, ()>(Arc::new(1))
                })
            });
            begins.recv().unwrap();
            let second = scope.spawn(|| sharing.take(|| Err(())));
            while sharing.lock().waiting < 1 {
                thread::yield_now();
            }
            end.send(()).unwrap();
            assert_eq!(*first.join().unwrap().unwrap(), 1);
            assert_eq!(second.join().unwrap(), Err(()));
        });
        assert!(sharing.lock().taken.is_none());
    }

    /// A thread always gets what was taken after it asked, and an error goes to one thread only.
    #[test]
    fn a_snapshot_is_never_older_than_the_question() {
        let sharing = Sharing::<u64>::default();
        let clock = AtomicU64::new(1);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let asked = clock.fetch_add(1, Ordering::SeqCst);
                        let taken = sharing.take(|| match clock.fetch_add(1, Ordering::SeqCst) {
                            now if now % 7 == 0 => Err(()),
                            now => Ok(now),
                        });
                        assert!(taken.is_err() || taken.unwrap() > asked);
                    }
                });
            }
        });
        assert!(sharing.lock().taken.is_none());
    }
}
