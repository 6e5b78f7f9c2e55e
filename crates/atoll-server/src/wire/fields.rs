//! The fields in a message of a client.
//!
//! `FIELD-1`: whatever the bytes are, reading ends with a value or with [`Malformed`]; a count or a
//! length is compared with the bytes that are there before anything is done with it.

use std::fmt;

/// A message that does not have the fields of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It ends too early, or goes on behind its last field.
    Length,
    /// A text that is not UTF-8.
    Utf8,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "invalid message format",
            Self::Utf8 => "invalid byte sequence for encoding \"UTF8\"",
        })
    }
}

/// Reads the fields of a message one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    pub(crate) fn new(body: &'m [u8]) -> Self {
        Self(body)
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'m [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// A count of fields that follow, each with at least so many bytes.
    pub(crate) fn count(&mut self, bytes_each: usize) -> Result<usize, Malformed> {
        let count = usize::from(self.array().map(u16::from_be_bytes)?);
        if count * bytes_each <= self.0.len() { Ok(count) } else { Err(Malformed::Length) }
    }

    /// A length and so many bytes; `None` is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'m [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed::Length)?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// A text up to its zero byte.
    pub(crate) fn text(&mut self) -> Result<&'m str, Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed::Length)?;
        let text = std::str::from_utf8(&self.0[..end]).map_err(|_| Malformed::Utf8)?;
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'m [u8] {
        self.0
    }

    /// Checks that nothing follows.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_there_are_malformed() {
        let mut fields = Fields::new(b"ab\0\0\0\0\x02xy\xff\xff\xff\xff");
        assert_eq!(fields.text(), Ok("ab"));
        assert_eq!(fields.value(), Ok(Some(&b"xy"[..])));
        assert_eq!(fields.value(), Ok(None));
        assert_eq!(fields.byte(), Err(Malformed::Length));
        assert_eq!(fields.end(), Ok(()));
        assert_eq!(Fields::new(b"abc").text(), Err(Malformed::Length));
        assert_eq!(Fields::new(b"\xff\0").text(), Err(Malformed::Utf8));
        assert_eq!(Fields::new(&[0xff, 0xff, 1]).count(2), Err(Malformed::Length));
        assert_eq!(Fields::new(&[0x7f, 0xff, 0xff, 0xff]).value(), Err(Malformed::Length));
        assert_eq!(Fields::new(&[0xff, 0xff, 0xff, 0xfe]).value(), Err(Malformed::Length));
    }
}
