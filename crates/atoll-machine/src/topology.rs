//! The nodes of the machine: their CPUs, their memory and how far apart they are.
//!
//! [`Topology::discover`] reads the kernel's description of the nodes and keeps what this process
//! may use. A folder with the same files stands in for another machine ([`Topology::from_sysfs`]),
//! and [`Topology::with_logical_nodes`] splits a machine so that code for many nodes runs on a
//! small one.
//!
//! - TOPOLOGY-1: nodes are sorted by id, and so are the CPUs of each; there is at least one CPU.
//! - TOPOLOGY-2: `nodes[i].distances[j]` is the distance from `nodes[i]` to `nodes[j]`.
//! - TOPOLOGY-3: each listed node has CPUs or memory that this process may use.
//!
//! Everything here only reads, so a failure has no effect.

use crate::affinity::allowed_cpus;
use crate::error::MachineError;
use crate::ids::{CpuId, NodeId, write_cpus};
use crate::kernel_files::{in_file, read_if_present, read_parsed};
use crate::sysfs::{self, MemorySizes, parse_id_list};
use std::fmt;
use std::path::{Path, PathBuf};

/// The kernel's distance of a node to itself.
const LOCAL: u32 = 10;

/// The largest number of logical nodes; far above the largest machine.
const MOST_LOGICAL: usize = 1024;

/// The nodes of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Sorted by id.
    pub nodes: Vec<Node>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number; the kernel's own unless the node is logical.
    pub id: NodeId,
    /// The kernel's number of the physical node that hosts this one; memory is bound to that
    /// number.
    pub physical: NodeId,
    /// Its CPUs, sorted. Empty for a node that has memory only.
    pub cpus: Vec<CpuId>,
    /// Bytes of its memory; 0 where unknown or not allowed to this process.
    pub memory_bytes: u64,
    /// Bytes of its memory that were unused when the topology was read.
    pub free_bytes: u64,
    /// The kernel's relative distance to each node of the topology, in its order; 10 is local.
    pub distances: Vec<u32>,
    /// Whether [`Topology::with_logical_nodes`] has made it.
    pub logical: bool,
}

impl Topology {
    /// The machine that this process runs on, restricted to what the process may use: CPUs by its
    /// affinity, memory by its allowed nodes. A node with only its CPUs allowed keeps them and has
    /// no memory; a node with only its memory allowed has no CPUs.
    ///
    /// Without sysfs, the machine is one node with the allowed CPUs.
    ///
    /// # Errors
    ///
    /// [`MachineError`] when a file of the kernel cannot be read or holds garbage, or when no
    /// CPU is left.
    pub fn discover() -> Result<Self, MachineError> {
        let cpus = allowed_cpus()?;
        let sys = Path::new("/sys");
        let mut topology = if sys.join("devices/system/cpu").exists() {
            Self::from_sysfs(sys)?
        } else {
            Self::one_node(cpus.to_vec())
        };
        if let [only] = &mut topology.nodes[..]
            && only.memory_bytes == 0
        {
            let sizes = read_parsed(Path::new("/proc/meminfo"), sysfs::parse_meminfo)?;
            only.set_memory(sizes);
        }
        let mems = allowed_memory_nodes(Path::new("/proc/self/status"))?;
        topology.restricted(cpus, mems.as_deref()).ok_or_else(|| no_cpus(sys))
    }

    /// The machine that a folder describes. The folder has the files of `/sys`: in
    /// `devices/system/cpu` the file `online`, in `devices/system/node` the file `online` and for
    /// each node `cpulist`, `distance` and `meminfo`. Without the folder `node`, the machine is one
    /// node of all CPUs with unknown memory.
    ///
    /// # Errors
    ///
    /// [`MachineError::Unreadable`] and [`MachineError::Malformed`] name the file;
    /// [`MachineError::NoCpus`] when none is online.
    pub fn from_sysfs(root: &Path) -> Result<Self, MachineError> {
        let folder = root.join("devices/system/node");
        let online = folder.join("online");
        let topology = match read_if_present(&online)? {
            None => {
                let path = root.join("devices/system/cpu/online");
                let cpus = read_parsed(&path, parse_id_list)?;
                Self::one_node(cpus.into_iter().map(CpuId).collect())
            }
            Some(text) => {
                let ids = in_file(&online, &text, parse_id_list(&text))?;
                let count = ids.len();
                let nodes = ids.into_iter().map(|id| read_node(&folder, NodeId(id), count));
                Self { nodes: nodes.collect::<Result<_, _>>()? }
            }
        };
        if topology.cpus().is_empty() { Err(no_cpus(root)) } else { Ok(topology) }
    }

