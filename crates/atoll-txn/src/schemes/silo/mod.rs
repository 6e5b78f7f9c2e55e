//! SILO: optimistic, without timestamps from a shared source.
//!
//! Transactions are as in [`crate::common::optimistic`]. The new versions of a transaction are
//! greater than all versions that it has read or locked (Tu et al., "Speedy transactions in
//! multicore in-memory databases", SOSP 2013). The epochs of that system are the epochs of the gate
//! here: a transaction validates and stores in one section, so an epoch ends between transactions.

mod local;
mod state;

use std::marker::PhantomData;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::optimistic::Optimistic;
use crate::schemes::SchemeOptions;

/// See the module.
pub struct Silo<M>(PhantomData<fn() -> M>);

impl<M: Machine> Silo<M> {
    /// The scheme.
    pub fn new(_options: &SchemeOptions) -> Self {
        Self(PhantomData)
    }
}

impl<M: Machine> Optimistic for Silo<M> {
    const NAME: &'static str = "SILO";
    type Machine = M;
    type Local = Local;

    fn local_of(&self, _number: u32) -> Local {
        Local::default()
    }

    fn number(&self, local: &mut Local) -> u64 {
        local.newest() + 1
    }
}
