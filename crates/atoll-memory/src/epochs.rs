//! The epochs that leases hold, and the retired extents that wait for these leases.
//!
//! An extent that was copied is still needed by the snapshots that show it: those of the epochs
//! from its birth to the epoch before its copy. It waits in the list of the *youngest* held epoch
//! among them, and moves to the next older one when the last lease on that epoch ends. So ending a
//! lease looks only at extents that the lease itself kept.
//!
//! Invariants
//! - `EPOCHS-1`: an extent is returned only when no lease holds an epoch that shows it.
//! - `EPOCHS-2`: a worker that entered the gate before the extent was replaced may still read an
//!   extent that is returned. The caller frees it only after the gate was drained (see
//!   [`crate::memory`]).

use std::collections::BTreeMap;

/// An extent that was replaced by a copy or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retired {
    /// Its offset in the store.
    pub offset: u64,
    /// Its allocated size in bytes.
    pub size_bytes: u64,
    /// Epoch in which it was allocated.
    pub birth: u64,
}

#[derive(Debug, Default)]
struct Held {
    leases: u32,
    waiting: Vec<Retired>,
    waiting_bytes: u64,
}

/// The held epochs with their waiting extents; see the module.
#[derive(Debug, Default)]
pub struct Epochs {
    held: BTreeMap<u64, Held>,
}

impl Epochs {
    /// Begins a lease on `epoch`.
    pub fn hold(&mut self, epoch: u64) {
        self.held.entry(epoch).or_default().leases += 1;
    }

    /// Ends a lease on `epoch`; returns the extents that no lease keeps any more.
    ///
    /// # Panics
    /// When no lease holds `epoch`: a bug of the caller.
    pub fn release(&mut self, epoch: u64) -> Vec<Retired> {
        let held = self.held.get_mut(&epoch).expect("a lease that ends holds its epoch");
        held.leases -= 1;
        if held.leases > 0 {
            return Vec::new();
        }
        let held = self.held.remove(&epoch).unwrap_or_default();
        let Some((older, next)) = self.held.range_mut(..epoch).next_back() else {
            return held.waiting;
        };
        let (waits, free) = held.waiting.into_iter().partition(|extent| extent.birth <= *older);
        next.add(waits);
        free
    }

    /// Retires an extent that was replaced in epoch `died`; returns it if no lease holds an epoch
    /// that shows it.
    pub fn retire(&mut self, extent: Retired, died: u64) -> Option<Retired> {
        match self.held.range_mut(extent.birth..died.max(extent.birth)).next_back() {
            Some((_, held)) => {
                held.add(vec![extent]);
                None
            }
            None => Some(extent),
        }
    }

    /// The newest epoch that a lease holds, 0 if there is none.
    pub fn newest_held(&self) -> u64 {
        self.held.keys().next_back().copied().unwrap_or(0)
    }

    /// Bytes of the extents that wait for the leases on `epoch`.
    pub fn waiting_bytes(&self, epoch: u64) -> u64 {
        self.held.get(&epoch).map_or(0, |held| held.waiting_bytes)
    }

    /// Bytes of all extents that wait for a lease.
    pub fn waiting_bytes_all(&self) -> u64 {
        self.held.values().map(|held| held.waiting_bytes).sum()
    }

    /// Number of leases that have not ended.
    pub fn leases(&self) -> u64 {
        self.held.values().map(|held| u64::from(held.leases)).sum()
    }
}

impl Held {
    fn add(&mut self, mut extents: Vec<Retired>) {
        self.waiting_bytes += extents.iter().map(|extent| extent.size_bytes).sum::<u64>();
        self.waiting.append(&mut extents);
    }
}
