//! Stores on unnamed files, under a memory budget.
#![allow(clippy::unwrap_used)]

#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use atoll_memory::{
    Access, CHUNK_BYTES, MemoryError, Residency, Store, StoreOptions, Tended, View,
};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CHUNKS: u64 = 24;
const BUDGET_BYTES: u64 = 6 * CHUNK_BYTES;
const PAGE: u64 = 4096;

fn options() -> StoreOptions {
    StoreOptions {
        capacity_bytes: 64 * CHUNK_BYTES,
        limit_bytes: (CHUNKS + 1) * CHUNK_BYTES,
        huge_pages: true,
    }
}

/// A store on a file beside the executables of these tests, which is usually not in memory.
fn unnamed() -> Arc<Store> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Arc::new(Store::create_unnamed(folder, &options()).unwrap())
}

/// Every word that the tests use: one in each page of the committed chunks.
fn words() -> impl Iterator<Item = u64> {
    (CHUNK_BYTES..(CHUNKS + 1) * CHUNK_BYTES).step_by(PAGE as usize)
}

/// A store four times its budget; each word holds its own offset.
fn filled() -> (Arc<Store>, Access, Residency) {
    let store = unnamed();
    store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
    let access = Access::new(Arc::clone(&store));
    words().for_each(|at| access.store_u64(at, at));
    let residency = Residency::on_file(Arc::clone(&store), BUDGET_BYTES).unwrap();
    (store, access, residency)
}

/// Tends until the store is within the budget; returns false where that is not possible.
fn comes_within_the_budget(residency: &Residency) -> bool {
    for _ in 0..20 {
        residency.tend(|| false).unwrap();
        if residency.resident_bytes().unwrap() <= BUDGET_BYTES {
            return true;
        }
    }
    let is_possible = residency.evicted_bytes() > 0;
    assert!(!is_possible, "{} bytes stay", residency.resident_bytes().unwrap());
    skipped::say("files are in memory here");
    false
}

fn occupied(store: &Store) -> u64 {
    File::from(store.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() * 512
}

#[test]
fn a_file_without_a_name_is_a_store_as_any_other_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::create_unnamed(folder.path(), &options()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    store.commit(3 * CHUNK_BYTES, 2 * CHUNK_BYTES).unwrap();
    assert_eq!(store.committed_bytes(), 3 * CHUNK_BYTES);
    assert!(occupied(&store) >= 3 * CHUNK_BYTES);
    store.decommit(3 * CHUNK_BYTES, 2 * CHUNK_BYTES);
    assert!(occupied(&store) < 2 * CHUNK_BYTES, "space goes back");
    let reader = Store::attach(store.read_only_fd().unwrap()).unwrap();
    assert_eq!(reader.id(), store.id());
    let whole = store.commit(CHUNK_BYTES, (CHUNKS + 1) * CHUNK_BYTES);
    assert!(whole.unwrap_err().is_out_of_memory(), "the limit");
}

#[test]
fn a_folder_that_cannot_hold_a_store_is_named() {
    for folder in ["/proc", "/no/such/folder", "/etc/hostname"] {
        let error = Store::create_unnamed(Path::new(folder), &options()).unwrap_err();
        assert!(matches!(error, MemoryError::NoUnnamedFile { .. }), "{error:?}");
        assert!(error.to_string().contains(folder), "{error}");
    }
}

#[test]
fn nothing_is_done_below_the_budget_and_nobody_but_the_owner_does_it() {
    let store = unnamed();
    store.commit(CHUNK_BYTES, CHUNK_BYTES).unwrap();
    let residency = Residency::on_file(Arc::clone(&store), BUDGET_BYTES).unwrap();
    assert_eq!(residency.tend(|| false).unwrap(), Tended::default());
    let resident = residency.resident_bytes().unwrap();
    assert!(resident > 0 && resident <= 2 * CHUNK_BYTES, "{resident}");
    let reader = Arc::new(Store::attach(store.read_only_fd().unwrap()).unwrap());
    assert!(matches!(Residency::on_file(reader, 1), Err(MemoryError::ReadOnly)));
}

#[test]
fn what_left_memory_is_read_and_written_as_before() {
    let (_store, access, residency) = filled();
    assert_eq!(residency.resident_bytes().unwrap(), (CHUNKS + 1) * CHUNK_BYTES);
    if !comes_within_the_budget(&residency) {
        return;
    }
    for round in 1..4 {
        for at in words() {
            assert_eq!(access.load_u64(at), at + round - 1);
            access.store_u64(at, at + round);
        }
        assert!(comes_within_the_budget(&residency));
    }
    assert!(words().all(|at| access.load_u64(at) == at + 3));
}

#[test]
fn pages_that_another_process_has_mapped_stay() {
    let (store, _access, residency) = filled();
    // To the kernel, a second mapping is the same as another process.
    let reader = Arc::new(Store::attach(store.read_only_fd().unwrap()).unwrap());
    let reader = View::new(reader);
    let chunk = |at: u64| at / CHUNK_BYTES == 5;
    words().filter(|at| chunk(*at)).for_each(|at| assert_eq!(reader.load_u64(at), at));
    if !comes_within_the_budget(&residency) {
        return;
    }
    // The budget has room for this chunk, so it is still mapped.
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let page = atoll_machine::page_bytes() as u64;
    for at in words().filter(|at| chunk(*at)) {
        let mut entry = [0; 8];
        let number = (reader.store().base() as u64 + at) / page;
        std::os::unix::fs::FileExt::read_exact_at(&pagemap, &mut entry, number * 8).unwrap();
        assert_ne!(u64::from_le_bytes(entry) >> 63, 0, "offset {at}");
        assert_eq!(reader.load_u64(at), at);
    }
    // All pages are mapped by the reader, and stay until the reader unmaps them.
    words().for_each(|at| assert_eq!(reader.load_u64(at), at));
    for _ in 0..5 {
        residency.tend(|| false).unwrap();
        assert!(residency.resident_bytes().unwrap() >= CHUNKS * CHUNK_BYTES);
    }
    reader.store().let_go();
    assert!(comes_within_the_budget(&residency));
    assert!(words().all(|at| reader.load_u64(at) == at));
}

#[test]
fn pages_in_use_are_evicted_if_there_are_no_others() {
    let (_store, access, residency) = filled();
    if !comes_within_the_budget(&residency) {
        return;
    }
    // All pages are accessed again and again, faster than the hands go round.
    let (before, stop) = (residency.evicted_bytes(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(words().all(|at| access.load_u64(at) == at));
                }
            });
        }
        // The limit only keeps a broken test from hanging.
        let begin = Instant::now();
        while residency.evicted_bytes() - before < 2 * BUDGET_BYTES
            && begin.elapsed() < Duration::from_secs(20)
        {
            residency.tend(|| false).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(residency.evicted_bytes() - before >= 2 * BUDGET_BYTES);
}

