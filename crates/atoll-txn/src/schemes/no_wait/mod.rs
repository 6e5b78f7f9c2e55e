//! NO_WAIT: two-phase locking without waiting.
//!
//! A transaction aborts at once if a lock is denied, so there is no deadlock and no queue ("Staring
//! into the Abyss", section 2.1). A transaction holds its locks to its end, so the order of commits
//! is a serial order, and a cut is a position in it.

mod local;
mod state;

use std::marker::PhantomData;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::lock::Busy;
use crate::scheme::{
    AbortReason, Conflict, Fetch, FetchOnce, Place, Scheme, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct NoWait<M>(PhantomData<fn() -> M>);

impl<M: Machine> NoWait<M> {
    /// The scheme.
    pub fn new(_options: &SchemeOptions) -> Self {
        Self(PhantomData)
    }
}

fn denied(_: Busy) -> Conflict {
    Conflict::Abort(AbortReason::Denied)
}

impl<M: Machine> Scheme<M> for NoWait<M> {
    const NAME: &'static str = "NO_WAIT";
    const WRITES: Writes = Writes::InPlace;
    type State = State<M>;
    type Gap = State<M>;
    type Local = Local;

    fn local(&self, _number: u32) -> Local {
        Local::default()
    }

    fn begin(&self, local: &mut Local, _start: &Start<'_>) -> Result<(), Conflict> {
        debug_assert!(local.is_empty(), "the transaction before ended");
        Ok(())
    }

    #[inline]
    fn read(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        local.lock_shared(target.place, target.state, 0).map_err(denied)?;
        Ok(if fetch(None) { Seen::Present } else { Seen::Absent })
    }

    #[inline(always)]
    fn read_once(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        mut fetch: impl FetchOnce,
    ) -> Result<Option<Seen>, Conflict> {
        local.lock_shared(target.place, target.state, 0).map_err(denied)?;
        Ok(Some(if fetch.fetch(None) { Seen::Present } else { Seen::Absent }))
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        _present: bool,
    ) -> Result<(), Conflict> {
        local.lock_exclusive(target.place, target.state, 0).map_err(denied)
    }

    fn read_gap(&self, local: &mut Local, place: Place, gap: &State<M>) -> Result<(), Conflict> {
        local.lock_shared(place, gap, 0).map_err(denied)
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        place: Place,
        gap: &State<M>,
    ) -> Result<(), Conflict> {
        local.check_sole_reader(place, gap).map_err(denied)
    }

    fn split(&self, _local: &mut Local, old: (Place, &State<M>), _new: (Place, &State<M>)) -> bool {
        !old.1.is_held()
    }

    fn adopt(_state: &Self::State) {}

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, _committed: bool) {
        local.unlock_all(states);
    }
}
