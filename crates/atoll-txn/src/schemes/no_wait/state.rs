//! The state of a row: a lock.

pub use crate::common::lock::Lock as State;
