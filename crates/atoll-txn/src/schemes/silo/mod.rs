//! SILO: optimistic, without timestamps from a shared source.
//!
//! A read adds the row's version to the read set and writes nothing shared. To commit, a
//! transaction locks its write set (in the order of places if it has to wait), checks that the
//! versions of its read set are unchanged, and stores. Its new versions are greater than all
//! versions that it has read or locked (Tu et al., "Speedy transactions in multicore in-memory
//! databases", SOSP 2013). The epochs of that system are the epochs of the gate here: a transaction
//! validates and stores in one section, so an epoch ends between transactions.

mod local;
mod state;

use std::marker::PhantomData;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::gap::Gap;
use crate::common::version::{Look, PRESENT};
use crate::scheme::{
    AbortReason, Conflict, Fetch, FetchOnce, Place, Scheme, Section, Seen, Start, StatesOf, Target,
    Writes,
};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct Silo<M>(PhantomData<fn() -> M>);

impl<M: Machine> Silo<M> {
    /// The scheme.
    pub fn new(_options: &SchemeOptions) -> Self {
        Self(PhantomData)
    }
}

impl<M: Machine> Scheme<M> for Silo<M> {
    const NAME: &'static str = "SILO";
    const WRITES: Writes = Writes::AtCommit;
    type State = State<M>;
    type Gap = Gap<M>;
    type Local = Local;

    fn local(&self, _worker: u32) -> Local {
        Local::default()
    }

    fn begin(&self, local: &mut Local, _start: &Start<'_>) -> Result<(), Conflict> {
        local.clear();
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
        let (seen, word) =
            target.state.read(true, fetch).ok_or(Conflict::WouldBlock(target.place))?;
        local.read(target.place, word);
        Ok(seen)
    }

    #[inline(always)]
    fn read_once(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: impl FetchOnce,
    ) -> Result<Option<Seen>, Conflict> {
        match target.state.look(true, fetch) {
            Look::At(seen, word) => {
                local.read(target.place, word);
                Ok(Some(seen))
            }
            Look::Locked => Err(Conflict::WouldBlock(target.place)),
            Look::Overtaken => Ok(None),
        }
    }

    #[inline]
    fn update(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let (seen, word) =
            target.state.read(true, fetch).ok_or(Conflict::WouldBlock(target.place))?;
        local.update_if_there(target.place, seen, word);
        Ok(seen)
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        present: bool,
    ) -> Result<(), Conflict> {
        local.write(target.place, present);
        Ok(())
    }

    fn read_gap(&self, local: &mut Local, place: Place, gap: &Gap<M>) -> Result<(), Conflict> {
        local.read_gap(place, gap);
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        place: Place,
        gap: &Gap<M>,
    ) -> Result<(), Conflict> {
        local.insert_into_gap(place, gap);
        Ok(())
    }

    fn split(&self, local: &mut Local, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) -> bool {
        local.split(old, new);
        true
    }

    fn prepare(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> Result<(), Conflict> {
        local.lock(states)
    }

    fn validate(
        &self,
        local: &mut Local,
        states: &impl StatesOf<Self, M>,
        _section: Section,
    ) -> Result<(), AbortReason> {
        if local.changed(states).is_some() {
            return Err(AbortReason::Changed);
        }
        local.validated();
        Ok(())
    }

    fn adopt(&self, state: &Self::State) {
        state.adopt();
    }

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, committed: bool) {
        if committed {
            let next = local.newest() + 1;
            local.unlock(states, |write| if write.present { next | PRESENT } else { next });
        } else {
            local.roll_back(states, |write| write.before + 1);
        }
        local.clear();
    }

    fn lock(&self, target: Target<'_, State<M>>) -> Option<(Seen, u64)> {
        let (seen, _) = target.state.lock_outside()?;
        Some((seen, 0))
    }

    fn unlock(&self, target: Target<'_, State<M>>, changed: bool) {
        target.state.unlock_outside(changed);
    }

    fn is_consistent(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> bool {
        local.is_unchanged(states)
    }
}
