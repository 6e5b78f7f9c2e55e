//! The errors between an owner and a holder, each with what the user can do about it.
//!
//! Both sides share one enum, because an error of one side is usually the refusal of the other. No
//! error leaks a descriptor: those that came with a failed message are closed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::message::{PRODUCT_VERSION, PROTOCOL_VERSION, RefusalCode, WireError};

/// An error of names, of leases, or of the connection between owner and holder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The text is not a name.
    #[error(
        "{name:?} is not a database name: {why}; use 1 to 64 of the characters A-Z a-z 0-9 _ . -, \
         the first not '.' or '-'"
    )]
    BadName {
        /// The text that was given.
        name: String,
        /// Which rule it breaks.
        why: &'static str,
    },
    /// A living process owns the name.
    #[error(
        "the name {name:?} is taken by process {pid}; close that database or choose another name"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Process id of its owner; 0 if the owner has not written it yet.
        pid: u32,
    },
    /// No database has that name.
    #[error("no database is named {name:?} in {dir}; {}", known_names(.known))]
    UnknownName {
        /// The name that was asked for.
        name: String,
        /// The names of living databases in the same directory.
        known: Vec<String>,
        /// The runtime directory that was searched.
        dir: PathBuf,
    },
    /// There is a socket, but the process that made it is gone.
    #[error("the owner of {name:?} is gone without closing it; start the owner again")]
    OwnerGone {
        /// The name.
        name: String,
    },
    /// The runtime directory belongs to another user.
    #[error(
        "the runtime directory {path} belongs to user {uid}; \
         choose one of your own with ATOLL_RUNTIME_DIR or --runtime-dir"
    )]
    DirForeign {
        /// The directory.
        path: PathBuf,
        /// Its owner's user id.
        uid: u32,
    },
    /// Other users may write to the runtime directory.
    #[error(
        "the runtime directory {path} has mode {mode:04o} and others may write to it; \
         run `chmod 700` on it or choose another with --runtime-dir"
    )]
    DirWritable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The runtime directory cannot be made or read.
    #[error(
        "the runtime directory {path} cannot be used: {source}; \
         choose another with ATOLL_RUNTIME_DIR or --runtime-dir"
    )]
    DirUnusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket's path does not fit a socket address.
    #[error(
        "the socket path {path} has {length} bytes and {limit} are possible; \
         choose a shorter runtime directory or name"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The longest possible length in bytes.
        limit: usize,
    },
    /// The process at the other end belongs to another user.
    #[error(
        "the process at the other end belongs to user {uid}; \
         a database is shared between processes of one user only"
    )]
    ForeignUser {
        /// The other side's user id.
        uid: u32,
    },
    /// The two sides speak different versions of the protocol.
    #[error(
        "this process is atoll {ours_product} (protocol {ours}) and the one at the other end is \
         atoll {theirs_product} (protocol {theirs}); use the same version on both sides"
    )]
    VersionMismatch {
        /// This side's protocol version.
        ours: u32,
        /// This side's product version.
        ours_product: String,
        /// The other side's protocol version.
        theirs: u32,
        /// The other side's product version.
        theirs_product: String,
    },
    /// The other side sent something that is not a message of the protocol.
    #[error("the other end sent an invalid message: {0}; the connection was closed")]
    Wire(#[from] WireError),
    /// The owner refused the request.
    #[error("the owner of {name:?} refused: {text}")]
    Refused {
        /// The name.
        name: String,
        /// The kind of reason.
        code: RefusalCode,
        /// The reason.
        text: String,
    },
    /// The owner did not answer in time.
    #[error(
        "process {pid}, the owner of {name:?}, did not answer within {waited:?}; \
         see whether it is stopped or overloaded, then connect again"
    )]
    Timeout {
        /// The name.
        name: String,
        /// The owner; 0 if not known.
        pid: u32,
        /// How long this process waited.
        waited: Duration,
    },
    /// The owner closed the connection, or an earlier request failed and closed it.
    #[error("the connection to {name:?} is closed; connect again")]
    Closed {
        /// The name.
        name: String,
    },
    /// A connection that the parent of this process has made.
    #[error(
        "the connection to {name:?} belongs to process {pid}, from which this process was forked; \
         attach again in this process"
    )]
    ForkedChild {
        /// The name.
        name: String,
        /// The process that connected.
        pid: u32,
    },
    /// A snapshot is built on more others than one message can carry.
    #[error(
        "the snapshot consists of {descriptors} snapshots and {limit} can be handed over at once; \
         copy some of its bases into a database of their own"
    )]
    TreeTooLarge {
        /// How many descriptors the tree has.
        descriptors: usize,
        /// How many fit.
        limit: usize,
    },
    /// The kernel could not install the file descriptors that came with a message.
    #[error(
        "the snapshot's file descriptors did not all arrive; \
         raise this process's limit of open files (ulimit -n) and try again"
    )]
    FdsLost,
    /// A peer asks again without having read the answer before.
    #[error("process {pid} does not read its answers; the connection was closed")]
    NotReading {
        /// The peer.
        pid: u32,
    },
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LeaseError {
    /// Wraps a system error with what was being done.
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Names both versions if that is what a message failed on.
    pub(super) fn from_wire(error: WireError) -> Self {
        match error {
            WireError::Version { theirs, product } => Self::version(theirs, product),
            other => Self::Wire(other),
        }
    }

    /// A mismatch with a peer of version `theirs`.
    pub(super) fn version(theirs: u32, theirs_product: String) -> Self {
        Self::VersionMismatch {
            ours: PROTOCOL_VERSION,
            ours_product: PRODUCT_VERSION.to_owned(),
            theirs,
            theirs_product,
        }
    }
}

impl From<io::Error> for LeaseError {
    /// Wraps an error of `Unshared::make`, which keeps a descriptor from forked children.
    fn from(source: io::Error) -> Self {
        Self::Io { doing: "keep a descriptor from forked children", source }
    }
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() {
        "no database is open there, start its owner first".to_owned()
    } else {
        format!("open are: {}", known.join(", "))
    }
}
