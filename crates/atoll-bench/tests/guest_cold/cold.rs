//! Stores and a database with a cold node, on a machine with three nodes, the last of which gets to
//! be one of memory only. `tests/guest_cold.rs` runs it in a guest.
//!
//! Prints one line `PASS <what>` for each check, or one line `FAIL <what>` and ends with 1.

mod database;
mod stores;

use std::error::Error;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use atoll::machine::{NodeId, Topology, node_of, nodes_of};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The node that gets to be one of memory only, and those that keep their CPUs.
pub(crate) const COLD: NodeId = NodeId(2);
pub(crate) const DRAM: [NodeId; 2] = [NodeId(0), NodeId(1)];
/// Only keeps a broken program from hanging.
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

/// Says that a check has passed, and on the side when.
pub(crate) fn pass(what: &str) {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    println!("PASS {what}");
    eprintln!("{:.1} s: {what}", BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64());
}

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Waits until something holds; `what` says what is instead.
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

/// How many of the pages at these addresses lie on a node, as the kernel says. They are touched.
pub(crate) fn lie_on(node: NodeId, pages: &[*const u8]) -> usize {
    pages.iter().filter(|page| node_of(**page) == Some(node)).count()
}

/// How many of them this process has mapped on a node. They are not touched.
pub(crate) fn mapped_on(node: NodeId, pages: &[*const u8]) -> Result<usize, Box<dyn Error>> {
    Ok(nodes_of(pages)?.into_iter().filter(|on| *on == Some(node)).count())
}

/// Bytes of shared memory on a node, whoever has it, as the kernel says.
pub(crate) fn shared_bytes(node: NodeId) -> Result<u64, Box<dyn Error>> {
    memory_bytes(node, "Shmem:")
}

/// A line of what the kernel says of a node's memory.
pub(crate) fn memory_bytes(node: NodeId, line: &str) -> Result<u64, Box<dyn Error>> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    let text = std::fs::read_to_string(path)?;
    let mut words = text.split_whitespace().skip_while(|word| *word != line).skip(1);
    Ok(words.next().ok_or("the kernel does not say")?.parse::<u64>()? << 10)
}
