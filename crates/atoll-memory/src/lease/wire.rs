//! The messages between owner and holder as bytes, written and read by hand.
//!
//! Every message is one packet: a header of four little-endian `u32` {magic, protocol version,
//! kind, body length} and the body. Integers are little-endian, a text is a `u16` length and UTF-8
//! without control characters, a list is a `u16` count and its items. The header, and the front
//! of `Hello`, `Welcome` and `Refused` up to the product version, are the same in every protocol
//! version, so that processes of different versions can tell each other their versions.
//!
//! Invariants:
//! - `WIRE-1`: `decode` gives back what `encode` was given; any other bytes give a [`WireError`],
//!   never a panic and never an allocation out of proportion to the message.
//! - `WIRE-2`: no message is longer than [`MAX_MESSAGE`] and no tree has more than
//!   [`MAX_DESCRIPTORS`] descriptors, so every accepted offer fits one packet with its
//!   file descriptors (at most 253 by the kernel's limit).

use super::codec::{Reader, Writer, code_number, code_of};
pub use super::message::{
    HEADER_LEN, MAGIC, MAX_DESCRIPTORS, MAX_MESSAGE, MAX_PART, MAX_TEXT, MAX_WORD, Message,
    PRODUCT_VERSION, PROTOCOL_VERSION, Tree, WireError,
};

const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const TAKE: u32 = 4;
const OFFER: u32 = 5;
const STATUS: u32 = 6;
const STATUS_PART: u32 = 7;

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
