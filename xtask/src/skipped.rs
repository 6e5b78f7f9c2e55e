//! Skipped tests: `make test` lists them, and CI refuses unexpected ones.
//!
//! `cargo run -p xtask -- skipped FILE` prints the lines that tests have written into a file. With
//! a checked-in list of tests that may be skipped, it fails for any other.

use std::path::Path;
use std::process::ExitCode;

/// Prints the tests that were skipped; `allowed` is the file that lists those that may be.
pub fn run(file: &Path, allowed: Option<&Path>) -> ExitCode {
    // A missing file means that no test was skipped.
    let said = std::fs::read_to_string(file).unwrap_or_default();
    let skipped = tests(&said);
    println!("== {}", summary(&skipped));
    let Some(allowed) = allowed else { return ExitCode::SUCCESS };
    let list = match std::fs::read_to_string(allowed) {
        Ok(list) => list,
        Err(error) => {
            eprintln!("xtask skipped: {}: {error}", allowed.display());
            return ExitCode::FAILURE;
        }
    };
    let faults = unexpected(&skipped, &list);
    for fault in &faults {
        eprintln!(
            "xtask skipped: {fault} was skipped and is not in {}: let it run, or add it there",
            allowed.display()
        );
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The distinct lines of a file in order: `package test: why`.
fn tests(said: &str) -> Vec<&str> {
    let mut tests: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    tests.sort_unstable();
    tests.dedup();
    tests
}

fn summary(skipped: &[&str]) -> String {
    match skipped {
        [] => "no test was skipped".to_owned(),
        skipped => {
            let noun = if skipped.len() == 1 { "test was" } else { "tests were" };
            let list: String = skipped.iter().map(|test| format!("\n   skipped: {test}")).collect();
            format!("{} {noun} skipped on this machine:{list}", skipped.len())
        }
    }
}

/// The skipped tests that may not be skipped. A line of the list is `package test`, or a comment.
fn unexpected<'a>(skipped: &[&'a str], list: &str) -> Vec<&'a str> {
    let name = |test: &'a str| test.split_once(": ").map_or(test, |(name, _)| name);
    let allowed: Vec<&str> =
        list.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let mut names: Vec<&str> = skipped.iter().copied().map(name).collect();
    names.dedup();
    names.retain(|name| !allowed.contains(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "b two: no emulator\na one: not root\nb two: no emulator\n";

    #[test]
    fn each_test_is_told_once_with_its_reason() {
        assert_eq!(
            summary(&tests(SAID)),
            "2 tests were skipped on this machine:\n   skipped: a one: not root\n   skipped: b \
             two: no emulator"
        );
        assert_eq!(summary(&tests("")), "no test was skipped");
    }

    #[test]
    fn a_test_that_is_not_in_the_list_may_not_be_skipped() {
        let skipped = tests(SAID);
        assert_eq!(unexpected(&skipped, "# no emulator here\nb two\n"), ["a one"]);
        assert_eq!(unexpected(&skipped, "a one\nb two\n"), [""; 0]);
        assert_eq!(unexpected(&skipped, ""), ["a one", "b two"]);
        // A test that may be skipped but ran is accepted.
        assert_eq!(unexpected(&[], "a one\n"), [""; 0]);
    }

    #[test]
    fn the_list_that_is_checked_in_names_tests() {
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let list = std::fs::read_to_string(Path::new(&here).join("../.ci/may-be-skipped"));
        for line in list.expect("it is there").lines().filter(|line| !line.starts_with('#')) {
            let (package, test) = line.split_once(' ').expect("a package and a test");
            assert!(package.starts_with("atoll") && !test.contains([' ', ':']), "{line}");
        }
    }
}
