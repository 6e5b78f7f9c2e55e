//! Maps separate extents of a store side by side.
//!
//! The values of a column are stored in one extent for each segment. A program that needs the whole
//! column at one address would have to copy it. Instead this module maps the same pages a second
//! time, in order, so the column is one array without a copy. An extent with patched values is
//! replaced by a private copy.
//!
//! Invariants
//! - `STITCH-1`: the pieces are mapped into an address range that was reserved for them, so they
//!   never replace other memory of the process.
//! - `STITCH-2`: all pages are readable and never written.

use std::sync::Arc;

use atoll_machine::Mapping;

use crate::error::MemoryError;
use crate::store::Store;

/// A piece of the array.
#[derive(Debug)]
pub enum Piece<'p> {
    /// Bytes of the store: offset and length.
    Shared(u64, u64),
    /// A private copy of these bytes.
    Private(&'p [u8]),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Shared(_, len) => *len,
            Self::Private(bytes) => bytes.len() as u64,
        }
    }
}

/// Extents of a store, mapped side by side.
#[derive(Debug)]
pub struct Stitched {
    pages: Mapping,
    _store: Arc<Store>,
}

impl Stitched {
    /// Maps the pieces in order. All but the last must be whole pages, and shared ones must start
    /// at a page boundary of the store.
    ///
    /// # Errors
    /// [`MemoryError::InvalidOption`] for other pieces, [`MemoryError::System`] when the kernel
    /// refuses (a process may have some 65,000 mappings).
    pub fn map(store: &Arc<Store>, pieces: &[Piece<'_>]) -> Result<Self, MemoryError> {
        let page = atoll_machine::binding::page_bytes() as u64;
        let whole = |value: u64| value.is_multiple_of(page);
        let inner = &pieces[..pieces.len().saturating_sub(1)];
        if let Some(odd) = inner.iter().find(|piece| !whole(piece.len())) {
            return Err(unaligned(odd.len()));
        }
        let total: u64 = pieces.iter().map(|piece| piece.len().next_multiple_of(page)).sum();
        let len = total.max(page) as usize;
        let pages = Mapping::reserve(len);
        let pages = pages.map_err(MemoryError::system("mmap of a range for a column"))?;
        let mut stitched = Self { pages, _store: Arc::clone(store) };
        let mut at = 0u64;
        for piece in pieces {
            stitched.place(store, at as usize, piece, page)?;
            at += piece.len().next_multiple_of(page);
        }
        Ok(stitched)
    }

    fn place(
        &mut self,
        store: &Store,
        at: usize,
        piece: &Piece<'_>,
        page: u64,
    ) -> Result<(), MemoryError> {
        let len = piece.len().next_multiple_of(page) as usize;
        let placed = match piece {
            Piece::Shared(offset, bytes) => {
                if !offset.is_multiple_of(page) || store.slice(*offset, *bytes).is_none() {
                    return Err(unaligned(*offset));
                }
                if len == 0 {
                    return Ok(());
                }
                self.pages.place_file((at, len), (store.fd(), *offset), false)
            }
            Piece::Private([]) => return Ok(()),
            Piece::Private(bytes) => self.pages.place_copy(at, bytes),
        };
        placed.map_err(MemoryError::system("mmap or mprotect of a column's extent"))
    }

    /// The address of the first piece.
    pub fn address(&self) -> *const u8 {
        self.pages.start().as_ptr()
    }
}

fn unaligned(value: u64) -> MemoryError {
    MemoryError::InvalidOption {
        option: "a piece of a column",
        value,
        need: "it must be whole pages of the store",
    }
}
