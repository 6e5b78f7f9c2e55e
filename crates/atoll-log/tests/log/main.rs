//! The logs on their media: what they record, and what is read from them afterwards.
#![allow(clippy::unwrap_used, missing_docs)]

mod ahead;
mod definitions;
mod format;
mod gsn;
mod incarnations;
mod logs;
