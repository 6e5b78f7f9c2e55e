//! The messages between owner and holder as bytes, written and read by hand.
//!
//! Every message is one packet: a header of four little-endian `u32` {magic, protocol version,
//! kind, body length} and the body. Integers are little-endian, a text is a `u16` length and UTF-8
//! without control characters, a list is a `u16` count and its items. The header, and the front
//! of `Hello`, `Welcome` and `Refused` up to the product version, are the same in every protocol
//! version, so that two versions can tell each other who they are.
//!
//! Invariants:
//! - `WIRE-1`: `decode` gives back what `encode` was given; any other bytes give a [`WireError`],
//!   never a panic and never an allocation out of proportion to the message.
//! - `WIRE-2`: no message is longer than [`MAX_MESSAGE`] and no tree has more than
//!   [`MAX_DESCRIPTORS`] descriptors, so every accepted offer fits one packet with its
//!   file descriptors (at most 253 by the kernel's limit).

use super::codec::{Reader, Writer, code_number, code_of};
use super::error::RefusalCode;

/// Version of the protocol that this code speaks.
pub const PROTOCOL_VERSION: u32 = 1;
/// Version of the product, for people.
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
    /// Its length and the length that its header tells differ.
    #[error("its header tells {declared} bytes of body and {actual} came")]
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
        /// The sender's product version, if it told one.
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
    /// The body goes on after its last field.
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
    /// A good message at the wrong moment.
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
    /// What the snapshot is built on.
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
    /// The owner's answer to anything that it does not do.
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
        /// Where to go on; 0 makes a new text.
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

const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const TAKE: u32 = 4;
const OFFER: u32 = 5;
const STATUS: u32 = 6;
const STATUS_PART: u32 = 7;

impl Message {
    /// The kind of message, for people.
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

/// Writes a message with its header.
///
/// # Errors
/// [`WireError`] if a field or the whole is longer than the protocol allows.
pub fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    let mut out = Writer { bytes: vec![0; HEADER_LEN] };
    let kind = match message {
        Message::Hello { protocol, product, pid, command } => {
            out.u32(*protocol);
            out.text("product version", product, MAX_WORD)?;
            out.u32(*pid);
            out.text("command", command, MAX_WORD)?;
            HELLO
        }
        Message::Welcome { protocol, product, database, pid } => {
            out.u32(*protocol);
            out.text("product version", product, MAX_WORD)?;
            out.text("database", database, MAX_WORD)?;
            out.u32(*pid);
            WELCOME
        }
        Message::Refused { product, code, text } => {
            out.text("product version", product, MAX_WORD)?;
            out.u32(code_number(*code));
            out.text("text", text, MAX_TEXT)?;
            REFUSED
        }
        Message::Take => TAKE,
        Message::Offer(tree) => {
            if tree.descriptors() > MAX_DESCRIPTORS {
                return Err(WireError::TooManyDescriptors);
            }
            out.tree(tree)?;
            OFFER
        }
        Message::Status { offset } => {
            out.u64(*offset);
            STATUS
        }
        Message::StatusPart { total, bytes } => {
            out.u64(*total);
            out.part(bytes)?;
            STATUS_PART
        }
    };
    let mut bytes = out.bytes;
    if bytes.len() > MAX_MESSAGE {
        return Err(WireError::TooLong);
    }
    let length = (bytes.len() - HEADER_LEN) as u32;
    for (at, word) in [MAGIC, PROTOCOL_VERSION, kind, length].into_iter().enumerate() {
        bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

/// Reads a message with its header.
///
/// # Errors
/// [`WireError`] telling what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(WireError::TooLong);
    }
    let mut input = Reader { rest: bytes };
    let magic = input.u32("the header")?;
    if magic != MAGIC {
        return Err(WireError::Magic { found: magic });
    }
    let version = input.u32("the header")?;
    let kind = input.u32("the header")?;
    let declared = input.u32("the header")?;
    if declared as usize != input.rest.len() {
        return Err(WireError::Length { declared, actual: input.rest.len() });
    }
    if version != PROTOCOL_VERSION {
        let product = foreign_product(kind, input).unwrap_or_else(|_| "unknown".to_owned());
        return Err(WireError::Version { theirs: version, product });
    }
    let message = body(kind, &mut input)?;
    match input.rest.len() {
        0 => Ok(message),
        count => Err(WireError::Trailing { count }),
    }
}

fn body(kind: u32, input: &mut Reader<'_>) -> Result<Message, WireError> {
    Ok(match kind {
        HELLO => Message::Hello {
            protocol: input.u32("the protocol version")?,
            product: input.text("product version", MAX_WORD)?,
            pid: input.u32("the process id")?,
            command: input.text("command", MAX_WORD)?,
        },
        WELCOME => Message::Welcome {
            protocol: input.u32("the protocol version")?,
            product: input.text("product version", MAX_WORD)?,
            database: input.text("database", MAX_WORD)?,
            pid: input.u32("the process id")?,
        },
        REFUSED => Message::Refused {
            product: input.text("product version", MAX_WORD)?,
            code: code_of(input.u32("the refusal code")?),
            text: input.text("text", MAX_TEXT)?,
        },
        TAKE => Message::Take,
        OFFER => Message::Offer(input.tree(&mut 0)?),
        STATUS => Message::Status { offset: input.u64("the offset")? },
        STATUS_PART => {
            let total = input.u64("the total length")?;
            Message::StatusPart { total, bytes: input.part()? }
        }
        kind => return Err(WireError::Kind { kind }),
    })
}

/// The product version of a peer of another protocol version.
fn foreign_product(kind: u32, mut input: Reader<'_>) -> Result<String, WireError> {
    if kind != REFUSED {
        input.u32("the protocol version")?;
    }
    input.text("product version", MAX_WORD)
}

/// Makes any text fit a text field: cut to `max` bytes, control characters replaced.
pub fn printable(text: &str, max: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if clean.len() + c.len_utf8() > max {
            break;
        }
        clean.push(c);
    }
    clean
}
