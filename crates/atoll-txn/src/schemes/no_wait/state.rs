//! A row has a lock.

pub use crate::common::lock::Lock as State;
