//! The atomics of the lock-free parts of this crate, which `loom` replaces in its tests.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-memory --test loom_gate --release` explores the
//! interleavings; in every other build these are the atomics of the standard library.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// One turn of a wait that another thread will end; `round` counts the turns.
#[cfg(loom)]
pub(crate) fn wait(_round: u32) {
    loom::thread::yield_now();
}

/// One turn of a wait that another thread will end; `round` counts the turns.
#[cfg(not(loom))]
pub(crate) fn wait(round: u32) {
    atoll_machine::pause(round);
}
