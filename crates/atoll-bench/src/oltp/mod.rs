//! The framework of the transactional workloads: loading, threads, measurement, reports.
//!
//! A workload fills its tables through the public interface ([`load`]) and is run by threads with a
//! session each ([`driver`]); its database is checked afterwards. The report has the throughput of
//! committed transactions, the latency including all attempts, and the share of the time of each of
//! the six components of "Staring into the Abyss".

pub(crate) mod args;
mod components;
pub mod driver;
pub mod histogram;
pub mod load;
pub(crate) mod report;
pub mod rows;

pub(crate) use args::require;
pub use args::{OltpArgs, Opened};
pub use components::Components;
pub use driver::{Client, KindTally, LaneWatch, Measured, Outcome, Workload, drive};
pub use histogram::{Histogram, Latency};
pub use load::LoadReport;
pub use report::{CheckReport, KindReport, OltpReport, ResidentBytes};
