//! Limits of memory and of snapshots: data larger than either, a clear error, and everything works
//! again when the cause is gone.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../limits_common/mod.rs"]
mod limits_common;

mod budget;
mod cold_node;
mod out_of_memory;
mod snapshots;
