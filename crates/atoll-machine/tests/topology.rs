//! Other machines, described by folders of fixtures.

#![allow(clippy::unwrap_used)]

use atoll_machine::{CpuId, MachineError, NodeId, Topology};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    // Read at run time: another clone with the same target folder may have compiled this.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&here).join("tests/fixtures").join(name)
}

fn read(name: &str) -> Topology {
    Topology::from_sysfs(&fixture(name)).unwrap()
}

fn ids(topology: &Topology) -> Vec<u32> {
    topology.nodes.iter().map(|node| node.id.0).collect()
}

/// A copy of the machine with two nodes, with other content in one file or without it.
fn altered(file: &str, content: Option<&[u8]>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let from = fixture("two-nodes");
    let mut files = vec!["devices/system/cpu/online".to_owned()];
    files.push("devices/system/node/online".to_owned());
    for node in 0..2 {
        for name in ["cpulist", "distance", "meminfo"] {
            files.push(format!("devices/system/node/node{node}/{name}"));
        }
    }
    assert!(files.iter().any(|name| name == file));
    for name in files {
        let to = folder.path().join(&name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        match content {
            _ if name != file => _ = fs::copy(from.join(&name), &to).unwrap(),
            Some(bytes) => fs::write(&to, bytes).unwrap(),
            None => {}
        }
    }
    let path = folder.path().join(file);
    (folder, path)
}

#[test]
fn a_machine_with_two_nodes_is_read_whole() {
    let machine = read("two-nodes");
    assert_eq!(ids(&machine), [0, 1]);
    let second = machine.node(NodeId(1)).unwrap();
    assert_eq!(second.cpus, [4, 5, 6, 7, 12, 13, 14, 15].map(CpuId));
    assert_eq!(second.memory_bytes, 66_029_808 * 1024);
    assert_eq!(second.free_bytes, 60_211_340 * 1024);
    assert_eq!(second.distances, [21, 10]);
    assert_eq!((second.physical, second.logical), (NodeId(1), false));
    assert_eq!(machine.node_of_cpu(CpuId(9)).unwrap().id, NodeId(0));
    assert!(machine.node_of_cpu(CpuId(16)).is_none());
}

#[test]
fn a_machine_with_eight_nodes_has_its_thousand_cpus() {
    let machine = read("eight-nodes");
    assert_eq!(machine.nodes.len(), 8);
    assert_eq!(machine.cpus(), (0..1024).map(CpuId).collect::<Vec<_>>());
    assert!(machine.nodes.iter().all(|node| node.cpus.len() == 128));
}

#[test]
fn a_node_with_memory_only_has_no_cpus_and_numbers_may_have_gaps() {
    let machine = read("memory-only-node");
    assert_eq!(ids(&machine), [0, 2]);
    assert!(machine.nodes[1].cpus.is_empty() && machine.working_nodes() == 1);
    assert_eq!(machine.nodes[1].memory_bytes, 134_217_728 * 1024);
    // Logical nodes are on physical nodes with CPUs.
    let split = machine.with_logical_nodes(2).unwrap();
    assert!(split.nodes.iter().all(|node| node.physical == NodeId(0)));
    assert_eq!(split.nodes[0].memory_bytes, machine.nodes[0].memory_bytes / 2);
}

#[test]
fn a_machine_without_nodes_is_one_node_of_all_cpus() {
    let machine = read("no-node-folder");
    assert_eq!(ids(&machine), [0]);
    assert_eq!(machine.nodes[0].cpus, [0, 1, 3].map(CpuId));
    assert_eq!(machine.nodes[0].distances, [10]);
}

#[test]
fn pairs_of_nodes_more_than_half_as_far_again_are_warned_about() {
    let pairs = read("two-nodes").far_pairs();
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].nodes, (NodeId(0), NodeId(1)));
    assert!((pairs[0].ratio - 2.1).abs() < 1e-9);
    assert!(pairs[0].to_string().starts_with("nodes 0 and 1 are 2.1 times as far"));

    // Within a socket the ratio is 1.2: only the 4 × 4 pairs across are far.
    let pairs = read("eight-nodes").far_pairs();
    assert_eq!(pairs.len(), 16);
    assert!(pairs.iter().all(|pair| pair.nodes.0.0 < 4 && pair.nodes.1.0 >= 4));

    // 1.4 in one direction and 2.4 in the other: the worse one counts.
    assert_eq!(read("memory-only-node").far_pairs().len(), 1);
    assert!(read("no-node-folder").far_pairs().is_empty());
}

