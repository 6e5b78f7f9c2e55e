//! A row has the timestamps of its newest version and of the last read of that, of a write that is
//! to come, and the chain of its older versions.

use atoll_machine::{Machine, Ordering, Word};

/// The row is there; in the version.
pub(super) const PRESENT: u64 = 1 << 62;
/// The write is happening; in the owner.
pub(super) const STORING: u64 = 1 << 63;
/// A timestamp's bits in either.
pub(super) const TIMESTAMP: u64 = PRESENT - 1;

/// See the module.
pub struct State<M: Machine> {
    /// Timestamp of the transaction that is going to write, 0 for none.
    pub(super) owner: M::Word,
    /// Timestamp of the last write.
    pub(super) version: M::Word,
    /// Greatest timestamp of a read of the newest version.
    pub(super) read: M::Word,
    /// The newest of the older versions.
    pub(super) chains: M::Word,
}

impl<M: Machine> Default for State<M> {
    fn default() -> Self {
        let word = || M::Word::new(0);
        Self { owner: word(), version: word(), read: word(), chains: word() }
    }
}

/// A gap has the greatest timestamp of those who have looked at it.
pub struct GapState<M: Machine>(pub(super) M::Word);

impl<M: Machine> Default for GapState<M> {
    fn default() -> Self {
        Self(M::Word::new(0))
    }
}

/// Makes a word at least `to`.
#[inline]
pub(super) fn raise<M: Machine>(word: &M::Word, to: u64) {
    let mut now = word.load(Ordering::SeqCst);
    while now < to {
        let raised = word.compare_exchange(now, to, Ordering::SeqCst, Ordering::SeqCst);
        now = raised.err().unwrap_or(to);
    }
}
