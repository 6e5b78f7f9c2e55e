//! How many addresses the store of a database takes.
//!
//! Addresses cost nothing where they are not limited, so a store takes many times what its memory
//! limit needs, and never fails for want of them. Where the process may map only so many (`ulimit
//! -v`), or make files of so many bytes only (`ulimit -f`, for a store is a file), it takes fewer,
//! and at last only as many as its limit needs; if the limit was not chosen, that is lowered too.

use atoll_memory::{MemoryError, SwingConfig, SwingMalloc};

use crate::error::{Error, Result};
use crate::leases::REGION_BYTES;

/// What a store may take of the addresses of its process, which has other uses for them.
const ADDRESS_SHARE: u64 = 2;
/// The largest part of a store that is a tree of blocks.
const TREE_BYTES_MAX: u64 = 128 << 30;
/// The smallest.
const TREE_BYTES_MIN: u64 = 32 << 20;

/// A size that a store may have.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    /// Bytes that may be committed.
    pub(crate) limit_bytes: u64,
    pub(crate) swing: SwingConfig,
}

impl Reservation {
    /// Addresses for all that a limit could ever mean.
    fn generous(limit_bytes: u64) -> Self {
        let buddy_bytes =
            limit_bytes.saturating_mul(2).clamp(1 << 30, TREE_BYTES_MAX).next_power_of_two();
        Self { limit_bytes, swing: SwingConfig { buddy_bytes, ..SwingConfig::default() } }
    }

    /// No more addresses than the limit needs, if it is not beyond the largest tree.
    fn tight(limit_bytes: u64) -> Option<Self> {
        let buddy_bytes = limit_bytes.max(TREE_BYTES_MIN).checked_next_power_of_two()?;
        let swing =
            SwingConfig { buddy_bytes, large_blocks: Vec::new(), reserved_bytes: REGION_BYTES };
        (buddy_bytes <= TREE_BYTES_MAX).then_some(Self { limit_bytes, swing })
    }

    /// Its addresses.
    pub(crate) fn bytes(&self) -> u64 {
        SwingMalloc::capacity_for(&self.swing)
    }
}

/// What the system lets a process have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowed {
    pub(crate) address_bytes: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
}

impl Allowed {
    /// Of this process.
    pub(crate) fn here() -> Self {
        use atoll_machine::process;
        Self { address_bytes: process::address_limit(), file_bytes: process::file_limit() }
    }

    fn most(self) -> u64 {
        let addresses = self.address_bytes.map_or(u64::MAX, |bytes| bytes / ADDRESS_SHARE);
        addresses.min(self.file_bytes.unwrap_or(u64::MAX))
    }
}

/// Makes a store of the largest size that can be had. A limit that `is_chosen` stays as it is, and
/// none becomes less than `least_bytes`.
///
/// # Errors
/// [`Error::Addresses`] when there is none; other errors of `make`.
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

    /// Makes a store where no mapping of more than so many bytes can be had.
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
        // The system refuses what the limits would allow.
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
