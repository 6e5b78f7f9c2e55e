//! Stores with pages that move between nodes, as far as one node shows it; a guest tests the rest
//! (`atoll-bench/tests/guest_cold.rs`).
#![allow(clippy::unwrap_used)]

#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use atoll_machine::{MachineError, NodeId, Topology, page_bytes};
use atoll_memory::{Access, CHUNK_BYTES, MemoryError, Residency, Store, StoreOptions, View};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CHUNKS: u64 = 12;
const BUDGET_BYTES: u64 = 2 * CHUNK_BYTES;

fn options() -> StoreOptions {
    StoreOptions {
        capacity_bytes: 32 * CHUNK_BYTES,
        limit_bytes: (CHUNKS + 1) * CHUNK_BYTES,
        huge_pages: true,
    }
}

fn words() -> impl Iterator<Item = u64> {
    (CHUNK_BYTES..(CHUNKS + 1) * CHUNK_BYTES).step_by(page_bytes())
}

/// A store of [`CHUNKS`] chunks besides that of the header; each word that the tests use holds its
/// own offset.
fn filled() -> (Arc<Store>, Access) {
    let store = Arc::new(Store::create_moving("test", &options()).unwrap());
    store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
    let access = Access::new(Arc::clone(&store));
    words().for_each(|at| access.store_u64(at, at));
    (store, access)
}

/// The only node of this machine, if it has only one and pages may be moved here.
fn only_node() -> Option<NodeId> {
    let topology = Topology::discover().unwrap();
    let mut with_memory = topology.nodes.iter().filter(|node| node.memory_bytes > 0);
    let node = with_memory.next().map(|node| node.physical)?;
    let why = if with_memory.next().is_some() {
        "there are several nodes"
    } else if atoll_machine::nodes_of(&[std::ptr::from_ref(&node).cast()]).is_err() {
        "pages may not be moved here"
    } else {
        return Some(node);
    };
    skipped::say(why);
    None
}

fn occupied(store: &Store) -> u64 {
    File::from(store.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() * 512
}

/// The entries of this process's page map for the pages of the store.
fn page_table(store: &Store) -> Vec<u64> {
    let map = File::open("/proc/self/pagemap").unwrap();
    let mut entries = vec![0; (store.capacity_bytes() / page_bytes() as u64 * 8) as usize];
    map.read_exact_at(&mut entries, store.base() as u64 / page_bytes() as u64 * 8).unwrap();
    entries.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().unwrap())).collect()
}

/// How many pages of the store this process has mapped.
fn mapped(store: &Store) -> usize {
    page_table(store).into_iter().filter(|entry| entry >> 63 != 0).count()
}

#[test]
fn a_node_that_is_not_there_is_an_error_that_names_it() {
    let (store, _) = filled();
    let error = Residency::on_node(store, BUDGET_BYTES, NodeId(1023), Vec::new()).unwrap_err();
    let MemoryError::ColdNode { node: NodeId(1023), source } = &error else { panic!("{error}") };
    assert!(
        matches!(source, MachineError::NoSuchNode { .. } | MachineError::MovingForbidden { .. }),
        "{source}"
    );
    assert!(error.to_string().contains("node 1023"), "{error}");
}

#[test]
fn nobody_but_the_owner_moves_pages() {
    let (store, _) = filled();
    let reader = Arc::new(Store::attach(store.read_only_fd().unwrap()).unwrap());
    let made = Residency::on_node(reader, BUDGET_BYTES, NodeId(0), Vec::new());
    assert!(matches!(made, Err(MemoryError::ReadOnly)));
}

#[test]
fn who_reads_a_store_whose_pages_move_lets_go_of_them_and_of_no_other() {
    let (moving, _) = filled();
    let still = Arc::new(Store::create_memfd("test", &options()).unwrap());
    still.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
    for (store, lets_go) in [(moving, true), (still, false)] {
        let reader = View::new(Arc::new(Store::attach(store.read_only_fd().unwrap()).unwrap()));
        assert!(words().all(|at| reader.load_u64(at) <= at));
        assert!(mapped(reader.store()) >= words().count());
        reader.store().let_go();
        assert_eq!(mapped(reader.store()) == 0, lets_go);
        assert!(words().all(|at| reader.load_u64(at) <= at));
    }
}

