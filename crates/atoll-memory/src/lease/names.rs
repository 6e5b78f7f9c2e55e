//! Names of databases, and the runtime directory that contains them.
//!
//! For a database NAME the directory has `NAME.lock`, which contains the process id of the owner
//! and which the owner keeps locked while it lives, and `NAME.sock`, its socket. Only the lock
//! decides which process owns a name (`LEASE-4`); the kernel releases it when the owner ends,
//! however it ends. The socket appears under its name only after it listens, so a client that finds
//! a socket which refuses connections knows that its owner is gone.
//!
//! Invariants:
//! - `NAME-1`: only the user may write to the directory, so paths in it can be trusted.
//!
//! A killed owner leaves both files; [`super::owned`] replaces them for the next one.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::LeaseError;
use super::fds;

/// A database's name: 1 to 64 of `A-Z a-z 0-9 _ . -`, the first not `.` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks a text.
    ///
    /// # Errors
    /// [`LeaseError::BadName`] telling the rule that it breaks.
    pub fn new(text: &str) -> Result<Self, LeaseError> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let why = match text.as_bytes() {
            [] => "it is empty",
            bytes if bytes.len() > 64 => "it is longer than 64 bytes",
            [b'.' | b'-', ..] => "it starts with '.' or '-'",
            bytes if !bytes.iter().all(|b| good(*b)) => "it has a character that names cannot have",
            _ => return Ok(Self(text.to_owned())),
        };
        Err(LeaseError::BadName { name: text.chars().take(64).collect(), why })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a listed name has a living owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// A process answers under the name.
    Alive,
    /// The owner is gone without closing; the next owner of the name cleans up.
    Stale,
}

/// One name in a runtime directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// Whether its owner lives.
    pub state: NameState,
    /// The owner's process id, if it lives and the kernel reports it.
    pub pid: Option<u32>,
}

/// The directory of sockets and locks; checked when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeDir {
    path: PathBuf,
}

impl RuntimeDir {
    /// Opens the directory, making it with mode 0700 if it is missing: `explicit` if given, else
    /// `$ATOLL_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/atoll`, else `/run/user/UID/atoll` if there
    /// is a `/run/user/UID`, else `/tmp/atoll-UID`.
    ///
    /// # Errors
    /// [`LeaseError::DirForeign`], [`LeaseError::DirWritable`] or [`LeaseError::DirUnusable`].
    /// Root may open any user's directory, to attach.
    pub fn open(explicit: Option<&Path>) -> Result<Self, LeaseError> {
        let uid = fds::effective_uid();
        let user_dir = PathBuf::from(format!("/run/user/{uid}"));
        let variable = |name: &str| env::var_os(name).map(PathBuf::from);
        let choice = choose(
            explicit.map(Path::to_owned),
            variable("ATOLL_RUNTIME_DIR"),
            variable("XDG_RUNTIME_DIR"),
            user_dir.is_dir().then_some(user_dir),
            uid,
        );
        let path = choice.path;
        let made = DirBuilder::new().mode(0o700).recursive(choice.with_parents).create(&path);
        match made {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(LeaseError::DirUnusable { path, source: e });
            }
            _ => {}
        }
        let dir = Self { path };
        dir.check(uid, uid == 0)?;
        Ok(dir)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks `NAME-1` for user `uid`; `any_owner` lets directories of others pass.
    pub(super) fn check(&self, uid: u32, any_owner: bool) -> Result<(), LeaseError> {
        let unusable = |source| LeaseError::DirUnusable { path: self.path.clone(), source };
        let found = fs::metadata(&self.path).map_err(unusable)?;
        if !found.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        // A link that another user made could point to a directory that is fine by itself.
        let link = fs::symlink_metadata(&self.path).map_err(unusable)?;
        let trusted = |owner: u32| owner == uid || any_owner;
        if !trusted(found.uid()) || !(trusted(link.uid()) || link.uid() == 0) {
            let uid = if trusted(found.uid()) { link.uid() } else { found.uid() };
            return Err(LeaseError::DirForeign { path: self.path.clone(), uid });
        }
        let mode = found.mode() & 0o7777;
        if mode & 0o022 != 0 {
            return Err(LeaseError::DirWritable { path: self.path.clone(), mode });
        }
        Ok(())
    }

