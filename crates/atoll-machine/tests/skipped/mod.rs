//! Reporting tests that cannot run on this machine.
//!
//! A skipped test passes, and its output is not shown. Therefore it is also recorded in the file
//! that `ATOLL_SKIPPED` names; `make test` prints that file at its end, and CI compares it with
//! `.ci/may-be-skipped`.

use std::fmt::Display;
use std::io::Write;

/// Reports that the test of this thread is skipped, and why.
pub fn say(why: impl Display) {
    println!("skipped: {why}");
    let Some(file) = std::env::var_os("ATOLL_SKIPPED") else { return };
    // A test runs on a thread with the name of the test.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test without a name");
    let package = env!("CARGO_PKG_NAME");
    let line = format!("{package} {test}: {why}\n");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file that ATOLL_SKIPPED names can be written");
}
