//! A latch: a lock that a thread holds for a short time.
//!
//! The latch reports each attempt to take it and each release to the machine
//! ([`Machine::exclusive`]), and waits in the machine's own way. On a machine with coroutines
//! instead of threads, another coroutine runs at these points, so tests reach the interleavings in
//! which a latch is held, and a wait never blocks on a coroutine that was suspended while it held
//! the latch.
//!
//! The panic of a holder is ignored: no code under a latch may panic halfway through a change.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::machine::Machine;

/// The sleep between two attempts of [`Latch::take_patiently`].
const PATIENCE: Duration = Duration::from_millis(1);

/// See the module.
pub struct Latch<M, T = ()> {
    guarded: Mutex<T>,
    machine: PhantomData<fn() -> M>,
}

/// The value of a latch that the caller holds.
pub struct Latched<'l, M: Machine, T> {
    latch: &'l Latch<M, T>,
    guarded: MutexGuard<'l, T>,
}

impl<M: Machine, T> Latch<M, T> {
    /// A latch around `guarded`.
    pub const fn new(guarded: T) -> Self {
        Self { guarded: Mutex::new(guarded), machine: PhantomData }
    }

    /// Takes the latch; waits while another thread holds it.
    #[inline]
    pub fn take(&self) -> Latched<'_, M, T> {
        let mut round = 0;
        loop {
            match self.try_take() {
                Some(latched) => return latched,
                None => M::wait(round),
            }
            round = round.saturating_add(1);
        }
    }

    /// Takes the latch, if no other thread holds it.
    #[inline]
    pub fn try_take(&self) -> Option<Latched<'_, M, T>> {
        self.report();
        let guarded = match self.guarded.try_lock() {
            Ok(guarded) => guarded,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Latched { latch: self, guarded })
    }

    /// As [`Latch::take`], for a latch that is held for long: the thread sleeps meanwhile.
    pub fn take_patiently(&self) -> Latched<'_, M, T> {
        loop {
            match self.try_take() {
                Some(latched) => return latched,
                None => M::sleep(PATIENCE),
            }
        }
    }

    #[inline(always)]
    fn report(&self) {
        M::exclusive(std::ptr::from_ref(&self.guarded).cast());
    }
}

impl<M, T> Latch<M, T> {
    /// The guarded value, which no other thread can access.
    pub fn get_mut(&mut self) -> &mut T {
        self.guarded.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Machine, T: Default> Default for Latch<M, T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<M, T> fmt::Debug for Latch<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Latch")
    }
}

impl<M: Machine, T> Deref for Latched<'_, M, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guarded
    }
}

impl<M: Machine, T> DerefMut for Latched<'_, M, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guarded
    }
}

impl<M: Machine, T> Drop for Latched<'_, M, T> {
    #[inline]
    fn drop(&mut self) {
        self.latch.report();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::{Latch, Latched};
    use crate::{Machine, Native, NativeWord};

    thread_local! {
        static NOTIFIED: Cell<u32> = const { Cell::new(0) };
        static HELD: RefCell<Option<Latched<'static, Watched, u32>>> = const { RefCell::new(None) };
    }

    /// A machine on which the holder releases the latch in the third round of a wait.
    struct Watched;

    impl Machine for Watched {
        type Word = NativeWord;

        fn now_ns() -> u64 {
            0
        }

        fn wait(round: u32) {
            if round == 2 {
                let held = HELD.take();
                assert!(held.is_some());
            }
        }

        fn prefetch(_address: *const u8, _bytes: usize) {}

        fn exclusive(_address: *const u8) {
            NOTIFIED.set(NOTIFIED.get() + 1);
        }
    }

    #[test]
    fn the_machine_is_notified_of_each_attempt_and_waits_in_its_own_way() {
        static LATCH: Latch<Watched, u32> = Latch::new(7);
        HELD.set(Some(LATCH.take()));
        assert_eq!(NOTIFIED.get(), 1);
        *LATCH.take() += 1;
        // Three failed attempts, one release, one successful attempt, and its release.
        assert_eq!(NOTIFIED.get(), 1 + 3 + 1 + 1 + 1);
        assert_eq!(*LATCH.take(), 8);
    }

    #[test]
    fn one_thread_at_a_time_has_what_is_guarded() {
        let latch = Latch::<Native, u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mut guarded = latch.take();
                        let before = *guarded;
                        std::hint::spin_loop();
                        *guarded = before + 1;
                    }
                });
            }
        });
        assert_eq!(*latch.take(), 8000);
    }

    #[test]
    fn a_holder_that_panicked_is_passed_over() {
        let latch = Latch::<Native, u64>::new(1);
        std::thread::scope(|scope| {
            let held = || {
                let _held = latch.take();
                panic!("while it is held");
            };
            assert!(scope.spawn(held).join().is_err());
        });
        assert_eq!(*latch.take(), 1);
    }
}
