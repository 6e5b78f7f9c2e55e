//! Checks of the repository that the compiler does not make: `cargo run -p xtask -- check`.
//!
//! - crates depend downwards only, in the order of `ARCHITECTURE.md`;
//! - every crate of Arrow, and what shares its types, is in the lock file once;
//! - the lock files of `peers` and `fuzz`, which no test reads, contain the dependencies of the
//!   crates;
//! - every Rust file begins with a module comment, and has at most 1,000 lines; in `crates/*/src`
//!   at most 500 of them are outside of tests;
//! - lines are at most 100 columns;
//! - no circle of modules in a crate;
//! - labels of invariants are defined once;
//! - transaction code reaches the machine through its trait;
//! - every scheme is a folder of its name with the same files, and is named nowhere else.
//!
//! `skipped` lists skipped tests; `words` lists words that comments and documents do not use.

mod labels;
mod machine;
mod modules;
mod schemes;
mod skipped;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The crates from the lowest up; a crate may depend on those before it.
const ORDER: [&str; 14] = [
    "atoll-machine",
    "atoll-memory",
    "atoll-storage",
    "atoll-txn",
    "atoll-log",
    "atoll",
    "atoll-sql",
    "atoll-adbc",
    "atoll-server",
    "atoll-bench",
    "atoll-torture",
    "atoll-cli",
    "atolldb",
    "xtask",
];
/// Besides the crates of Arrow, all of which share types.
const ONCE: [&str; 6] = ["adbc_core", "adbc_ffi", "datafusion", "parquet", "pyo3", "sqlparser"];
/// Separate workspaces that depend on these crates.
const BESIDE: [&str; 2] = ["peers", "fuzz"];
const FILE_LINES_MAX: usize = 1000;
const CODE_LINES_MAX: usize = 500;
const LINE_COLUMNS_MAX: usize = 100;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given.as_slice() {
        ["check"] => check(),
        ["words"] => words(),
        ["skipped", file] => skipped::run(Path::new(file), None),
        ["skipped", file, allowed] => skipped::run(Path::new(file), Some(Path::new(allowed))),
        _ => {
            eprintln!("usage: cargo run -p xtask -- check | words | skipped FILE [ALLOWED]");
            ExitCode::from(2)
        }
    }
}

fn words() -> ExitCode {
    let mut faults = Vec::new();
    words::check(&root(), &mut faults);
    faults.iter().for_each(|fault| println!("{fault}"));
    ExitCode::from(u8::from(!faults.is_empty()))
}

fn root() -> PathBuf {
    // Cargo sets this variable when it runs this program. The compiled-in path may be that of
    // another clone that shares the target folder.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).join("..")
}

fn check() -> ExitCode {
    let root = root();
    let mut faults = Vec::new();
    check_direction(&root, &mut faults);
    for name in ORDER {
        modules::check(&folder(&root, name).join("src"), name, &mut faults);
    }
    check_lock(&root, &mut faults);
    BESIDE.iter().for_each(|beside| check_lock_beside(&root, beside, &mut faults));
    check_files(&root, &mut faults);
    labels::check(&root, &mut faults);
    machine::check(&root, &mut faults);
    schemes::check(&root, &mut faults);
    words::check(&root, &mut faults);
    if faults.is_empty() {
        println!(
            "xtask check: crates depend downwards, the lock file is sound, files are tidy, schemes \
             are alike"
        );
        return ExitCode::SUCCESS;
    }
    faults.iter().for_each(|fault| eprintln!("xtask check: {fault}"));
    ExitCode::FAILURE
}

fn read(path: &Path, faults: &mut Vec<String>) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| {
        faults.push(format!("{}: {error}", path.display()));
        String::new()
    })
}

/// The folder of a crate.
fn folder(root: &Path, name: &str) -> PathBuf {
    match name {
        "atolldb" => root.join("python"),
        "xtask" => root.join("xtask"),
        name => root.join("crates").join(name),
    }
}

fn manifest_of(root: &Path, name: &str, faults: &mut Vec<String>) -> String {
    read(&folder(root, name).join("Cargo.toml"), faults)
}

fn check_direction(root: &Path, faults: &mut Vec<String>) {
    for (rank, name) in ORDER.iter().enumerate() {
        let manifest = manifest_of(root, name, faults);
        for line in manifest.lines() {
            let Some(dependency) = line.split(['.', ' ', '=']).next() else { continue };
            let Some(at) = ORDER.iter().position(|known| *known == dependency) else { continue };
            if at >= rank {
                faults.push(format!("{name} depends on {dependency}, which is not below it"));
            }
        }
    }
}

