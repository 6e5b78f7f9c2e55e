//! Compute of transactions besides their shared accesses, in instructions ([`Machine::work`]).
//!
//! The numbers are rounded from instruction counts of the native program (`scripts/steps.py`),
//! less the accesses that the machine sees itself. They say what parts cost compared with each
//! other; a simulated machine would fit their total with one factor.
//!
//! [`Machine::work`]: atoll_machine::Machine::work

/// To begin a transaction.
pub(crate) const BEGIN: usize = 60;
/// To commit or to abort a transaction.
pub(crate) const END: usize = 100;
/// To run a section of the gate.
pub(crate) const SECTION: usize = 20;
/// To dispatch an operation on a row, and to note its row in the read set, write set or lock list.
pub(crate) const OPERATION: usize = 60;
/// To visit an entry of such a list.
pub(crate) const ENTRY: usize = 8;

/// To copy bytes between private places.
#[inline(always)]
pub(crate) fn copy(bytes: usize) -> usize {
    4 + bytes / 8
}

/// To sort a list.
#[inline(always)]
pub(crate) fn sort(entries: usize) -> usize {
    entries * (entries.max(1).ilog2() as usize + 1) * ENTRY
}
