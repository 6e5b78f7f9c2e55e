//! The room that a database has: its store, in memory or on a file, and how far it may go.

use std::path::Path;
use std::sync::Arc;

use atoll_machine::medium::file::free_bytes;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};

use crate::error::{Error, Result};
use crate::evictor::Evictor;
use crate::leases::Limits;
use crate::options::DatabaseOptions;

/// Share of what a process may use that a database takes at most, in percent.
const MEMORY_PERCENT: u64 = 80;
/// Share of the memory limit that is kept back for rollbacks.
const HEADROOM_SHARE: u64 = 64;
/// Share of the memory limit, or of the budget, that stays committed while it is free. A copy into
/// memory that was just given back to the system costs ten times a copy into memory that is still
/// there, and a database under periodic snapshots frees and takes the same amount over and over.
const WARM_SHARE: u64 = 8;
/// Share of the memory limit that snapshots may keep alive, as in the source of the idea
/// ("Memory Instant Snapshot Sharing Mechanism", section 3: copied bytes are limited to 50 %).
const SNAPSHOT_SHARE: u64 = 2;
/// Smallest memory limit, and smallest budget, that a database works with.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// A store with a budget may take so many times that,
const BUDGETS: u64 = 16;
/// and such a share of what is free on the disk: log and home lie there too, as a rule.
const DISK_SHARE: u64 = 2;
/// Where what does not fit memory waits, within a database's folder; it need not be there.
const SPILL_FOLDER: &str = "spill";

/// What a new database starts with.
pub(crate) struct Room {
    pub(crate) memory: Arc<Memory>,
    pub(crate) limits: Limits,
    /// At work already.
    pub(crate) evictor: Option<Evictor>,
}

impl Room {
    /// `folder` is where the database is kept, if that is on a file system. A store on a file
    /// leaves no trace there.
    pub(crate) fn new(options: &DatabaseOptions, folder: Option<&Path>) -> Result<Self> {
        let budget_bytes = options.memory_budget_bytes.map(|bytes| bytes.max(MEMORY_BYTES_MIN));
        let spill = match budget_bytes {
            Some(budget_bytes) => {
                let folder = folder.ok_or(Error::BudgetWithoutFolder)?;
                let within = folder.join(SPILL_FOLDER);
                Some((if within.is_dir() { within } else { folder.to_owned() }, budget_bytes))
            }
            None => None,
        };
        let limit_bytes = match (options.memory_limit_bytes, &spill) {
            (Some(bytes), _) => bytes,
            (None, Some((folder, budget_bytes))) => {
                budget_bytes.saturating_mul(BUDGETS).min(free_bytes(folder)? / DISK_SHARE)
            }
            (None, None) => {
                let allowed = atoll_machine::memory_allowed();
                let most = allowed.cgroup_limit_bytes.unwrap_or(u64::MAX);
                allowed.total_bytes.min(most) / 100 * MEMORY_PERCENT
            }
        };
        let limit_bytes = limit_bytes.max(MEMORY_BYTES_MIN);
        // Virtual, so generous: what the limit allows must never fail for want of addresses.
        let buddy_bytes =
            limit_bytes.saturating_mul(2).clamp(1 << 30, 128 << 30).next_power_of_two();
        let swing_config = SwingConfig { buddy_bytes, ..SwingConfig::default() };
        let store_options = StoreOptions {
            capacity_bytes: SwingMalloc::capacity_for(&swing_config),
            limit_bytes,
            huge_pages: true,
        };
        let store = Arc::new(match &spill {
            Some((folder, _)) => Store::create_unnamed(folder, &store_options)?,
            None => Store::create_memfd("atoll", &store_options)?,
        });
        let evicting = |bytes| Evictor::start(Arc::clone(&store), bytes);
        let evictor = budget_bytes.map(evicting).transpose()?;
        let swing = SwingMalloc::create(Arc::clone(&store), &swing_config)?;
        swing.set_headroom(limit_bytes / HEADROOM_SHARE);
        swing.set_warm_bytes(limit_bytes.min(budget_bytes.unwrap_or(u64::MAX)) / WARM_SHARE);
        let limits = Limits {
            age: options.snapshot_age_max,
            bytes: options.snapshot_bytes_max.unwrap_or(limit_bytes / SNAPSHOT_SHARE),
        };
        Ok(Self { memory: Arc::new(Memory::new(store, swing)), limits, evictor })
    }
}
