//! Durable databases: every commit is there again, however the database ended.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../limits_common/mod.rs"]
mod limits_common;

mod bounds;
mod check;
mod checkpoint_sequences;
mod checkpoints;
mod damage;
mod drops;
mod earlier_formats;
mod folders;
mod harm;
mod horizon;
mod hostile;
mod lanes;
mod log_files;
mod point_in_time;
mod read_only;
mod recovery;
mod scene;
