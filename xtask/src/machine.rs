//! Transaction code reaches the machine through its trait (`MACHINE-1`).
//!
//! In the crate of transactions and in the row path of storage, no file uses an atomic type, a
//! mutex, a clock, a sleep or a spin hint of the standard library, except those of [`ALLOWED`].
//! Test modules and comments are not checked.

use std::path::Path;

use super::{collect, outside_of_tests, read, shown};

/// The sources that must use the trait.
const FOLDERS: [&str; 2] = ["crates/atoll-txn/src", "crates/atoll-storage/src"];

/// What they may not use, and what takes its place.
const REFUSED: [(&str, &str); 15] = [
    ("sync::atomic", "a word of the machine"),
    ("sync::{atomic", "a word of the machine"),
    ("Mutex<", "Latch"),
    ("RwLock<", "Latch"),
    ("Condvar", "Machine::wait"),
    ("OnceLock", "a word of the machine"),
    ("LazyLock", "a word of the machine"),
    ("thread::sleep", "Machine::sleep"),
    ("yield_now", "Machine::wait"),
    ("spin_loop", "Machine::wait"),
    ("Instant::now", "Machine::now_ns"),
    ("SystemTime", "Machine::now_ns"),
    ("clock_gettime", "Machine::now_ns"),
    ("memory.access()", "TableMemory"),
    ("memory().access()", "TableMemory"),
];

/// Files that may use one of them, and the reason.
const ALLOWED: [(&str, &str, &str); 14] = [
    ("atoll-storage/src/bucket_arrays.rs", "sync::atomic", "pointers; reads are reported"),
    ("atoll-storage/src/flat.rs", "sync::atomic", "a pointer to an array that grows seldom"),
    ("atoll-storage/src/stable.rs", "sync::atomic", "pointers; reads are reported"),
    ("atoll-storage/src/undo.rs", "sync::atomic", "reported as ranges of words"),
    ("atoll-storage/src/segment/cells.rs", "sync::atomic", "the types of table memory"),
    ("atoll-storage/src/segment/table_memory.rs", "sync::atomic", "reports each access"),
    ("atoll-storage/src/directory.rs", "Mutex<", "held only while extents are copied or added"),
    ("atoll-storage/src/directory.rs", "memory.access()", "changes when a node is copied or added"),
    ("atoll-storage/src/index.rs", "OnceLock", "set by one thread, for the first row"),
    ("atoll-storage/src/labels.rs", "OnceLock", "set once for each definition of a type"),
    ("atoll-storage/src/table/key_predictor.rs", "OnceLock", "set once for each table"),
    ("atoll-txn/src/engine.rs", "OnceLock", "set once, before transactions begin"),
    ("atoll-txn/src/schemes/dl_detect/board.rs", "OnceLock", "set once for each transaction state"),
    ("atoll-txn/src/history/mod.rs", "", "records histories for tests"),
];

/// Checks all sources, and that each exception is still needed.
pub fn check(root: &Path, faults: &mut Vec<String>) {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| collect(&root.join(folder), "rs", &mut files));
    let mut needed = [false; ALLOWED.len()];
    for path in files {
        let shown = shown(root, &path);
        let text = read(&path, faults);
        for (at, line) in outside_of_tests(&shown, &text) {
            for (word, instead) in used(line) {
                let is_allowed = |(file, what, _): &(&str, &str, &str)| {
                    shown.ends_with(file) && (what.is_empty() || *what == word)
                };
                match ALLOWED.iter().position(is_allowed) {
                    Some(allowed) => needed[allowed] = true,
                    None => faults.push(format!("{shown}:{} uses {word}; use {instead}", at + 1)),
                }
            }
        }
    }
    for ((file, what, _), _) in ALLOWED.iter().zip(needed).filter(|(_, needed)| !needed) {
        faults.push(format!("xtask/src/machine.rs lists {file} for `{what}`, which it lacks"));
    }
}

/// What a line uses.
fn used(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let code = line.split("//").next().unwrap_or_default();
    let is_wrapped = code.contains("TableMemory::");
    REFUSED.into_iter().filter(move |(word, instead)| {
        code.contains(word) && !(is_wrapped && *instead == "TableMemory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_checked_and_comments_are_not() {
        let words = |line| used(line).map(|(word, _)| word).collect::<Vec<_>>();
        assert_eq!(words("lock: Mutex<OnceLock<u64>>,"), ["Mutex<", "OnceLock"]);
        assert_eq!(words("    std::thread::sleep(PAUSE); // short"), ["thread::sleep"]);
        assert_eq!(words("/// As [`std::sync::atomic::fence`]."), [""; 0]);
        assert_eq!(words("use atoll_machine::{Latch, Ordering};"), [""; 0]);
        assert_eq!(words("self.memory.access().write(0, bytes);"), ["memory.access()"]);
        assert_eq!(words("TableMemory::new(self.memory.access())"), [""; 0]);
    }
}
