//! Mutexes of which no holder leaves the value half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a thread has panicked that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
