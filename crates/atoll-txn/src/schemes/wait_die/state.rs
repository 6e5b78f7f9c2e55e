//! The state of a row: a lock with a bound on the age of its oldest holder.

pub use crate::common::lock::Lock as State;
