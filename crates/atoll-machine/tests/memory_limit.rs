//! Limits of control groups, of both generations, described by folders of fixtures.

#![allow(clippy::unwrap_used)]

use atoll_machine::MachineError;
use atoll_machine::memory_limit::{MemoryAllowed, memory_allowed_in};
use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 16_000_000 * 1024;
const AVAILABLE: u64 = 12_000_000 * 1024;

fn fixture(name: &str) -> PathBuf {
    // Read at run time: another clone with the same target folder may have compiled this.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&here).join("tests/fixtures/memory").join(name)
}

#[test]
fn without_a_limit_the_machine_decides() {
    let wanted =
        MemoryAllowed { total_bytes: TOTAL, available_bytes: AVAILABLE, cgroup_limit_bytes: None };
    assert_eq!(memory_allowed_in(&fixture("no-groups")).unwrap(), wanted);
    assert_eq!(memory_allowed_in(&fixture("no-limit")).unwrap(), wanted);
}

#[test]
fn the_smallest_limit_above_the_process_holds_and_cached_files_are_not_used_memory() {
    let wanted = MemoryAllowed {
        total_bytes: 2048 * MIB,
        available_bytes: 1536 * MIB,
        cgroup_limit_bytes: Some(2048 * MIB),
    };
    assert_eq!(memory_allowed_in(&fixture("second-generation")).unwrap(), wanted);
}

#[test]
fn the_limit_of_a_container_holds_where_the_group_is_listed_under_another_path() {
    let wanted = MemoryAllowed {
        total_bytes: 1024 * MIB,
        available_bytes: 896 * MIB,
        cgroup_limit_bytes: Some(1024 * MIB),
    };
    assert_eq!(memory_allowed_in(&fixture("first-generation")).unwrap(), wanted);
}

#[test]
fn garbage_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let named = || match memory_allowed_in(folder.path()) {
        Err(MachineError::Malformed { path, .. } | MachineError::Unreadable { path, .. }) => {
            path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(named(), "proc/meminfo");
    write("proc/meminfo", "MemTotal: 16 GB\nMemAvailable: 4 kB\n");
    assert_eq!(named(), "proc/meminfo");
    write("proc/meminfo", "MemTotal: 16 kB\nMemAvailable: 4 kB\n");
    write("proc/self/cgroup", "0::/../../outside\n");
    write("sys/fs/cgroup/memory.max", "a lot\n");
    assert_eq!(named(), "sys/fs/cgroup/memory.max");
    write("sys/fs/cgroup/memory.max", "8192\n");
    write("sys/fs/cgroup/memory.current", "-1\n");
    assert_eq!(named(), "sys/fs/cgroup/memory.current");
    write("sys/fs/cgroup/memory.current", "4096\n");
    assert_eq!(memory_allowed_in(folder.path()).unwrap().cgroup_limit_bytes, Some(8192));
}
