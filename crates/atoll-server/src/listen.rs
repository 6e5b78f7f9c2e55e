//! The sockets on which a server listens.
//!
//! `LISTEN-1`: a Unix socket that a server has left behind is replaced, and one of a server that
//! runs is not: the lock on the file beside it tells which it is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::options::ServerOptions;
use crate::socket::Socket;

/// Longest path of a Unix socket.
const PATH_BYTES_MAX: usize = 107;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// An address that is taken, or is none of this machine.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address and the port.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A Unix socket that cannot be made.
    #[error("cannot make the socket {path}: {source}")]
    Path {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another server has the socket.
    #[error("another server listens on {path}")]
    Taken {
        /// Its path.
        path: PathBuf,
    },
    /// The path of the Unix socket is too long for the system.
    #[error("the path of the socket {path} is longer than {PATH_BYTES_MAX} bytes")]
    LongPath {
        /// Its path.
        path: PathBuf,
    },
    /// There is nothing to listen on.
    #[error("the server would listen nowhere: it has neither a Unix socket nor an address")]
    Nowhere,
}

impl ListenError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::Address { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                    "another server, perhaps PostgreSQL, has this port: choose one with --port, or \
                     --listen none for the Unix socket alone"
                }
                Self::Address { .. } => "--listen takes addresses of this machine",
                Self::Path { .. } => "--socket-dir names a folder in which this user may write",
                Self::Taken { .. } => "choose another port with --port",
                Self::LongPath { .. } => "--socket-dir names a folder with a shorter path",
                Self::Nowhere => "leave out --listen none, or --socket-dir none",
            }
            .to_owned(),
        )
    }
}

/// A socket that listens.
pub(crate) struct Listener {
    accepting: Accepting,
    /// Of a Unix socket: its path, and the locked file beside it.
    file: Option<SocketFile>,
}

/// Accepts clients, without a wait.
enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct SocketFile {
    path: PathBuf,
    lock: PathBuf,
    _locked: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A name that stays does no harm: the next server replaces it.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.accepting {
            Accepting::Tcp(listener) => listener.as_fd(),
            Accepting::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Listener {
    /// Listens on all that the options name;
    pub(crate) fn all(options: &ServerOptions) -> Result<Vec<Self>, ListenError> {
        let mut port = options.port;
        let mut listeners = Vec::new();
        for address in &options.addresses {
            let listener = Self::tcp(*address, port)?;
            // All have one port, also if it is any that is free.
            port = listener.address().map_or(port, |bound| bound.port());
            listeners.push(listener);
        }
        if let Some(folder) = &options.socket_folder {
            listeners.push(Self::unix(folder, port)?);
        }
        if listeners.is_empty() {
            return Err(ListenError::Nowhere);
        }
        Ok(listeners)
    }

    fn tcp(address: IpAddr, port: u16) -> Result<Self, ListenError> {
        let address = SocketAddr::new(address, port);
        let fault = |source| ListenError::Address { address, source };
        let listener = TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        Ok(Self { accepting: Accepting::Tcp(listener), file: None })
    }

    fn unix(folder: &Path, port: u16) -> Result<Self, ListenError> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let lock = folder.join(format!(".s.PGSQL.{port}.lock"));
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(ListenError::LongPath { path });
        }
        let fault = |source| ListenError::Path { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(fault)?;
        let locked = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let locked = locked.map_err(fault)?;
        match flock(&locked, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ListenError::Taken { path }),
            Err(error) => return Err(fault(error.into())),
        }
        // PostgreSQL's own server has no lock of this kind, and answers.
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(ListenError::Taken { path });
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(fault)?;
        // Each user may connect; roles decide which may log in.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let file = SocketFile { path, lock, _locked: locked };
        Ok(Self { accepting: Accepting::Unix(listener), file: Some(file) })
    }

    /// A client that has come; `None` if there is none.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub(crate) fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match &self.accepting {
            Accepting::Tcp(listener) => listener.accept().map(|(socket, _)| Socket::Tcp(socket)),
            Accepting::Unix(listener) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.accepting {
            Accepting::Tcp(listener) => listener.local_addr().ok(),
            Accepting::Unix(_) => None,
        }
    }
}
