//! The owner's thread: one epoll over the socket, the connections, the leases and the stop signal.
//!
//! The thread waits only in epoll (`LEASE-5`): sockets do not block, an answer that does not fit
//! the peer's buffer ends the connection, and so does a second request before the peer has read the
//! first answer. One event handles one message, so no connection can starve the others.
//! When the process is out of file descriptors, the thread stops accepting for a short time and
//! clients wait in the queue of the socket; leases are still served.
//!
//! A `take`: create the pipe, ask the publisher, watch the writing end, send the reading end.
//! Watching comes before sending, and from then on every failure just closes the reading end, so
//! the lease ends by the same event as any other (`LEASE-2`).

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_machine::fork::Unshared;

use super::connection::{Connection, End, no_lease, offer_tree, push_fds, refuse, reject, send};
use super::error::LeaseError;
use super::fds::{self, Epoll, Received};
use super::message::RefusalCode;
use super::wire::{self, MAX_PART, Message, WireError};
use super::{LeaseId, Peer, Publisher};

/// Token of the listening socket.
const LISTENER: u64 = 0;
/// Token of the stop signal.
const STOP: u64 = 1;
/// The first number. Connection `n` has token `2n`, lease `n` has `2n + 1`.
const FIRST: u64 = 1;
/// How long the thread does not accept clients when the process is out of descriptors or memory.
const REST: Duration = Duration::from_millis(20);
/// The most clients that are accepted before other events are handled.
const ACCEPTS: usize = 16;

pub(super) struct EventLoop {
    name: String,
    listener: Unshared,
    /// Kept so that its token stays registered.
    _stop: Unshared,
    publisher: Arc<dyn Publisher>,
    epoll: Epoll,
    uid: u32,
    connections: HashMap<u64, Connection>,
    /// The writing ends, by lease number.
    leases: HashMap<u64, Unshared>,
    /// Number of the next connection or lease.
    next: u64,
    resting_until: Option<Instant>,
    buffer: Vec<u8>,
}

impl EventLoop {
    pub(super) fn new(
        name: String,
        listener: Unshared,
        stop: Unshared,
        publisher: Arc<dyn Publisher>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(listener.as_fd(), fds::READABLE, LISTENER)?;
        epoll.add(stop.as_fd(), fds::READABLE, STOP)?;
        Ok(Self {
            name,
            listener,
            _stop: stop,
            publisher,
            epoll,
            uid: fds::effective_uid(),
            connections: HashMap::new(),
            leases: HashMap::new(),
            next: FIRST,
            resting_until: None,
            buffer: vec![0; wire::MAX_MESSAGE],
        })
    }