    fn one_node(cpus: Vec<CpuId>) -> Self {
        let id = NodeId(0);
        let node = Node {
            id,
            physical: id,
            cpus,
            memory_bytes: 0,
            free_bytes: 0,
            distances: vec![LOCAL],
            logical: false,
        };
        Self { nodes: vec![node] }
    }

    /// Keeps what is allowed; `None` for `mems` allows all memory. Returns `None` if no CPU
    /// remains.
    fn restricted(mut self, cpus: &[CpuId], mems: Option<&[u32]>) -> Option<Self> {
        for node in &mut self.nodes {
            node.cpus.retain(|cpu| cpus.binary_search(cpu).is_ok());
            if mems.is_some_and(|mems| mems.binary_search(&node.physical.0).is_err()) {
                node.set_memory(MemorySizes::default());
            }
        }
        let kept: Vec<bool> =
            self.nodes.iter().map(|node| !node.cpus.is_empty() || node.memory_bytes > 0).collect();
        let mut keep = kept.iter();
        self.nodes.retain(|_| keep.next() == Some(&true));
        for node in &mut self.nodes {
            let mut keep = kept.iter();
            node.distances.retain(|_| keep.next() == Some(&true));
        }
        if self.cpus().is_empty() { None } else { Some(self) }
    }

    /// The same machine as `count` logical nodes, numbered from 0.
    ///
    /// The CPUs, in the order of their nodes, are divided into `count` runs with lengths that
    /// differ by one at most; with more nodes than CPUs, neighbouring nodes share a CPU. The
    /// physical node of a logical node is the node of its first CPU: memory is bound there, the
    /// distances are that node's, and that node's memory is divided evenly among its logical nodes.
    /// Physical nodes without a logical node (always those with memory only) are left out.
    ///
    /// **Warning:** logical nodes show that code is correct, not that it is fast. The logical nodes
    /// of one physical node have the same memory, caches and (when shared) CPUs, so no access
    /// between them is remote, and a measurement on them says nothing about a machine with that
    /// many nodes.
    ///
    /// # Errors
    ///
    /// [`MachineError::LogicalNodes`] when `count` is 0 or above 1024.
    pub fn with_logical_nodes(&self, count: usize) -> Result<Self, MachineError> {
        // A machine without CPUs cannot be discovered, but a caller can construct it.
        let cpus: Vec<(CpuId, usize)> = self.cpus_with_nodes();
        let most = if cpus.is_empty() { 0 } else { MOST_LOGICAL };
        if count == 0 || count > most {
            return Err(MachineError::LogicalNodes { asked: count, most });
        }
        let runs: Vec<&[(CpuId, usize)]> = (0..count)
            .map(|index| {
                let start = index * cpus.len() / count;
                let end = (index + 1) * cpus.len() / count;
                &cpus[start..end.max(start + 1)]
            })
            .collect();
        let hosts: Vec<usize> = runs.iter().map(|run| run[0].1).collect();
        let nodes = (0_u32..).zip(&runs).zip(&hosts);
        let nodes = nodes.map(|((id, run), &host)| {
            let host_node = &self.nodes[host];
            let guests = hosts.iter().filter(|&&other| other == host).count() as u64;
            let mut cpus: Vec<CpuId> = run.iter().map(|&(cpu, _)| cpu).collect();
            cpus.sort_unstable();
            Node {
                id: NodeId(id),
                physical: host_node.physical,
                cpus,
                memory_bytes: host_node.memory_bytes / guests,
                free_bytes: host_node.free_bytes / guests,
                distances: hosts.iter().map(|&other| host_node.distances[other]).collect(),
                logical: true,
            }
        });
        Ok(Self { nodes: nodes.collect() })
    }

    /// Each CPU, with the index of the first node that has it, in the order of the nodes.
    fn cpus_with_nodes(&self) -> Vec<(CpuId, usize)> {
        let mut seen = std::collections::BTreeSet::new();
        let all = self.nodes.iter().enumerate();
        all.flat_map(|(index, node)| node.cpus.iter().map(move |&cpu| (cpu, index)))
            .filter(|(cpu, _)| seen.insert(*cpu))
            .collect()
    }

    /// All CPUs, sorted, each once.
    #[must_use]
    pub fn cpus(&self) -> Vec<CpuId> {
        let mut cpus: Vec<CpuId> = self.cpus_with_nodes().into_iter().map(|(cpu, _)| cpu).collect();
        cpus.sort_unstable();
        cpus
    }

