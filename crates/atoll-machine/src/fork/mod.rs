//! What a forked child must leave alone: the memory, the files and the threads of its parent.
//!
//! `fork` copies one thread. Shared mappings stay shared, descriptors are duplicated together with
//! the locks on their files, and a mutex that another thread held at that moment is never unlocked
//! in the child. So the objects of the parent are refused in the child, and three handlers of
//! `pthread_atfork` make sure that nothing can go wrong where the refusal is missing:
//!
//! 1. Before a fork the registry of this module is locked, which waits for whatever [`delay`]s a
//!    fork. If the child may go on reading ([`Legacy`]), a pipe is made.
//! 2. The child makes every registered mapping read-only, puts other files in the place of the
//!    registered descriptors, and counts its generation up, which outdates every [`Mark`].
//! 3. The parent closes the reading end of the pipe and keeps the writing end. The kernel reports
//!    its end when the child, and whatever the child has forked, is gone or has called `exec`.
//!
//! Invariants:
//! - `FORK-1`: the registry changes only while it is locked, and no fork begins meanwhile. A
//!   mapping or a descriptor is registered under the lock under which it was made.
//! - `FORK-2`: a descriptor that is taken from a child keeps its number there, so a destructor that
//!   closes the number closes nothing else.
//! - `FORK-3`: the child's handler makes system calls and plain stores only. It neither allocates
//!   nor frees.
//! - `FORK-4`: what a [`Here`] holds is never dropped in a child: its threads do not exist there,
//!   and its locks may be held for ever.
//!
//! A child may make objects of its own, which work there and are refused in its own children. The
//! raw system calls `clone` and `vfork` run no handlers; they are for children that call `exec` at
//! once, and every descriptor here is closed by that.

mod registry;

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use registry::Registry;

/// How many forks lie between this process and the first one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Sets the handlers up. Everything in this module does that when it is first used; a program with
/// threads that fork calls it before it starts them.
pub fn prepare() {
    registry::set_up();
}

/// The process in which something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// A mark of this process.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        prepare();
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is the process that made it, and not a child that was forked since.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        GENERATION.load(Ordering::Relaxed) == self.0
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

/// A value of one process: never dropped in a forked child (`FORK-4`), which leaks its copy.
pub struct Here<T> {
    value: ManuallyDrop<T>,
    mark: Mark,
}

impl<T> Here<T> {
    /// A value of this process.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), mark: Mark::new() }
    }

    /// The process that it belongs to.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The value, in the process that it belongs to.
    #[must_use]
    pub fn into_inner(this: Self) -> Option<T> {
        let mut this = ManuallyDrop::new(this);
        // SAFETY: `this` is not dropped, and no code uses it any more.
        this.mark.is_here().then(|| unsafe { ManuallyDrop::take(&mut this.value) })
    }
}

impl<T> Deref for Here<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Here<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Clone> Clone for Here<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), mark: self.mark }
    }
}

impl<T: fmt::Debug> fmt::Debug for Here<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.mark.is_here() {
            // SAFETY: dropped once, here: `into_inner` forgets what it takes the value from.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Lets no fork begin while it lives, which should be a moment: forks wait for it.
pub struct Delay(MutexGuard<'static, Registry>);

/// Waits for a fork that is under way, and lets no other begin.
///
/// A thread that has one takes no second one, and does not fork.
#[must_use]
pub fn delay() -> Delay {
    Delay(registry::lock())
}

impl Delay {
    /// Takes a descriptor from the children that are forked from now on. It was made during this
    /// delay, so that no child has it.
    ///
    /// # Errors
    /// No descriptor is left for the file that stands in its place there.
    pub fn unshare(&mut self, fd: OwnedFd) -> io::Result<Unshared> {
        let stand_in = self.0.stand_in()?;
        self.0.replace(&fd, stand_in);
        Ok(Unshared(Here::new(fd)))
    }

    /// As [`Delay::unshare`], for the two ends of a pipe.
    ///
    /// # Errors
    /// As there; no descriptor is left.
    pub fn unshare_both(
        &mut self,
        one: OwnedFd,
        other: OwnedFd,
    ) -> io::Result<(Unshared, Unshared)> {
        // From here on nothing fails, so nothing is dropped that would take the lock again.
        self.0.stand_in()?;
        Ok((self.unshare(one)?, self.unshare(other)?))
    }

    /// Puts another file in the place of a descriptor in the children that are forked from now on.
    pub fn replace(&mut self, fd: BorrowedFd<'_>, other: OwnedFd) -> Replaced {
        Replaced { number: self.0.replace(&fd, other.as_raw_fd()), _other: Some(other) }
    }

    /// As [`Delay::unshare`], for a descriptor that stays where it is: children have an empty file
    /// in its place as long as what this returns lives.
    ///
    /// # Errors
    /// As there.
    pub fn withhold(&mut self, fd: &impl AsFd) -> io::Result<Replaced> {
        let stand_in = self.0.stand_in()?;
        Ok(Replaced { number: self.0.replace(fd, stand_in), _other: None })
    }

    /// Makes a mapping read-only in the children that are forked from now on.
    ///
    /// # Safety
    /// `address` and `len` are whole pages of a mapping of the caller's, which it unmaps only after
    /// [`unprotect`], and into which nothing but the caller's objects stores.
    pub unsafe fn protect(&mut self, address: *mut u8, len: usize) {
        self.0.protect(address.addr(), len);
    }
}

/// Ends what [`Delay::protect`] has begun.
pub fn unprotect(address: *mut u8) {
    registry::lock().unprotect(address.addr());
}

/// A descriptor that no child inherits: its number leads to an empty file there, for ever.
#[derive(Debug)]
pub struct Unshared(Here<OwnedFd>);

impl Unshared {
    /// Makes a descriptor that no child inherits.
    ///
    /// # Errors
    /// Those of `make`; no descriptor is left.
    pub fn make<E: From<io::Error>>(make: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Self, E> {
        let mut delay = delay();
        Ok(delay.unshare(make()?)?)
    }
}

impl AsFd for Unshared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        if self.0.mark().is_here() {
            registry::lock().close(&mut self.0);
        }
    }
}

/// A descriptor stands for another file in children as long as this lives.
#[derive(Debug)]
pub struct Replaced {
    number: RawFd,
    _other: Option<OwnedFd>,
}

impl Drop for Replaced {
    fn drop(&mut self) {
        registry::lock().keep(self.number);
    }
}

/// Something that a child goes on reading: its owner does not take it away while a child lives that
/// was forked since.
#[derive(Debug)]
pub struct Legacy {
    since: u64,
    mark: Mark,
}

impl Legacy {
    /// Children that are forked from now on read it.
    #[must_use]
    pub fn new() -> Self {
        let mark = Mark::new();
        Self { since: registry::lock().add_legacy(), mark }
    }

    /// Whether a child that was forked since may still be reading.
    #[must_use]
    pub fn has_readers(&self) -> bool {
        registry::lock().has_heirs(self.since)
    }
}

impl Default for Legacy {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        if self.mark.is_here() {
            registry::lock().remove_legacy();
        }
    }
}