#[test]
fn threads_that_store_while_pages_go_and_come_lose_nothing() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 6;
    let (store, access, residency) = filled();
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
                            at / PAGE % THREADS == thread && at / CHUNK_BYTES < CHUNKS
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
    let all = words().filter(|at| at / CHUNK_BYTES < CHUNKS);
    assert!(all.into_iter().all(|at| access.load_u64(at) == at + ROUNDS));
}

/// A file system on an overcommitted disk, so that writes to it fail: the disk is a sparse file on
/// a file system that is too small for it. Removed on drop.
struct FailingDisk {
    folder: tempfile::TempDir,
    device: Option<String>,
}

impl FailingDisk {
    fn new(mib: u64) -> Option<FailingDisk> {
        let mut disk = FailingDisk { folder: tempfile::tempdir().unwrap(), device: None };
        let (below, image, above) = (disk.at("below"), disk.at("below/image"), disk.at("above"));
        std::fs::create_dir(&below).unwrap();
        std::fs::create_dir(&above).unwrap();
        let made = run(&["mount", "-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs", &below])
            .and_then(|_| run(&["truncate", "-s", "256M", &image]))
            .and_then(|_| run(&["losetup", "-f", "--show", &image]))
            .and_then(|device| {
                // The device reports a request of several pages as done if it has written the
                // first.
                let name = device.trim_start_matches("/dev/");
                std::fs::write(format!("/sys/block/{name}/queue/max_sectors_kb"), "4").ok()?;
                disk.device = Some(device);
                run(&["mkfs.ext4", "-q", "-F", "-O", "^has_journal", disk.device.as_ref()?])?;
                run(&["mount", disk.device.as_ref()?, &above])
            });
        if made.is_none() {
            skipped::say("a file system in a file cannot be mounted here");
        }
        made.map(|_| disk)
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let _ = run(&["umount", &self.at("above")]);
        let _ = self.device.as_ref().and_then(|device| run(&["losetup", "-d", device]));
        let _ = run(&["umount", &self.at("below")]);
    }
}

/// The output of a program, if it succeeds.
fn run(line: &[&str]) -> Option<String> {
    let output = Command::new(line[0]).args(&line[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn when_the_disk_fails_nothing_is_lost_and_nothing_more_leaves_memory() {
    let Some(disk) = FailingDisk::new(24) else { return };
    let folder = PathBuf::from(disk.at("above"));
    let store = Arc::new(Store::create_unnamed(&folder, &options()).unwrap());
    store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES).unwrap();
    let access = Access::new(Arc::clone(&store));
    words().for_each(|at| access.store_u64(at, at));
    let residency = Residency::on_file(store, BUDGET_BYTES).unwrap();
    residency.check().unwrap();
    let failed = (0..20).map(|_| residency.tend(|| false)).find_map(Result::err);
    let error = failed.expect("the disk has room for half of it");
    assert!(matches!(error, MemoryError::SpillFailed { .. }), "{error}");
    let evicted = residency.evicted_bytes();
    assert!(words().all(|at| access.load_u64(at) == at));
    words().for_each(|at| access.store_u64(at, at + 1));
    assert!(residency.check().is_err() && residency.tend(|| false).is_err(), "ever after");
    assert_eq!(residency.evicted_bytes(), evicted);
    assert!(words().all(|at| access.load_u64(at) == at + 1));
}
