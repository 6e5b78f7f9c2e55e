//! One client's connection as the owner sees it, and what is sent over it.
//!
//! Sending never waits (`LEASE-5`): an answer that the peer's buffer has no room for ends the
//! connection. A failure here closes one connection and nothing else (`LEASE-3`).

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use atoll_machine::fork::Unshared;

use super::error::LeaseError;
use super::fds::{self, Credentials};
use super::message::RefusalCode;
use super::wire::{self, MAX_TEXT, Message, Tree};
use super::{Descriptor, Offer, Peer};

/// A client's connection.
pub(super) struct Connection {
    pub(super) socket: Unshared,
    pub(super) from: Credentials,
    /// Known after `Hello`.
    pub(super) peer: Option<Peer>,
    /// The status text, while the client fetches it in parts.
    pub(super) status: Vec<u8>,
}

/// Why a connection is closed.
pub(super) enum End {
    /// The peer is gone; this is no error.
    Gone,
    Fault(LeaseError),
}

impl From<LeaseError> for End {
    fn from(error: LeaseError) -> Self {
        Self::Fault(error)
    }
}

/// Sends the peer the reason why its connection ends; the connection ends even if that fails.
pub(super) fn reject(
    own_uid: u32,
    connection: &Connection,
    code: RefusalCode,
    error: LeaseError,
) -> End {
    let text = match &error {
        // The peer reads this text, and from its view the two sides are swapped.
        LeaseError::VersionMismatch { ours, ours_product, theirs, theirs_product } => {
            LeaseError::VersionMismatch {
                ours: *theirs,
                ours_product: theirs_product.clone(),
                theirs: *ours,
                theirs_product: ours_product.clone(),
            }
            .to_string()
        }
        LeaseError::ForeignUser { .. } => LeaseError::ForeignUser { uid: own_uid }.to_string(),
        LeaseError::Wire(wire) => format!("the message was invalid: {wire}"),
        other => other.to_string(),
    };
    let _ = refuse(connection, code, &text);
    End::Fault(error)
}

/// The text of a refusal when there is no pipe for a lease.
pub(super) fn no_lease(error: &io::Error) -> String {
    format!("the owner cannot make a lease: {error}; raise its limit of open files (ulimit -n)")
}

/// Sends a refusal.
pub(super) fn refuse(connection: &Connection, code: RefusalCode, text: &str) -> Result<(), End> {
    let product = wire::PRODUCT_VERSION.to_owned();
    let text = wire::printable(text, MAX_TEXT);
    send(connection, &Message::Refused { product, code, text }, &[])
}

/// Sends a message with file descriptors.
pub(super) fn send(
    connection: &Connection,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<(), End> {
    let bytes = wire::encode(message).map_err(LeaseError::Wire)?;
    match fds::send(connection.socket.as_fd(), &bytes, fds) {
        Ok(()) => Ok(()),
        Err(e) => Err(match e.kind() {
            ErrorKind::WouldBlock => LeaseError::NotReading { pid: connection.from.pid }.into(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => End::Gone,
            _ => LeaseError::io("send an answer")(e).into(),
        }),
    }
}

/// An offer as the message contains it.
pub(super) fn offer_tree(name: &str, offer: &Offer) -> Tree {
    Tree {
        database: name.to_owned(),
        store_id: offer.store_id,
        root: offer.root,
        epoch: offer.epoch,
        patch: offer.patch,
        lease_word: offer.lease_word,
        take_ns: offer.take_ns,
        bases: offer.bases.iter().map(tree_of).collect(),
    }
}

fn tree_of(descriptor: &Descriptor) -> Tree {
    Tree {
        database: descriptor.database.clone(),
        store_id: descriptor.store_id,
        root: descriptor.root,
        epoch: descriptor.epoch,
        patch: descriptor.patch,
        lease_word: descriptor.lease_word,
        take_ns: descriptor.take_ns,
        bases: descriptor.bases.iter().map(tree_of).collect(),
    }
}

/// The order of file descriptors that `Message::Offer` promises.
pub(super) fn push_fds<'a>(descriptor: &'a Descriptor, fds: &mut Vec<BorrowedFd<'a>>) {
    fds.extend([descriptor.store.as_fd(), descriptor.lease.as_fd()]);
    descriptor.bases.iter().for_each(|base| push_fds(base, fds));
}
