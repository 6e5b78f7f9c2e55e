//! The header in the first page of a store: format version, identity and size.
//!
//! Layout, little-endian: magic (8), version (4), chunk size (4), id (16), capacity (8), flags (8),
//! FNV-1a checksum of all before it (8). The owner writes it once, before any other process can see
//! the store. A reader uses `pread` and no mapping, so that a truncated file cannot raise SIGBUS.

use super::{CHUNK_BYTES, StoreId};
use crate::error::MemoryError;

/// Bytes at the start of a store that belong to this header.
pub(crate) const HEADER_BYTES: u64 = 4096;
/// The version that this program writes and reads.
pub(crate) const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"ATOLLSTO";
/// The only flag: [`Header::pages_move`].
const PAGES_MOVE: u64 = 1;
/// Bytes of the encoded header.
pub(super) const ENCODED_BYTES: usize = 56;

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: StoreId,
    pub(super) capacity_bytes: u64,
    /// Whether the owner moves pages between memory nodes, unless other processes have them mapped.
    pub(super) pages_move: bool,
}

impl Header {
    /// The bytes for the start of the store.
    pub(super) fn encode(&self) -> [u8; ENCODED_BYTES] {
        let mut out = [0; ENCODED_BYTES];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(CHUNK_BYTES as u32).to_le_bytes());
        out[16..32].copy_from_slice(&self.id.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        let flags = if self.pages_move { PAGES_MOVE } else { 0 };
        out[40..48].copy_from_slice(&flags.to_le_bytes());
        let sum = fnv1a(&out[..48]);
        out[48..56].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes and verifies a header; `file_bytes` is the actual size of the file.
    pub(super) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Header, MemoryError> {
        if bytes.len() < ENCODED_BYTES || file_bytes < HEADER_BYTES {
            let magic = bytes.len().min(MAGIC.len());
            if magic == 0 || bytes[..magic] != MAGIC[..magic] {
                return Err(MemoryError::BadMagic { what: "a store" });
            }
            return Err(MemoryError::Truncated {
                size_bytes: file_bytes,
                need_bytes: HEADER_BYTES,
            });
        }
        if bytes[0..8] != MAGIC {
            return Err(MemoryError::BadMagic { what: "a store" });
        }
        let version = read_u32(bytes, 8);
        if version != VERSION {
            return Err(MemoryError::ForeignVersion {
                what: "the store",
                found: version,
                expected: VERSION,
            });
        }
        if read_u64(bytes, 48) != fnv1a(&bytes[..48]) {
            return Err(MemoryError::Corrupt { what: "the checksum of its header is wrong" });
        }
        let capacity_bytes = read_u64(bytes, 32);
        if u64::from(read_u32(bytes, 12)) != CHUNK_BYTES
            || !capacity_bytes.is_multiple_of(CHUNK_BYTES)
        {
            return Err(MemoryError::Corrupt { what: "its chunk size is impossible" });
        }
        let flags = read_u64(bytes, 40);
        if flags & !PAGES_MOVE != 0 {
            return Err(MemoryError::Corrupt { what: "it has unknown flags" });
        }
        if file_bytes < capacity_bytes {
            return Err(MemoryError::Truncated {
                size_bytes: file_bytes,
                need_bytes: capacity_bytes,
            });
        }
        if file_bytes != capacity_bytes || capacity_bytes == 0 {
            return Err(MemoryError::Corrupt { what: "the file is larger than its header says" });
        }
        let id = StoreId(u128::from(read_u64(bytes, 16)) | (u128::from(read_u64(bytes, 24)) << 64));
        Ok(Header { id, capacity_bytes, pages_move: flags & PAGES_MOVE != 0 })
    }
}

/// The little-endian word of four bytes at `at`, which must be inside `bytes`.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The little-endian word of eight bytes at `at`, which must be inside `bytes`.
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// FNV-1a, 64 bits: enough to tell a damaged header from a good one.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}
