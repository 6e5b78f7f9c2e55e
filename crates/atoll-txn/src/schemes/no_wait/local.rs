//! The state of a transaction: its locks.

pub use crate::common::lock_list::LockList as Local;
