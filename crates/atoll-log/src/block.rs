//! Blocks: what a log is made of.
//!
//! A block is a header and a payload, padded to 8 bytes; the next one follows it. A transaction
//! writes one block to each log that it changed anything in, all with the same GSN, when it commits
//! ([`Kind::Commit`]); one that is too large for that has written parts of its changes before
//! ([`Kind::Piece`]), which count only if the commit is there.
//!
//! ```text
//!  0 CRC32C of what follows | 4 payload bytes | 8 LSN | 16 GSN | 24 epoch | 32 durable
//! 40 horizon | 48 transaction | 56 life | 60 kind (1 byte) | 61 tablespace (1 byte) | 62 check
//! ```
//! All numbers are little-endian. The check is the lower half of the CRC32C of bytes 4 to 61: half
//! a header, as a crash may leave it, is none, and its length does not count.
//!
//! - `BLOCK-1`: the LSN of a block is its place, so what a file held before it was used again is
//!   never taken for a block.
//! - `BLOCK-2`: lives never go down along a log. What a life wrote behind the end that a later one
//!   found (blocks that survived a crash which one before them did not) has a smaller life than
//!   what is written there then.
//! - `BLOCK-3`: GSNs never go down along a log.
//! - `BLOCK-4`: `durable` is a position up to which the log was durable when the block was made. So
//!   a gap that a block behind it says was durable is damage, and any other is the end of the log.
//! - `BLOCK-5`: `horizon` is a GSN up to which all logs were durable when the block was made.
//! - `BLOCK-6`: no rest has a greater GSN than the block that says it. A life gives out GSNs above
//!   those of all blocks before it, so nothing that an earlier life promised speaks for what it
//!   writes.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Where a header's check lies.
const CHECK: usize = 62;
/// What blocks are padded to.
pub const ALIGN: u64 = 8;
/// Largest payload; more is split into pieces.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// No position and no GSN is greater: what is counted up a thousand million times a second gets
/// there in 146 years. So what is read can be added to.
pub const NUMBER_MAX: u64 = 1 << 62;
/// No life is greater.
pub const INCARNATION_MAX: u32 = 1 << 30;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Changes of a transaction that has committed with them, see [`atoll_storage::redo`].
    Commit,
    /// Changes of a transaction that may commit later.
    Piece,
    /// Nothing, but for the GSN; the payload names logs at rest, see [`IdleWatermark`].
    IdleWatermark,
    /// A table that was made; the payload describes it.
    Table,
    /// The database was opened.
    Open,
    /// A moment, see [`crate::time_mark`]; the payload says when.
    Time,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Piece => 2,
            Self::IdleWatermark => 3,
            Self::Table => 4,
            Self::Open => 5,
            Self::Time => 6,
        }
    }

    const fn of_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Commit,
            2 => Self::Piece,
            3 => Self::IdleWatermark,
            4 => Self::Table,
            5 => Self::Open,
            6 => Self::Time,
            _ => return None,
        })
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Piece => "piece",
            Self::IdleWatermark => "rest",
            Self::Table => "table",
            Self::Open => "open",
            Self::Time => "time",
        }
    }
}

/// A header; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the block is.
    pub kind: Kind,
    /// Number of the tablespace.
    pub tablespace: u8,
    /// Number of the life: how often the database had been opened.
    pub incarnation: u32,
    /// Position of the block in its log, in bytes.
    pub lsn: u64,
    /// Global sequence number.
    pub gsn: u64,
    /// Epoch of the section in which the transaction committed.
    pub epoch: u64,
    /// `BLOCK-4`.
    pub durable: u64,
    /// `BLOCK-5`.
    pub horizon: u64,
    /// Number of the transaction within its life, 0 for one without pieces.
    pub transaction: u64,
    /// Bytes of the payload.
    pub payload_bytes: u32,
}

/// Bytes of a block with a payload of so many bytes.
pub const fn block_bytes(payload_bytes: usize) -> u64 {
    ((HEADER_BYTES + payload_bytes) as u64).next_multiple_of(ALIGN)
}

impl Header {
    /// Bytes of the block.
    pub const fn block_bytes(&self) -> u64 {
        block_bytes(self.payload_bytes as usize)
    }

