//! The messages between owner and holder as types, their limits, and the errors of a malformed one.
//! [`super::wire`] encodes and decodes them.

use std::fmt;

/// Version of the protocol that this code speaks.
pub const PROTOCOL_VERSION: u32 = 2;
/// Version of the product, for display.
pub const PRODUCT_VERSION: &str = env!("CARGO_PKG_VERSION");
/// First word of every message.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ATLL");
/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 16;
/// Longest message with its header, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Most descriptors in one tree; each has two file descriptors.
pub const MAX_DESCRIPTORS: usize = 126;
/// Longest part of a status text in one message, in bytes.
pub const MAX_PART: usize = 48 * 1024;
/// Longest name, version or command, in bytes.
pub const MAX_WORD: usize = 64;
/// Longest text of a refusal, in bytes.
pub const MAX_TEXT: usize = 1024;

/// What was wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ended in the middle of a field.
    #[error("it ends within {field}")]
    Truncated {
        /// The field.
        field: &'static str,
    },
    /// It does not start with the magic word.
    #[error("it starts with {found:#010x} instead of {MAGIC:#010x}")]
    Magic {
        /// What it starts with.
        found: u32,
    },
    /// Its length differs from the length in its header.
    #[error("its header declares {declared} bytes of body, but {actual} came")]
    Length {
        /// The header's body length in bytes.
        declared: u32,
        /// The body's length in bytes.
        actual: usize,
    },
    /// It is longer than any message.
    #[error("it is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// It is of another protocol version.
    #[error("it is of protocol version {theirs}, not {PROTOCOL_VERSION}")]
    Version {
        /// The sender's protocol version.
        theirs: u32,
        /// The sender's product version, or "unknown".
        product: String,
    },
    /// There is no such kind of message.
    #[error("there is no message of kind {kind}")]
    Kind {
        /// The kind.
        kind: u32,
    },
    /// A field holds something impossible.
    #[error("its {field} {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The body continues after its last field.
    #[error("{count} bytes follow its last field")]
    Trailing {
        /// How many bytes.
        count: usize,
    },
    /// The tree has too many descriptors.
    #[error("its tree has more than {MAX_DESCRIPTORS} descriptors")]
    TooManyDescriptors,
    /// It came with another number of file descriptors than it needs.
    #[error("it came with {got} file descriptors instead of {expected}")]
    Fds {
        /// How many it needs.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// It carried file descriptors where none belong.
    #[error("it carried file descriptors where none belong")]
    UnexpectedFds,
    /// A valid message at the wrong time.
    #[error("a {kind} message makes no sense here")]
    Unexpected {
        /// The kind of message.
        kind: &'static str,
    },
}

/// A snapshot's numbers, without its file descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Name of the database.
    pub database: String,
    /// Identity of the store.
    pub store_id: u128,
    /// Offset of the root, in bytes.
    pub root: u64,
    /// The epoch that the snapshot shows.
    pub epoch: u64,
    /// Offset and length of the patch, in bytes.
    pub patch: (u64, u64),
    /// Offset of the lease's state word, in bytes.
    pub lease_word: u64,
    /// How long taking took, in nanoseconds.
    pub take_ns: u64,
    /// The snapshots that this one is built on.
    pub bases: Vec<Tree>,
}

impl Tree {
    /// How many descriptors the tree has, itself included.
    pub fn descriptors(&self) -> usize {
        1 + self.bases.iter().map(Tree::descriptors).sum::<usize>()
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First message of a client.
    Hello {
        /// Protocol version.
        protocol: u32,
        /// Product version.
        product: String,
        /// The client's process id.
        pid: u32,
        /// The client's command name.
        command: String,
    },
    /// The owner's answer to `Hello`.
    Welcome {
        /// Protocol version.
        protocol: u32,
        /// Product version.
        product: String,
        /// Name of the database.
        database: String,
        /// The owner's process id.
        pid: u32,
    },
    /// The owner's answer to a request that it refuses.
    Refused {
        /// Product version of the owner.
        product: String,
        /// The kind of reason.
        code: RefusalCode,
        /// The reason.
        text: String,
    },
    /// The client asks for a snapshot.
    Take,
    /// The owner's answer to `Take`; file descriptors come with it, store and lease of each
    /// descriptor, a descriptor before its bases.
    Offer(Tree),
    /// The client asks for the status text from a byte offset on.
    Status {
        /// Where the part begins; 0 creates a new text.
        offset: u64,
    },
    /// The owner's answer to `Status`.
    StatusPart {
        /// Length of the whole text, in bytes.
        total: u64,
        /// The bytes from the offset on, as many as fit.
        bytes: Vec<u8>,
    },
}

impl Message {
    /// The name of the kind of message, for display.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Welcome { .. } => "welcome",
            Self::Refused { .. } => "refused",
            Self::Take => "take",
            Self::Offer(_) => "offer",
            Self::Status { .. } => "status",
            Self::StatusPart { .. } => "status part",
        }
    }
}

/// Why an owner refused; part of a `Refused` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalCode {
    /// The owner holds as many snapshots as it may.
    SnapshotLimit,
    /// The snapshot asked for, or one it is built on, has expired.
    Expired,
    /// The owner's store has no memory left for a snapshot.
    OutOfMemory,
    /// The owner is closing.
    Closing,
    /// Any other reason; the text states it.
    Other,
    /// The two sides speak different versions of the protocol.
    Version,
    /// The peer belongs to another user.
    ForeignUser,
    /// The peer's message is not valid in the protocol.
    Malformed,
    /// The answer does not fit one message.
    TooLarge,
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SnapshotLimit => "snapshot limit",
            Self::Expired => "expired",
            Self::OutOfMemory => "out of memory",
            Self::Closing => "closing",
            Self::Other => "other",
            Self::Version => "version",
            Self::ForeignUser => "foreign user",
            Self::Malformed => "malformed",
            Self::TooLarge => "too large",
        })
    }
}
