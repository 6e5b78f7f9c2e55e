//! The thread that ends what has been idle for too long.
//!
//! `IDLE-1`: what rests is in a slot. The owner takes it out of the slot to go on, or the thread
//! `atoll-idle` takes it out to end it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::coordination::Waker;

/// What rests, until its owner goes on with it or the thread ends it.
pub(crate) type Slot<T> = Arc<Mutex<Option<T>>>;

/// What is still in a slot. The thread waits meanwhile.
pub(crate) fn lock<T>(slot: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes out of a slot what is still there.
pub(crate) fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    lock(slot).take()
}

/// A slot with anything in it, which ends when it is dropped.
trait Rests: Send + Sync {
    fn end(&self);
}

impl<T: Send> Rests for Mutex<Option<T>> {
    fn end(&self) {
        drop(take(self));
    }
}

/// A slot, and what is called when it was cleared.
struct Watched(Weak<dyn Rests>, Option<Arc<Waker>>);

/// The thread and what it has to do. It ends when this is dropped.
pub(crate) struct Idle(Arc<Agenda>);

#[derive(Default)]
struct Agenda {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Slots by the time at which they are cleared, and a number that makes it unique.
    slots: BTreeMap<(Instant, u64), Watched>,
    next: u64,
    has_ended: bool,
}

impl Idle {
    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn new() -> std::io::Result<Self> {
        let agenda = Arc::new(Agenda::default());
        let served = Arc::clone(&agenda);
        std::thread::Builder::new().name("atoll-idle".into()).spawn(move || served.serve())?;
        Ok(Self(agenda))
    }

    /// Ends what rests in a slot, if it still does after this time, and calls `waker` then.
    pub(crate) fn watch<T: Send + 'static>(
        &self,
        slot: &Slot<T>,
        limit: Duration,
        waker: Option<Arc<Waker>>,
    ) {
        let mut state = self.0.state();
        let at = Instant::now() + limit;
        let is_next = state.slots.keys().next().is_none_or(|(first, _)| at < *first);
        state.next += 1;
        let number = state.next;
        let rests: Arc<dyn Rests> = Arc::<Mutex<Option<T>>>::clone(slot);
        state.slots.insert((at, number), Watched(Arc::downgrade(&rests), waker));
        drop(state);
        if is_next {
            self.0.changed.notify_one();
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.changed.notify_one();
    }
}

impl Agenda {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.state();
        while !state.has_ended {
            let now = Instant::now();
            let wait = match state.slots.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let Watched(slot, waker) = first.remove();
                    drop(state);
                    if let Some(slot) = slot.upgrade() {
                        slot.end();
                        waker.iter().for_each(|wake| wake());
                    }
                    state = self.state();
                    continue;
                }
                Some(first) => Some(first.key().0 - now),
                None => None,
            };
            state = match wait {
                Some(wait) => {
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
