//! A row has a version: the timestamp of who wrote it.

pub use crate::common::version::Version as State;
