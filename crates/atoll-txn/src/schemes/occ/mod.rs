//! OCC: optimistic, with a timestamp when a transaction begins and another when it commits.
//!
//! Reads copy what they need and note the version of the row, which is the timestamp of its writer;
//! a version from after the transaction's begin is a conflict at once. To commit, it locks what it
//! writes row by row, in the order of places if it has to wait, and checks every row that it read
//! by itself: there is no critical section for all ("Staring into the Abyss", sections 2.2 and
//! 4.3). Then it takes the timestamp that its versions get.

mod local;
mod state;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::gap::Gap;
use crate::common::timestamp::Timestamps;
use crate::common::version::{NUMBER, PRESENT};
use crate::scheme::{
    AbortReason, Fetch, Place, Refusal, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct Occ<M: Machine> {
    timestamps: Timestamps<M>,
}

impl<M: Machine> Occ<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self { timestamps: Timestamps::new(options.timestamps) }
    }
}

/// Reads a row, which is not newer than the transaction, and its word.
#[inline]
fn look<M: Machine>(
    local: &Local,
    target: &Target<'_, State<M>>,
    fetch: Fetch<'_>,
) -> Result<(Seen, u64), Refusal> {
    let (seen, word) = target.state.read(true, fetch).ok_or(Refusal::Wait(target.place))?;
    if word & NUMBER > local.begin {
        return Err(AbortReason::TooLate.into());
    }
    Ok((seen, word))
}

impl<M: Machine> Scheme<M> for Occ<M> {
    const NAME: &'static str = "OCC";
    const WRITES: Writes = Writes::AtCommit;
    type State = State<M>;
    type Gap = Gap<M>;
    type Local = Local;

    fn local(&self, worker: u32) -> Local {
        Local::new(worker)
    }

    fn begin(&self, local: &mut Local, _start: &Start<'_>) -> Result<(), Refusal> {
        local.set.clear();
        local.begin = self.timestamps.next(&mut local.source);
        local.expects = false;
        Ok(())
    }

    #[inline]
    fn read(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Refusal> {
        let (seen, word) = look(local, &target, fetch)?;
        local.set.read(target.place, word);
        Ok(seen)
    }

    #[inline]
    fn update(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Refusal> {
        let (seen, word) = look(local, &target, fetch)?;
        local.set.update_if_there(target.place, seen, word);
        Ok(seen)
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        present: bool,
    ) -> Result<(), Refusal> {
        local.set.write(target.place, present);
        Ok(())
    }

    fn watch(&self, local: &mut Local, place: Place, gap: &Gap<M>) -> Result<(), Refusal> {
        local.set.watch(place, gap);
        Ok(())
    }

    fn disturb(&self, local: &mut Local, place: Place, gap: &Gap<M>) -> Result<(), Refusal> {
        local.set.disturb(place, gap);
        Ok(())
    }

    fn split(&self, local: &mut Local, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) -> bool {
        local.set.split(old, new);
        true
    }

    fn prepare(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> Result<(), Refusal> {
        // Only once: who waits for a row must not take the line from others all the time.
        if !local.set.writes.is_empty() && !std::mem::replace(&mut local.expects, true) {
            self.timestamps.expect();
        }
        local.set.lock(states)
    }

    fn validate(
        &self,
        local: &mut Local,
        states: &impl StatesOf<Self, M>,
        _section: Section,
    ) -> Result<(), AbortReason> {
        if local.set.changed(states).is_some() {
            return Err(AbortReason::Changed);
        }
        if !local.set.writes.is_empty() {
            // What is replaced is older than the begin, so this is greater.
            local.commit = self.timestamps.next(&mut local.source);
        }
        local.set.validated();
        Ok(())
    }

    fn adopt(&self, state: &Self::State) {
        state.adopt();
    }

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, committed: bool) {
        self.timestamps.expect(); // for the next one's begin
        if committed {
            let next = local.commit;
            local.set.unlock(states, |write| if write.present { next | PRESENT } else { next });
        } else {
            // Below the timestamp of whoever writes the row next, which has read this.
            local.set.roll_back(states, |write| write.before + 1);
        }
        local.set.clear();
    }

    fn hold(&self, target: Target<'_, State<M>>) -> Option<(Seen, u64)> {
        let (seen, _) = target.state.hold()?;
        Some((seen, 0))
    }

    fn let_go(&self, target: Target<'_, State<M>>, changed: bool) {
        target.state.let_go(changed);
    }

    fn is_consistent(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> bool {
        local.set.is_unchanged(states)
    }
}
