//! The state of a transaction: its timestamp, the rows that it is going to write, and its
//! part of the version chains.

use atoll_machine::Machine;

use crate::common::timestamp::TimestampLocal;
use crate::common::version_chain::{OlderVersion, VersionChainWriter};
use crate::scheme::Place;

/// See the module.
pub struct Local<M: Machine> {
    pub(super) number: u32,
    pub(super) source: TimestampLocal,
    pub(super) timestamp: u64,
    /// The cuts before it took the timestamp.
    pub(super) cuts: u64,
    /// The rows that it owns, and whether they are present afterwards.
    pub(super) writes: Vec<(Place, bool)>,
    pub(super) chains: VersionChainWriter<M>,
    /// A version that is being reconstructed.
    pub(super) older: OlderVersion,
    /// Transactions until the next garbage collection of the version chains.
    pub(super) until_collect: u32,
}

impl<M: Machine> Local<M> {
    pub(super) fn new(number: u32, chains: VersionChainWriter<M>) -> Self {
        Self {
            number,
            source: TimestampLocal::new(number),
            timestamp: 0,
            cuts: 0,
            writes: Vec::new(),
            chains,
            older: OlderVersion::default(),
            until_collect: 0,
        }
    }
}
