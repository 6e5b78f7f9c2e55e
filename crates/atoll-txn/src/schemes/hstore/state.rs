//! Rows have no state: the lock of a partition guards all its rows.

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub struct State;
