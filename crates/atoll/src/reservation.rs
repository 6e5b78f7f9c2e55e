//! The size of the address space that the store of a database reserves.
//!
//! Address space that is not limited costs nothing, so a store reserves many times what its memory
//! limit needs and never runs out of it. Where a process may map only a limited address space
//! (`ulimit -v`), or write only files of a limited size (`ulimit -f`, because a store is a file),
//! the store reserves less, and at last only as much as its limit needs; if the caller did not
//! choose the memory limit, that limit is lowered too.

use atoll_memory::{MemoryError, SwingConfig, SwingMalloc};

use crate::error::{Error, Result};
use crate::leases::REGION_BYTES;

/// A store reserves at most this share of the address space of its process, which has other uses
/// for it.
const ADDRESS_SHARE: u64 = 2;
/// The largest buddy tree of a store.
const TREE_BYTES_MAX: u64 = 128 << 30;
/// The smallest buddy tree of a store.
const TREE_BYTES_MIN: u64 = 32 << 20;

/// A size of a store.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    /// Bytes that may be committed.
    pub(crate) limit_bytes: u64,
    pub(crate) swing: SwingConfig,
}

impl Reservation {
    /// Much more address space than the limit needs.
    fn generous(limit_bytes: u64) -> Self {
        let buddy_bytes =
            limit_bytes.saturating_mul(2).clamp(1 << 30, TREE_BYTES_MAX).next_power_of_two();
        Self { limit_bytes, swing: SwingConfig { buddy_bytes, ..SwingConfig::default() } }
    }

    /// No more address space than the limit needs; `None` if the limit exceeds the largest tree.
    fn tight(limit_bytes: u64) -> Option<Self> {
        let buddy_bytes = limit_bytes.max(TREE_BYTES_MIN).checked_next_power_of_two()?;
        let swing =
            SwingConfig { buddy_bytes, large_blocks: Vec::new(), reserved_bytes: REGION_BYTES };
        (buddy_bytes <= TREE_BYTES_MAX).then_some(Self { limit_bytes, swing })
    }

    /// Bytes of address space.
    pub(crate) fn bytes(&self) -> u64 {
        SwingMalloc::capacity_for(&self.swing)
    }
}

/// The limits of the system on a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowed {
    pub(crate) address_bytes: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
}

impl Allowed {
    /// The limits on this process.
    pub(crate) fn here() -> Self {
        use atoll_machine::process;
        Self { address_bytes: process::address_limit(), file_bytes: process::file_limit() }
    }

    fn most(self) -> u64 {
        let addresses = self.address_bytes.map_or(u64::MAX, |bytes| bytes / ADDRESS_SHARE);
        addresses.min(self.file_bytes.unwrap_or(u64::MAX))
    }
}

/// Creates the largest store that the system allows. A limit that `is_chosen` is not changed, and
/// no other limit is lowered below `least_bytes`.
///
/// # Errors
/// [`Error::Addresses`] when no size is allowed; other errors of `make`.
pub(crate) fn make<S>(
    limit_bytes: u64,
    (is_chosen, least_bytes): (bool, u64),
    allowed: Allowed,
    mut make: impl FnMut(&Reservation) -> std::result::Result<S, MemoryError>,
) -> Result<(S, Reservation)> {
    let most = allowed.most();
    let (mut limit, mut need_bytes) = (limit_bytes, 0);
    loop {
        let sizes = [Some(Reservation::generous(limit)), Reservation::tight(limit)];
        for size in sizes.into_iter().flatten() {
            need_bytes = size.bytes();
            if need_bytes > most {
                continue;
            }
            match make(&size) {
                Ok(store) => return Ok((store, size)),
                Err(MemoryError::Addresses { .. } | MemoryError::FileSize { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        if is_chosen || limit / 2 < least_bytes {
            return Err(shortage(limit, need_bytes, allowed));
        }
        limit /= 2;
    }
}

fn shortage(limit_bytes: u64, need_bytes: u64, allowed: Allowed) -> Error {
    let is_file = allowed.file_bytes.is_some_and(|bytes| bytes < need_bytes);
    let (what, need_bytes) = match is_file {
        true => ("files of this size (ulimit -f)", need_bytes),
        false => ("addresses (ulimit -v)", need_bytes.saturating_mul(ADDRESS_SHARE)),
    };
    Error::Addresses { limit_bytes, need_bytes, what }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Creates a store where the system refuses every mapping of more than `most` bytes.
    fn made(limit: u64, is_chosen: bool, allowed: Allowed, most: u64) -> Result<Reservation> {
        let done = make(limit, (is_chosen, 32 * MIB), allowed, |size| match size.bytes() > most {
            true => Err(MemoryError::Addresses { bytes: size.bytes() }),
            false => Ok(()),
        });
        done.map(|((), size)| size)
    }

    #[test]
    fn addresses_are_taken_freely_where_they_are_not_limited() {
        let size = made(4 << 30, false, Allowed::default(), u64::MAX).unwrap();
        assert_eq!((size.limit_bytes, size.swing.buddy_bytes), (4 << 30, 8 << 30));
        assert!(!size.swing.large_blocks.is_empty());
    }

    #[test]
    fn where_they_are_limited_the_limit_has_what_it_needs() {
        let allowed = Allowed { address_bytes: Some(8 << 30), file_bytes: None };
        let size = made(3 << 30, true, allowed, u64::MAX).unwrap_err();
        assert!(matches!(size, Error::Addresses { .. }), "{size}");
        for is_chosen in [true, false] {
            let size = made(1 << 30, is_chosen, allowed, u64::MAX).unwrap();
            assert_eq!((size.limit_bytes, size.swing.buddy_bytes), (1 << 30, 1 << 30));
            assert!(size.bytes() <= 4 << 30);
        }
        // The system refuses a mapping that the limits would allow.
        let size = made(1 << 30, false, Allowed::default(), 600 * MIB).unwrap();
        assert_eq!(size.limit_bytes, 512 * MIB);
    }

    #[test]
    fn a_limit_that_was_not_chosen_is_lowered_and_at_last_an_error() {
        let allowed = Allowed { address_bytes: Some(8 << 30), file_bytes: Some(100 * MIB) };
        let size = made(16 << 30, false, allowed, u64::MAX).unwrap();
        assert_eq!(size.limit_bytes, 64 * MIB);
        let allowed = Allowed { file_bytes: Some(16 * MIB), ..allowed };
        let text = made(16 << 30, false, allowed, u64::MAX).unwrap_err().to_string();
        assert!(text.contains("ulimit -f"), "{text}");
        let text = made(64 * MIB, true, Allowed::default(), 0).unwrap_err().to_string();
        assert!(text.contains("ulimit -v") && text.contains(&(64 * MIB).to_string()), "{text}");
    }
}