    /// Serves until the stop signal.
    pub(super) fn run(&mut self) {
        let mut ready = Vec::new();
        loop {
            let rest = self.resting_until.map(|t| t.saturating_duration_since(Instant::now()));
            match self.epoll.wait(&mut ready, rest) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // The other errors of epoll_wait are misuses, after which nothing can be served.
                Err(_) => return,
                Ok(()) => {}
            }
            self.end_rest();
            for &token in &ready {
                match token {
                    STOP => return,
                    LISTENER => self.accept(),
                    lease if lease % 2 == 1 => self.end_lease(lease / 2),
                    connection => self.serve(connection / 2),
                }
            }
        }
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match Unshared::make(|| fds::accept(self.listener.as_fd())) {
                Ok(socket) => self.welcome_socket(socket),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors or memory. The client stays in the queue, and would wake this
                // thread again at once in vain.
                Err(_) => return self.rest(),
            }
        }
    }

    fn welcome_socket(&mut self, socket: Unshared) {
        let Ok(from) = fds::peer(socket.as_fd()) else {
            return;
        };
        let number = self.number();
        // A socket that cannot be watched is closed.
        if self.epoll.add(socket.as_fd(), fds::READABLE, number * 2).is_ok() {
            let connection = Connection { socket, from, peer: None, status: Vec::new() };
            self.connections.insert(number, connection);
        }
    }

    fn rest(&mut self) {
        if self.epoll.change(self.listener.as_fd(), fds::NOTHING, LISTENER).is_ok() {
            self.resting_until = Some(Instant::now() + REST);
        }
    }

    fn end_rest(&mut self) {
        if self.resting_until.is_some_and(|until| until <= Instant::now()) {
            let again = self.epoll.change(self.listener.as_fd(), fds::READABLE, LISTENER);
            self.resting_until = again.err().map(|_| Instant::now() + REST);
        }
    }

    fn end_lease(&mut self, number: u64) {
        if let Some(end) = self.leases.remove(&number) {
            self.epoll.remove(end.as_fd());
            drop(end);
            self.publisher.lease_ended(LeaseId(number));
        }
    }

    /// Handles one message of a connection; keeps the connection if all went well.
    fn serve(&mut self, number: u64) {
        // An earlier event of the same batch may have closed it.
        let Some(mut connection) = self.connections.remove(&number) else {
            return;
        };
        let end = match fds::receive(connection.socket.as_fd(), &mut self.buffer, None) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(_) | Ok(Received { len: 0, lost_fds: false, .. }) => Some(End::Gone),
            Ok(received) => self.answer(&mut connection, &received).err(),
        };
        let Some(end) = end else {
            self.connections.insert(number, connection);
            return;
        };
        self.epoll.remove(connection.socket.as_fd());
        if let End::Fault(error) = end {
            let peer = connection.peer.unwrap_or_else(|| Peer {
                pid: connection.from.pid,
                uid: connection.from.uid,
                command: String::new(),
            });
            self.publisher.peer_failed(&peer, &error);
        }
    }

    fn answer(&mut self, connection: &mut Connection, received: &Received) -> Result<(), End> {
        // A peer must read the answer to a request before it sends the next one; otherwise a peer
        // that never reads could pile up leases in its socket.
        if fds::unread(connection.socket.as_fd()).unwrap_or(0) > 0 {
            return Err(LeaseError::NotReading { pid: connection.from.pid }.into());
        }
        let uid = connection.from.uid;
        if uid != self.uid && uid != 0 {
            return Err(reject(
                self.uid,
                connection,
                RefusalCode::ForeignUser,
                LeaseError::ForeignUser { uid },
            ));
        }
        let message = self.message(received).map_err(|error| {
            let code = match error {
                WireError::Version { .. } => RefusalCode::Version,
                _ => RefusalCode::Malformed,
            };
            reject(self.uid, connection, code, LeaseError::from_wire(error))
        })?;
        match (&connection.peer, message) {
            (None, Message::Hello { protocol, product, pid, command }) => {
                if protocol != wire::PROTOCOL_VERSION {
                    let error = LeaseError::version(protocol, product);
                    return Err(reject(self.uid, connection, RefusalCode::Version, error));
                }
                // The kernel reports 0 for a process that is not visible here (another container).
                let known = connection.from.pid;
                let pid = if known == 0 { pid } else { known };
                connection.peer = Some(Peer { pid, uid, command });
                self.welcome(connection)
            }
            (Some(peer), Message::Take) => {
                let peer = peer.clone();
                self.take(connection, &peer)
            }
            (Some(_), Message::Status { offset }) => self.status(connection, offset),
            (_, other) => {
                let error = WireError::Unexpected { kind: other.kind() };
                Err(reject(self.uid, connection, RefusalCode::Malformed, error.into()))
            }
        }
    }

    fn message(&self, received: &Received) -> Result<Message, WireError> {
        if received.lost_fds {
            return Err(WireError::UnexpectedFds);
        }
        if received.truncated {
            return Err(WireError::TooLong);
        }
        wire::decode(&self.buffer[..received.len])
    }

    fn welcome(&self, connection: &Connection) -> Result<(), End> {
        send(
            connection,
            &Message::Welcome {
                protocol: wire::PROTOCOL_VERSION,
                product: wire::PRODUCT_VERSION.to_owned(),
                database: self.name.clone(),
                pid: std::process::id(),
            },
            &[],
        )
    }

    fn take(&mut self, connection: &Connection, peer: &Peer) -> Result<(), End> {
        let (holders_end, owners_end) = match fds::pipe() {
            Ok(ends) => ends,
            Err(e) => return refuse(connection, RefusalCode::Other, &no_lease(&e)),
        };
        let number = self.number();
        let lease = LeaseId(number);
        let offer = match self.publisher.take(lease, peer) {
            Ok(offer) => offer,
            Err(refusal) => return refuse(connection, refusal.code, &refusal.text),
        };
        // A writing end has nothing to read: only its error event is of interest.
        if let Err(e) = self.epoll.add(owners_end.as_fd(), fds::NOTHING, number * 2 + 1) {
            self.publisher.lease_ended(lease);
            return refuse(connection, RefusalCode::Other, &no_lease(&e));
        }
        self.leases.insert(number, owners_end);
        let tree = offer_tree(&self.name, &offer);
        let descriptors = tree.descriptors();
        if descriptors > wire::MAX_DESCRIPTORS {
            let limit = wire::MAX_DESCRIPTORS;
            let error = LeaseError::TreeTooLarge { descriptors, limit };
            return refuse(connection, RefusalCode::TooLarge, &error.to_string());
        }
        let mut fds = Vec::with_capacity(descriptors * 2);
        fds.extend([offer.store.as_fd(), holders_end.as_fd()]);
        offer.bases.iter().for_each(|base| push_fds(base, &mut fds));
        match send(connection, &Message::Offer(tree), &fds) {
            // A field that does not fit, or a kernel that carries no more descriptors for this
            // user at the moment: nothing was sent, so the connection remains usable.
            Err(End::Fault(error @ (LeaseError::Wire(_) | LeaseError::Io { .. }))) => {
                refuse(connection, RefusalCode::Other, &error.to_string())
            }
            other => other,
        }
    }

    fn status(&self, connection: &mut Connection, offset: u64) -> Result<(), End> {
        if offset == 0 {
            connection.status = self.publisher.status().into_bytes();
        }
        let total = connection.status.len() as u64;
        let rest = usize::try_from(offset).ok().and_then(|at| connection.status.get(at..));
        let Some(rest) = rest else {
            let error = WireError::Field { field: "offset", why: "is behind the status text" };
            return Err(reject(self.uid, connection, RefusalCode::Malformed, error.into()));
        };
        let bytes = rest[..rest.len().min(MAX_PART)].to_vec();
        if bytes.len() == rest.len() {
            connection.status = Vec::new();
        }
        send(connection, &Message::StatusPart { total, bytes }, &[])
    }
}
