//! Stores: commits of several threads at once.
#![allow(clippy::unwrap_used)]

use atoll_memory::{CHUNK_BYTES, Store, StoreOptions};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Barrier;

fn memfd(chunks: u64, limit_chunks: u64) -> Store {
    let options = StoreOptions {
        capacity_bytes: chunks * CHUNK_BYTES,
        limit_bytes: limit_chunks * CHUNK_BYTES,
        huge_pages: false,
    };
    Store::create_memfd("threads", &options).unwrap()
}

fn occupied(store: &Store) -> u64 {
    File::from(store.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() * 512
}

/// Runs `work` on four threads that start together, and counts the `true` answers.
fn four_at_once(work: impl Fn(u64) -> bool + Sync) -> usize {
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        let (work, barrier) = (&work, &barrier);
        let start = |thread| {
            scope.spawn(move || {
                barrier.wait();
                work(thread)
            })
        };
        let threads: Vec<_> = (0..4).map(start).collect();
        threads.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
    })
}

#[test]
fn threads_that_commit_the_same_chunks_count_them_once() {
    for _ in 0..20 {
        let store = memfd(128, 33);
        let done = four_at_once(|_| store.commit(CHUNK_BYTES, 32 * CHUNK_BYTES).is_ok());
        assert_eq!(done, 4, "the limit has room for all, once");
        assert_eq!(store.committed_bytes(), 33 * CHUNK_BYTES);
        assert_eq!(occupied(&store), 33 * CHUNK_BYTES);
    }
}

#[test]
fn threads_that_commit_at_once_keep_the_limit_together() {
    for _ in 0..20 {
        let store = memfd(128, 33);
        let commit = |n| store.commit((1 + n * 20) * CHUNK_BYTES, 20 * CHUNK_BYTES).is_ok();
        assert_eq!(four_at_once(commit), 1);
        assert_eq!(store.committed_bytes(), 21 * CHUNK_BYTES);
        assert_eq!(occupied(&store), 21 * CHUNK_BYTES);
    }
}
