//! A barrier that one thread executes on behalf of all threads of the process.
//!
//! It removes the cost of a fence from the frequent side of a protocol. A worker on its fast path
//! stores an announcement and then loads an epoch, with only a compiler fence between; the rare
//! side changes the epoch, calls [`membarrier`], and then reads the announcements.
//!
//! - MEMBARRIER-1: between the call of [`membarrier`] and its return, every other thread of the
//!   process that is running passes through a full memory barrier; a thread that is not running
//!   passes through one when the kernel switches it. So for each thread, either its store is
//!   visible to the caller after the call, or its following load sees what the caller stored
//!   before the call.
//! - MEMBARRIER-2: this holds only where [`is_available`] is true. Where it is false,
//!   [`membarrier`] is a sequentially consistent fence of the calling thread alone, and the fast
//!   path needs such a fence too. The answer never changes during a process.
//!
//! The barrier does not reach other processes. A forked child keeps the registration.

use crate::error::MachineError;
use crate::machine::Machine;
use crate::native::Native;
use rustix::thread::{MembarrierCommand as Command, membarrier as command};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

static AVAILABLE: OnceLock<bool> = OnceLock::new();

/// Registers this process for the barrier. May be called again at any time; [`is_available`] and
/// [`membarrier`] call it where needed.
///
/// # Errors
///
/// [`MachineError::NoMembarrier`] where the kernel is too old or a container forbids the call.
pub fn register() -> Result<(), MachineError> {
    command(Command::RegisterPrivateExpedited)
        .map_err(|error| MachineError::NoMembarrier { source: error.into() })
}

/// Whether MEMBARRIER-1 holds in this process. The first call registers the process.
#[must_use]
pub fn is_available() -> bool {
    // One barrier is tried as well: a filter may allow the registration and forbid the barrier.
    *AVAILABLE.get_or_init(|| register().is_ok() && command(Command::PrivateExpedited).is_ok())
}

/// Executes a full barrier on all threads of this process (MEMBARRIER-1), or, where that is not
/// available, on the calling thread (MEMBARRIER-2). It takes some microseconds.
///
/// Never returns without the barrier. If the kernel lacks memory for the fast command, the slow one
/// is used, and both are tried until one succeeds.
pub fn membarrier() {
    fence(Ordering::SeqCst);
    if !is_available() {
        return;
    }
    for round in 0_u32.. {
        if command(Command::PrivateExpedited).is_ok() || command(Command::Global).is_ok() {
            break;
        }
        // A registration is lost only by an execve, which ends this program; registering again is
        // harmless and covers any behaviour of the kernel after a fork.
        let _ = register();
        Native::wait(round);
    }
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, compiler_fence};

    #[test]
    fn registering_twice_is_allowed_where_it_is_allowed_once() {
        assert_eq!(register().is_ok(), register().is_ok());
        membarrier();
    }

    /// A word with a cache line of its own, so that only its own stores delay each other.
    #[repr(align(128))]
    #[derive(Default)]
    struct Lone(AtomicU32);

    fn wait_for(word: &Lone, value: u32) {
        let mut round = 0;
        while word.0.load(Ordering::Acquire) != value {
            Native::wait(round);
            round += 1;
        }
    }

    /// Store buffering. Each side stores and then loads what the other side stores; without the
    /// barrier, both may read the old value. The two sides start at nearly the same moment, at an
    /// offset that changes from round to round. Returns the rounds in which both missed.
    fn rounds_missed_by_both(rounds: u32) -> u32 {
        let (announced, epoch) = (Lone::default(), Lone::default());
        let (turn, done, fast_saw) = (Lone::default(), Lone::default(), Lone::default());
        let fence_needed = !is_available();
        let mut missed = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    // With the epoch's line in the cache, the load can overtake the store before
                    // it.
                    std::hint::black_box(epoch.0.load(Ordering::Relaxed));
                    wait_for(&turn, round);
                    announced.0.store(round, Ordering::Relaxed);
                    compiler_fence(Ordering::SeqCst);
                    if fence_needed {
                        fence(Ordering::SeqCst);
                    }
                    let saw = epoch.0.load(Ordering::Relaxed);
                    fast_saw.0.store(saw, Ordering::Relaxed);
                    done.0.store(round, Ordering::Release);
                }
            });
            for round in 1..=rounds {
                turn.0.store(round, Ordering::Release);
                for _ in 0..round % 32 {
                    std::hint::spin_loop();
                }
                epoch.0.store(round, Ordering::Relaxed);
                membarrier();
                let slow_saw = announced.0.load(Ordering::Relaxed);
                wait_for(&done, round);
                let fast_saw = fast_saw.0.load(Ordering::Relaxed);
                missed += u32::from(slow_saw != round && fast_saw != round);
            }
        });
        missed
    }

    #[test]
    fn either_the_announcement_is_seen_or_the_new_epoch_is() {
        // New threads each time: how closely their accesses coincide depends on where they start.
        let missed: u32 = (0..12).map(|_| rounds_missed_by_both(5000)).sum();
        assert_eq!(missed, 0, "rounds in which both sides missed the other's store");
    }
}
