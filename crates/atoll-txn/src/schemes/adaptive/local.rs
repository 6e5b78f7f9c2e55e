//! The state of a transaction: its read set and write set or, if it is read-only, the stamp at
//! which it reads.

use atoll_machine::Machine;

use crate::common::read_set::ReadSet;
use crate::common::version_chain::{OlderVersion, VersionChainWriter};
use crate::common::wait::Wait;

/// See the module.
pub struct Local<M: Machine> {
    pub(super) number: u32,
    pub(super) set: ReadSet,
    /// The stamp at which a read-only transaction reads.
    pub(super) reads_at: Option<u64>,
    /// The number of the versions that it writes, once it has validated.
    pub(super) commit: u64,
    /// It has to keep the versions that it replaces, for read-only transactions.
    pub(super) keeps: bool,
    /// The stamp of its first section.
    pub(super) replaced_from: Option<u64>,
    pub(super) chains: VersionChainWriter<M>,
    /// A version that is being reconstructed.
    pub(super) older: OlderVersion,
    pub(super) until_collect: u32,
    pub(super) wait: Wait,
}

impl<M: Machine> Local<M> {
    pub(super) fn new(number: u32, chains: VersionChainWriter<M>) -> Self {
        Self {
            number,
            set: ReadSet::default(),
            reads_at: None,
            commit: 0,
            keeps: false,
            replaced_from: None,
            chains,
            older: OlderVersion::default(),
            until_collect: 0,
            wait: Wait::default(),
        }
    }
}
