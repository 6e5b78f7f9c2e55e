//! Owning a name: the lock that decides, and the socket that clients find.
//!
//! 1. lock `NAME.lock` and write the process id into it;
//! 2. create the socket under a hidden name, let it listen, rename it to `NAME.sock`;
//! 3. serve;
//! 4. remove the socket, end, remove the lock file, unlock.
//!
//! Invariants:
//! - `OWNED-1`: the process that holds the lock of a file that is still at `NAME.lock` owns the
//!   name. (A file can be removed between opening and locking it; then it is opened again.)
//! - `OWNED-2`: a socket at `NAME.sock` listens as long as its owner lives.
//! - `OWNED-3`: no forked child has the lock or the socket, however long it outlives the owner.
//!
//! An owner that is killed at any point leaves files that steps 1 and 2 of the next owner replace.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use atoll_machine::fork::{Mark, Unshared};

use super::error::LeaseError;
use super::fds;
use super::names::{Name, RuntimeDir};

/// A name that this process owns. Dropping it removes its files and releases the name.
pub(super) struct OwnedName {
    name: Name,
    socket: PathBuf,
    lock_path: PathBuf,
    _lock: Unshared,
    /// A forked child inherits the value but must not remove the parent's files.
    mark: Mark,
}

impl OwnedName {
    /// Takes the name for this process.
    pub(super) fn claim(name: Name, dir: &RuntimeDir) -> Result<Self, LeaseError> {
        dir.check(fds::effective_uid(), false)?;
        let socket = dir.socket_path(&name)?;
        let lock_path = dir.path().join(format!("{}.lock", name.as_str()));
        let lock = Unshared::make(|| {
            let mut lock = lock(&name, &lock_path)?;
            lock.set_len(0)
                .and_then(|()| lock.rewind())
                .and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()))
                .map_err(LeaseError::io("write the owner's process id to the lock file"))?;
            Ok::<_, LeaseError>(lock.into())
        })?;
        Ok(Self { name, socket, lock_path, _lock: lock, mark: Mark::new() })
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether this is the process that claimed the name, and not a forked child of it.
    pub(super) fn is_mine(&self) -> bool {
        self.mark.is_here()
    }

    /// Creates the socket under another name and renames it when it listens, which replaces the
    /// socket of an earlier owner.
    pub(super) fn listen(&self) -> Result<Unshared, LeaseError> {
        // As long as the socket's own name, so it fits an address; no name begins with a dot.
        let fresh = self.socket.with_file_name(format!(".{}.new", self.name.as_str()));
        match fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(LeaseError::io("remove an unfinished socket")(e));
            }
            _ => {}
        }
        let listener = Unshared::make(|| fds::bind(&fresh));
        let listener = listener.map_err(LeaseError::io("make the socket"))?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o600))
            .and_then(|()| fds::listen(listener.as_fd()))
            .and_then(|()| fs::rename(&fresh, &self.socket))
            .map_err(LeaseError::io("open the socket"))?;
        Ok(listener)
    }

    /// Removes the socket, so that no new client finds it.
    pub(super) fn hide(&self) {
        if self.is_mine() {
            // It does not matter if the socket is gone already.
            let _ = fs::remove_file(&self.socket);
        }
    }
}

impl Drop for OwnedName {
    fn drop(&mut self) {
        if self.is_mine() {
            self.hide();
            // Removed while locked, so it cannot be the lock file of another owner (OWNED-1).
            let _ = fs::remove_file(&self.lock_path);
        }
    }
}

/// Opens and locks a lock file (`OWNED-1`).
fn lock(name: &Name, path: &Path) -> Result<File, LeaseError> {
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(LeaseError::io("open the name's lock file"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Without a number the owner has not written it yet; 0 stands for that.
                let _ = file.read_to_string(&mut text);
                let pid = text.trim().parse().unwrap_or(0);
                return Err(LeaseError::NameTaken { name: name.as_str().to_owned(), pid });
            }
            Err(TryLockError::Error(e)) => {
                return Err(LeaseError::io("lock the name's lock file")(e));
            }
        }
        let held = file.metadata().map_err(LeaseError::io("read the name's lock file"))?;
        match fs::symlink_metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => {
                return Ok(file);
            }
            // The earlier owner removed the file after we had opened it.
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(LeaseError::io("read the name's lock file")(e)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Name, OwnedName, RuntimeDir};

    #[test]
    fn a_name_that_goes_from_hand_to_hand_has_one_owner_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(Some(&temp.path().join("run"))).unwrap();
        let (owners, claims) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2500 {
                        let name = Name::new("db").unwrap();
                        let Ok(owned) = OwnedName::claim(name, &dir) else {
                            continue;
                        };
                        claims.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(owners.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(owned);
                    }
                });
            }
        });
        assert!(claims.into_inner() > 0);
    }
}
