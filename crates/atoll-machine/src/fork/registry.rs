//! The registry of mappings and descriptors for the handlers of a fork, and these handlers.
//!
//! The thread that forks holds the lock of the registry from before the fork until after it, in the
//! parent and in the child, so the child finds the registry consistent (`FORK-1`).

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{DupFlags, dup3};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{GENERATION, Here};

/// See the module.
pub struct Registry {
    /// Mappings that become read-only in a child: lengths by address.
    mappings: BTreeMap<usize, usize>,
    /// Descriptors that are replaced in a child: the replacements, by number.
    descriptors: BTreeMap<RawFd, RawFd>,
    /// An empty file, the replacement of hidden descriptors.
    stand_in: Option<OwnedFd>,
    /// Number of objects that a child would continue to read.
    legacies: usize,
    /// Forks with a pipe so far.
    forks: u64,
    /// Children (and their descendants) that may be reading.
    heirs: Vec<Heir>,
    /// The pipe of the fork that is in progress.
    pipe: Option<io::Result<(OwnedFd, OwnedFd)>>,
}

struct Heir {
    fork: u64,
    /// The writing end of its pipe; without a pipe, the child is assumed to live for ever.
    end: Option<OwnedFd>,
}

static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    mappings: BTreeMap::new(),
    descriptors: BTreeMap::new(),
    stand_in: None,
    legacies: 0,
    forks: 0,
    heirs: Vec::new(),
    pipe: None,
});

/// Holds the lock while a thread forks.
struct Held(UnsafeCell<Option<MutexGuard<'static, Registry>>>);

// SAFETY: only the handlers use it, and only on the thread that holds the lock (`FORK-1`).
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

fn lock_as_it_is() -> MutexGuard<'static, Registry> {
    // No code under the lock panics halfway through a change.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handlers, once.
///
/// # Panics
/// When the system has no memory for them.
#[inline]
pub fn set_up() {
    if !HAS_HANDLERS.load(Ordering::Acquire) {
        set_up_now();
    }
}

#[cold]
fn set_up_now() {
    let _registry = lock_as_it_is();
    if !HAS_HANDLERS.load(Ordering::Acquire) {
        // SAFETY: three functions that live as long as the program.
        let rc = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        assert_eq!(rc, 0, "no memory for three handlers of forks");
        HAS_HANDLERS.store(true, Ordering::Release);
    }
}

/// Locks the registry.
pub fn lock() -> MutexGuard<'static, Registry> {
    set_up();
    lock_as_it_is()
}

extern "C" fn before() {
    let mut registry = lock_as_it_is();
    registry.before();
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(registry) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread has held the lock since `before`.
    if let Some(mut registry) = unsafe { (*HELD.0.get()).take() } {
        registry.in_parent();
    }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: this is the copy of the thread that has held the lock since `before`, and the only
    // thread.
    if let Some(mut registry) = unsafe { (*HELD.0.get()).take() } {
        registry.in_child();
    }
}

impl Registry {
    /// The number of an empty file.
    pub fn stand_in(&mut self) -> io::Result<RawFd> {
        if let Some(file) = &self.stand_in {
            return Ok(file.as_raw_fd());
        }
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(self.stand_in.insert(file).as_raw_fd())
    }

    /// Replaces a descriptor by `other` in children; returns its number.
    pub fn replace(&mut self, fd: &impl AsFd, other: RawFd) -> RawFd {
        let number = fd.as_fd().as_raw_fd();
        self.descriptors.insert(number, other);
        number
    }

    /// Makes children inherit a descriptor unchanged.
    pub fn keep(&mut self, number: RawFd) {
        self.descriptors.remove(&number);
    }

    /// Closes a descriptor before any child can inherit it.
    pub fn close(&mut self, fd: &mut Here<OwnedFd>) {
        self.keep(fd.as_raw_fd());
        if let Some(stand_in) = &self.stand_in {
            // The caller's destructor closes the empty file instead. The call fails only for a
            // descriptor that is being opened, or for a signal.
            let _ = dup3(stand_in, fd, DupFlags::CLOEXEC);
        }
    }

    pub fn protect(&mut self, address: usize, len: usize) {
        self.mappings.insert(address, len);
    }

    pub fn unprotect(&mut self, address: usize) {
        self.mappings.remove(&address);
    }

    /// Returns the number of the last fork.
    pub fn add_legacy(&mut self) -> u64 {
        self.legacies += 1;
        self.forks
    }

    pub fn remove_legacy(&mut self) {
        self.legacies -= 1;
    }

    /// Whether a child of a later fork than `since` may be reading.
    pub fn has_heirs(&mut self, since: u64) -> bool {
        if self.forks == since {
            return false;
        }
        self.heirs.retain(Heir::may_live);
        self.heirs.iter().any(|heir| heir.fork > since)
    }

    fn before(&mut self) {
        self.heirs.retain(Heir::may_live);
        self.pipe = (self.legacies > 0).then(pipe);
    }

    fn in_parent(&mut self) {
        // After a failed fork the reading end is closed as well, so the heir is removed.
        if let Some(pipe) = self.pipe.take() {
            self.forks += 1;
            self.heirs.push(Heir { fork: self.forks, end: pipe.ok().map(|(_, end)| end) });
        }
    }

    /// `FORK-3`.
    fn in_child(&mut self) {
        for (address, len) in &self.mappings {
            // SAFETY: whole pages of an existing mapping (`Delay::protect`), into which a child
            // stores nothing.
            unsafe { libc::mprotect(*address as *mut libc::c_void, *len, libc::PROT_READ) };
        }
        for (number, other) in &self.descriptors {
            // SAFETY: both are open descriptors; their owners in the child may close the numbers,
            // which belong to other files from now on (`FORK-2`).
            unsafe { libc::dup3(*other, *number, libc::O_CLOEXEC) };
        }
        // Allocated by the parent, not freed: `FORK-3`.
        mem::forget(mem::take(&mut self.mappings));
        mem::forget(mem::take(&mut self.descriptors));
        self.heirs.drain(..).for_each(drop);
        self.legacies = 0;
        if let Some(Ok((reading, writing))) = self.pipe.take() {
            // Stays open until this process and its descendants end or call exec.
            let _ = reading.into_raw_fd();
            drop(writing);
        }
    }
}

impl Heir {
    /// Whether the child may still live: the kernel reports an error at the writing end of a pipe
    /// without a reader.
    fn may_live(&self) -> bool {
        let Some(end) = &self.end else { return true };
        let mut wanted = [PollFd::new(end, PollFlags::empty())];
        let ready = poll(&mut wanted, Some(&Timespec::default()));
        ready.is_err() || !wanted[0].revents().contains(PollFlags::ERR)
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}
