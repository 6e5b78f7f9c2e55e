//! The fields of a message: the bounds-checked reader and the writer below [`super::wire`].
//!
//! The reader never reads past its slice and returns [`WireError::Truncated`] instead (`WIRE-1`).
//! A failed read leaves the reader at any position within the message, which the caller then drops.

use super::message::{MAX_DESCRIPTORS, MAX_PART, MAX_WORD, RefusalCode, Tree, WireError};

/// Appends fields.
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(
        &mut self,
        field: &'static str,
        text: &str,
        max: usize,
    ) -> Result<(), WireError> {
        check_text(field, text, max)?;
        self.u16(text.len() as u16);
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if bytes.len() > MAX_PART {
            return Err(WireError::Field { field: "status part", why: "is too long" });
        }
        self.u16(bytes.len() as u16);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn tree(&mut self, tree: &Tree) -> Result<(), WireError> {
        self.text("database", &tree.database, MAX_WORD)?;
        self.bytes.extend_from_slice(&tree.store_id.to_le_bytes());
        for value in
            [tree.root, tree.epoch, tree.patch.0, tree.patch.1, tree.lease_word, tree.take_ns]
        {
            self.u64(value);
        }
        self.u16(tree.bases.len() as u16);
        tree.bases.iter().try_for_each(|base| self.tree(base))
    }
}

/// Takes fields off the front.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let (head, rest) =
            self.rest.split_at_checked(count).ok_or(WireError::Truncated { field })?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (head, rest) =
            self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated { field })?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let length = usize::from(self.u16(field)?);
        let bytes = self.take(length, field)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| WireError::Field { field, why: "is not UTF-8" })?;
        check_text(field, text, max)?;
        Ok(text.to_owned())
    }

    pub(super) fn part(&mut self) -> Result<Vec<u8>, WireError> {
        let length = usize::from(self.u16("the status part")?);
        if length > MAX_PART {
            return Err(WireError::Field { field: "status part", why: "is too long" });
        }
        Ok(self.take(length, "the status part")?.to_vec())
    }

    /// Reads a descriptor and its bases; `count` bounds the recursion (`WIRE-2`).
    pub(super) fn tree(&mut self, count: &mut usize) -> Result<Tree, WireError> {
        *count += 1;
        if *count > MAX_DESCRIPTORS {
            return Err(WireError::TooManyDescriptors);
        }
        let mut tree = Tree {
            database: self.text("database", MAX_WORD)?,
            store_id: u128::from_le_bytes(self.array("the store id")?),
            root: self.u64("the root")?,
            epoch: self.u64("the epoch")?,
            patch: (self.u64("the patch")?, self.u64("the patch")?),
            lease_word: self.u64("the lease word")?,
            take_ns: self.u64("the take time")?,
            bases: Vec::new(),
        };
        for _ in 0..self.u16("the bases")? {
            tree.bases.push(self.tree(count)?);
        }
        Ok(tree)
    }
}

fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), WireError> {
    if text.len() > max {
        return Err(WireError::Field { field, why: "is too long" });
    }
    if text.chars().any(char::is_control) {
        return Err(WireError::Field { field, why: "has control characters" });
    }
    Ok(())
}

const CODES: [(RefusalCode, u32); 9] = [
    (RefusalCode::Other, 0),
    (RefusalCode::SnapshotLimit, 1),
    (RefusalCode::Expired, 2),
    (RefusalCode::OutOfMemory, 3),
    (RefusalCode::Closing, 4),
    (RefusalCode::Version, 5),
    (RefusalCode::ForeignUser, 6),
    (RefusalCode::Malformed, 7),
    (RefusalCode::TooLarge, 8),
];

/// The number that stands for a code.
pub(super) fn code_number(code: RefusalCode) -> u32 {
    CODES.iter().find(|(known, _)| *known == code).map_or(0, |(_, number)| *number)
}

/// Decodes a code. A code of a later version becomes `Other`: its text still states the reason.
pub(super) fn code_of(number: u32) -> RefusalCode {
    CODES.iter().find(|(_, n)| *n == number).map_or(RefusalCode::Other, |(code, _)| *code)
}
