//! Memory for whole units of a file, and writing zeroes in units.

use std::ops::{Deref, DerefMut};

use super::UNIT_BYTES_MAX;

/// Zeroes are written in pieces of this size.
const ZEROES_BYTES: usize = 1 << 20;

const UNIT: usize = UNIT_BYTES_MAX as usize;

/// A buffer that begins at a multiple of [`UNIT_BYTES_MAX`] in memory, as direct I/O requires. It
/// never shrinks its allocation.
#[derive(Debug, Default)]
pub struct UnitBuffer {
    memory: Vec<u8>,
    /// Position of the first byte in the memory.
    start: usize,
    len: usize,
}

impl UnitBuffer {
    /// An empty buffer with capacity for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Self::default();
        buffer.grow(bytes);
        buffer
    }

    /// A buffer of `bytes` zeroes.
    pub fn zeroes(bytes: usize) -> Self {
        // New memory is zeroed.
        Self { len: bytes, ..Self::with_capacity(bytes) }
    }

    /// Grows the capacity to `bytes` and keeps the contents.
    fn grow(&mut self, bytes: usize) {
        if self.start + bytes <= self.memory.len() {
            return;
        }
        let room = bytes.max(2 * self.len).next_multiple_of(UNIT);
        let mut memory = vec![0; room + UNIT];
        let start = memory.as_ptr().align_offset(UNIT);
        memory[start..start + self.len].copy_from_slice(self);
        (self.memory, self.start) = (memory, start);
    }

    /// Sets the length; new bytes are zero.
    pub fn resize(&mut self, bytes: usize) {
        let had = self.len;
        self.set_len(bytes);
        self[had.min(bytes)..].fill(0);
    }

    /// Sets the length; new bytes are arbitrary.
    pub fn set_len(&mut self, bytes: usize) {
        self.grow(bytes);
        self.len = bytes;
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let had = self.len;
        self.set_len(had + bytes.len());
        self[had..].copy_from_slice(bytes);
    }

    /// Removes `bytes` bytes from the front.
    pub fn remove_front(&mut self, bytes: usize) {
        self.copy_within(bytes.., 0);
        self.len -= bytes;
    }
}

impl Deref for UnitBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for UnitBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Writes zeroes between two positions, in pieces that are aligned in memory. Reserving space
/// without writing would not be enough: the first write to an allocated but unwritten block still
/// changes metadata, which makes the first sync of the block take twice as long.
pub(super) fn write_zeroes<E>(
    from: u64,
    to: u64,
    write: impl Fn(&[u8], u64) -> Result<(), E>,
) -> Result<(), E> {
    let zeroes = UnitBuffer::zeroes(ZEROES_BYTES.min(to.saturating_sub(from) as usize));
    let mut at = from;
    while at < to {
        let len = zeroes.len().min((to - at) as usize);
        write(&zeroes[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_at_a_unit_and_what_they_were() {
        let mut buffer = UnitBuffer::default();
        let mut expected = Vec::new();
        for round in 1..200_usize {
            match round % 4 {
                0 | 1 => {
                    let more = vec![round as u8; round * 37 % 3000];
                    buffer.extend_from_slice(&more);
                    expected.extend(more);
                }
                2 => {
                    let len = round * 91 % 9000;
                    buffer.resize(len);
                    expected.resize(len, 0);
                }
                _ => {
                    let gone = expected.len() / 3;
                    buffer.remove_front(gone);
                    expected.drain(..gone);
                }
            }
            assert!(*buffer == expected[..], "round {round}");
            assert!(buffer.as_ptr().addr().is_multiple_of(UNIT));
        }
    }
}
