//! Benchmarks of Atoll that compare with peers in the same run and say what bounds each figure.
//!
//! A benchmark is a module with its arguments, a `run` that says what it is doing, and a report
//! that can be printed as a table or as JSON. Everything is seeded; no report has a date in it.

pub mod cpus;
pub mod crash;
pub mod durable;
mod error;
pub mod floor;
pub mod folder;
pub mod keys;
pub mod machine_facts;
pub mod oltp;
pub mod progress;
pub mod snapshot;
pub mod stats;
pub mod timestamps;
pub mod torture;
pub mod tpcb;
pub mod tpcc;
pub mod ycsb;

pub use error::BenchError;
pub use machine_facts::MachineFacts;
