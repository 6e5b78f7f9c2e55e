//! SwingMalloc: sizes, errors, pressure, headroom.
#![allow(clippy::unwrap_used)]

use atoll_memory::{
    CHUNK_BYTES, Extent, MemoryError, Shortage, Store, StoreOptions, SwingConfig, SwingMalloc,
};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn config() -> SwingConfig {
    SwingConfig {
        buddy_bytes: 256 * MIB,
        large_blocks: vec![(512 * MIB, 2), (1024 * MIB, 1)],
        reserved_bytes: 3 * MIB,
    }
}

fn store_for(config: &SwingConfig, limit_bytes: u64) -> Arc<Store> {
    let capacity_bytes = SwingMalloc::capacity_for(config);
    let options = StoreOptions { capacity_bytes, limit_bytes, huge_pages: false };
    Arc::new(Store::create_memfd("swing", &options).unwrap())
}

fn swing(limit_bytes: u64) -> SwingMalloc {
    SwingMalloc::create(store_for(&config(), limit_bytes), &config()).unwrap()
}

fn shortage(result: Result<Extent, MemoryError>) -> Shortage {
    match result {
        Err(MemoryError::OutOfMemory { shortage, .. }) => shortage,
        other => panic!("expected out of memory, got {other:?}"),
    }
}

#[test]
fn the_true_size_is_a_power_of_two_and_the_extent_is_aligned_to_it() {
    let swing = swing(256 * MIB);
    let sizes = [(0, 128), (1, 128), (128, 128), (129, 256), (65_537, 131_072), (MIB, MIB)];
    for (asked, got) in sizes {
        let extent = swing.allocate(asked).unwrap();
        assert_eq!(extent.size_bytes, got);
        assert_eq!(extent.offset % got, 0);
        assert_eq!(swing.store().base() as u64 % CHUNK_BYTES, 0);
    }
    let extent = swing.allocate(33 * MIB).unwrap();
    assert_eq!((extent.size_bytes, extent.offset % CHUNK_BYTES), (64 * MIB, 0));
}

#[test]
fn what_is_too_large_for_the_buddy_part_comes_from_the_smallest_block_that_holds_it() {
    let swing = swing(900 * MIB);
    let small = swing.allocate(300 * MIB + 1).unwrap();
    assert_eq!(small.size_bytes, 302 * MIB);
    let large = swing.allocate(513 * MIB).unwrap();
    assert_eq!(large.size_bytes, 514 * MIB);
    assert_eq!(large.offset - small.offset, 1024 * MIB, "in the class of 1 GiB");
    assert_eq!(swing.allocated_bytes(), 816 * MIB);
    assert_eq!(swing.extents_live(), 2);
    let committed = swing.store().committed_bytes();
    assert_eq!(shortage(swing.allocate(300 * MIB)), Shortage::Limit);
    assert_eq!(swing.store().committed_bytes(), committed);
    assert_eq!(swing.free(small.offset).unwrap(), 302 * MIB);
    assert_eq!(swing.allocate(300 * MIB).unwrap().offset, small.offset);
    assert_eq!(swing.free(large.offset).unwrap(), 514 * MIB);
    assert!(matches!(swing.free(large.offset), Err(MemoryError::NotAllocated { .. })));
    let error = swing.allocate(1025 * MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::TooLarge { largest_bytes, .. } if largest_bytes == 1 << 30)
    );
    assert!(matches!(swing.allocate(u64::MAX), Err(MemoryError::TooLarge { .. })));
}

#[test]
fn a_table_without_a_free_block_is_out_of_memory() {
    let config = SwingConfig { large_blocks: vec![(4 * MIB, 1)], buddy_bytes: 2 * MIB, ..config() };
    let swing = SwingMalloc::create(store_for(&config, 64 * MIB), &config).unwrap();
    let held = swing.allocate(3 * MIB).unwrap();
    assert_eq!(shortage(swing.allocate(3 * MIB)), Shortage::AddressSpace);
    let whole = swing.allocate(2 * MIB).unwrap();
    assert_eq!(shortage(swing.allocate(1)), Shortage::AddressSpace);
    swing.free(held.offset).unwrap();
    swing.free(whole.offset).unwrap();
    swing.allocate(4 * MIB).unwrap();
    swing.allocate(1).unwrap();
}

