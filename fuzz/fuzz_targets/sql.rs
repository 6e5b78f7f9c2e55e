//! Statements, see the module.
#![no_main]
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../src/sql/mod.rs"]
mod sql;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sql::run(bytes));
