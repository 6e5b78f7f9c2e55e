//! A transaction has what it read and what it is going to write.

pub use crate::common::read_set::ReadSet as Local;
