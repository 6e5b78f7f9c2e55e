//! Runs `guest-probe` in an emulated machine with several nodes, and asks for every check by name.
//!
//! The launcher is named by the variable `ATOLL_GUEST`, or lies at `shared/guest/guest.sh` beside
//! the repository. It is called as `launcher -n NODES -p 0 -t SECONDS PROGRAM ARGUMENT`, boots a
//! Linux guest with that many nodes (and no persistent memory), runs the program in it, and hands
//! on its output and exit status. Where the launcher or the emulator is missing, the tests say so
//! and pass. A launcher that `ATOLL_GUEST` names must exist.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that a launcher needs.
const PROGRAMS: [&str; 2] = ["qemu-system-x86_64", "cpio"];

fn launcher() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ATOLL_GUEST").map(PathBuf::from) {
        assert!(path.is_file(), "ATOLL_GUEST names {}, which is no file", path.display());
        return Ok(path);
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = repository.join("../shared/guest/guest.sh");
    if path.is_file() { Ok(path) } else { Err("no launcher; set ATOLL_GUEST".into()) }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The launcher, or why this test cannot run here.
fn ready() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the guest is a Linux machine of x86_64".into());
    }
    match PROGRAMS.into_iter().find(|program| !is_installed(program)) {
        Some(missing) => Err(format!("{missing} is not installed")),
        None => launcher(),
    }
}

fn probe_passes_on(nodes: u32) {
    let launcher = match ready() {
        Ok(launcher) => launcher,
        Err(why) => {
            println!("skipped: a guest with {nodes} nodes cannot run here: {why}");
            return;
        }
    };
    let output = Command::new(launcher)
        .args(["-n", &nodes.to_string(), "-p", "0", "-t", "300"])
        .arg(env!("CARGO_BIN_EXE_guest-probe"))
        .arg(nodes.to_string())
        .output()
        .expect("the launcher is a file that may be executed");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}\n{errors}", output.status);

    let mut wanted = vec![
        format!("PASS topology discovered with {nodes} nodes"),
        "PASS pinning lands on the cpu asked for".to_owned(),
        "PASS binding to a missing node is an error".to_owned(),
        "PASS the memory allowed is that of all nodes".to_owned(),
        "PASS the barrier across threads is available".to_owned(),
    ];
    for node in 0..nodes {
        let other = if node == nodes - 1 { nodes - 2 } else { nodes - 1 };
        wanted.push(format!("PASS memory bound to node {node} before its first touch lies there"));
        wanted.push(format!("PASS memory of node {other} bound to node {node} has moved there"));
    }
    for line in wanted {
        assert!(said.lines().any(|said| said.trim_end() == line), "no {line:?} in\n{said}");
    }
}

#[test]
fn memory_and_threads_go_where_they_are_sent_on_two_nodes() {
    probe_passes_on(2);
}

#[test]
fn memory_and_threads_go_where_they_are_sent_on_four_nodes() {
    probe_passes_on(4);
}
