//! The state of a row: the timestamps of its last write, its last read, and an announced write.

use atoll_machine::{Machine, Ordering, Word, zero_default};

/// In the version: the row is present.
pub(super) const PRESENT: u64 = 1 << 62;
/// In the owner: the owner is storing.
pub(super) const STORING: u64 = 1 << 63;
/// In either: the bits of the timestamp.
pub(super) const TIMESTAMP: u64 = PRESENT - 1;

/// See the module.
pub struct State<M: Machine> {
    /// Timestamp of the transaction that is going to write; 0 for none.
    pub(super) owner: M::Word,
    /// Timestamp of the last write.
    pub(super) version: M::Word,
    /// Greatest timestamp of a read.
    pub(super) read: M::Word,
}

zero_default!([M: Machine] State<M> { owner, version, read });

/// The state of a gap: the greatest timestamp of a transaction that has read it.
pub struct GapState<M: Machine>(pub(super) M::Word);

impl<M: Machine> Default for GapState<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

/// Raises a word to at least `to`.
#[inline]
pub(super) fn raise<M: Machine>(word: &M::Word, to: u64) {
    let mut now = word.load(Ordering::SeqCst);
    while now < to {
        let raised = word.compare_exchange(now, to, Ordering::SeqCst, Ordering::SeqCst);
        now = raised.err().unwrap_or(to);
    }
}
