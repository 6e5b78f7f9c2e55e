//! The state of a row: a version, which is the timestamp of the row's writer.

pub use crate::common::version::Version as State;
