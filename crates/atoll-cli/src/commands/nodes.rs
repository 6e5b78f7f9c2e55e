//! `atoll nodes`: the topology of the machine, and the restrictions of this process.
//!
//! Restrictions of a container are found by trial: the command pins a thread, binds a page and
//! issues a barrier. A machine that is read from a folder is only described.

use std::path::Path;

use atoll::machine::{
    self, Binding, CpuId, FarPair, MemoryAllowed, Topology, allowed_cpus, bind_memory,
    memory_allowed, page_bytes, pin_current_thread,
};
use serde::Serialize;

use crate::args::{GlobalArgs, NodesArgs};
use crate::error::Result;
use crate::output::Output;
use crate::render::table::{Align, Grid};
use crate::size;

#[derive(Serialize)]
struct NodeJson {
    id: u32,
    physical: u32,
    logical: bool,
    cpus: Vec<u32>,
    memory_bytes: u64,
    free_bytes: u64,
    distances: Vec<u32>,
}

#[derive(Serialize)]
struct FarPairJson {
    nodes: [u32; 2],
    ratio: f64,
}

#[derive(Serialize)]
struct MachineJson {
    nodes: Vec<NodeJson>,
    far_pairs: Vec<FarPairJson>,
    memory_allowed_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
    forbidden: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A machine that cannot be read, and a number of logical nodes that cannot be.
pub fn run(args: &NodesArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("nodes")?;
    let found = match &args.sysfs {
        Some(folder) => Topology::from_sysfs(folder),
        None => Topology::discover(),
    };
    let found = found.map_err(atoll::Error::from)?;
    let (memory, forbidden) = match args.sysfs {
        Some(_) => (None, Vec::new()),
        None => (Some(memory_allowed()), forbidden(&found)),
    };
    let topology = match global.nodes {
        Some(count) => found.with_logical_nodes(count).map_err(atoll::Error::from)?,
        None => found,
    };
    let far = topology.far_pairs();
    if output.json {
        return Ok(output.json(&json(&topology, &far, memory, forbidden))?);
    }
    write_nodes(output, &topology)?;
    if topology.nodes.len() > 1 {
        write_distances(output, &topology)?;
    }
    write_remarks(output, &topology, &far, memory, &forbidden)
}

fn json(
    topology: &Topology,
    far: &[FarPair],
    memory: Option<MemoryAllowed>,
    forbidden: Vec<String>,
) -> MachineJson {
    let nodes = topology.nodes.iter().map(|node| NodeJson {
        id: node.id.0,
        physical: node.physical.0,
        logical: node.logical,
        cpus: node.cpus.iter().map(|cpu| cpu.0).collect(),
        memory_bytes: node.memory_bytes,
        free_bytes: node.free_bytes,
        distances: node.distances.clone(),
    });
    let far_pairs = far
        .iter()
        .map(|pair| FarPairJson { nodes: [pair.nodes.0.0, pair.nodes.1.0], ratio: pair.ratio });
    MachineJson {
        nodes: nodes.collect(),
        far_pairs: far_pairs.collect(),
        memory_allowed_bytes: memory.map(|memory| memory.total_bytes),
        memory_available_bytes: memory.map(|memory| memory.available_bytes),
        forbidden,
    }
}

fn write_nodes(output: &mut Output, topology: &Topology) -> Result<()> {
    let logical = topology.nodes.iter().any(|node| node.logical);
    let mut heads = vec![
        ("node", Align::Right),
        ("cpus", Align::Left),
        ("memory", Align::Right),
        ("free", Align::Right),
    ];
    if logical {
        heads.push(("is on", Align::Right));
    }
    let mut grid = Grid::new(heads);
    for node in &topology.nodes {
        let mut cells = vec![
            Some(node.id.to_string()),
            Some(if node.cpus.is_empty() { "none".to_owned() } else { cpu_list(&node.cpus) }),
            Some(size::bytes(node.memory_bytes)),
            Some(size::bytes(node.free_bytes)),
        ];
        if logical {
            cells.push(Some(format!("node {}", node.physical)));
        }
        grid.push(cells);
    }
    let (width, style) = (output.width(), output.style);
    grid.write(output, width, style)?;
    Ok(())
}

fn write_distances(output: &mut Output, topology: &Topology) -> Result<()> {
    let mut heads = vec![("distance".to_owned(), Align::Right)];
    heads.extend(topology.nodes.iter().map(|node| (format!("to {}", node.id), Align::Right)));
    let mut grid = Grid::new(heads);
    for node in &topology.nodes {
        let mut cells = vec![Some(format!("from {}", node.id))];
        cells.extend(node.distances.iter().map(|distance| Some(distance.to_string())));
        grid.push(cells);
    }
    let (width, style) = (output.width(), output.style);
    let fit = grid.write(output, width, style)?;
    if !fit.hidden.is_empty() {
        output.line(&style.dim("the terminal is too narrow for all distances; --json has them"))?;
    }
    Ok(())
}

fn write_remarks(
    output: &mut Output,
    topology: &Topology,
    far: &[FarPair],
    memory: Option<MemoryAllowed>,
    forbidden: &[String],
) -> Result<()> {
    let style = output.style;
    if let Some(memory) = memory {
        let (total, now) = (size::bytes(memory.total_bytes), size::bytes(memory.available_bytes));
        output.line(&format!("memory for this process: {total}, {now} available now"))?;
    }
    if topology.nodes.iter().any(|node| node.logical) {
        output.line(&style.dim(
            "logical nodes share memory and caches of their real node; \
             they show that code is right, not that it is fast",
        ))?;
    }
    for text in far_warnings(far) {
        output.line(&format!("{} {text}", style.warning("warning:")))?;
    }
    for text in forbidden {
        output.line(&format!("{} {text}", style.warning("forbidden:")))?;
    }
    Ok(())
}

/// The warnings about nodes that are far apart; one for all when there are many pairs.
fn far_warnings(far: &[FarPair]) -> Vec<String> {
    const SINGLE_MAX: usize = 3;
    if far.len() <= SINGLE_MAX {
        return far.iter().map(ToString::to_string).collect();
    }
    let ratio = far.iter().map(|pair| pair.ratio).fold(0.0, f64::max);
    let pairs: Vec<String> =
        far.iter().map(|pair| format!("{}-{}", pair.nodes.0, pair.nodes.1)).collect();
    vec![format!(
        "{} pairs of nodes are up to {ratio:.1} times as far from each other as from their own \
         memory ({}); Atoll does not bind tables or workers to nodes: numactl can bind a process",
        far.len(),
        pairs.join(", ")
    )]
}

/// CPUs as the kernel writes them: `0-3,8`.
fn cpu_list(cpus: &[CpuId]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for CpuId(cpu) in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let run = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The restrictions of this process, each with its consequence.
fn forbidden(topology: &Topology) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(hidden_parts(topology));
    let memory = memory_allowed();
    if let Some(limit) = memory.cgroup_limit_bytes {
        let limit = size::bytes(limit);
        found.push(format!("more than {limit} of memory: a limit is set for this process"));
    }
    found.extend(pinning());
    found.extend(binding(topology));
    if !machine::membarrier::is_available() {
        found.push(
            "membarrier: each transaction pays for a fence of its own, which is a little slower"
                .to_owned(),
        );
    }
    found
}

/// CPUs and nodes of the machine that this process may not use.
fn hidden_parts(topology: &Topology) -> Vec<String> {
    // Without the description of the machine there is nothing to compare with.
    let Ok(whole) = Topology::from_sysfs(Path::new("/sys")) else { return Vec::new() };
    let (have, all) = (topology.cpus().len(), whole.cpus().len());
    let mut found = Vec::new();
    if have < all {
        found.push(format!("{} of the machine's {all} CPUs", all - have));
    }
    let without_memory = whole.nodes.iter().filter(|node| {
        let own = topology.node(node.id).map_or(0, |own| own.memory_bytes);
        own == 0 && node.memory_bytes > 0
    });
    found.extend(without_memory.map(|node| format!("the memory of node {}", node.id)));
    found
}

fn pinning() -> Option<String> {
    // On a thread of its own, which takes the pin with it when it ends.
    let tried = std::thread::spawn(|| pin_current_thread(allowed_cpus()?)).join();
    match tried {
        Ok(Err(error)) => {
            Some(format!("pinning threads ({error}): checkpoints and benchmarks run unpinned"))
        }
        _ => None,
    }
}

fn binding(topology: &Topology) -> Option<String> {
    let node = topology.nodes.iter().find(|node| node.memory_bytes > 0)?;
    let page = page_bytes();
    let mut bytes = vec![0u8; 2 * page];
    let at = bytes.as_mut_ptr();
    let why = match bind_memory(at.wrapping_add(at.align_offset(page)), page, node.physical) {
        Ok(Binding::Bound { .. }) => return None,
        Ok(Binding::Forbidden { errno, .. }) => {
            std::io::Error::from_raw_os_error(errno).to_string()
        }
        Err(error) => error.to_string(),
    };
    Some(format!("binding memory to a node ({why}): Atoll does not bind tables to nodes yet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_far_pairs_are_one_warning() {
        use atoll::machine::NodeId;
        let pair = |a, b| FarPair { nodes: (NodeId(a), NodeId(b)), ratio: 3.2 };
        assert_eq!(far_warnings(&[pair(0, 1), pair(0, 2)]).len(), 2);
        let one = far_warnings(&[pair(0, 1), pair(0, 2), pair(0, 3), pair(1, 2)]);
        assert_eq!(one.len(), 1);
        assert!(one[0].starts_with("4 pairs") && one[0].contains("0-3, 1-2"), "{}", one[0]);
    }

    #[test]
    fn cpus_are_written_as_runs() {
        let list =
            |numbers: &[u32]| cpu_list(&numbers.iter().copied().map(CpuId).collect::<Vec<_>>());
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[]), "");
    }
}
