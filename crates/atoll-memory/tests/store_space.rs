//! Stores: refused options, accounting of space, and the rights of a reader.
#![allow(clippy::unwrap_used)]

#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use atoll_machine::Mapping;
use atoll_memory::{CHUNK_BYTES, MemoryError, Shortage, Store, StoreOptions};
use rustix::mm::MapFlags;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

fn options(chunks: u64, limit_chunks: u64) -> StoreOptions {
    StoreOptions {
        capacity_bytes: chunks * CHUNK_BYTES,
        limit_bytes: limit_chunks * CHUNK_BYTES,
        huge_pages: true,
    }
}

fn memfd(chunks: u64, limit_chunks: u64) -> Store {
    Store::create_memfd("test", &options(chunks, limit_chunks)).unwrap()
}

fn occupied(store: &Store) -> u64 {
    File::from(store.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() * 512
}

fn shortage(result: Result<(), MemoryError>) -> Shortage {
    match result {
        Err(MemoryError::OutOfMemory { shortage, .. }) => shortage,
        other => panic!("expected out of memory, got {other:?}"),
    }
}

#[test]
fn a_sparse_store_occupies_only_what_is_committed() {
    let store = memfd(1 << 17, 16);
    assert_eq!(store.committed_bytes(), CHUNK_BYTES, "the header's chunk");
    store.commit(7 * CHUNK_BYTES + 5, CHUNK_BYTES).unwrap();
    assert_eq!(store.committed_bytes(), 3 * CHUNK_BYTES);
    assert_eq!(occupied(&store), 3 * CHUNK_BYTES);
    store.commit(7 * CHUNK_BYTES, 1).unwrap();
    assert_eq!(store.committed_bytes(), 3 * CHUNK_BYTES, "twice is once");
}

#[test]
fn decommit_gives_back_whole_chunks_only_and_they_read_as_zeros() {
    let store = memfd(64, 16);
    store.commit(8 * CHUNK_BYTES, 4 * CHUNK_BYTES).unwrap();
    let at = |chunk: u64| store.base_mut().unwrap().wrapping_add((chunk * CHUNK_BYTES) as usize);
    for chunk in 8..12 {
        // SAFETY: the chunk was committed above and no other code uses it.
        unsafe { at(chunk).write(chunk as u8) };
    }
    store.decommit(8 * CHUNK_BYTES + 1, 3 * CHUNK_BYTES);
    assert_eq!(store.committed_bytes(), 3 * CHUNK_BYTES);
    assert_eq!(occupied(&store), 3 * CHUNK_BYTES);
    store.commit(8 * CHUNK_BYTES, 4 * CHUNK_BYTES).unwrap();
    // SAFETY: committed again.
    let bytes: Vec<u8> = (8..12).map(|chunk| unsafe { at(chunk).read() }).collect();
    assert_eq!(bytes, [8, 0, 0, 11]);
}

#[test]
fn the_limit_is_an_error_that_leaves_nothing_counted_and_giving_back_helps() {
    let store = memfd(64, 8);
    store.commit(CHUNK_BYTES, 3 * CHUNK_BYTES).unwrap();
    assert_eq!(shortage(store.commit(2 * CHUNK_BYTES, 7 * CHUNK_BYTES)), Shortage::Limit);
    assert_eq!(store.committed_bytes(), 4 * CHUNK_BYTES);
    assert_eq!(occupied(&store), 4 * CHUNK_BYTES);
    let two_left = 2 * CHUNK_BYTES;
    store.commit_below(8 * CHUNK_BYTES, 2 * CHUNK_BYTES, two_left).unwrap();
    let more = store.commit_below(10 * CHUNK_BYTES, 1, two_left);
    assert_eq!(shortage(more), Shortage::Headroom);
    store.commit_below(9 * CHUNK_BYTES, 1, u64::MAX).unwrap();
    store.commit(10 * CHUNK_BYTES, 2 * CHUNK_BYTES).unwrap();
    assert_eq!(shortage(store.commit(12 * CHUNK_BYTES, 1)), Shortage::Limit);
    store.decommit(CHUNK_BYTES, CHUNK_BYTES);
    store.commit(12 * CHUNK_BYTES, 1).unwrap();
}

#[test]
fn ranges_outside_the_store_are_refused() {
    let store = memfd(4, 4);
    for (offset, len) in [(4 * CHUNK_BYTES, 1), (u64::MAX, 1), (1, u64::MAX), (0, 9 << 20)] {
        let error = store.commit(offset, len).unwrap_err();
        assert!(matches!(error, MemoryError::OutOfBounds { .. }), "{error}");
        assert!(store.slice(offset, len).is_none());
        store.decommit(offset, len);
    }
    assert_eq!(store.slice(5, 3), Some(store.base().wrapping_add(5)));
    assert_eq!(store.committed_bytes(), CHUNK_BYTES);
    assert_eq!(store.base() as u64 % CHUNK_BYTES, 0);
}

#[test]
fn impossible_options_are_refused() {
    for capacity_bytes in [0, u64::MAX, 1 << 63] {
        let options = StoreOptions { capacity_bytes, limit_bytes: 1 << 30, huge_pages: false };
        let error = Store::create_memfd("test", &options).unwrap_err();
        assert!(matches!(error, MemoryError::InvalidOption { .. }), "{error}");
    }
    let too_small = options(4, 0);
    assert!(Store::create_memfd("test", &too_small).unwrap_err().is_out_of_memory());
    let error = Store::create_memfd("a\0b", &options(4, 4)).unwrap_err();
    assert!(matches!(error, MemoryError::InvalidOption { value: 1, .. }), "{error}");
}

#[test]
fn a_reader_sees_the_owners_bytes_but_cannot_change_anything() {
    let store = memfd(16, 8);
    store.commit(4 * CHUNK_BYTES, 16).unwrap();
    // SAFETY: committed above.
    unsafe { store.base_mut().unwrap().add(4 * CHUNK_BYTES as usize).write(42) };
    let fd = store.read_only_fd().unwrap();
    let mapped = Mapping::of_file(&fd, 4096, MapFlags::SHARED);
    assert!(mapped.is_err(), "a read-only descriptor was mapped for writing");
    let writable = Store::attach_writable(fd.try_clone().unwrap(), 1 << 30);
    assert!(matches!(writable, Err(MemoryError::System { .. })));
    let reader = Store::attach(fd).unwrap();
    assert_eq!(reader.id(), store.id());
    assert_eq!(reader.capacity_bytes(), store.capacity_bytes());
    assert_ne!(reader.base(), store.base());
    assert!(!reader.is_writable() && reader.base_mut().is_none());
    // SAFETY: in bounds and committed.
    let byte = unsafe { reader.slice(4 * CHUNK_BYTES, 1).unwrap().read() };
    assert_eq!(byte, 42);
    assert!(matches!(reader.commit(0, 1), Err(MemoryError::ReadOnly)));
    reader.decommit(0, 16 * CHUNK_BYTES);
    assert_eq!(occupied(&store), 2 * CHUNK_BYTES);
    assert_eq!(reader.committed_bytes(), 2 * CHUNK_BYTES);
}

#[test]
fn two_stores_have_different_ids() {
    assert_ne!(memfd(1, 1).id(), memfd(1, 1).id());
}

fn attach_bytes(bytes: &[u8], size: u64) -> Result<Store, MemoryError> {
    let file = tempfile::tempfile().unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    Store::attach(OwnedFd::from(file))
}

/// The first page of a real store, and its size.
fn good_header() -> (Vec<u8>, u64) {
    let store = memfd(4, 4);
    let file = File::from(store.fd().try_clone_to_owned().unwrap());
    let mut page = vec![0; 4096];
    file.read_exact_at(&mut page, 0).unwrap();
    (page, store.capacity_bytes())
}

#[test]
fn attaching_what_is_not_a_whole_store_of_this_version_says_why() {
    let (good, size) = good_header();
    attach_bytes(&good, size).unwrap();
    assert!(matches!(attach_bytes(&[], 0), Err(MemoryError::BadMagic { .. })));
    assert!(matches!(attach_bytes(&[7; 100], 100), Err(MemoryError::BadMagic { .. })));
    assert!(matches!(attach_bytes(&[0; 4096], size), Err(MemoryError::BadMagic { .. })));
    assert!(matches!(attach_bytes(&good[..20], 20), Err(MemoryError::Truncated { .. })));
    let cut = attach_bytes(&good, size - 4096);
    assert!(matches!(cut, Err(MemoryError::Truncated { need_bytes, .. }) if need_bytes == size));
    assert!(matches!(attach_bytes(&good, size + 4096), Err(MemoryError::Corrupt { .. })));
    let mut foreign = good.clone();
    foreign[8] = 99;
    let foreign = attach_bytes(&foreign, size);
    assert!(matches!(foreign, Err(MemoryError::ForeignVersion { found: 99, .. })));
    for byte in 12..48 {
        let mut flipped = good.clone();
        flipped[byte] ^= 1;
        let flipped = attach_bytes(&flipped, size);
        assert!(matches!(flipped, Err(MemoryError::Corrupt { .. })), "byte {byte}");
    }
}

#[test]
fn attaching_something_that_is_no_file_is_an_error() {
    let (reader, _writer) = std::io::pipe().unwrap();
    Store::attach(OwnedFd::from(reader)).unwrap_err();
    Store::attach(OwnedFd::from(File::open("/").unwrap())).unwrap_err();
}

#[test]
fn a_file_store_is_found_again_with_its_contents_and_its_committed_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let id = {
        let store = Store::create_file(&path, &options(32, 8)).unwrap();
        store.commit(9 * CHUNK_BYTES, CHUNK_BYTES + 1).unwrap();
        // SAFETY: committed above.
        unsafe { store.base_mut().unwrap().add(9 * CHUNK_BYTES as usize).write(9) };
        // SAFETY: committed above.
        unsafe { store.base_mut().unwrap().add(10 * CHUNK_BYTES as usize).write(10) };
        store.id()
    };
    let again = Store::create_file(&path, &options(32, 8));
    assert!(matches!(again, Err(MemoryError::System { .. })), "an existing file is left alone");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let store = Store::attach_writable(OwnedFd::from(file), 4 * CHUNK_BYTES).unwrap();
    assert_eq!(store.id(), id);
    assert_eq!(store.committed_bytes(), 3 * CHUNK_BYTES);
    // SAFETY: in bounds and committed.
    let byte = unsafe { store.slice(9 * CHUNK_BYTES, 1).unwrap().read() };
    assert_eq!(byte, 9);
    store.commit(20 * CHUNK_BYTES, 1).unwrap();
    assert_eq!(shortage(store.commit(21 * CHUNK_BYTES, 1)), Shortage::Limit);
}

