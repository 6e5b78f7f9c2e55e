//! What the transactional workloads share: threads, measuring, filling, reporting.
//!
//! A workload fills its tables through the public interface ([`load`]), is driven by threads with a
//! session each ([`driver`]), and its database is checked afterwards. The report says how many
//! transactions committed in a second, how long each took with all its attempts, and what share
//! of the time went into which of the study's six components.

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
