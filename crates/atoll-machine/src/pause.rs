//! Waiting for another thread in code that is not generic over [`Machine`].
//!
//! The memory layer waits in a few places for a store of another thread, but it is not generic over
//! the machine. Such a wait calls [`pause`]: natively this is [`Native`]'s wait. Under a scheduler
//! that searches for anomalies, several "threads" are coroutines of one thread, and the coroutine
//! that will end a wait runs only when the waiting one yields; therefore such a thread installs a
//! function of its own with [`pause_with`].
//!
//! - PAUSE-1: a mutex that a thread may hold across a [`pause`] is locked with [`lock_patiently`],
//!   since a coroutine that slept in the system would block the thread that has to unlock the
//!   mutex.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::machine::Machine;
use crate::native::Native;

thread_local! {
    static INSTEAD: Cell<Option<fn(u32)>> = const { Cell::new(None) };
}

/// One round of a wait that another thread will end; `round` counts the rounds from 0.
#[inline]
pub fn pause(round: u32) {
    match INSTEAD.get() {
        Some(instead) => instead(round),
        None => Native::wait(round),
    }
}

/// Makes [`pause`] call `instead` on this thread from now on (`None`: [`Native`]'s wait). Returns
/// the function before.
pub fn pause_with(instead: Option<fn(u32)>) -> Option<fn(u32)> {
    INSTEAD.replace(instead)
}

/// Locks a mutex that a thread may hold while it is in a [`pause`] (`PAUSE-1`). The panic of a
/// holder is ignored.
pub fn lock_patiently<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if INSTEAD.get().is_none() {
        return mutex.lock().unwrap_or_else(PoisonError::into_inner);
    }
    let mut round = 0;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => pause(round),
        }
        round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static ROUNDS: Cell<u32> = const { Cell::new(0) };
        static HELD: Cell<Option<MutexGuard<'static, u32>>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_waits_in_its_own_way_and_others_do_not() {
        let before = pause_with(Some(|round| ROUNDS.set(ROUNDS.get() + round)));
        assert!(before.is_none());
        pause(3);
        std::thread::spawn(|| pause(4)).join().expect("it only waits");
        pause(5);
        assert!(pause_with(None).is_some());
        pause(6);
        assert_eq!(ROUNDS.get(), 8);
    }

    #[test]
    fn a_mutex_is_waited_for_without_sleeping() {
        static MUTEX: Mutex<u32> = Mutex::new(7);
        assert_eq!(*lock_patiently(&MUTEX), 7);
        HELD.set(Some(lock_patiently(&MUTEX)));
        pause_with(Some(|round| {
            if round == 2 {
                HELD.take();
            }
        }));
        *lock_patiently(&MUTEX) += 1;
        pause_with(None);
        assert_eq!(*lock_patiently(&MUTEX), 8);
    }
}
