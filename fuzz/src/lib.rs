//! Fuzz targets: what reads bytes from a medium or from another process gets hostile ones, or what
//! was written with damage that a medium may do to it.
//!
//! Each target is a function of the bytes that a fuzzer has chosen, and panics when something is
//! not as it should be; what that is, its module says. The programs in `fuzz_targets` give them to
//! libFuzzer (`make fuzz`), and a test of every module gives them pseudo-random bytes
//! (`crates/atoll/tests/fuzzed.rs`, which includes this folder), so that they never rot.
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
