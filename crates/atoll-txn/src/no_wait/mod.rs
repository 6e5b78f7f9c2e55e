//! NO_WAIT: two-phase locking that aborts at once when a lock is denied.
//!
//! Every place has a lock of its own; there is no lock table. A transaction holds its locks to the
//! end (strict), so the order of commits is a serial order, and a snapshot, which shows what had
//! committed at the cut, is a place in that order. Nobody ever waits, so nobody can deadlock.
//!
//! Source: "Staring into the Abyss", section 2.1 (two-phase locking), NO_WAIT.

mod local;
mod row;

pub use local::Local;
pub use row::Lock;

use atoll_machine::Machine;

use crate::scheme::{AbortReason, Place, Scheme, States};
use local::Mode;

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoWait;

impl<M: Machine> Scheme<M> for NoWait {
    const NAME: &'static str = "NO_WAIT";
    type State = Lock<M>;
    type Local = Local;

    fn begin(&self, local: &mut Local) {
        debug_assert!(local.is_empty(), "the transaction before ended");
    }

    #[inline]
    fn read(
        &self,
        local: &mut Local,
        states: &impl States<Lock<M>>,
        place: Place,
    ) -> Result<(), AbortReason> {
        if local.mode(place).is_some() {
            return Ok(());
        }
        if !states.state(place).try_share() {
            return Err(AbortReason::Conflict);
        }
        local.add(place, Mode::Shared);
        Ok(())
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        states: &impl States<Lock<M>>,
        place: Place,
    ) -> Result<(), AbortReason> {
        let lock = states.state(place);
        let granted = match local.mode(place) {
            Some(Mode::Exclusive) => return Ok(()),
            Some(Mode::Shared) => lock.try_upgrade(),
            None => lock.try_own(),
        };
        if !granted {
            return Err(AbortReason::Conflict);
        }
        local.add(place, Mode::Exclusive);
        Ok(())
    }

    fn validate(
        &self,
        _local: &mut Local,
        _states: &impl States<Lock<M>>,
    ) -> Result<(), AbortReason> {
        Ok(())
    }

    fn end(&self, local: &mut Local, states: &impl States<Lock<M>>) {
        local.drain(|place, mode| match mode {
            Mode::Shared => states.state(place).release_shared(),
            Mode::Exclusive => states.state(place).release_owned(),
        });
    }
}
