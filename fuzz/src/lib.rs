//! Fuzz targets: code that reads bytes from a medium or from another process gets hostile bytes, or
//! written bytes with damage that a medium may cause.
//!
//! Each target is a function of the bytes that a fuzzer has chosen, and panics when a condition is
//! violated that its module states. The programs in `fuzz_targets` pass them to libFuzzer (`make
//! fuzz`), and a test of every module passes pseudo-random bytes (`crates/atoll/tests/fuzzed.rs`,
//! which includes this folder; `crates/atoll-sql/tests/bad_input/fuzzed.rs` for `sql`), so that the
//! targets stay up to date.
#![allow(clippy::unwrap_used, missing_docs)]

pub mod archive;
pub mod checkpoint_store;
pub mod control;
pub mod database;
pub mod describe;
pub mod input;
pub mod keys;
pub mod lease;
pub mod log;
pub mod redo;
#[cfg(feature = "sql")]
pub mod sql;
pub mod written;
