//! The memory of a new database: its store in memory or on a file, its limits, and the place of the
//! data that exceeds its budget.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atoll_machine::medium::file::free_bytes;
use atoll_machine::{NodeId, Topology};
use atoll_memory::{Memory, Residency, Store, StoreOptions, SwingMalloc};

use crate::error::{Error, Result};
use crate::evictor::Evictor;
use crate::leases::Limits;
use crate::options::DatabaseOptions;
use crate::reservation::{self, Allowed, Reservation};

/// Percentage of the memory that a process may use, or of a cold node, that a database takes at
/// most.
const MEMORY_PERCENT: u64 = 80;
/// Share of the memory limit that is reserved for rollbacks.
const HEADROOM_SHARE: u64 = 64;
/// Share of the memory limit, or of the budget, that stays committed while it is free. A copy into
/// memory that was returned to the system costs ten times a copy into memory that is still
/// committed, and a database under periodic snapshots frees and allocates the same amount over and
/// over.
const WARM_SHARE: u64 = 8;
/// Share of the memory limit that snapshots may keep alive, as in "Memory Instant Snapshot Sharing
/// Mechanism", section 3, which limits copied bytes to 50 %.
const SNAPSHOT_SHARE: u64 = 2;
/// Smallest memory limit, and smallest budget.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The default limit of a store on a file is this many times its budget,
const BUDGETS: u64 = 16;
/// and at most this share of the free disk space, because logs and checkpoint stores are usually on
/// the same disk.
const DISK_SHARE: u64 = 2;
/// Optional folder within the database's folder for data that exceeds the budget.
const SPILL_FOLDER: &str = "spill";

/// What a new database starts with.
pub(crate) struct MemorySetup {
    pub(crate) memory: Arc<Memory>,
    pub(crate) limits: Limits,
    /// Set for a database with a budget; its thread is running.
    pub(crate) evictor: Option<Evictor>,
}

impl MemorySetup {
    /// `folder` is the folder of the database if it is on a file system. A store on a file leaves
    /// no name in that folder.
    pub(crate) fn new(options: &DatabaseOptions, folder: Option<&Path>) -> Result<Self> {
        let budget_bytes = options.memory_budget_bytes.map(|bytes| bytes.max(MEMORY_BYTES_MIN));
        let beyond = Beyond::new(options, folder)?;
        // A store is a file, and the system kills a process that makes a file beyond its limit
        // unless the signal is ignored.
        atoll_machine::process::refuse_large_files();
        let allowed_bytes = || {
            let allowed = atoll_machine::memory_allowed();
            let most = allowed.cgroup_limit_bytes.unwrap_or(u64::MAX);
            percent(allowed.total_bytes.min(most))
        };
        let budget_or_all = budget_bytes.unwrap_or(u64::MAX);
        let limit_bytes = match (options.memory_limit_bytes, &beyond) {
            (Some(bytes), _) => bytes,
            (None, Beyond::Nothing) => allowed_bytes(),
            (None, Beyond::File(folder)) => {
                budget_or_all.saturating_mul(BUDGETS).min(free_bytes(folder)? / DISK_SHARE)
            }
            (None, Beyond::Node(cold)) => {
                budget_or_all.saturating_add(percent(cold.memory_bytes)).min(allowed_bytes())
            }
        };
        let limit_bytes = limit_bytes.max(MEMORY_BYTES_MIN);
        let (is_chosen, allowed) = (options.memory_limit_bytes.is_some(), Allowed::here());
        let least = (is_chosen, MEMORY_BYTES_MIN);
        let (store, Reservation { limit_bytes, swing: swing_config }) =
            reservation::make(limit_bytes, least, allowed, |size| {
                let options = StoreOptions {
                    capacity_bytes: size.bytes(),
                    limit_bytes: size.limit_bytes,
                    huge_pages: true,
                };
                match &beyond {
                    Beyond::Nothing => Store::create_memfd("atoll", &options),
                    Beyond::File(folder) => Store::create_unnamed(folder, &options),
                    Beyond::Node(_) => Store::create_moving("atoll", &options),
                }
            })?;
        let store = Arc::new(store);
        let its = || Arc::clone(&store);
        let evictor = match beyond {
            Beyond::Nothing => None,
            Beyond::File(_) => {
                Some(Evictor::start(Residency::on_file(its(), budget_or_all)?, None)?)
            }
            Beyond::Node(Cold { node, dram, .. }) => {
                let residency = Residency::on_node(its(), budget_or_all, node, dram)?;
                Some(Evictor::start(residency, Some(node))?)
            }
        };
        let swing = SwingMalloc::create(Arc::clone(&store), &swing_config)?;
        swing.set_headroom(limit_bytes / HEADROOM_SHARE);
        let ready_bytes = if evictor.is_some() { 0 } else { options.ready_bytes };
        let share_bytes = limit_bytes.min(budget_or_all) / WARM_SHARE;
        swing.set_warm_bytes(share_bytes.max(ready_bytes));
        let limits = Limits {
            age: options.snapshot_age_max,
            bytes: options.snapshot_bytes_max.unwrap_or(limit_bytes / SNAPSHOT_SHARE),
        };
        Ok(Self { memory: Arc::new(Memory::new(store, swing)), limits, evictor })
    }
}

