//! The holder's end: attach to a database by name and take snapshots of it.
//!
//! Requests and answers alternate on one connection. Each waits at most the client's timeout, so
//! an owner that is stopped gives an error and no hang. A request that failed half-way closes the
//! connection: its late answer must not be taken for the next one's, and the lease that the
//! answer may carry ends by itself when the kernel drops the unread message.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_machine::fork::{Mark, Unshared};

use super::Descriptor;
use super::error::LeaseError;
use super::fds;
use super::message::RefusalCode;
use super::names::{Name, RuntimeDir};
use super::wire::{self, MAX_WORD, Message, Tree, WireError};

/// Longest status text that is accepted, in bytes.
const MAX_STATUS: u64 = 16 << 20;

/// The owner of the database that a client is attached to, as the owner introduced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the database.
    pub database: String,
    /// Version of the owner's product.
    pub product: String,
    /// The owner's process id.
    pub pid: u32,
}

/// A connection to a database's owner. Leases do not need it: they outlive it.
#[derive(Debug)]
pub struct Client {
    name: String,
    owner: Owner,
    timeout: Duration,
    /// A forked child must not use the connection.
    mark: Mark,
    pid: u32,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    /// None after a request failed half-way.
    socket: Option<Unshared>,
    buffer: Vec<u8>,
}

impl Client {
    /// Attaches to the database `name` with a timeout of 5 s per request.
    ///
    /// # Errors
    /// See [`Client::connect_with_timeout`].
    pub fn connect(name: &str, dir: &RuntimeDir) -> Result<Self, LeaseError> {
        Self::connect_with_timeout(name, dir, Duration::from_secs(5))
    }

    /// Attaches to the database `name`; this and every request wait at most about `timeout`.
    ///
    /// # Errors
    /// [`LeaseError::UnknownName`] if there is no such database, [`LeaseError::OwnerGone`] if its
    /// owner ended without closing, [`LeaseError::Timeout`], [`LeaseError::ForeignUser`],
    /// [`LeaseError::VersionMismatch`], [`LeaseError::Refused`], [`LeaseError::BadName`],
    /// [`LeaseError::PathTooLong`] or [`LeaseError::Io`].
    pub fn connect_with_timeout(
        name: &str,
        dir: &RuntimeDir,
        timeout: Duration,
    ) -> Result<Self, LeaseError> {
        let name = Name::new(name)?;
        let path = dir.socket_path(&name)?;
        let name = name.as_str().to_owned();
        let socket = Unshared::make(|| fds::socket_with(timeout)).and_then(|socket| {
            fds::connect_to(socket.as_fd(), &path)?;
            Ok(socket)
        });
        let socket = socket.map_err(|e| match e.kind() {
            ErrorKind::NotFound => LeaseError::UnknownName {
                name: name.clone(),
                known: dir.known(),
                dir: dir.path().to_owned(),
            },
            ErrorKind::ConnectionRefused => LeaseError::OwnerGone { name: name.clone() },
            ErrorKind::WouldBlock => {
                LeaseError::Timeout { name: name.clone(), pid: 0, waited: timeout }
            }
            _ => LeaseError::io("connect to the database's socket")(e),
        })?;
        let server =
            fds::peer(socket.as_fd()).map_err(LeaseError::io("find the owner of the database"))?;
        let own = fds::effective_uid();
        if server.uid != own && server.uid != 0 && own != 0 {
            return Err(LeaseError::ForeignUser { uid: server.uid });
        }
        let line = Line { socket: Some(socket), buffer: vec![0; wire::MAX_MESSAGE] };
        let mut client = Self {
            owner: Owner { database: name.clone(), product: String::new(), pid: server.pid },
            name,
            timeout,
            mark: Mark::new(),
            pid: std::process::id(),
            line: Mutex::new(line),
        };
        client.owner = client.hello(server.uid)?;
        Ok(client)
    }

    /// The owner, as it introduced itself.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Takes a snapshot. It lives until the last duplicate of its lease is closed; this client
    /// may be dropped before.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] with the owner's reason, after which the connection is still good;
    /// [`LeaseError::Timeout`], [`LeaseError::Closed`], [`LeaseError::FdsLost`] and
    /// [`LeaseError::Wire`], after which it is closed; [`LeaseError::ForkedChild`].
    pub fn take(&self) -> Result<Descriptor, LeaseError> {
        self.request(&Message::Take, |message, fds| match message {
            Message::Offer(tree) => descriptor(tree, fds).map_err(LeaseError::Wire),
            other => Err(unexpected(&other)),
        })
    }

    /// The owner's status as JSON text.
    ///
    /// # Errors
    /// As [`Client::take`].
    pub fn status(&self) -> Result<String, LeaseError> {
        let mut text = Vec::new();
        loop {
            let offset = text.len() as u64;
            let (total, bytes) = self.request(&Message::Status { offset }, |message, fds| {
                let Message::StatusPart { total, bytes } = message else {
                    return Err(unexpected(&message));
                };
                no_fds(&fds)?;
                // Each part must bring the end nearer, or a bad owner could keep this loop running.
                let new = offset + bytes.len() as u64;
                if total > MAX_STATUS || new > total || (bytes.is_empty() && new < total) {
                    let why = "does not fit its total length";
                    return Err(WireError::Field { field: "status part", why }.into());
                }
                Ok((total, bytes))
            })?;
            text.extend_from_slice(&bytes);
            if text.len() as u64 >= total {
                break;
            }
        }
        let bad = WireError::Field { field: "status text", why: "is not UTF-8" };
        String::from_utf8(text).map_err(|_| LeaseError::Wire(bad))
    }

