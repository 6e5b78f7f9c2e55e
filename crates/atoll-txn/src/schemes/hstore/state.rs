//! Rows have no state: a partition's lock guards all that is in it.

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub struct State;