#[test]
fn a_store_whose_pages_move_reserves_all_its_space() {
    let (store, _) = filled();
    assert!(occupied(&store) >= (CHUNKS + 1) * CHUNK_BYTES);
    let whole = store.commit(CHUNK_BYTES, (CHUNKS + 1) * CHUNK_BYTES);
    assert!(whole.unwrap_err().is_out_of_memory(), "the limit");
}

#[test]
fn a_store_whose_pages_move_has_small_ones() {
    const NUMBER: u64 = (1 << 55) - 1;
    const PART_OF_LARGER: u64 = 1 << 15 | 1 << 16;
    let (store, _) = filled();
    let frames: Vec<_> =
        page_table(&store).iter().map(|e| e & NUMBER).filter(|n| *n != 0).collect();
    let Ok(flags) = File::open("/proc/kpageflags") else {
        skipped::say("only root may see how pages are put together");
        return;
    };
    assert!(frames.len() >= words().count(), "they are all mapped");
    for frame in frames {
        let mut word = [0; 8];
        flags.read_exact_at(&mut word, frame * 8).unwrap();
        assert_eq!(u64::from_le_bytes(word) & PART_OF_LARGER, 0, "frame {frame:#x}");
    }
}

#[test]
fn where_the_cold_node_is_the_only_one_a_store_works_as_any_other() {
    let Some(node) = only_node() else { return };
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 6;
    let (store, access) = filled();
    let residency = Residency::on_node(Arc::clone(&store), BUDGET_BYTES, node, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let evictor = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                residency.tend(|| stop.load(Ordering::Relaxed)).unwrap();
            }
        });
        // Another thread decommits a chunk and commits it again meanwhile.
        let spare = scope.spawn(|| {
            for _ in 0..40 {
                store.decommit(CHUNKS * CHUNK_BYTES, CHUNK_BYTES);
                store.commit(CHUNKS * CHUNK_BYTES, CHUNK_BYTES).unwrap();
                assert_eq!(access.load_u64(CHUNKS * CHUNK_BYTES), 0);
                access.store_u64(CHUNKS * CHUNK_BYTES, 1);
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let access = access.clone();
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mine = words().filter(|at| {
                            at / page_bytes() as u64 % THREADS == thread
                                && at / CHUNK_BYTES < CHUNKS
                        });
                        for at in mine {
                            assert_eq!(access.load_u64(at), at + round);
                            access.store_u64(at, at + round + 1);
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        spare.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        evictor.join().unwrap();
    });
    // After the hands have asked about all pages, none is recorded on another node.
    for _ in 0..3 {
        residency.tend(|| false).unwrap();
    }
    assert!(residency.resident_bytes().unwrap() <= BUDGET_BYTES);
    let all = words().filter(|at| at / CHUNK_BYTES < CHUNKS);
    assert!(all.into_iter().all(|at| access.load_u64(at) == at + ROUNDS));
}

#[test]
fn what_has_no_space_gets_none_by_being_looked_at() {
    let Some(node) = only_node() else { return };
    let (store, _) = filled();
    let residency = Residency::on_node(Arc::clone(&store), BUDGET_BYTES, node, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                residency.tend(|| stop.load(Ordering::Relaxed)).unwrap();
            }
        });
        for _ in 0..50 {
            store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
            store.decommit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.committed_bytes(), CHUNK_BYTES);
    assert!(occupied(&store) <= CHUNK_BYTES, "{} bytes", occupied(&store));
}

#[test]
fn space_that_was_given_back_and_taken_again_is_new() {
    let Some(node) = only_node() else { return };
    let (store, _) = filled();
    let residency = Residency::on_node(Arc::clone(&store), BUDGET_BYTES, node, Vec::new()).unwrap();
    for _ in 0..3 {
        residency.tend(|| false).unwrap();
    }
    assert!(residency.resident_bytes().unwrap() <= BUDGET_BYTES);
    store.decommit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES);
    store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
    // The records of the old space are void, so the new space counts as DRAM.
    assert!(residency.resident_bytes().unwrap() >= CHUNKS * CHUNK_BYTES);
}
