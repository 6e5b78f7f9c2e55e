//! The part of a machine that the topology keeps when a process may use only a part.

#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn machine(nodes: u32, cpus_each: u32) -> Topology {
    let node = |id: u32| Node {
        id: NodeId(id),
        physical: NodeId(id),
        cpus: (id * cpus_each..(id + 1) * cpus_each).map(CpuId).collect(),
        memory_bytes: 1 << 30,
        free_bytes: 1 << 29,
        distances: (0..nodes).map(|to| LOCAL + 11 * id.abs_diff(to)).collect(),
        logical: false,
    };
    Topology { nodes: (0..nodes).map(node).collect() }
}

fn ids(topology: &Topology) -> Vec<u32> {
    topology.nodes.iter().map(|node| node.id.0).collect()
}

#[test]
fn a_node_without_anything_allowed_is_left_out_with_its_distances() {
    let cpus = [0, 1, 4, 5].map(CpuId);
    let part = machine(3, 2).restricted(&cpus, Some(&[0, 2])).unwrap();
    assert_eq!(ids(&part), [0, 2]);
    assert_eq!(part.nodes[0].distances, [10, 32]);
    assert_eq!(part.nodes[1].distances, [32, 10]);
}

#[test]
fn cpus_and_memory_are_restricted_apart() {
    let part = machine(3, 2).restricted(&[CpuId(1)], Some(&[1])).unwrap();
    assert_eq!(ids(&part), [0, 1]);
    assert_eq!((part.nodes[0].cpus.as_slice(), part.nodes[0].memory_bytes), (&[CpuId(1)][..], 0));
    assert_eq!((part.nodes[1].cpus.len(), part.nodes[1].memory_bytes), (0, 1 << 30));
}

#[test]
fn all_memory_is_allowed_where_the_kernel_has_no_limit() {
    let whole = machine(2, 1);
    let cpus = whole.cpus();
    assert_eq!(whole.clone().restricted(&cpus, None), Some(whole));
}

#[test]
fn a_machine_without_an_allowed_cpu_is_none() {
    assert_eq!(machine(2, 2).restricted(&[CpuId(9)], None), None);
}

#[test]
fn a_status_file_without_the_line_sets_no_limit_and_garbage_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status");
    assert_eq!(allowed_memory_nodes(&path).unwrap(), None);
    std::fs::write(&path, "Name:\tx\n").unwrap();
    assert_eq!(allowed_memory_nodes(&path).unwrap(), None);
    std::fs::write(&path, "Mems_allowed_list:\t0,2\n").unwrap();
    assert_eq!(allowed_memory_nodes(&path).unwrap(), Some(vec![0, 2]));
    std::fs::write(&path, "Mems_allowed_list:\tall\n").unwrap();
    assert!(matches!(allowed_memory_nodes(&path), Err(MachineError::Malformed { .. })));
}

#[test]
fn this_machine_is_discovered_within_its_allowed_cpus() {
    let topology = Topology::discover().unwrap();
    assert!(!topology.cpus().is_empty());
    for cpu in topology.cpus() {
        assert!(allowed_cpus().unwrap().contains(&cpu));
        assert!(topology.node_of_cpu(cpu).unwrap().cpus.contains(&cpu));
    }
    for node in &topology.nodes {
        assert_eq!(node.distances.len(), topology.nodes.len());
        assert!(!node.logical && node.physical == node.id);
    }
    assert!(topology.nodes.iter().any(|node| node.memory_bytes > 0));
}

#[test]
fn zero_logical_nodes_and_too_many_are_errors() {
    let machine = machine(2, 2);
    for asked in [0, MOST_LOGICAL + 1, usize::MAX] {
        assert!(matches!(
            machine.with_logical_nodes(asked),
            Err(MachineError::LogicalNodes { .. })
        ));
    }
    let empty = Topology { nodes: Vec::new() };
    assert!(empty.with_logical_nodes(1).is_err());
}

proptest! {
    #[test]
    fn logical_nodes_share_cpus_fairly_and_use_all(
        nodes in 1_u32..5, cpus_each in 1_u32..9, count in 1_usize..80
    ) {
        let machine = machine(nodes, cpus_each);
        let split = machine.with_logical_nodes(count).unwrap();
        prop_assert_eq!(split.nodes.len(), count);
        prop_assert_eq!(split.cpus(), machine.cpus());
        let sizes: Vec<usize> = split.nodes.iter().map(|node| node.cpus.len()).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        prop_assert!(*least >= 1 && most - least <= 1, "{:?}", sizes);
        let shares: Vec<usize> = machine.cpus().iter().map(|cpu| {
            split.nodes.iter().filter(|node| node.cpus.contains(cpu)).count()
        }).collect();
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", shares);
        let memory: u64 = split.nodes.iter().map(|node| node.memory_bytes).sum();
        prop_assert!(memory <= u64::from(nodes) << 30);
    }

    #[test]
    fn logical_nodes_have_the_distances_of_their_physical_nodes(
        nodes in 1_u32..5, cpus_each in 1_u32..5, count in 1_usize..40
    ) {
        let machine = machine(nodes, cpus_each);
        let split = machine.with_logical_nodes(count).unwrap();
        for (index, from) in split.nodes.iter().enumerate() {
            prop_assert!(from.logical);
            prop_assert_eq!(from.id.0 as usize, index);
            let host = machine.node_of_cpu(from.cpus[0]).unwrap();
            prop_assert_eq!(from.physical, host.id);
            for (to, distance) in split.nodes.iter().zip(&from.distances) {
                prop_assert_eq!(*distance, host.distances[to.physical.0 as usize]);
            }
        }
    }

    #[test]
    fn splitting_again_keeps_the_nodes_of_the_kernel(
        first in 1_usize..20, second in 1_usize..20
    ) {
        let machine = machine(2, 4);
        let twice = machine.with_logical_nodes(first).unwrap().with_logical_nodes(second).unwrap();
        for node in &twice.nodes {
            let kernel = machine.node(node.physical).unwrap();
            prop_assert!(node.memory_bytes <= kernel.memory_bytes);
        }
        prop_assert_eq!(twice.cpus(), machine.cpus());
    }
}
