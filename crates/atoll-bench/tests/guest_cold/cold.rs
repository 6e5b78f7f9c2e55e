//! Stores and a database with a cold node, on a machine with three nodes; the last one becomes a
//! node without CPUs. `tests/guest_cold.rs` runs this in a guest.
//!
//! Prints one line `PASS <what>` for each check that passes, or one line `FAIL <what>` and exits
//! with 1.

mod database;
mod stores;

use std::error::Error;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use atoll::machine::{NodeId, Topology, node_of, nodes_of};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The node that becomes a node without CPUs, and the nodes that keep theirs.
pub(crate) const COLD: NodeId = NodeId(2);
pub(crate) const DRAM: [NodeId; 2] = [NodeId(0), NodeId(1)];
/// A limit that only ends a program that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let checks = [switch_cpus_off, stores::check, database::check];
    match checks.into_iter().try_for_each(|check| check()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAIL {error}");
            ExitCode::FAILURE
        }
    }
}

fn switch_cpus_off() -> Outcome {
    let cpus = std::fs::read_to_string(format!("/sys/devices/system/node/node{COLD}/cpulist"))?;
    let cpu: u32 = cpus.trim().parse()?;
    std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "0")?;
    let topology = Topology::discover()?;
    println!("{topology}");
    let node = topology.node(COLD).ok_or("the node is gone")?;
    ensure(node.cpus.is_empty() && node.memory_bytes > 0, || format!("{node:?}"))?;
    pass(&format!("node {COLD} has memory and no CPUs"));
    Ok(())
}

/// Prints that a check has passed, and on standard error the time.
pub(crate) fn pass(what: &str) {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    println!("PASS {what}");
    eprintln!("{:.1} s: {what}", BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64());
}

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Waits until a condition holds; `what` describes the state for the error.
pub(crate) fn eventually(
    mut holds: impl FnMut() -> Result<bool, Box<dyn Error>>,
    mut what: impl FnMut() -> String,
) -> Outcome {
    let begin = Instant::now();
    while !holds()? {
        ensure(begin.elapsed() < PATIENCE, &mut what)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The number of pages at these addresses that are on a node, as the kernel reports. Touches the
/// pages.
pub(crate) fn pages_on(node: NodeId, pages: &[*const u8]) -> usize {
    pages.iter().filter(|page| node_of(**page) == Some(node)).count()
}

/// The number of pages that this process has mapped on a node. Does not touch the pages.
pub(crate) fn mapped_on(node: NodeId, pages: &[*const u8]) -> Result<usize, Box<dyn Error>> {
    Ok(nodes_of(pages)?.into_iter().filter(|on| *on == Some(node)).count())
}

/// Bytes of shared memory of all processes on a node, as the kernel reports.
pub(crate) fn shared_bytes(node: NodeId) -> Result<u64, Box<dyn Error>> {
    memory_bytes(node, "Shmem:")
}

/// A value of the kernel's statistics of a node's memory.
pub(crate) fn memory_bytes(node: NodeId, line: &str) -> Result<u64, Box<dyn Error>> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    let text = std::fs::read_to_string(path)?;
    let mut words = text.split_whitespace().skip_while(|word| *word != line).skip(1);
    Ok(words.next().ok_or("the kernel does not say")?.parse::<u64>()? << 10)
}
