//! Durable databases: every commit is there again, however the database ended.
#![allow(clippy::unwrap_used, missing_docs)]

mod bounds;
mod check;
mod checkpoints;
mod damage;
mod folders;
mod harm;
mod hostile;
mod recovery;
mod scene;
