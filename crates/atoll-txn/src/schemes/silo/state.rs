//! A row has a version.

pub use crate::common::version::Version as State;