    /// Number of nodes with CPUs, on which threads can work on local data; at least one.
    #[must_use]
    pub fn working_nodes(&self) -> usize {
        self.nodes.iter().filter(|node| !node.cpus.is_empty()).count()
    }

    /// The node with this number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The (first) node that a CPU belongs to.
    #[must_use]
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.cpus.binary_search(&cpu).is_ok())
    }

    /// The pairs of nodes with a remote distance of more than 1.5 times the local one. Such a pair
    /// is worth a warning: a thread on one node is much slower on data of the other.
    #[must_use]
    pub fn far_pairs(&self) -> Vec<FarPair> {
        let count = self.nodes.len();
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
        pairs
            .filter_map(|(a, b)| {
                let (there, back) = (self.ratio(a, b)?, self.ratio(b, a)?);
                let ratio = there.max(back);
                let (a, b) = (self.nodes[a].id, self.nodes[b].id);
                (ratio > FAR_RATIO).then_some(FarPair { nodes: (a, b), ratio })
            })
            .collect()
    }

    fn ratio(&self, from: usize, to: usize) -> Option<f64> {
        let row = &self.nodes[from].distances;
        let (local, remote) = (*row.get(from)?, *row.get(to)?);
        (local > 0).then(|| f64::from(remote) / f64::from(local))
    }
}

/// Remote over local distance above which a pair of nodes is far apart.
pub const FAR_RATIO: f64 = 1.5;

/// Two nodes that are far apart. Its text is the warning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FarPair {
    /// The nodes, the smaller number first.
    pub nodes: (NodeId, NodeId),
    /// Remote over local distance, of the worse direction.
    pub ratio: f64,
}

impl fmt::Display for FarPair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = self.nodes;
        write!(
            out,
            "nodes {a} and {b} are {:.1} times as far from each other as from their own memory; \
             a transaction is faster if its table and its thread are on one node",
            self.ratio
        )
    }
}

impl Node {
    fn set_memory(&mut self, sizes: MemorySizes) {
        self.memory_bytes = sizes.total_bytes;
        self.free_bytes = sizes.free_bytes;
    }
}

/// Shows an administrator the nodes, CPUs, sizes, free memory and the distance matrix.
impl fmt::Display for Topology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let cpus = match write_cpus(&node.cpus) {
                none if none.is_empty() => "no cpus".to_owned(),
                some => format!("cpus {some}"),
            };
            let (size, free) = (node.memory_bytes >> 20, node.free_bytes >> 20);
            write!(out, "node {}: {cpus}, {size} MiB, {free} MiB free", node.id)?;
            match node.logical {
                true => writeln!(out, ", logical, on node {}", node.physical)?,
                false => writeln!(out)?,
            }
        }
        write!(out, "distance")?;
        for node in &self.nodes {
            write!(out, "{:>5}", node.id)?;
        }
        for node in &self.nodes {
            write!(out, "\n{:>8}", node.id)?;
            for distance in &node.distances {
                write!(out, "{distance:>5}")?;
            }
        }
        Ok(())
    }
}

fn no_cpus(origin: &Path) -> MachineError {
    MachineError::NoCpus { origin: PathBuf::from(origin) }
}

fn read_node(folder: &Path, id: NodeId, count: usize) -> Result<Node, MachineError> {
    let folder = folder.join(format!("node{id}"));
    let cpus = read_parsed(&folder.join("cpulist"), parse_id_list)?;
    let distances =
        read_parsed(&folder.join("distance"), |text| sysfs::parse_distances(text, count))?;
    let sizes = read_parsed(&folder.join("meminfo"), sysfs::parse_node_meminfo)?;
    Ok(Node {
        id,
        physical: id,
        cpus: cpus.into_iter().map(CpuId).collect(),
        memory_bytes: sizes.total_bytes,
        free_bytes: sizes.free_bytes,
        distances,
        logical: false,
    })
}

/// The memory nodes allowed to a process, or `None` if its kernel has no such limit.
fn allowed_memory_nodes(status: &Path) -> Result<Option<Vec<u32>>, MachineError> {
    let Some(text) = read_if_present(status)? else {
        return Ok(None);
    };
    match sysfs::parse_mems_allowed(&text) {
        Err(sysfs::ParseError::NoField { .. }) => Ok(None),
        parsed => in_file(status, &text, parsed).map(Some),
    }
}

#[cfg(test)]
mod tests;