fn check_lock(root: &Path, faults: &mut Vec<String>) {
    let lock = read(&root.join("Cargo.lock"), faults);
    for (name, count) in counted(&lock) {
        if count != 1 {
            faults.push(format!("{name} is in Cargo.lock {count} times, expected once"));
        }
    }
}

/// How often the lock file has each crate that it must have once.
fn counted(lock: &str) -> Vec<(&str, usize)> {
    let names =
        || lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let mut once: Vec<&str> = names().filter(|name| name.starts_with("arrow-")).collect();
    once.extend(ONCE);
    once.sort_unstable();
    once.dedup();
    once.into_iter().map(|name| (name, names().filter(|other| *other == name).count())).collect()
}

fn check_lock_beside(root: &Path, beside: &str, faults: &mut Vec<String>) {
    let lock = read(&root.join(beside).join("Cargo.lock"), faults);
    for name in ORDER {
        let heading = format!("[[package]]\nname = \"{name}\"\n");
        let Some((_, package)) = lock.split_once(&heading) else { continue };
        let package = package.split("[[package]]").next().unwrap_or_default();
        let manifest = manifest_of(root, name, faults);
        let Some((_, needed)) = manifest.split_once("\n[dependencies]\n") else { continue };
        for line in needed.lines().take_while(|line| !line.starts_with('[')) {
            let Some(dependency) = line.split(['.', ' ', '=']).next() else { continue };
            // The lock file adds the version where there are several.
            let listed = [format!("\"{dependency}\""), format!("\"{dependency} ")];
            let is_one = !dependency.is_empty() && !dependency.starts_with('#');
            if is_one && !listed.iter().any(|one| package.contains(one)) {
                faults.push(format!(
                    "{beside}/Cargo.lock does not know that {name} depends on {dependency}; \
                     build in {beside}"
                ));
            }
        }
    }
}

fn check_files(root: &Path, faults: &mut Vec<String>) {
    let mut files = Vec::new();
    ["crates", "python", "xtask"].iter().for_each(|dir| collect(&root.join(dir), "rs", &mut files));
    for path in files {
        let text = read(&path, faults);
        let shown = shown(root, &path);
        if !text.starts_with("//!") {
            faults.push(format!("{shown} does not open with what it is for (//!)"));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{shown} has {lines} lines, at most {FILE_LINES_MAX}"));
        }
        let lines = code_lines(&shown, &text);
        if lines > CODE_LINES_MAX {
            faults.push(format!("{shown} has {lines} lines of code, at most {CODE_LINES_MAX}"));
        }
        for (at, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_COLUMNS_MAX {
                faults.push(format!("{shown}:{} is over {LINE_COLUMNS_MAX} columns", at + 1));
            }
        }
    }
}

/// The lines of a file of the crates that are outside of test modules.
fn code_lines(shown: &str, text: &str) -> usize {
    if shown.starts_with("crates/") { outside_of_tests(shown, text).count() } else { 0 }
}

/// The lines of a file that are outside of test modules, numbered from 0.
fn outside_of_tests<'t>(shown: &str, text: &'t str) -> impl Iterator<Item = (usize, &'t str)> {
    let is_of_tests = shown.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
    let lines = if is_of_tests { "" } else { text }.lines().enumerate();
    let (mut before, mut in_tests) = ("", false);
    lines.filter(move |(_, line)| {
        in_tests |= before == "#[cfg(test)]" && line.starts_with("mod ") && line.ends_with('{');
        let is_outside = !in_tests;
        in_tests &= *line != "}";
        before = line;
        is_outside
    })
}

/// The path of a file in a report.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Collects the files with this ending, in a folder and its subfolders.
fn collect(dir: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, ending, files);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_arrow_are_counted() {
        let lock = "name = \"arrow-ipc\"\nname = \"arrow-ipc\"\nname = \"arrow-row\"\n";
        let counted = counted(lock);
        assert_eq!(
            counted[..4],
            [("adbc_core", 0), ("adbc_ffi", 0), ("arrow-ipc", 2), ("arrow-row", 1)]
        );
    }

    #[test]
    fn lines_of_code_are_outside_of_test_modules() {
        let text =
            "//! A file.\n\n#[cfg(test)]\nmod tests {\n    fn a() {\n    }\n}\nfn b() {\n}\n";
        assert_eq!(code_lines("crates/a/src/b.rs", text), 5);
        assert_eq!(code_lines("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n"), 3);
        for of_tests in ["crates/a/src/b/tests.rs", "crates/a/tests/b.rs", "xtask/src/main.rs"] {
            assert_eq!(code_lines(of_tests, text), 0, "{of_tests}");
        }
    }
}
