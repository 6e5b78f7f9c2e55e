//! Building blocks that several schemes share.

pub mod active;
#[cfg(test)]
pub(crate) mod few;
pub mod gap;
pub mod lock;
pub mod lock_list;
pub mod optimistic;
pub mod parking;
pub mod read_set;
pub mod row_latch;
pub mod timestamp;
pub mod version;
pub mod version_chain;
pub mod wait;
