//! Names and leases: another process finds a database by its name, takes a snapshot of it, and
//! keeps that snapshot alive for exactly as long as a process holds its lease.
//!
//! An owner starts a [`Server`] under a name in a [`RuntimeDir`]; another process attaches with
//! [`Client::connect`]. They talk over a `SOCK_SEQPACKET` socket, one message per packet
//! (see [`wire`]):
//!
//! 1. the client sends `Hello`, the owner answers `Welcome` or `Refused`;
//! 2. the client sends `Take`; the owner asks its [`Publisher`] and answers `Offer`, a tree of
//!    descriptors with two file descriptors each: the store (read-only) and the lease;
//! 3. the client may take again, ask for `Status`, or close; a lease does not need the connection.
//!
//! A lease is the reading end of a pipe; only the owner has the writing end. The owner's thread
//! watches the writing ends: the kernel reports one as soon as the last duplicate of its reading
//! end is closed, in any process and however that process ends. So a killed holder leaves no lease
//! behind. In a chain of derived databases, a process that has received a duplicate from a database
//! in the middle keeps the memory of the base although the middle has ended.
//!
//! Invariants:
//! - `LEASE-1`: a lease ends when the last duplicate of its descriptor is closed, not before.
//! - `LEASE-2`: for every `take` that succeeded, `lease_ended` is called once, unless the server
//!   was dropped before.
//! - `LEASE-3`: bytes from a peer can end that peer's connection and nothing else.
//! - `LEASE-4`: at most one living process owns a name, whatever happened to earlier owners.
//! - `LEASE-5`: the owner's thread never waits for a peer.
//!
//! After a failure: a killed owner leaves a socket and a lock file behind, which the next owner
//! of the name replaces; the holders' snapshots stay readable. When a request fails on the way, the
//! client closes its connection, so it can never take a late answer for that of a later request.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

mod client;
mod codec;
mod connection;
mod error;
mod event_loop;
mod fds;
mod message;
mod names;
mod owned;
mod server;
pub mod wire;

pub use client::{Client, Owner};
pub use error::LeaseError;
pub use message::RefusalCode;
pub use names::{Listed, Name, NameState, RuntimeDir};
pub use server::Server;

/// The number of a lease; a server never uses a number again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {}", self.0)
    }
}

/// The process at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id from the kernel (from the peer where the kernel cannot tell).
    pub pid: u32,
    /// Effective user id from the kernel.
    pub uid: u32,
    /// The command's name as the peer states it; for display only.
    pub command: String,
}

/// A snapshot as its holder receives it: what to map, where to start, what keeps it alive.
#[derive(Debug)]
pub struct Descriptor {
    /// Name of the database that the snapshot is of.
    pub database: String,
    /// Identity of the store, to recognise one that is mapped already.
    pub store_id: u128,
    /// The store's memory file, read-only.
    pub store: OwnedFd,
    /// The lease; the snapshot lives until the last duplicate of this is closed.
    pub lease: OwnedFd,
    /// Offset of the snapshot's root in the store, in bytes.
    pub root: u64,
    /// The epoch that the snapshot shows.
    pub epoch: u64,
    /// Offset and length of the snapshot's patch in the store, in bytes; `(0, 0)` if it has none.
    pub patch: (u64, u64),
    /// Offset of the lease's state word in the store, in bytes.
    pub lease_word: u64,
    /// How long the owner took to take the snapshot, in nanoseconds.
    pub take_ns: u64,
    /// The snapshots that this one is built on.
    pub bases: Vec<Descriptor>,
}

/// What a [`Publisher`] gives for one `take`; the server adds the name and the lease.
#[derive(Debug)]
pub struct Offer {
    /// The store's memory file. It must be open for reading only.
    pub store: OwnedFd,
    /// Identity of the store.
    pub store_id: u128,
    /// Offset of the snapshot's root in the store, in bytes.
    pub root: u64,
    /// The epoch that the snapshot shows.
    pub epoch: u64,
    /// Offset and length of the snapshot's patch in the store, in bytes.
    pub patch: (u64, u64),
    /// Offset of the lease's state word in the store, in bytes.
    pub lease_word: u64,
    /// How long taking the snapshot took, in nanoseconds.
    pub take_ns: u64,
    /// Duplicates (see [`dup_tree`]) of the snapshots that this one is built on.
    pub bases: Vec<Descriptor>,
}

/// Why a [`Publisher`] gives no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason, for programs.
    pub code: RefusalCode,
    /// The reason, for display: one sentence with what the user can do.
    pub text: String,
}

/// The owner's side of a hand-over.
///
/// Its methods run on the server's thread, which serves every client, so they should take
/// microseconds. Dropping the server waits for the one that runs, so they must not wait for a
/// lock that the dropping thread holds. A panic in one ends the thread: the name then looks as
/// if its owner were gone, while leases stay with their holders.
pub trait Publisher: Send + Sync {
    /// Takes a snapshot for `peer`, to be kept until `lease_ended(lease)`.
    ///
    /// # Errors
    /// A [`Refusal`], which is passed on to the peer; `lease_ended` is not called then.
    fn take(&self, lease: LeaseId, peer: &Peer) -> Result<Offer, Refusal>;

    /// The last holder of `lease` is gone. Called once for every `take` that succeeded, also if
    /// the offer never reached the peer.
    fn lease_ended(&self, lease: LeaseId);

    /// What [`Client::status`] returns, as JSON text.
    fn status(&self) -> String;

    /// A connection was closed because of `error`; an owner may log it.
    fn peer_failed(&self, peer: &Peer, error: &LeaseError) {
        let _ = (peer, error);
    }
}

/// Duplicates every file descriptor of a tree, so that the owner of a derived database can pass
/// on what its snapshots are built on and still hold it itself.
///
/// # Errors
/// The error of the first duplication that failed (`EMFILE`: too many open files); the duplicates
/// made until then are closed.
pub fn dup_tree(descriptor: &Descriptor) -> io::Result<Descriptor> {
    Ok(Descriptor {
        database: descriptor.database.clone(),
        store_id: descriptor.store_id,
        store: descriptor.store.try_clone()?,
        lease: descriptor.lease.try_clone()?,
        root: descriptor.root,
        epoch: descriptor.epoch,
        patch: descriptor.patch,
        lease_word: descriptor.lease_word,
        take_ns: descriptor.take_ns,
        bases: descriptor.bases.iter().map(dup_tree).collect::<io::Result<_>>()?,
    })
}
