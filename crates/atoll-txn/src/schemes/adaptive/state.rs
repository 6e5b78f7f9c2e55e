//! The state of a row: its version, and the chain of older versions for read-only transactions.

use atoll_machine::{Machine, Word};

use crate::common::read_set::Versioned;
use crate::common::version::Version;

/// See the module.
pub struct State<M: Machine> {
    pub(super) version: Version<M>,
    pub(super) chains: M::Word,
}

impl<M: Machine> Default for State<M> {
    fn default() -> Self {
        Self { version: Version::default(), chains: M::Word::new(0) }
    }
}

impl<M: Machine> Versioned<M> for State<M> {
    fn version(&self) -> &Version<M> {
        &self.version
    }
}
