//! WAIT_DIE: two-phase locking in which an older transaction waits and a younger one dies.
//!
//! A transaction takes a timestamp when it begins and keeps it when it has to start again. If it
//! requests a lock that others hold, it waits if it is older than every holder, and aborts
//! otherwise. So no transaction waits for an older one, and there is no deadlock ("Staring into the
//! Abyss", section 2.1). A lock knows only a bound on the age of its holders. So a transaction may
//! die that could have waited; but no transaction waits that must die.

mod local;
mod state;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::lock::Busy;
use crate::common::timestamp::Timestamps;
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct WaitDie<M: Machine> {
    timestamps: Timestamps<M>,
}

impl<M: Machine> WaitDie<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self { timestamps: Timestamps::new(options.timestamps) }
    }
}

/// Waits if the transaction is older than all holders.
fn wait_or_die(age: u64, place: Place) -> impl FnOnce(Busy) -> Conflict {
    move |busy| match busy {
        Busy::Held { oldest } if age >= oldest => Conflict::Abort(AbortReason::TooYoung),
        _ => Conflict::WouldBlock(place),
    }
}

impl<M: Machine> Scheme<M> for WaitDie<M> {
    const NAME: &'static str = "WAIT_DIE";
    const WRITES: Writes = Writes::InPlace;
    type State = State<M>;
    type Gap = State<M>;
    type Local = Local;

    fn local(&self, number: u32) -> Local {
        Local::new(number)
    }

    fn begin(&self, local: &mut Local, _start: &Start<'_>) -> Result<(), Conflict> {
        debug_assert!(local.locks.is_empty(), "the transaction before ended");
        if !local.died {
            local.age = self.timestamps.age(self.timestamps.next(&mut local.source));
        }
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
        let shared = local.locks.lock_shared(target.place, target.state, local.age);
        shared.map_err(wait_or_die(local.age, target.place))?;
        Ok(if fetch(None) { Seen::Present } else { Seen::Absent })
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        _present: bool,
    ) -> Result<(), Conflict> {
        let owned = local.locks.lock_exclusive(target.place, target.state, local.age);
        owned.map_err(wait_or_die(local.age, target.place))
    }

    fn read_gap(&self, local: &mut Local, place: Place, gap: &State<M>) -> Result<(), Conflict> {
        local.locks.lock_shared(place, gap, local.age).map_err(wait_or_die(local.age, place))
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        place: Place,
        gap: &State<M>,
    ) -> Result<(), Conflict> {
        local.locks.check_sole_reader(place, gap).map_err(wait_or_die(local.age, place))
    }

    fn split(&self, _local: &mut Local, old: (Place, &State<M>), _new: (Place, &State<M>)) -> bool {
        !old.1.is_held()
    }

    fn adopt(_state: &Self::State) {}

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, committed: bool) {
        local.locks.unlock_all(states);
        local.died = !committed;
    }
}
