//! Transactions: schemes, the states beside rows, undo, and the engine that joins them to tables.
//!
//! A [scheme](scheme::Scheme) is chosen when the database is opened; everything is compiled for it,
//! so there is no dispatch inside a transaction. All shared words of a scheme go through
//! [`Machine`](atoll_machine::Machine): the same code runs natively and on a simulated machine.
//! Nothing here knows of disks or SQL.
#![forbid(unsafe_code)]

pub mod engine;
pub mod error;
pub mod no_wait;
pub mod registry;
pub mod scheme;
pub mod worker;

pub use engine::Engine;
pub use error::Stop;
pub use no_wait::NoWait;
pub use registry::{Counts, Taking};
pub use scheme::{AbortReason, Scheme};
pub use worker::Worker;
