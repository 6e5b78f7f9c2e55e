//! Separate extents, mapped side by side.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use atoll_memory::stitch::{Piece, Stitched};
use atoll_memory::{Access, MemoryError, Store, StoreOptions};

const EXTENT: u64 = 64 << 10;
const FIRST: u64 = 4 << 20;

fn store() -> Arc<Store> {
    let options =
        StoreOptions { capacity_bytes: 64 << 20, limit_bytes: 32 << 20, huge_pages: false };
    let store = Store::create_memfd("atoll-test", &options).unwrap();
    store.commit(FIRST, 8 << 20).unwrap();
    Arc::new(store)
}

fn bytes(stitched: &Stitched, len: usize) -> &[u8] {
    // SAFETY: the callers ask for no more than they stitched, and no thread writes meanwhile.
    unsafe { std::slice::from_raw_parts(stitched.address(), len) }
}

/// Extents filled with 1, 2, 3; the order of their offsets differs from that of the numbers.
fn three(store: &Arc<Store>) -> [u64; 3] {
    let places = [FIRST + 2 * EXTENT, FIRST, FIRST + 5 * EXTENT];
    let access = Access::new(Arc::clone(store));
    for (byte, place) in (1..).zip(places) {
        access.fill(place, byte, EXTENT);
    }
    places
}

#[test]
fn pieces_are_mapped_side_by_side_in_their_order() {
    let store = store();
    let [a, b, c] = three(&store);
    let pieces =
        [Piece::Shared(a, EXTENT), Piece::Shared(b, EXTENT), Piece::Shared(c, EXTENT / 2 + 3)];
    let stitched = Stitched::map(&store, &pieces).unwrap();
    let all = bytes(&stitched, (2 * EXTENT + EXTENT / 2 + 3) as usize);
    let expected = |at: usize| 1 + (at as u64 / EXTENT) as u8;
    assert!(all.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
}

#[test]
fn nothing_is_copied_but_what_is_private() {
    let store = store();
    let [a, b, c] = three(&store);
    let patched = vec![9; EXTENT as usize];
    let pieces = [Piece::Shared(a, EXTENT), Piece::Private(&patched), Piece::Shared(c, EXTENT)];
    let stitched = Stitched::map(&store, &pieces).unwrap();
    let access = Access::new(Arc::clone(&store));
    [a, b, c].into_iter().for_each(|place| access.store_u64(place, u64::MAX));
    let starts: Vec<u8> =
        (0..3).map(|at| bytes(&stitched, 3 * EXTENT as usize)[at * EXTENT as usize]).collect();
    assert_eq!(starts, [0xff, 9, 0xff]);
}

#[test]
fn it_keeps_the_memory_when_the_store_is_let_go() {
    let store = store();
    let [a, ..] = three(&store);
    let stitched = Stitched::map(&store, &[Piece::Shared(a, EXTENT)]).unwrap();
    drop(store);
    assert!(bytes(&stitched, EXTENT as usize).iter().all(|byte| *byte == 1));
}

#[test]
fn pieces_that_are_not_whole_pages_or_not_in_the_store_are_refused() {
    let store = store();
    let [a, b, _] = three(&store);
    let bad = [
        vec![Piece::Shared(a, EXTENT - 8), Piece::Shared(b, EXTENT)],
        vec![Piece::Private(&[0; 100]), Piece::Shared(b, EXTENT)],
        vec![Piece::Shared(a + 64, EXTENT)],
        vec![Piece::Shared(a, EXTENT), Piece::Shared(64 << 20, EXTENT)],
        vec![Piece::Shared((64 << 20) - EXTENT, 2 * EXTENT)],
        vec![Piece::Shared(u64::MAX - 4095, EXTENT)],
    ];
    for pieces in bad {
        let error = Stitched::map(&store, &pieces).unwrap_err();
        assert!(matches!(error, MemoryError::InvalidOption { .. }), "{pieces:?}: {error}");
    }
    Stitched::map(&store, &[]).unwrap();
    Stitched::map(&store, &[Piece::Shared(a, 0), Piece::Private(&[])]).unwrap();
}
