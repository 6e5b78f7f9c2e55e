//! Runs a guest with a node that has memory but no CPUs, and a database that evicts to it. Where a
//! guest cannot run, the test prints so and passes.
//!
//! The launcher provides nodes with a CPU each; the program switches off the CPU of one node, which
//! makes the kernel treat it as a node without CPUs. The emulator shows where pages are and that
//! none is lost when it moves, but not the speed.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../atoll-machine/tests/launcher/mod.rs"]
mod launcher;
#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use std::path::Path;
use std::process::Command;

const NODES: &str = "3";
const NODE_MIB: &str = "512";

/// The lines that the program must print.
const WANTED: [&str; 9] = [
    "PASS node 2 has memory and no CPUs",
    "PASS a node that is not there is refused",
    "PASS pages wait on the cold node and return to where they were",
    "PASS what is mapped elsewhere stays until it is let go",
    "PASS a full cold node costs nothing but the budget",
    "PASS a database four times its budget keeps to it, the rest is on the cold node",
    "PASS rows and snapshots are right under concurrent transactions",
    "PASS rows used over and over come back to DRAM",
    "PASS they stay there while others leave",
];

#[test]
fn cold_pages_wait_on_a_node_without_cpus_and_hot_ones_come_back() {
    let launcher = match launcher::ready() {
        Ok(launcher) => launcher,
        Err(why) => {
            skipped::say(format!("a guest with a node of memory only cannot run here: {why}"));
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(Path::new(env!("CARGO_BIN_EXE_guest-cold")), folder.path());
    let output = Command::new(launcher)
        .args(["-n", NODES, "-m", NODE_MIB, "-p", "0", "-t", "400"])
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}\n{errors}", output.status);
    for line in WANTED {
        assert!(said.lines().any(|said| said.trim_end() == line), "no {line:?} in\n{said}");
    }
}

/// A copy of the program without debug information, because it is copied into the guest's memory.
fn stripped(program: &Path, folder: &Path) -> std::path::PathBuf {
    let small = folder.join("guest-cold");
    let done = Command::new("strip").arg("-o").arg(&small).arg(program).status();
    if done.is_ok_and(|status| status.success()) { small } else { program.to_owned() }
}
