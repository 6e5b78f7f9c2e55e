//! The state of a row: its version, and the chain of older versions for read-only transactions.

use atoll_machine::{Machine, zero_default};

use crate::common::read_set::Versioned;
use crate::common::version::Version;

/// See the module.
pub struct State<M: Machine> {
    pub(super) version: Version<M>,
    pub(super) chains: M::Word,
}

zero_default!([M: Machine] State<M> { version, chains });

impl<M: Machine> Versioned<M> for State<M> {
    fn version(&self) -> &Version<M> {
        &self.version
    }
}
