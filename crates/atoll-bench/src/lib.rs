//! Benchmarks of Atoll. They compare it with peers in the same run, and report what limits each
//! figure.
//!
//! A benchmark is a module with its arguments, a `run` that reports its progress, and a report that
//! can be printed as a table or as JSON. All randomness comes from a seed; no report contains a
//! date.

pub mod cpus;
pub mod durable;
mod error;
pub mod floor;
pub mod folder;
pub mod keys;
pub mod load;
pub mod machine_facts;
pub mod oltp;
pub mod progress;
pub mod snapshot;
pub mod sql;
pub mod statements;
pub mod stats;
pub mod timestamps;
pub mod tpcb;
pub mod tpcc;
pub mod ycsb;

pub use error::BenchError;
pub use machine_facts::MachineFacts;