fn percent(bytes: u64) -> u64 {
    bytes / 100 * MEMORY_PERCENT
}

/// The place of the data that exceeds the budget.
enum Beyond {
    /// There is no budget.
    Nothing,
    /// On an unnamed file in this folder.
    File(PathBuf),
    Node(Cold),
}

impl Beyond {
    fn new(options: &DatabaseOptions, folder: Option<&Path>) -> Result<Self> {
        match (options.memory_budget_bytes, options.cold_node) {
            (None, None) => Ok(Self::Nothing),
            (None, Some(node)) => Err(Error::ColdNodeWithoutBudget(node)),
            (Some(_), Some(node)) => Ok(Self::Node(Cold::new(node, &Topology::discover()?)?)),
            (Some(_), None) => {
                let folder = folder.ok_or(Error::BudgetWithoutFolder)?;
                let within = folder.join(SPILL_FOLDER);
                Ok(Self::File(if within.is_dir() { within } else { folder.to_owned() }))
            }
        }
    }
}

/// The cold node, and the nodes to which data returns when it is used again.
#[derive(Debug, PartialEq, Eq)]
struct Cold {
    node: NodeId,
    memory_bytes: u64,
    dram: Vec<NodeId>,
}

impl Cold {
    fn new(node: NodeId, topology: &Topology) -> Result<Self> {
        let with_memory = topology.nodes.iter().filter(|node| node.memory_bytes > 0);
        let Some(cold) = with_memory.clone().find(|one| one.id == node) else {
            let with_memory = with_memory.map(|node| node.id).collect();
            return Err(Error::NoColdNode { node, with_memory });
        };
        // Usually a node without CPUs is slower memory too, so such nodes are used only if there is
        // no other.
        let others = || with_memory.clone().filter(|one| one.id != node);
        let mut dram: Vec<_> = others().filter(|one| !one.cpus.is_empty()).collect();
        if dram.is_empty() {
            dram = others().collect();
        }
        let at = topology.nodes.iter().position(|one| one.id == node);
        dram.sort_by_key(|one| at.and_then(|at| one.distances.get(at)));
        let dram = dram.into_iter().map(|node| node.id).collect();
        Ok(Self { node, memory_bytes: cold.memory_bytes, dram })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use atoll_machine::{CpuId, Topology};

    /// A machine with one node for each element of `cpus`; node 3 has no memory. The distance of
    /// two nodes grows with the difference of their numbers.
    fn machine(cpus: &[Option<u32>]) -> Topology {
        let count = cpus.len() as u32;
        let node = |id: u32| atoll_machine::Node {
            id: NodeId(id),
            physical: NodeId(id),
            cpus: cpus[id as usize].map(CpuId).into_iter().collect(),
            memory_bytes: if id == 3 { 0 } else { 1 << 30 },
            free_bytes: 0,
            distances: (0..count).map(|other| 10 + 10 * other.abs_diff(id)).collect(),
            logical: false,
        };
        Topology { nodes: (0..count).map(node).collect() }
    }

    fn dram(cold: u32, cpus: &[Option<u32>]) -> Vec<u32> {
        let cold = Cold::new(NodeId(cold), &machine(cpus)).unwrap();
        cold.dram.into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn what_is_used_returns_to_nodes_with_cpus_the_nearest_first() {
        assert_eq!(dram(2, &[Some(0), Some(1), None]), [1, 0]);
        assert_eq!(dram(4, &[Some(0), None, Some(2), Some(3), None]), [2, 0]);
        assert_eq!(dram(1, &[Some(0), Some(1)]), [0], "a node with CPUs may be cold");
        assert_eq!(dram(0, &[Some(0), None]), [1], "there is no other");
        assert!(dram(0, &[Some(0)]).is_empty());
        for cold in [3, 9] {
            let made = Cold::new(NodeId(cold), &machine(&[Some(0), None, None, Some(3)]));
            let Err(Error::NoColdNode { node, with_memory }) = made else { panic!("{made:?}") };
            assert_eq!((node.0, with_memory), (cold, [0, 1, 2].map(NodeId).to_vec()));
        }
    }
}
