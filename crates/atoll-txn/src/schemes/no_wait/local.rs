//! A transaction has the locks that it holds.

pub use crate::common::lock_list::LockList as Local;