#[test]
fn exactly_one_and_a_half_is_not_far() {
    let mut machine = read("two-nodes");
    for (node, row) in machine.nodes.iter_mut().zip([[10, 15], [15, 10]]) {
        node.distances = row.to_vec();
    }
    assert!(machine.far_pairs().is_empty());
}

#[test]
fn two_nodes_split_into_four_keep_their_distances() {
    let split = read("two-nodes").with_logical_nodes(4).unwrap();
    let physical: Vec<u32> = split.nodes.iter().map(|node| node.physical.0).collect();
    assert_eq!(physical, [0, 0, 1, 1]);
    assert_eq!(split.nodes[0].distances, [10, 10, 21, 21]);
    assert_eq!(split.nodes[3].distances, [21, 21, 10, 10]);
    assert_eq!(split.nodes[1].cpus, [8, 9, 10, 11].map(CpuId));
}

#[test]
fn more_logical_nodes_than_cpus_share_them() {
    let split = read("no-node-folder").with_logical_nodes(8).unwrap();
    let first: Vec<u32> = split.nodes.iter().map(|node| node.cpus[0].0).collect();
    assert_eq!(first, [0, 0, 0, 1, 1, 1, 3, 3]);
}

#[test]
fn the_text_of_a_topology_shows_all_that_an_administrator_asks_for() {
    let text = read("memory-only-node").to_string();
    let wanted = "node 0: cpus 0-3, 32000 MiB, 16000 MiB free\n\
                  node 2: no cpus, 131072 MiB, 130859 MiB free\n\
                  distance    0    2\n       0   10   14\n       2   24   10";
    assert_eq!(text, wanted);
}

#[test]
fn garbage_in_any_file_is_an_error_that_names_the_file_and_its_content() {
    let cases: [(&str, &[u8]); 7] = [
        ("devices/system/node/online", b"all of them"),
        ("devices/system/node/online", b"0-4294967295"),
        ("devices/system/node/node1/cpulist", b"4-\xff\xfe"),
        ("devices/system/node/node0/distance", b"10"),
        ("devices/system/node/node0/distance", b"10 far"),
        ("devices/system/node/node1/meminfo", b"Node 1 MemTotal: lots"),
        ("devices/system/node/node1/meminfo", b""),
    ];
    for (file, content) in cases {
        let (folder, path) = altered(file, Some(content));
        match Topology::from_sysfs(folder.path()) {
            Err(MachineError::Malformed { path: named, content: shown, .. }) => {
                assert_eq!(named, path);
                assert_eq!(shown, String::from_utf8_lossy(content));
            }
            other => panic!("{file}: {other:?}"),
        }
    }
}

#[test]
fn a_missing_file_of_a_node_is_an_error_that_names_it() {
    for file in ["cpulist", "distance", "meminfo"] {
        let (folder, path) = altered(&format!("devices/system/node/node1/{file}"), None);
        let error = Topology::from_sysfs(folder.path()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = Topology::from_sysfs(empty.path()).unwrap_err();
    assert!(matches!(error, MachineError::Unreadable { .. }), "{error}");
}

#[test]
fn a_machine_without_cpus_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("devices/system/cpu");
    fs::create_dir_all(&cpus).unwrap();
    fs::write(cpus.join("online"), "\n").unwrap();
    let error = Topology::from_sysfs(folder.path()).unwrap_err();
    assert!(matches!(error, MachineError::NoCpus { .. }), "{error}");
}
