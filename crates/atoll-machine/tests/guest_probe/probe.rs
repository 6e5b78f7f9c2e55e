//! Checks topology, pinning and memory binding on the machine it runs on, which must have as many
//! nodes as its one argument says. `tests/guest.rs` runs it in a guest with several nodes.
//!
//! Prints one line `PASS <what>` for each check, or one line `FAIL <what>` and ends with 1. It
//! leaves nothing behind.

use atoll_machine::{
    Binding, MachineError, Mapping, Node, NodeId, Topology, bind_memory, current_cpu, membarrier,
    memory_allowed, node_of, page_bytes, pin_current_thread,
};
use std::error::Error;
use std::process::ExitCode;

/// Pages bound to each node in each check.
const PAGES: usize = 256;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    match std::env::args().nth(1).and_then(|word| word.parse().ok()) {
        Some(nodes) => match probe(nodes) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("FAIL {error}");
                ExitCode::FAILURE
            }
        },
        None => {
            eprintln!("usage: guest-probe NODES");
            ExitCode::from(2)
        }
    }
}

fn probe(nodes: usize) -> Outcome {
    let topology = Topology::discover()?;
    println!("{topology}");
    check_topology(&topology, nodes)?;
    check_pinning(&topology)?;
    for node in &topology.nodes {
        check_bound_before_touch(node)?;
        check_bound_after_touch(node, &topology)?;
    }
    check_missing_node(nodes)?;
    check_limits_and_barrier(&topology)
}

fn ensure(holds: bool, what: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

fn check_topology(topology: &Topology, nodes: usize) -> Outcome {
    let found = topology.nodes.len();
    ensure(found == nodes, format!("{found} nodes discovered"))?;
    for (index, node) in topology.nodes.iter().enumerate() {
        ensure(node.distances[index] == 10, format!("node {} is not local to itself", node.id))?;
        ensure(!node.cpus.is_empty(), format!("node {} has no cpu", node.id))?;
        ensure(node.memory_bytes >= 64 << 20, format!("node {} has no memory", node.id))?;
    }
    // The guest's nodes are the corners of a cube, 21 apart along each edge.
    let pairs = nodes * (nodes - 1) / 2;
    let far = topology.far_pairs().len();
    ensure(far == pairs, format!("{far} of {pairs} pairs are far apart"))?;
    println!("PASS topology discovered with {nodes} nodes");
    Ok(())
}

fn check_pinning(topology: &Topology) -> Outcome {
    for node in &topology.nodes {
        for &cpu in &node.cpus {
            pin_current_thread(&[cpu])?;
            for _ in 0..100 {
                std::thread::yield_now();
                let on = current_cpu()?;
                ensure(on == cpu, format!("pinned to cpu {cpu}, running on {on}"))?;
            }
        }
    }
    pin_current_thread(&topology.cpus())?;
    println!("PASS pinning lands on the cpu asked for");
    Ok(())
}

fn check_bound_before_touch(node: &Node) -> Outcome {
    let pages = Pages::new()?;
    bound(pages.bind(node.physical)?, node.physical)?;
    pages.touch();
    ensure_all_on(&pages, node.physical)?;
    println!("PASS memory bound to node {} before its first touch is there", node.id);
    Ok(())
}

/// Touches memory from a CPU of another node first, so that binding has to move it.
fn check_bound_after_touch(node: &Node, topology: &Topology) -> Outcome {
    let other = topology.nodes.iter().rfind(|other| other.id != node.id);
    let other = other.ok_or("there is no other node")?;
    pin_current_thread(&other.cpus)?;
    let pages = Pages::new()?;
    pages.touch();
    ensure_all_on(&pages, other.physical)?;
    bound(pages.bind(node.physical)?, node.physical)?;
    ensure_all_on(&pages, node.physical)?;
    pin_current_thread(&topology.cpus())?;
    println!("PASS memory of node {} bound to node {} has moved there", other.id, node.id);
    Ok(())
}

fn check_missing_node(nodes: usize) -> Outcome {
    let pages = Pages::new()?;
    let missing = NodeId(nodes as u32);
    ensure(
        pages.bind(missing).is_err(),
        format!("memory was bound to node {missing}, which does not exist"),
    )?;
    println!("PASS binding to a missing node is an error");
    Ok(())
}

fn check_limits_and_barrier(topology: &Topology) -> Outcome {
    let allowed = memory_allowed();
    let sum: u64 = topology.nodes.iter().map(|node| node.memory_bytes).sum();
    ensure(
        allowed.total_bytes == sum,
        format!("{} bytes are allowed, but the nodes have {sum}", allowed.total_bytes),
    )?;
    println!("PASS the memory allowed is that of all nodes");
    ensure(membarrier::is_available(), "membarrier is not available")?;
    membarrier();
    println!("PASS the barrier across threads is available");
    Ok(())
}

fn bound(binding: Binding, node: NodeId) -> Outcome {
    ensure(binding == Binding::Bound { node }, format!("{binding:?} instead of node {node}"))
}

fn ensure_all_on(pages: &Pages, node: NodeId) -> Outcome {
    for page in 0..PAGES {
        let found = node_of(pages.page(page));
        ensure(
            found == Some(node),
            format!("page {page} of {PAGES} is on {found:?} instead of node {node}"),
        )?;
    }
    Ok(())
}

/// Private memory.
struct Pages(Mapping);

impl Pages {
    fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self(Mapping::anonymous(PAGES * page_bytes())?))
    }

    fn page(&self, page: usize) -> *mut u8 {
        self.0.start().as_ptr().wrapping_add(page * page_bytes())
    }

    fn bind(&self, node: NodeId) -> Result<Binding, MachineError> {
        bind_memory(self.page(0), self.0.bytes(), node)
    }

    fn touch(&self) {
        for page in 0..PAGES {
            // SAFETY: the first byte of a page of the mapping, which no one borrows.
            unsafe { self.page(page).write_volatile(1) };
        }
    }
}