    /// The socket's path for a name.
    ///
    /// # Errors
    /// [`LeaseError::PathTooLong`] if no socket can have that path.
    pub fn socket_path(&self, name: &Name) -> Result<PathBuf, LeaseError> {
        let path = self.path.join(format!("{}.sock", name.0));
        let length = path.as_os_str().as_bytes().len();
        if length > fds::MAX_SOCKET_PATH {
            return Err(LeaseError::PathTooLong { path, length, limit: fds::MAX_SOCKET_PATH });
        }
        Ok(path)
    }

    /// The names in the directory in alphabetical order, each with its state. Changes nothing:
    /// stale names stay.
    ///
    /// # Errors
    /// [`LeaseError::DirUnusable`] if the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, LeaseError> {
        let unusable = |source| LeaseError::DirUnusable { path: self.path.clone(), source };
        let mut listed = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unusable)? {
            let file = entry.map_err(unusable)?.file_name();
            let Some(text) = file.to_str().and_then(|f| f.strip_suffix(".sock")) else {
                continue;
            };
            let Ok(name) = Name::new(text) else { continue };
            // `None` if the socket has been removed since.
            if let Some((state, pid)) = self.probe(&name) {
                listed.push(Listed { name: name.0, state, pid });
            }
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// The names with living owners; none if the directory cannot be read.
    pub(super) fn known(&self) -> Vec<String> {
        let listed = self.list().unwrap_or_default();
        listed.into_iter().filter(|l| l.state == NameState::Alive).map(|l| l.name).collect()
    }

    /// Finds the state of a name by a short connection. It does not try the lock: an owner that
    /// starts at this moment could then find its name taken.
    fn probe(&self, name: &Name) -> Option<(NameState, Option<u32>)> {
        let path = self.socket_path(name).ok()?;
        match fds::connect_at_once(&path) {
            Ok(socket) => {
                let pid = fds::peer(socket.as_fd()).ok().map(|p| p.pid).filter(|pid| *pid != 0);
                Some((NameState::Alive, pid))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                Some((NameState::Stale, None))
            }
            // The socket's queue is full, or this process lacks a resource: an owner listens.
            Err(_) => Some((NameState::Alive, None)),
        }
    }
}

struct Choice {
    path: PathBuf,
    /// The user named this very path, so missing parents are created, too.
    with_parents: bool,
}

fn choose(
    explicit: Option<PathBuf>,
    atoll: Option<PathBuf>,
    xdg: Option<PathBuf>,
    user_dir: Option<PathBuf>,
    uid: u32,
) -> Choice {
    let set = |path: &PathBuf| !path.as_os_str().is_empty();
    if let Some(path) = explicit.or(atoll.filter(set)) {
        return Choice { path, with_parents: true };
    }
    // The XDG rules say to ignore a relative path.
    let path = match xdg.filter(|p| p.is_absolute()).or(user_dir) {
        Some(base) => base.join("atoll"),
        None => PathBuf::from(format!("/tmp/atoll-{uid}")),
    };
    Choice { path, with_parents: false }
}

#[cfg(test)]
mod tests {
    use super::choose;
    use std::path::PathBuf;

    fn path(explicit: &str, atoll: &str, xdg: &str, user: &str) -> String {
        let given = |text: &str| (text != "-").then(|| PathBuf::from(text));
        let choice = choose(given(explicit), given(atoll), given(xdg), given(user), 7);
        choice.path.display().to_string()
    }

    #[test]
    fn the_most_explicit_directory_wins() {
        assert_eq!(path("/e", "/a", "/x", "/u"), "/e");
        assert_eq!(path("-", "/a", "/x", "/u"), "/a");
        assert_eq!(path("-", "-", "/x", "/u"), "/x/atoll");
        assert_eq!(path("-", "-", "-", "/u"), "/u/atoll");
        assert_eq!(path("-", "-", "-", "-"), "/tmp/atoll-7");
    }

    #[test]
    fn empty_and_relative_variables_count_as_unset() {
        assert_eq!(path("-", "", "/x", "-"), "/x/atoll");
        assert_eq!(path("-", "", "", "/u"), "/u/atoll");
        assert_eq!(path("-", "-", "relative", "-"), "/tmp/atoll-7");
    }
}
