//! Protection of the parent's objects in a forked child: memory, files and threads.
//!
//! `fork` copies one thread. Shared mappings stay shared, descriptors are duplicated together with
//! the locks on their files, and a mutex that another thread held at that moment is never unlocked
//! in the child. So the child refuses to use the objects of its parent, and three handlers of
//! `pthread_atfork` prevent damage where that check is missing:
//!
//! 1. Before a fork, a handler locks the registry of this module, which waits for every thread that
//!    [`delay`]s a fork. If the child may continue to read ([`Legacy`]), the handler makes a pipe.
//! 2. The child makes every registered mapping read-only, replaces the registered descriptors by
//!    other files, and increments its generation, which invalidates every [`Mark`].
//! 3. The parent closes the reading end of the pipe and keeps the writing end. The kernel reports
//!    an error there when the child, and every process that the child has forked, has ended or has
//!    called `exec`.
//!
//! Invariants:
//! - `FORK-1`: the registry changes only while it is locked, and no fork begins meanwhile. A
//!   mapping or a descriptor is created and registered under the same lock.
//! - `FORK-2`: a descriptor that is replaced in a child keeps its number there, so a destructor
//!   that closes the number closes nothing else.
//! - `FORK-3`: the child's handler makes system calls and plain stores only. It neither allocates
//!   nor frees.
//! - `FORK-4`: the value of a [`Here`] is never dropped in a child: its threads do not exist there,
//!   and its locks may be held for ever.
//!
//! A child may create objects of its own, which work there and are refused in its own children. The
//! raw system calls `clone` and `vfork` run no handlers; they are meant for children that call
//! `exec` at once, and `exec` closes every descriptor of this crate.

mod registry;

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use registry::Registry;

/// Number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Installs the handlers. Every function of this module does so at its first use; a program with
/// threads that fork calls this before it starts them.
pub fn prepare() {
    registry::set_up();
}

/// The process in which an object was created.
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

    /// Whether this is the process that created the mark, and not a child that was forked since.
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

/// A value of one process. It is never dropped in a forked child (`FORK-4`), which leaks its copy.
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

    /// The value; `None` in another process than its own.
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

/// Prevents forks while it lives. It should live for a short time only, since forks wait for it.
pub struct Delay(MutexGuard<'static, Registry>);

/// Waits for a fork that is in progress, and prevents further ones.
///
/// A thread that holds a [`Delay`] must neither take a second one nor fork.
#[must_use]
pub fn delay() -> Delay {
    Delay(registry::lock())
}

impl Delay {
    /// Hides a descriptor from the children that are forked from now on. The caller has created it
    /// during this delay, so no child has it.
    ///
    /// # Errors
    /// No descriptor is left for the file that replaces it there.
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
        // From here on nothing fails, so no descriptor is dropped, which would take the lock again.
        self.0.stand_in()?;
        Ok((self.unshare(one)?, self.unshare(other)?))
    }

    /// Replaces a descriptor by another file in the children that are forked from now on.
    pub fn replace(&mut self, fd: BorrowedFd<'_>, other: OwnedFd) -> Replaced {
        Replaced { number: self.0.replace(&fd, other.as_raw_fd()), _other: Some(other) }
    }

    /// As [`Delay::unshare`], for a descriptor that the caller keeps: children have an empty file
    /// in its place as long as the returned value lives.
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
    /// `address` and `len` are whole pages of a mapping of the caller, which unmaps it only after
    /// [`unprotect`], and into which only objects of the caller store.
    pub(crate) unsafe fn protect(&mut self, address: *mut u8, len: usize) {
        self.0.protect(address.addr(), len);
    }
}

/// Ends the protection of a mapping by [`Delay::protect`].
pub(crate) fn unprotect(address: *mut u8) {
    registry::lock().unprotect(address.addr());
}

/// A descriptor that no child inherits: there, its number belongs to an empty file for ever.
#[derive(Debug)]
pub struct Unshared(Here<OwnedFd>);

impl Unshared {
    /// Creates a descriptor that no child inherits.
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

/// A descriptor that is replaced by another file in children as long as this value lives.
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

/// An object that a child continues to read: its owner keeps it while a child lives that was forked
/// since.
#[derive(Debug)]
pub struct Legacy {
    since: u64,
    mark: Mark,
}

impl Legacy {
    /// An object that children may read if they are forked from now on.
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
