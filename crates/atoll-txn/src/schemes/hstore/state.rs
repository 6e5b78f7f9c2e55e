//! Rows have no state: the lock of a partition guards all its rows.

use atoll_machine::zero_default;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct State;

zero_default!([] State {});
