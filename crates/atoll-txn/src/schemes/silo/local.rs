//! The state of a transaction: its read set and its write set.

pub use crate::common::read_set::ReadSet as Local;
