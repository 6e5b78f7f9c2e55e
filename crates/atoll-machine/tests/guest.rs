//! Runs `guest-probe` in an emulated machine with several nodes, and checks that it reports each
//! check by name. Without the launcher ([`launcher`]) or the emulator, the tests report that they
//! are skipped, and pass.

mod launcher;
mod skipped;

use std::process::Command;

fn probe_passes_on(nodes: u32) {
    let launcher = match launcher::ready() {
        Ok(launcher) => launcher,
        Err(why) => {
            skipped::say(format!("a guest with {nodes} nodes cannot run here: {why}"));
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
        wanted.push(format!("PASS memory bound to node {node} before its first touch is there"));
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
