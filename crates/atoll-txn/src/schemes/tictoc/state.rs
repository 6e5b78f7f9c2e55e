//! The state of a row: a version with the timestamp of its write as number, and the timestamp up to
//! which that version is known to have been the newest.

use atoll_machine::{Machine, Ordering, Word, zero_default};

use crate::common::gap::Gap;
use crate::common::read_set::Versioned;
use crate::common::version::Version;

/// See the module.
pub struct State<M: Machine> {
    pub(super) version: Version<M>,
    pub(super) valid_until: M::Word,
}

zero_default!([M: Machine] State<M> { version, valid_until });

impl<M: Machine> Versioned<M> for State<M> {
    fn version(&self) -> &Version<M> {
        &self.version
    }
}

impl<M: Machine> State<M> {
    /// Extends the validity of the version: no transaction may replace it at or before `to`.
    pub(super) fn extend(&self, to: u64) {
        raise::<M>(&self.valid_until, to);
    }
}

/// The state of a gap: the count of its gap inserts; as for a row, a timestamp up to which no
/// transaction may insert into it any more; and the timestamp of its latest deletion, after which a
/// transaction that finds it empty is ordered.
pub struct GapState<M: Machine> {
    pub(super) count: Gap<M>,
    pub(super) valid_until: M::Word,
    pub(super) emptied_at: M::Word,
}

impl<M: Machine> Default for GapState<M> {
    fn default() -> Self {
        let word = || M::Word::new(0);
        Self { count: Gap::default(), valid_until: word(), emptied_at: word() }
    }
}

impl<M: Machine> AsRef<Gap<M>> for GapState<M> {
    fn as_ref(&self) -> &Gap<M> {
        &self.count
    }
}

pub(super) fn raise<M: Machine>(word: &M::Word, to: u64) {
    let mut now = word.load(Ordering::SeqCst);
    while now < to {
        let raised = word.compare_exchange(now, to, Ordering::SeqCst, Ordering::SeqCst);
        now = raised.err().unwrap_or(to);
    }
}