    fn hello(&self, server_uid: u32) -> Result<Owner, LeaseError> {
        let hello = Message::Hello {
            protocol: wire::PROTOCOL_VERSION,
            product: wire::PRODUCT_VERSION.to_owned(),
            pid: std::process::id(),
            command: own_command(),
        };
        let welcome = self.request(&hello, |message, fds| {
            no_fds(&fds)?;
            match message {
                Message::Welcome { protocol, product, .. }
                    if protocol != wire::PROTOCOL_VERSION =>
                {
                    Err(LeaseError::version(protocol, product))
                }
                Message::Welcome { product, database, pid, .. } => {
                    Ok(Owner { database, product, pid })
                }
                other => Err(unexpected(&other)),
            }
        });
        welcome.map_err(|error| match error {
            LeaseError::Refused { code: RefusalCode::ForeignUser, .. } => {
                LeaseError::ForeignUser { uid: server_uid }
            }
            other => other,
        })
    }

    /// Sends a request and reads its answer. Any error but a refusal closes the connection.
    fn request<T>(
        &self,
        request: &Message,
        accept: impl FnOnce(Message, Vec<OwnedFd>) -> Result<T, LeaseError>,
    ) -> Result<T, LeaseError> {
        if !self.mark.is_here() {
            return Err(LeaseError::ForkedChild { name: self.name.clone(), pid: self.pid });
        }
        // A panic elsewhere cannot leave the line half-way: it is taken out while in use.
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = line.socket.take().ok_or_else(|| self.closed())?;
        let deadline = Instant::now() + self.timeout;
        self.send(&socket, &wire::encode(request)?, deadline)?;
        let (message, fds) = self.receive(&socket, &mut line.buffer, deadline)?;
        if let Message::Refused { code, text, .. } = message {
            no_fds(&fds)?;
            line.socket = Some(socket);
            return Err(LeaseError::Refused { name: self.name.clone(), code, text });
        }
        let accepted = accept(message, fds)?;
        line.socket = Some(socket);
        Ok(accepted)
    }

    fn send(&self, socket: &Unshared, bytes: &[u8], deadline: Instant) -> Result<(), LeaseError> {
        loop {
            match fds::send(socket.as_fd(), bytes, &[]) {
                Ok(()) => return Ok(()),
                Err(e) if retry(&e, deadline) => {}
                // The owner closed the connection; the caller reads what it sent before.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    fn receive(
        &self,
        socket: &Unshared,
        buffer: &mut [u8],
        deadline: Instant,
    ) -> Result<(Message, Vec<OwnedFd>), LeaseError> {
        let mut fds = Vec::new();
        let received = loop {
            match fds::receive(socket.as_fd(), buffer, Some(&mut fds)) {
                Ok(received) => break received,
                Err(e) if retry(&e, deadline) => {}
                Err(e) => return Err(self.failed(e)),
            }
        };
        // From here on every return drops, and so closes, the descriptors that came.
        if received.len == 0 {
            return Err(self.closed());
        }
        if received.truncated {
            return Err(WireError::TooLong.into());
        }
        let message = wire::decode(&buffer[..received.len]).map_err(LeaseError::from_wire)?;
        if received.lost_fds {
            return Err(LeaseError::FdsLost);
        }
        Ok((message, fds))
    }

    fn closed(&self) -> LeaseError {
        LeaseError::Closed { name: self.name.clone() }
    }

    fn failed(&self, error: io::Error) -> LeaseError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => LeaseError::Timeout {
                name: self.name.clone(),
                pid: self.owner.pid,
                waited: self.timeout,
            },
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.closed(),
            _ => LeaseError::io("talk to the database's owner")(error),
        }
    }
}

/// Whether a call was only interrupted by a signal and there is time to call again.
fn retry(error: &io::Error, deadline: Instant) -> bool {
    error.kind() == ErrorKind::Interrupted && Instant::now() < deadline
}

fn unexpected(message: &Message) -> LeaseError {
    WireError::Unexpected { kind: message.kind() }.into()
}

fn no_fds(fds: &[OwnedFd]) -> Result<(), LeaseError> {
    if fds.is_empty() { Ok(()) } else { Err(WireError::UnexpectedFds.into()) }
}

/// Joins numbers and file descriptors to the tree that they describe.
fn descriptor(tree: Tree, fds: Vec<OwnedFd>) -> Result<Descriptor, WireError> {
    let expected = tree.descriptors() * 2;
    if fds.len() != expected {
        return Err(WireError::Fds { expected, got: fds.len() });
    }
    let got = fds.len();
    join(tree, &mut fds.into_iter()).ok_or(WireError::Fds { expected, got })
}

fn join(tree: Tree, fds: &mut impl Iterator<Item = OwnedFd>) -> Option<Descriptor> {
    let (store, lease) = (fds.next()?, fds.next()?);
    let mut bases = Vec::with_capacity(tree.bases.len());
    for base in tree.bases {
        bases.push(join(base, &mut *fds)?);
    }
    Some(Descriptor {
        database: tree.database,
        store_id: tree.store_id,
        store,
        lease,
        root: tree.root,
        epoch: tree.epoch,
        patch: tree.patch,
        lease_word: tree.lease_word,
        take_ns: tree.take_ns,
        bases,
    })
}

/// This process's command name as the system shows it.
fn own_command() -> String {
    let text = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    wire::printable(text.trim_end(), MAX_WORD)
}
