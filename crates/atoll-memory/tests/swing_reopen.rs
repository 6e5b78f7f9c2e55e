//! SwingMalloc in a shared store: the reserved region, inspection, reopening, damage.
#![allow(clippy::unwrap_used)]

use atoll_memory::{CHUNK_BYTES, MemoryError, Store, StoreOptions, SwingConfig, SwingMalloc};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
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

fn second_mapping(store: &Store) -> Arc<Store> {
    let fd = store.fd().try_clone_to_owned().unwrap();
    Arc::new(Store::attach_writable(fd, store.limit_bytes()).unwrap())
}

#[test]
fn the_reserved_region_is_at_a_fixed_place_and_never_handed_out() {
    let swing = swing(64 * MIB);
    let (offset, len) = swing.reserved_region();
    assert_eq!(len, 4 * MIB, "rounded up to chunks");
    swing.store().commit(offset, 8).unwrap();
    let at = swing.store().base_mut().unwrap().wrapping_add(offset as usize).cast::<u64>();
    // SAFETY: committed above; the region is the application's.
    unsafe { at.write(77) };
    while let Ok(extent) = swing.allocate(MIB) {
        assert!(extent.offset >= offset + len);
    }
    let reader = Arc::new(Store::attach(swing.store().read_only_fd().unwrap()).unwrap());
    let inspector = SwingMalloc::open(reader).unwrap();
    assert_eq!(inspector.reserved_region(), (offset, len));
    let at = inspector.store().slice(offset, 8).unwrap().cast::<u64>();
    // SAFETY: in bounds, committed by the owner.
    assert_eq!(unsafe { at.read() }, 77);
}

#[test]
fn a_read_only_handle_sees_allocations_but_changes_nothing() {
    let swing = swing(64 * MIB);
    let kept = swing.allocate(10_000).unwrap();
    let freed = swing.allocate(10_000).unwrap();
    swing.free(freed.offset).unwrap();
    let reader = Arc::new(Store::attach(swing.store().read_only_fd().unwrap()).unwrap());
    let inspector = SwingMalloc::open(reader).unwrap();
    assert_eq!((inspector.allocated_bytes(), inspector.extents_live()), (16_384, 1));
    assert_eq!(inspector.extent_at(kept.offset), Some(kept));
    assert!(!inspector.is_allocated(freed.offset));
    assert!(matches!(inspector.allocate(1), Err(MemoryError::ReadOnly)));
    assert!(matches!(inspector.free(kept.offset), Err(MemoryError::ReadOnly)));
    inspector.trim();
    drop(inspector);
    assert!(swing.is_allocated(kept.offset));
}

#[test]
fn one_handle_at_a_time_may_change_a_store() {
    let swing = swing(64 * MIB);
    let store = Arc::clone(swing.store());
    let other = second_mapping(&store);
    assert!(matches!(SwingMalloc::open(Arc::clone(&store)), Err(MemoryError::InUse)));
    assert!(matches!(SwingMalloc::open(Arc::clone(&other)), Err(MemoryError::InUse)));
    drop(swing);
    let created = SwingMalloc::create(Arc::clone(&store), &config());
    assert!(matches!(created, Err(MemoryError::HasAllocator)));
    drop(SwingMalloc::open(store).unwrap());
    SwingMalloc::open(other).unwrap();
}

#[test]
fn the_allocator_works_on_in_a_second_mapping() {
    let swing = swing(900 * MIB);
    let small = swing.allocate(5_000).unwrap();
    let large = swing.allocate(300 * MIB).unwrap();
    let cached = swing.allocate(5_000).unwrap();
    swing.free(cached.offset).unwrap();
    let store = second_mapping(swing.store());
    let baseline = swing.store().committed_bytes();
    drop(swing);
    let swing = SwingMalloc::open(store).unwrap();
    assert_eq!((swing.extents_live(), swing.allocated_bytes()), (2, 300 * MIB + 8_192));
    assert_eq!(swing.store().committed_bytes(), baseline);
    let new = swing.allocate(5_000).unwrap();
    assert_ne!(new.offset, small.offset);
    for extent in [small, large, new] {
        assert_eq!(swing.free(extent.offset).unwrap(), extent.size_bytes);
    }
    swing.trim();
    assert_eq!(swing.largest_free_bytes(), 256 * MIB);
    assert_eq!(swing.extents_live(), 0);
    assert_eq!(swing.store().committed_bytes(), CHUNK_BYTES);
}

#[test]
fn what_a_killed_owner_had_cached_is_free_after_reopening() {
    let swing = swing(64 * MIB);
    let kept = swing.allocate(4096).unwrap();
    let cached: Vec<_> = (0..20).map(|_| swing.allocate(4096).unwrap()).collect();
    for extent in cached {
        swing.free(extent.offset).unwrap();
    }
    // A copy of the store as a kill would leave it: the magazines were never emptied.
    let copy = tempfile::tempfile().unwrap();
    copy.set_len(swing.store().capacity_bytes()).unwrap();
    let source = File::from(swing.store().fd().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; 8 * MIB as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    // It was killed half-way through a change, too: the root promises nothing although there is
    // free space. (The tree follows the headers and the table, its root is node 1.)
    assert_ne!(bytes[3 * 4096 + 1], 0x1f);
    bytes[3 * 4096 + 1] = 0x1f;
    copy.write_all_at(&bytes, 0).unwrap();
    let store = Arc::new(Store::attach_writable(OwnedFd::from(copy), 64 * MIB).unwrap());
    let survivor = SwingMalloc::open(store).unwrap();
    assert_eq!((survivor.extents_live(), survivor.allocated_bytes()), (1, 4096));
    survivor.free(kept.offset).unwrap();
    survivor.trim();
    assert_eq!(survivor.largest_free_bytes(), 256 * MIB);
}

#[test]
fn a_store_without_a_valid_allocator_says_why() {
    let store = store_for(&config(), 64 * MIB);
    let none = SwingMalloc::open(Arc::clone(&store));
    assert!(matches!(none, Err(MemoryError::BadMagic { .. })));
    drop(SwingMalloc::create(Arc::clone(&store), &config()).unwrap());
    let header = store.base_mut().unwrap().wrapping_add(4096);
    let with_byte_flipped = |at: usize| {
        // SAFETY: the header page is committed and no handle has the allocator open.
        unsafe { *header.add(at) ^= 0x40 };
        let opened = SwingMalloc::open(Arc::clone(&store)).map(|_| ());
        // SAFETY: as above.
        unsafe { *header.add(at) ^= 0x40 };
        opened
    };
    assert!(matches!(with_byte_flipped(0), Err(MemoryError::BadMagic { .. })));
    assert!(matches!(with_byte_flipped(8), Err(MemoryError::ForeignVersion { .. })));
    for at in 12..72 {
        let opened = with_byte_flipped(at);
        assert!(matches!(opened, Err(MemoryError::Corrupt { .. })), "byte {at}: {opened:?}");
    }
    SwingMalloc::open(store).unwrap();
}
