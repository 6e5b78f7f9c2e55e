//! The owner's book of leases: the holder of each snapshot, and the limits on snapshots.
//!
//! Each lease has a line of three words in the store's reserved region, which its holder can read:
//! its state, its deadline (CLOCK_MONOTONIC, nanoseconds, the same clock in all processes of a
//! machine) and the age limit. The holder checks the line before it reads. An expired snapshot
//! keeps its memory until its holder releases it: the owner never reuses bytes that a holder may be
//! reading.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atoll_machine::{Machine, Native};
use atoll_memory::lease::{LeaseId, Peer};
use atoll_memory::{Memory, MemoryError, View};
use serde::{Deserialize, Serialize};

use crate::counters::MemoryAccount;
use crate::error::{Error, Expiry, Result};

/// Most leases at a time.
pub const LEASES_MAX: usize = 4096;
const LINE_BYTES: u64 = 24;

const LIVE: u64 = 1;
const OVER_BYTES: u64 = 2;

/// The status of a database that its owner reports to other processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Status {
    /// The snapshots that are held.
    pub snapshots: Vec<SnapshotInfo>,
    /// Where the memory of the owner's process is.
    pub memory: MemoryAccount,
}

/// A snapshot and its holder, for people and programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Number of the lease.
    pub id: u64,
    /// Process that took it.
    pub pid: u32,
    /// That process's command.
    pub command: String,
    /// The epoch that it shows.
    pub epoch: u64,
    /// Time since it was taken, in seconds.
    pub age_s: f64,
    /// Bytes of the database when it was taken: what it shares.
    pub bytes_shared: u64,
    /// Bytes copied by writers since it was taken.
    pub bytes_copied: u64,
    /// Bytes of replaced data that live only for this snapshot and older ones.
    pub bytes_kept: u64,
    /// Either "live" or "expired".
    pub state: String,
}

/// A lease in the book.
pub struct Lease {
    /// The epoch that it holds.
    pub epoch: u64,
    /// Its patch, 0 when it has none.
    pub patch: u64,
    line: usize,
    holder: Peer,
    taken: Instant,
    shared_bytes: u64,
    copied_before: u64,
    expired: bool,
    is_own: bool,
}

/// The facts of a new lease.
pub struct NewLease {
    /// The process that takes it.
    pub holder: Peer,
    /// The epoch that it holds.
    pub epoch: u64,
    /// Its patch, 0 when it has none.
    pub patch: u64,
    /// Whether the lease is the database's own; limits do not apply to it then.
    pub is_own: bool,
}

/// Limits on snapshots.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Greatest age.
    pub age: Option<Duration>,
    /// Most bytes of replaced data that snapshots keep alive together.
    pub bytes: u64,
}

/// See the module.
pub struct Leases {
    region: u64,
    limits: Limits,
    free: Vec<usize>,
    leases: BTreeMap<LeaseId, Lease>,
    next_local: u64,
}

/// Bytes of the region that holds the lines.
pub const REGION_BYTES: u64 = LEASES_MAX as u64 * LINE_BYTES;

impl Leases {
    /// An empty book.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when the region for the lines cannot be committed.
    pub fn new(memory: &Memory, limits: Limits) -> std::result::Result<Self, MemoryError> {
        let (region, _) = memory.swing().reserved_region();
        memory.store().commit(region, REGION_BYTES)?;
        Ok(Self {
            region,
            limits,
            free: (0..LEASES_MAX).rev().collect(),
            leases: BTreeMap::new(),
            // The server numbers leases upwards from the smallest number, this process its own
            // downwards from the greatest.
            next_local: u64::MAX,
        })
    }

    /// Whether another snapshot may be taken.
    ///
    /// # Errors
    /// [`Error::SnapshotLimit`], [`Error::TooManySnapshots`].
    pub fn may_take(&self, memory: &Memory) -> Result<()> {
        let kept_bytes = memory.kept_bytes_all();
        if kept_bytes > self.limits.bytes {
            return Err(Error::SnapshotLimit { kept_bytes, limit_bytes: self.limits.bytes });
        }
        if self.free.is_empty() {
            return Err(Error::TooManySnapshots(LEASES_MAX));
        }
        Ok(())
    }