    /// The header's bytes, in front of this payload.
    pub fn encode(&self, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        let words = [self.lsn, self.gsn, self.epoch, self.durable, self.horizon, self.transaction];
        for (place, word) in out[8..56].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        out[56..60].copy_from_slice(&self.incarnation.to_le_bytes());
        (out[60], out[61]) = (self.kind.byte(), self.tablespace);
        let header = crc32c::crc32c(&out[4..CHECK]);
        out[CHECK..].copy_from_slice(&(header as u16).to_le_bytes());
        let header = crc32c::crc32c_append(header, &out[CHECK..]);
        let crc = crc32c::crc32c_append(header, payload);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header in the first bytes of a block, if it is whole; of the block, the CRC says it.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let payload_bytes = half(4);
        let check = u16::from_le_bytes([bytes[CHECK], bytes[CHECK + 1]]);
        if payload_bytes as usize > PAYLOAD_BYTES_MAX
            || crc32c::crc32c(&bytes[4..CHECK]) as u16 != check
        {
            return None;
        }
        let header = Self {
            kind: Kind::of_byte(bytes[60])?,
            tablespace: bytes[61],
            incarnation: half(56),
            lsn: word(8),
            gsn: word(16),
            epoch: word(24),
            durable: word(32),
            horizon: word(40),
            transaction: word(48),
            payload_bytes,
        };
        let numbers = [header.lsn, header.gsn, header.durable, header.horizon];
        let fits = numbers.iter().all(|number| *number <= NUMBER_MAX)
            && header.incarnation <= INCARNATION_MAX;
        fits.then_some(header)
    }
}

/// The CRC that a header holds.
pub fn stored_crc(bytes: &[u8; HEADER_BYTES]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The CRC of a header and its payload.
pub fn crc(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[4..]), payload)
}

/// A log that had nothing to flush: everything up to `gsn` that it will ever hold lies before
/// `lsn`, where it was durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleWatermark {
    /// Number of the tablespace.
    pub tablespace: u8,
    /// Its end.
    pub lsn: u64,
    /// The GSN.
    pub gsn: u64,
}

const WATERMARK_BYTES: usize = 24;

impl IdleWatermark {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in [u64::from(self.tablespace), self.lsn, self.gsn] {
            out.extend(word.to_le_bytes());
        }
    }

    /// All of a payload; `None` when it is none.
    pub fn decode_all(payload: &[u8]) -> Option<Vec<Self>> {
        if !payload.len().is_multiple_of(WATERMARK_BYTES) {
            return None;
        }
        let idle = payload.chunks_exact(WATERMARK_BYTES).map(|bytes| {
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
            let tablespace = u8::try_from(word(0)).ok()?;
            let watermark = Self { tablespace, lsn: word(8), gsn: word(16) };
            (watermark.lsn.max(watermark.gsn) <= NUMBER_MAX).then_some(watermark)
        });
        idle.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample(payload: &[u8]) -> Header {
        Header {
            kind: Kind::Commit,
            tablespace: 3,
            incarnation: 7,
            lsn: 1 << 40,
            gsn: 99,
            epoch: 5,
            durable: 1 << 39,
            horizon: 98,
            transaction: 12,
            payload_bytes: payload.len() as u32,
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        let payload = b"changes";
        let bytes = sample(payload).encode(payload);
        assert_eq!(Header::decode(&bytes), Some(sample(payload)));
        assert_eq!(stored_crc(&bytes), crc(&bytes, payload));
        assert_eq!(sample(payload).block_bytes(), 72);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let payload = b"changes";
        let sound = sample(payload).encode(payload);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = sound;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(stored_crc(&bytes), crc(&bytes, payload), "bit {bit}");
            let is_crc = bit < 32;
            assert_eq!(Header::decode(&bytes).is_some(), is_crc, "bit {bit}");
        }
        for bit in 0..payload.len() * 8 {
            let mut damaged = *payload;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(stored_crc(&sound), crc(&sound, &damaged), "bit {bit}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_added_to_are_of_no_header() {
        let most = Header {
            incarnation: INCARNATION_MAX,
            lsn: NUMBER_MAX,
            gsn: NUMBER_MAX,
            durable: NUMBER_MAX,
            horizon: NUMBER_MAX,
            ..sample(b"")
        };
        assert_eq!(Header::decode(&most.encode(b"")), Some(most));
        for more in [
            Header { incarnation: u32::MAX, ..most },
            Header { lsn: u64::MAX, ..most },
            Header { gsn: u64::MAX, ..most },
            Header { durable: u64::MAX, ..most },
            Header { horizon: u64::MAX, ..most },
        ] {
            assert_eq!(Header::decode(&more.encode(b"")), None, "{more:?}");
        }
        let mut payload = Vec::new();
        IdleWatermark { tablespace: 0, lsn: 0, gsn: u64::MAX }.encode(&mut payload);
        assert_eq!(IdleWatermark::decode_all(&payload), None);
    }

    #[test]
    fn rests_come_back_as_they_were() {
        let idle = [
            IdleWatermark { tablespace: 0, lsn: 8, gsn: 9 },
            IdleWatermark { tablespace: 9, lsn: 0, gsn: 1 },
        ];
        let mut payload = Vec::new();
        idle.iter().for_each(|watermark| watermark.encode(&mut payload));
        assert_eq!(IdleWatermark::decode_all(&payload).unwrap(), idle);
        assert!(IdleWatermark::decode_all(&payload[1..]).is_none());
    }
}
