//! The state of a row: a version.

pub use crate::common::version::Version as State;
