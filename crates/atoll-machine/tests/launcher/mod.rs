//! Finds the launcher of a guest: an emulated machine with several nodes and persistent memory.
//!
//! The variable `ATOLL_GUEST` names the launcher; otherwise it is `shared/guest/guest.sh` beside
//! the repository. The call is `launcher -n NODES [-m MIB] -p MIB -t SECONDS [-d IMAGES] [-a TREE]
//! PROGRAM ARGUMENT…`. It boots a Linux guest with that many nodes, so much memory for each, and so
//! much persistent memory for each, mounted at `/pmemN`, runs the program in it, and passes on its
//! output and exit status. `IMAGES` keeps the persistent memory for the next guest; `TREE` is
//! copied into the guest.
#![allow(missing_docs, reason = "shared by tests")]

use std::path::{Path, PathBuf};

/// Programs that a launcher needs.
const PROGRAMS: [&str; 3] = ["qemu-system-x86_64", "cpio", "mkfs.ext4"];

fn launcher() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ATOLL_GUEST").map(PathBuf::from) {
        assert!(path.is_file(), "ATOLL_GUEST names {}, which is no file", path.display());
        return Ok(path);
    }
    // Read at run time: another clone with the same target folder may have compiled this.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let repository = Path::new(&here).join("../..");
    let path = repository.join("../shared/guest/guest.sh");
    if path.is_file() { Ok(path) } else { Err("no launcher; set ATOLL_GUEST".into()) }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).is_file())
}

/// The launcher, or why this test cannot run here.
pub fn ready() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the guest is a Linux machine of x86_64".into());
    }
    match PROGRAMS.into_iter().find(|program| !is_installed(program)) {
        Some(missing) => Err(format!("{missing} is not installed")),
        None => launcher(),
    }
}