    /// A number for a lease within this process.
    pub fn local_id(&mut self) -> LeaseId {
        self.next_local -= 1;
        LeaseId(self.next_local)
    }

    /// Enters a lease into the book; returns the offset of its line.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`].
    pub fn add(&mut self, memory: &Memory, id: LeaseId, new: NewLease) -> Result<u64> {
        let line = self.free.pop().ok_or(Error::TooManySnapshots(LEASES_MAX))?;
        let offset = self.line_offset(line);
        let age_ns = self
            .limits
            .age
            .filter(|_| !new.is_own)
            .map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let access = memory.access();
        let deadline = age_ns.map_or(0, |age| Native::now_ns().saturating_add(age).max(1));
        access.store_u64(offset + 8, deadline);
        access.store_u64(offset + 16, age_ns.unwrap_or(0));
        access.store_u64(offset, LIVE);
        let lease = Lease {
            epoch: new.epoch,
            patch: new.patch,
            line,
            holder: new.holder,
            taken: Instant::now(),
            shared_bytes: memory.swing().allocated_bytes(),
            copied_before: memory.copied().bytes,
            expired: false,
            is_own: new.is_own,
        };
        self.leases.insert(id, lease);
        Ok(offset)
    }

    /// Removes a lease from the book.
    pub fn remove(&mut self, memory: &Memory, id: LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        memory.access().store_u64(self.line_offset(lease.line), 0);
        self.free.push(lease.line);
        Some(lease)
    }

    fn line_offset(&self, line: usize) -> u64 {
        self.region + line as u64 * LINE_BYTES
    }

    /// Expires leases that are too old, and the eldest ones while all leases together keep more
    /// bytes than the limit allows.
    pub fn enforce(&mut self, memory: &Memory) {
        let now = Instant::now();
        let mut over = memory.kept_bytes_all().saturating_sub(self.limits.bytes);
        let region = self.region;
        let others = self.leases.values_mut().filter(|lease| !lease.is_own);
        let mut leases: Vec<&mut Lease> = others.collect();
        leases.sort_by_key(|lease| lease.epoch);
        for lease in leases {
            let aged = self.limits.age.is_some_and(|age| now - lease.taken > age);
            lease.expired |= aged;
            if over > 0 {
                over = over.saturating_sub(memory.kept_bytes(lease.epoch).max(1));
                lease.expired = true;
                let offset = region + lease.line as u64 * LINE_BYTES;
                memory.access().store_u64(offset, OVER_BYTES);
            }
        }
    }

    /// The book as a list.
    pub fn list(&self, memory: &Memory) -> Vec<SnapshotInfo> {
        let copied = memory.copied().bytes;
        let now = Instant::now();
        self.leases
            .iter()
            .map(|(id, lease)| {
                let age = now - lease.taken;
                let aged = !lease.is_own && self.limits.age.is_some_and(|limit| age > limit);
                SnapshotInfo {
                    id: id.0,
                    pid: lease.holder.pid,
                    command: lease.holder.command.clone(),
                    epoch: lease.epoch,
                    age_s: age.as_secs_f64(),
                    bytes_shared: lease.shared_bytes,
                    bytes_copied: copied - lease.copied_before,
                    bytes_kept: memory.kept_bytes(lease.epoch),
                    state: if lease.expired || aged { "expired" } else { "live" }.into(),
                }
            })
            .collect()
    }
}

/// Checks the line of a lease as its holder does before it reads.
///
/// # Errors
/// [`Error::SnapshotExpired`].
pub fn check_line(view: &View, line: u64) -> Result<()> {
    let (state, deadline) = (view.load_u64(line), view.load_u64(line + 8));
    if state == OVER_BYTES {
        return Err(Error::SnapshotExpired(Expiry::Bytes));
    }
    if deadline != 0 && Native::now_ns() > deadline {
        let age = Duration::from_nanos(view.load_u64(line + 16));
        return Err(Error::SnapshotExpired(Expiry::Age(age)));
    }
    Ok(())
}

/// Whether a line is at an offset that a store can have.
pub fn is_line(view: &View, line: u64) -> bool {
    line.is_multiple_of(8) && view.contains(line, LINE_BYTES)
}
