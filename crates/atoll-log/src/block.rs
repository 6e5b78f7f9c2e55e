//! The format of blocks, of which a log consists.
//!
//! A block is a header and a payload, padded to 8 bytes; the next block follows directly. When a
//! transaction commits, it appends one block ([`Kind::Commit`]) to each log in which it changed
//! anything, all with the same GSN. A transaction that is too large for one block has appended
//! parts of its changes before ([`Kind::Piece`]); they count only if the commit block is present.
//!
//! ```text
//!  0 CRC32C of what follows | 4 payload bytes | 8 LSN | 16 GSN | 24 epoch | 32 durable
//! 40 horizon | 48 transaction | 56 incarnation | 60 kind (1 byte) | 61 tablespace (1 byte)
//! 62 check
//! ```
//! All numbers are little-endian. The check is the lower half of the CRC32C of bytes 4 to 61. It
//! rejects a header of which a crash has left only a part, before a reader uses its length.
//!
//! - `BLOCK-1`: the LSN of a block is its position in the log, so the old content of a reused file
//!   is never taken for a block.
//! - `BLOCK-2`: incarnations never decrease along a log. After a crash, blocks may survive behind a
//!   block that was lost. They are behind the end that the next incarnation finds, and their
//!   incarnation is smaller than that of the blocks which are written there then.
//! - `BLOCK-3`: GSNs never decrease along a log.
//! - `BLOCK-4`: `durable` is a position up to which the log was durable when the block was made. So
//!   a gap is damage if a block behind it says that the log was durable beyond the gap; any other
//!   gap is the end of the log.
//! - `BLOCK-5`: `horizon` is a GSN up to which all logs were durable when the block was made.
//! - `BLOCK-6`: no idle watermark has a greater GSN than the block that contains it. An incarnation
//!   assigns only GSNs above those of all earlier blocks, so a watermark of an earlier incarnation
//!   never covers a block of a later one.

use atoll_storage::TableSerial;
use atoll_storage::redo::{Input, number};
use atoll_txn::describe;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Offset of the check in a header.
const CHECK: usize = 62;
/// Blocks are padded to a multiple of this, in bytes.
pub const ALIGN: u64 = 8;
/// Largest payload; more is split into pieces.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The greatest valid position and GSN, so that additions to a decoded number do not overflow. A
/// counter that is raised 10⁹ times a second reaches it after 146 years.
pub const NUMBER_MAX: u64 = 1 << 62;
/// The greatest valid incarnation.
pub const INCARNATION_MAX: u32 = 1 << 30;

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The last changes of a transaction, which commits with this block; the payload is as in
    /// [`atoll_storage::redo`].
    Commit,
    /// Some changes of a transaction that may commit later.
    Piece,
    /// No changes; the block raises the GSN of its log, and the payload lists idle logs, see
    /// [`IdleWatermark`].
    IdleWatermark,
    /// A table was created; the payload describes it.
    Table,
    /// The database was opened.
    Open,
    /// A table was dropped; the payload is its serial number.
    Drop,
    /// A time mark, see [`crate::time_mark`]; the payload is its time.
    Time,
    /// A table was altered; the payload describes it as [`Kind::Table`] does.
    Alter,
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
            Self::Drop => 7,
            Self::Alter => 8,
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
            7 => Self::Drop,
            8 => Self::Alter,
            _ => return None,
        })
    }

    /// The name that tools show for the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Piece => "piece",
            Self::IdleWatermark => "rest",
            Self::Table => "table",
            Self::Drop => "drop",
            Self::Alter => "alter",
            Self::Open => "open",
            Self::Time => "time",
        }
    }
}

/// The header of a block; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the block.
    pub kind: Kind,
    /// Number of the tablespace.
    pub tablespace: u8,
    /// How many times the database had been opened.
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
    /// Number of the transaction within its incarnation, 0 for one without pieces.
    pub transaction: u64,
    /// Bytes of the payload.
    pub payload_bytes: u32,
}

/// Bytes of a block with a payload of `payload_bytes`.
pub const fn block_bytes(payload_bytes: usize) -> u64 {
    ((HEADER_BYTES + payload_bytes) as u64).next_multiple_of(ALIGN)
}

impl Header {
    /// Bytes of the block.
    pub const fn block_bytes(&self) -> u64 {
        block_bytes(self.payload_bytes as usize)
    }

    /// The bytes of the header, with the checksum of header and `payload`.
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

    /// Decodes the header of a block; `None` if its check fails or a field is out of range. The
    /// caller verifies the payload with [`crc`].
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

/// The CRC that is stored in a header.
pub fn stored_crc(bytes: &[u8; HEADER_BYTES]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Computes the CRC of a header and its payload.
pub fn crc(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[4..]), payload)
}

/// A note about a log that had nothing to flush: all its blocks with a GSN up to `gsn`, now and in
/// the rest of the incarnation, are before `lsn`, and the log was durable up to `lsn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleWatermark {
    /// Number of the tablespace.
    pub tablespace: u8,
    /// The end of the log.
    pub lsn: u64,
    /// The GSN up to which the log holds no further blocks.
    pub gsn: u64,
}

/// The payload of a [`Kind::Drop`] block.
pub fn encode_drop(table: TableSerial) -> Vec<u8> {
    let mut payload = Vec::new();
    number(&mut payload, table.0);
    payload
}

/// The table that a [`Kind::Drop`] block with this payload drops; `None` if the payload is
/// malformed.
pub fn decode_drop(payload: &[u8]) -> Option<TableSerial> {
    let mut input = Input(payload);
    let serial = describe::serial(&mut input)?;
    input.0.is_empty().then_some(serial)
}

const WATERMARK_BYTES: usize = 24;

impl IdleWatermark {
    /// Appends the encoded watermark to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in [u64::from(self.tablespace), self.lsn, self.gsn] {
            out.extend(word.to_le_bytes());
        }
    }

    /// Decodes the watermarks of a payload; `None` if the payload is malformed.
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
    fn numbers_beyond_the_maximum_are_rejected() {
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
    fn the_drop_of_a_table_comes_back_as_it_was() {
        for serial in [0, 127, 1 << 40, TableSerial::END - 1].map(TableSerial) {
            let payload = encode_drop(serial);
            assert_eq!(decode_drop(&payload), Some(serial));
            assert_eq!(decode_drop(&payload[..payload.len() - 1]), None);
            assert_eq!(decode_drop(&[&payload[..], &[0]].concat()), None);
        }
        assert_eq!(decode_drop(&encode_drop(TableSerial(TableSerial::END))), None);
    }

    #[test]
    fn watermarks_come_back_as_they_were() {
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
