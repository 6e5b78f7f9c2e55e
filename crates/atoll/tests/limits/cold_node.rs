//! Databases with a cold node, as far as a machine with one node can show;
//! `atoll-bench/tests/guest_cold.rs` tests the rest in a guest.

use crate::limits_common::{self, eventually, insert, total, update, wide};
use atoll::machine::{NodeId, Topology, nodes_of};
use atoll::{Database, DatabaseOptions, Durability, Error};

const BUDGET_BYTES: u64 = 32 << 20;

fn options(cold_node: u32) -> DatabaseOptions {
    DatabaseOptions {
        memory_budget_bytes: Some(BUDGET_BYTES),
        cold_node: Some(NodeId(cold_node)),
        durability: Durability::None,
        ..DatabaseOptions::default()
    }
}

/// A node with memory, or `None` where pages cannot be moved.
fn some_node() -> Option<u32> {
    let topology = Topology::discover().unwrap();
    let node = topology.nodes.iter().rfind(|node| node.memory_bytes > 0)?;
    if nodes_of(&[std::ptr::from_ref(node).cast()]).is_err() {
        limits_common::skipped::say("pages may not be moved here");
        return None;
    }
    Some(node.id.0)
}

#[test]
fn a_cold_node_that_is_not_there_is_an_error_that_names_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let present = Topology::discover().unwrap().nodes[0].id;
    let made = [Database::create(options(1000)), Database::open(folder.path(), options(1000))];
    for made in made {
        let error = made.err().unwrap();
        let Error::NoColdNode { node: NodeId(1000), with_memory } = &error else {
            panic!("{error}")
        };
        assert!(with_memory.contains(&present), "{error}");
        assert!(error.to_string().contains("1000"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_cold_node_needs_a_budget() {
    let options = DatabaseOptions { memory_budget_bytes: None, ..options(0) };
    let error = Database::create(options).err().unwrap();
    assert!(matches!(error, Error::ColdNodeWithoutBudget(NodeId(0))), "{error}");
    assert!(error.to_string().contains("set a memory budget"), "{error}");
}

#[test]
fn its_store_may_take_the_budget_and_most_of_the_node() {
    let Some(node) = some_node() else { return };
    let allowed = atoll::machine::memory_allowed().total_bytes;
    let topology = Topology::discover().unwrap();
    let there = topology.node(NodeId(node)).unwrap().memory_bytes;
    let counters = Database::create(options(node)).unwrap().counters();
    let expected = (BUDGET_BYTES + there / 100 * 80).min(allowed / 100 * 80);
    assert_eq!(counters.memory_limit_bytes, expected);
}

#[test]
fn a_database_with_a_cold_node_needs_no_folder_and_has_every_row_and_snapshot() {
    let Some(node) = some_node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let rows = 300_000;
    for is_in_folder in [false, true] {
        let open = || match is_in_folder {
            true => Database::open(folder.path(), options(node)).unwrap(),
            false => Database::create(options(node)).unwrap(),
        };
        let db = open();
        let table = wide(&db, 0);
        for start in (0..rows).step_by(5000) {
            insert(&db, &table, start..start + 5000).unwrap();
        }
        assert!(db.counters().memory_committed_bytes > 2 * BUDGET_BYTES);
        let before = db.snapshot().unwrap();
        update(&db, &table, (0..rows).step_by(3), 5).unwrap();
        let budget = || db.budget().unwrap().unwrap();
        eventually("it is within its budget", || budget().resident_bytes <= BUDGET_BYTES);
        assert_eq!(budget().cold_node, Some(node));
        assert_eq!(total(&before).unwrap(), (rows, rows));
        let after = (rows, rows + 4 * (rows / 3));
        assert_eq!(total(&db.snapshot().unwrap()).unwrap(), after);
        drop(before);
        if is_in_folder {
            db.close().unwrap();
            assert_eq!(total(&open().snapshot().unwrap()).unwrap(), after);
        }
    }
}
