//! A transaction has the locks that it holds.

pub use crate::common::held::Held as Local;
