//! The frames of messages in the bytes that have come from a client.
//!
//! `FRAME-1`: the buffer has at most the bytes that were read, whatever length a frame says; a
//! frame that is longer than its type may be is refused when its head is there.

use std::ops::Range;

/// Longest message of a type that has texts or values of users.
const LARGE_MAX: usize = 256 << 20;
/// Longest message of other types, and of any before the client is known.
pub(crate) const SMALL_MAX: usize = 10_000;
/// Room for bytes that are read at once.
const READ_BYTES: usize = 8 << 10;
/// Capacity that a buffer keeps when it is empty.
const KEPT_BYTES: usize = 64 << 10;

/// A frame that can be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) kind: u8,
    pub(crate) length: i64,
}

/// Bytes that have come and were not used yet.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// A message: its type, and where its body is until more is read.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    body: Range<usize>,
}

impl Frame {
    /// Where its body is.
    pub(crate) fn range(&self) -> Range<usize> {
        self.body.clone()
    }
}

impl Frames {
    /// Bytes that are there and were not used.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next whole frame, which is then used.
    ///
    /// # Errors
    /// It says a length that messages of its type do not have.
    pub(crate) fn next(&mut self, is_known: bool) -> Result<Option<Frame>, TooLong> {
        let [kind, a, b, c, d, ..] = *self.unread() else { return Ok(None) };
        let said = i32::from_be_bytes([a, b, c, d]);
        let most = match kind {
            b'Q' | b'P' | b'B' | b'd' | b'F' if is_known => LARGE_MAX,
            _ => SMALL_MAX,
        };
        let length = match usize::try_from(said) {
            Ok(length) if (4..=most).contains(&length) => length,
            _ => return Err(TooLong { kind, length: said.into() }),
        };
        if self.end - self.start < length + 1 {
            return Ok(None);
        }
        let body = self.start + 5..self.start + 1 + length;
        self.start = body.end;
        Ok(Some(Frame { kind, body }))
    }

    /// Whether a Sync comes before another statement; `None` if that has not come yet.
    pub(crate) fn sync_follows(&self) -> Option<bool> {
        let mut rest = self.unread();
        loop {
            match rest {
                [b'S', ..] => return Some(true),
                // Flush, Close and Describe do nothing that a transaction is for.
                [b'H' | b'C' | b'D', a, b, c, d, ..] => {
                    let length = usize::try_from(i32::from_be_bytes([*a, *b, *c, *d])).ok()?;
                    rest = rest.get(length.max(4) + 1..)?;
                }
                [] | [b'H' | b'C' | b'D', ..] => return None,
                _ => return Some(false),
            }
        }
    }

    /// The body of the frame that was returned last.
    pub(crate) fn body(&self, frame: &Frame) -> &[u8] {
        &self.buffer[frame.body.clone()]
    }

    /// Bytes of the frame that was returned last.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Takes the first packet of a connection, which has no type: its length and so many bytes.
    ///
    /// # Errors
    /// No such packet has this length.
    pub(crate) fn first(&mut self) -> Result<Option<Frame>, TooLong> {
        let [a, b, c, d, ..] = *self.unread() else { return Ok(None) };
        let said = i32::from_be_bytes([a, b, c, d]);
        let length = match usize::try_from(said) {
            Ok(length) if (8..=SMALL_MAX).contains(&length) => length,
            _ => return Err(TooLong { kind: 0, length: said.into() }),
        };
        if self.end - self.start < length {
            return Ok(None);
        }
        let body = self.start + 4..self.start + length;
        self.start = body.end;
        Ok(Some(Frame { kind: 0, body }))
    }

    /// Takes all bytes, which are none of this protocol.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.unread().to_vec();
        self.start = self.end;
        bytes
    }

    /// Room for more bytes behind the unread ones; [`Frames::filled`] says how many came.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // A long message makes the buffer grow by what has come, not by what it says.
        let wanted = self.end + READ_BYTES.max(self.end / 2);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Gives memory back that one long message took.
    pub(crate) fn shrink(&mut self) {
        if self.start == self.end && self.buffer.len() > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Gives all memory back, if nothing is unread.
    pub(crate) fn rest(&mut self) {
        if self.start == self.end {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn give(frames: &mut Frames, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let room = frames.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            frames.filled(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn frames_come_in_any_pieces() {
        let sent = b"Q\0\0\0\x06a\0S\0\0\0\x04";
        for cut in 0..sent.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in [&sent[..cut], &sent[cut..]] {
                give(&mut frames, piece);
                while let Some(frame) = frames.next(true).unwrap() {
                    seen.push((frame.kind, frames.body(&frame).to_vec()));
                }
            }
            assert_eq!(seen, [(b'Q', b"a\0".to_vec()), (b'S', Vec::new())]);
        }
    }

    #[test]
    fn a_length_that_no_message_has_is_refused_and_reserves_nothing() {
        for (bytes, is_known) in [
            (&b"Q\x7f\xff\xff\xff"[..], true),
            (&b"Q\xff\xff\xff\xff"[..], true),
            (&b"S\0\0\0\x03"[..], true),
            (&b"S\0\x01\0\0"[..], true),
            (&b"Q\0\x01\0\0"[..], false),
        ] {
            let mut frames = Frames::default();
            give(&mut frames, bytes);
            assert!(frames.next(is_known).is_err(), "{bytes:?}");
        }
        let mut frames = Frames::default();
        give(&mut frames, b"Q\x0f\xff\xff\xff");
        assert!(frames.next(true).unwrap().is_none());
        assert!(frames.room().len() <= 2 * READ_BYTES);
    }
}
