//! Cuts off a guest with persistent memory while a database writes, boots it again, and checks that
//! every acknowledged commit is there. Where a guest cannot run, the test prints so and passes.
//!
//! The emulator has no caches, so this test cannot find a cache line that was not written back; the
//! crash medium tests that. This test shows that the database requests and gets the file system's
//! guarantee, that tablespaces are on their nodes' memory, and that files survive as they were
//! left.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../atoll-machine/tests/launcher/mod.rs"]
mod launcher;
#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;

const NODES: &str = "2";
const PM_MIB: &str = "128";
/// Number of writer threads: as many transactions may have begun without being acknowledged.
const UNTOLD: u64 = 2;
/// Seconds until the guest is cut off; a slow machine gets a longer time.
const CUTS_S: [u64; 4] = [9, 18, 36, 72];

struct Guest {
    launcher: PathBuf,
    program: PathBuf,
    images: tempfile::TempDir,
    tree: tempfile::TempDir,
    acknowledged: Vec<u64>,
}

impl Guest {
    /// Runs the program; the status is `None` when it was cut off.
    fn run(&self, mode: &str, limit_s: u64) -> (Option<i32>, String) {
        let told = self.acknowledged.iter().map(|id| format!("{id}\n")).collect::<String>();
        std::fs::write(self.tree.path().join("acknowledged"), told).unwrap();
        let begun = self.acknowledged.iter().max().map_or(0, |last| last + UNTOLD);
        let output = Command::new(&self.launcher)
            .args(["-n", NODES, "-p", PM_MIB, "-t", &limit_s.to_string()])
            .arg("-d")
            .arg(self.images.path())
            .arg("-a")
            .arg(self.tree.path())
            .arg(&self.program)
            .args([mode, "/acknowledged", &begun.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("FAIL"), "{said}");
        let status = output.status.code().filter(|status| *status != 124);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(status, None | Some(0)), "{status:?}\n{said}\n{errors}");
        (status, said)
    }

    /// Kills the guest in the middle of a write.
    fn cut_off(&mut self) {
        let before = self.acknowledged.len();
        for limit_s in CUTS_S {
            let (status, said) = self.run("write", limit_s);
            assert_eq!(status, None, "it ended by itself:\n{said}");
            // The last line may be incomplete.
            let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let told = whole.lines().filter_map(|line| line.trim_end().strip_prefix("done "));
            self.acknowledged.extend(told.map(|id| id.parse::<u64>().unwrap()));
            if self.acknowledged.len() > before {
                return;
            }
        }
        panic!("nothing was acknowledged in {CUTS_S:?} seconds");
    }
}

/// A copy of the program without debug information, because it is copied into the guest's memory.
fn stripped(program: &Path, folder: &Path) -> PathBuf {
    let small = folder.join("guest-writer");
    let done = Command::new("strip").arg("-o").arg(&small).arg(program).status();
    if done.is_ok_and(|status| status.success()) { small } else { program.to_owned() }
}

#[test]
fn what_was_acknowledged_is_there_when_the_guest_is_booted_again() {
    let launcher = match launcher::ready() {
        Ok(launcher) => launcher,
        Err(why) => {
            skipped::say(format!("a guest with persistent memory cannot run here: {why}"));
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest {
        launcher,
        program: stripped(Path::new(env!("CARGO_BIN_EXE_guest-writer")), folder.path()),
        images: tempfile::tempdir().unwrap(),
        tree: tempfile::tempdir().unwrap(),
        acknowledged: Vec::new(),
    };
    guest.cut_off();
    guest.cut_off();
    let (status, said) = guest.run("judge", 120);
    assert_eq!(status, Some(0), "{said}");
    let wanted = format!("PASS {} acknowledged transactions are there", guest.acknowledged.len());
    assert!(said.lines().any(|line| line.trim_end() == wanted), "no {wanted:?} in\n{said}");
    println!("{wanted}");
}