#[test]
fn bad_offsets_and_double_frees_are_errors_that_change_nothing() {
    let swing = swing(64 * MIB);
    let sizes = [128, 4096, 65_536, MIB, 2 * MIB, 8 * MIB];
    let extents = sizes.map(|size| swing.allocate(size).unwrap());
    let before = (swing.allocated_bytes(), swing.extents_live());
    let capacity = swing.store().capacity_bytes();
    let mut bad = vec![0, 1, 4096, capacity - 1, capacity, u64::MAX, swing.reserved_region().0];
    for extent in extents {
        bad.extend([extent.offset + 1, extent.offset + 64]);
        if extent.size_bytes > 128 {
            bad.extend([extent.offset + 128, extent.offset + extent.size_bytes / 2]);
        }
    }
    for offset in bad {
        let error = swing.free(offset).unwrap_err();
        assert!(matches!(error, MemoryError::NotAllocated { .. }), "{offset}: {error}");
        assert!(!swing.is_allocated(offset));
    }
    assert_eq!((swing.allocated_bytes(), swing.extents_live()), before);
    for extent in extents {
        assert_eq!(swing.extent_at(extent.offset), Some(extent));
        assert_eq!(swing.free(extent.offset).unwrap(), extent.size_bytes);
        assert!(!swing.is_allocated(extent.offset));
        let again = swing.free(extent.offset);
        assert!(matches!(again, Err(MemoryError::NotAllocated { .. })), "{again:?}");
    }
    assert_eq!((swing.allocated_bytes(), swing.extents_live()), (0, 0));
    swing.trim();
    for extent in extents {
        assert!(swing.free(extent.offset).is_err(), "also when nothing is cached");
    }
    assert_eq!(swing.largest_free_bytes(), 256 * MIB);
}

#[test]
fn a_freed_extent_is_handed_out_again_first_and_counts_as_free_meanwhile() {
    let swing = swing(64 * MIB);
    let first = swing.allocate(65_536).unwrap();
    swing.free(first.offset).unwrap();
    assert_eq!((swing.allocated_bytes(), swing.extents_live()), (0, 0));
    assert_eq!(swing.allocate(50_000).unwrap(), first);
    assert_eq!((swing.allocated_bytes(), swing.extents_live()), (65_536, 1));
}

#[test]
fn everything_freed_and_trimmed_goes_back_to_the_system() {
    let swing = swing(900 * MIB);
    let baseline = swing.store().committed_bytes();
    let mut extents = Vec::new();
    for round in 0..40 {
        for size in [128, 300, 5_000, 65_536, 200_000, MIB, 3 * MIB] {
            extents.push(swing.allocate(size + round).unwrap());
        }
    }
    extents.push(swing.allocate(300 * MIB).unwrap());
    assert!(swing.store().committed_bytes() > 480 * MIB);
    for extent in &extents {
        swing.free(extent.offset).unwrap();
    }
    assert_eq!((swing.allocated_bytes(), swing.extents_live()), (0, 0));
    let idle = swing.store().committed_bytes();
    assert!(idle <= baseline + 64 * MIB + 40 * MIB, "{idle}: more than what is kept warm");
    assert!(idle > baseline, "nothing is kept warm");
    swing.trim();
    assert_eq!(swing.store().committed_bytes(), baseline);
    assert_eq!(swing.largest_free_bytes(), 256 * MIB);
    swing.allocate(128).unwrap();
}