/// A small private file system; unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(mib: u64) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            skipped::say("mounting a tmpfs is not permitted here");
        }
        mounted.then_some(SmallDisk(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_an_error_that_leaves_nothing_counted_and_never_a_signal() {
    let Some(disk) = SmallDisk::new(8) else {
        return;
    };
    let store = Store::create_file(&disk.path().join("store"), &options(64, 64)).unwrap();
    store.commit(CHUNK_BYTES, CHUNK_BYTES).unwrap();
    assert_eq!(shortage(store.commit(10 * CHUNK_BYTES, 20 * CHUNK_BYTES)), Shortage::System);
    assert_eq!(store.committed_bytes(), 2 * CHUNK_BYTES);
    assert_eq!(occupied(&store), 2 * CHUNK_BYTES);
    store.commit(10 * CHUNK_BYTES, 2 * CHUNK_BYTES).unwrap();
    for at in (10 * CHUNK_BYTES..12 * CHUNK_BYTES).step_by(4096) {
        // SAFETY: committed above, so the full disk cannot stop the write.
        unsafe { store.base_mut().unwrap().add(at as usize).write(1) };
    }
    assert_eq!(shortage(store.commit(20 * CHUNK_BYTES, 1)), Shortage::System);
    store.decommit(CHUNK_BYTES, CHUNK_BYTES);
    store.commit(20 * CHUNK_BYTES, 1).unwrap();
}

#[test]
fn a_store_that_does_not_fit_the_disk_leaves_no_file_behind() {
    let Some(disk) = SmallDisk::new(1) else {
        return;
    };
    let path = disk.path().join("store");
    assert!(Store::create_file(&path, &options(4, 4)).unwrap_err().is_out_of_memory());
    assert!(!path.exists());
}
