//! Fuzz targets: code that reads bytes from a medium or from another process gets hostile bytes, or
//! written bytes with damage that a medium may cause.
//!
//! Each target is a function of the bytes that a fuzzer has chosen, and panics when a condition is
//! violated that its module states. The programs in `fuzz_targets` pass them to libFuzzer (`make
//! fuzz`), and a test of every module passes pseudo-random bytes (`crates/atoll/tests/fuzzed.rs`,
//! which includes this folder), so that the targets stay up to date. The module `sql` belongs to its
//! program and to `crates/atoll-sql/tests/bad_input/fuzzed.rs` alone: it needs the SQL layer.
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
pub mod written;