#[test]
fn at_the_limit_allocation_fails_cleanly_and_works_again_after_frees() {
    for size in [128_u64, 4096, 65_536, MIB, 2 * MIB, 16 * MIB] {
        let swing = swing(40 * MIB);
        let mut extents = Vec::new();
        let error = loop {
            match swing.allocate(size) {
                Ok(extent) => extents.push(extent),
                Err(error) => break error,
            }
        };
        let MemoryError::OutOfMemory { asked_bytes, limit_bytes, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((asked_bytes, limit_bytes), (size, 40 * MIB));
        assert_eq!(swing.allocated_bytes(), extents.len() as u64 * size);
        assert!(swing.store().committed_bytes() <= 40 * MIB);
        assert!(swing.allocated_bytes() >= 32 * MIB, "the limit is used, {size}");
        for extent in extents.drain(..) {
            swing.free(extent.offset).unwrap();
        }
        assert_eq!(swing.allocated_bytes(), 0);
        // All space is warm or in magazines now; an allocation of another size must get it.
        let other = if size < MIB { 16 * MIB } else { 4096 };
        swing.allocate(other).unwrap();
        swing.trim();
        assert_eq!(swing.extents_live(), 1);
    }
}

#[test]
fn memory_in_magazines_is_given_back_before_out_of_memory_is_reported() {
    let config = SwingConfig { buddy_bytes: 2 * MIB, ..config() };
    let swing = SwingMalloc::create(store_for(&config, 64 * MIB), &config).unwrap();
    let small: Vec<_> = (0..32).map(|_| swing.allocate(65_536).unwrap()).collect();
    for extent in small {
        swing.free(extent.offset).unwrap();
    }
    assert_ne!(swing.largest_free_bytes(), 2 * MIB, "nothing is cached: the test shows nothing");
    assert_eq!(swing.allocate(2 * MIB).unwrap().size_bytes, 2 * MIB);
}

#[test]
fn headroom_is_left_by_ordinary_allocations_and_usable_when_nothing_may_fail() {
    let swing = swing(64 * MIB);
    swing.set_headroom(16 * MIB);
    while swing.allocate(MIB).is_ok() {}
    assert!(swing.store().committed_bytes() <= 48 * MIB);
    assert_eq!(shortage(swing.allocate(2 * MIB)), Shortage::Headroom);
    let saved: Vec<_> = (0..16).map(|_| swing.allocate_from_headroom(MIB).unwrap()).collect();
    assert_eq!(shortage(swing.allocate_from_headroom(MIB)), Shortage::Limit);
    for extent in saved {
        swing.free(extent.offset).unwrap();
    }
    swing.set_headroom(0);
    swing.allocate(4 * MIB).unwrap();
}

#[test]
fn impossible_configurations_are_refused() {
    let bad = [
        SwingConfig { buddy_bytes: 3 * MIB, ..config() },
        SwingConfig { buddy_bytes: MIB, ..config() },
        SwingConfig { buddy_bytes: 1 << 38, ..config() },
        SwingConfig { buddy_bytes: 0, ..config() },
        SwingConfig { large_blocks: vec![(MIB, 1)], ..config() },
        SwingConfig { large_blocks: vec![(0, 1)], ..config() },
        SwingConfig { large_blocks: vec![(2 * MIB, u32::MAX)], ..config() },
        SwingConfig { large_blocks: vec![(1 << 62, 3)], ..config() },
        SwingConfig { reserved_bytes: u64::MAX, ..config() },
    ];
    for config in bad {
        assert_eq!(SwingMalloc::capacity_for(&config), 0, "{config:?}");
        let error = SwingMalloc::create(store_for(&self::config(), 8 * MIB), &config).unwrap_err();
        assert!(matches!(error, MemoryError::InvalidOption { .. }), "{error}");
    }
    let larger = SwingConfig { reserved_bytes: 1 << 40, ..config() };
    let error = SwingMalloc::create(store_for(&config(), 8 * MIB), &larger).unwrap_err();
    assert!(matches!(error, MemoryError::InvalidOption { .. }), "{error}");
    let store = store_for(&config(), CHUNK_BYTES);
    SwingMalloc::create(store, &config()).unwrap();
}

#[test]
fn the_default_sizes_cost_only_their_metadata() {
    let config = SwingConfig::default();
    let swing = SwingMalloc::create(store_for(&config, 64 * MIB), &config).unwrap();
    assert!(swing.store().capacity_bytes() > 448 << 30);
    assert_eq!(swing.largest_free_bytes(), 64 << 30);
    assert_eq!(swing.store().committed_bytes(), CHUNK_BYTES);
    swing.allocate(128).unwrap();
    assert_eq!(swing.store().committed_bytes(), 3 * CHUNK_BYTES);
}

#[test]
fn free_blocks_beyond_the_warm_budget_go_back_at_once() {
    let swing = swing(200 * MIB);
    let baseline = swing.store().committed_bytes();
    let free_all = |size| {
        let extents: Vec<_> = (0..4).map(|_| swing.allocate(size).unwrap()).collect();
        for extent in extents {
            swing.free(extent.offset).unwrap();
        }
        swing.store().committed_bytes() - baseline
    };
    swing.set_warm_bytes(16 * MIB);
    assert_eq!(free_all(8 * MIB), 16 * MIB);
    assert_eq!(free_all(8 * MIB), 16 * MIB, "the second time as the first");
    swing.set_warm_bytes(0);
    swing.trim();
    assert_eq!(free_all(8 * MIB), 0);
    swing.set_warm_bytes(u64::MAX);
    assert_eq!(free_all(32 * MIB), 128 * MIB);
    swing.allocate(128 * MIB).unwrap();
    assert!(swing.store().committed_bytes() <= 200 * MIB, "warm blocks yielded");
}

#[test]
fn blocks_that_were_made_ready_are_taken_before_others_and_need_no_more_space() {
    let swing = swing(64 * MIB);
    let kept = swing.allocate(100).unwrap();
    swing.set_warm_bytes(40 * MIB);
    assert_eq!(swing.make_ready(u64::MAX).unwrap(), 40 * MIB);
    let committed = swing.store().committed_bytes();
    assert!(committed >= 40 * MIB, "{committed}");
    swing.make_ready(16 * MIB).unwrap();
    let extents: Vec<_> = (0..19 * 32).map(|_| swing.allocate(65_536).unwrap()).collect();
    assert_eq!(swing.store().committed_bytes(), committed);
    assert!(extents.iter().all(|extent| extent.offset != kept.offset));

    swing.set_warm_bytes(u64::MAX);
    let rest = swing.make_ready(60 * MIB).unwrap();
    assert!((8 * MIB..26 * MIB).contains(&rest), "no more than the limit allows: {rest}");
    for extent in extents {
        swing.free(extent.offset).unwrap();
    }
    assert_eq!(swing.make_ready(33 * MIB + 1).unwrap(), 32 * MIB, "whole blocks");
    swing.allocate(32 * MIB).unwrap();
}

#[test]
fn holes_in_blocks_that_have_space_are_filled_before_new_blocks_are_taken() {
    let swing = swing(64 * MIB);
    let extents: Vec<_> = (0..12 * 32).map(|_| swing.allocate(65_536).unwrap()).collect();
    for (n, extent) in extents.iter().enumerate() {
        // One hole in every other block, and whole free blocks between them.
        if n / 32 % 2 == 1 || n % 32 == 7 {
            swing.free(extent.offset).unwrap();
        }
    }
    swing.trim();
    let committed = swing.store().committed_bytes();
    let again: Vec<_> = (0..6).map(|_| swing.allocate(65_536).unwrap()).collect();
    assert_eq!(swing.store().committed_bytes(), committed);
    again.iter().for_each(|extent| assert!(extents.contains(extent)));
    swing.allocate(65_536).unwrap();
    assert_eq!(swing.store().committed_bytes(), committed + CHUNK_BYTES);
}
