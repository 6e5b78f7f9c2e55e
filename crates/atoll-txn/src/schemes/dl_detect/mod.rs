//! DL_DETECT: two-phase locking with waits and deadlock detection.
//!
//! A transaction that waits shows what it waits for and what it holds (`board.rs`) and searches for
//! a deadlock from time to time; the cheapest member of a deadlock aborts. After a timeout, a
//! transaction aborts, which limits how many transactions wait for one lock ("Staring into the
//! Abyss", section 4.2, where 100 µs was chosen). A timeout of 0 is NO_WAIT.

mod board;
mod local;
mod state;

use std::time::Duration;

use atoll_machine::Machine;

use board::Board;
pub use local::Local;
pub use state::State;

use crate::common::parking::Parking;
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;

/// Rounds of waiting before a wait is shown, and between two searches for a deadlock. Most locks
/// are free again before that.
const ROUNDS_PER_LOOK: u32 = 32;

/// Rounds of waiting from which on a transaction sleeps until the lock is free.
const SLEEP_FROM: u32 = 128;
/// Longest sleep between two searches for a deadlock.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// See the module.
pub struct DlDetect<M: Machine> {
    board: Board<M>,
    parking: Parking<M>,
    timeout_ns: u64,
}

impl<M: Machine> DlDetect<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        let (board, parking) = (Board::default(), Parking::default());
        Self { board, parking, timeout_ns: options.lock_timeout_ns }
    }

    /// Ends the wait for a place, if the transaction has waited for it.
    #[inline]
    fn granted(&self, local: &mut Local, place: Place) {
        if (local.is_shown || local.ticket.is_some()) && local.wait.is_for(place) {
            self.stop_waiting(local);
        }
    }

    #[cold]
    fn stop_waiting(&self, local: &mut Local) {
        if local.is_shown {
            self.board.clear(local.number);
        }
        local.is_shown = false;
        if let Some(ticket) = local.ticket.take() {
            self.parking.leave(&ticket);
        }
    }
}

impl<M: Machine> Scheme<M> for DlDetect<M> {
    const NAME: &'static str = "DL_DETECT";
    const WRITES: Writes = Writes::InPlace;
    const RELEASES_READS: bool = true;
    type State = State<M>;
    type Gap = State<M>;
    type Local = Local;

    fn local(&self, number: u32) -> Local {
        self.board.add(number);
        Local::new(number)
    }

    fn begin(&self, local: &mut Local, _start: &Start<'_>) -> Result<(), Conflict> {
        debug_assert!(local.locks.is_empty(), "the transaction before ended");
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
        if local.locks.lock_shared(target.place, target.state, 0).is_err() {
            let Some(passed) = &mut local.passed else {
                return Err(Conflict::WouldBlock(target.place));
            };
            *passed += 1;
            local.passed_last = Some(target.place);
            return Ok(Seen::Held);
        }
        self.granted(local, target.place);
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
        let owned = local.locks.lock_exclusive(target.place, target.state, 0);
        owned.map_err(|_| Conflict::WouldBlock(target.place))?;
        self.granted(local, target.place);
        Ok(())
    }

    fn release_reads(&self, local: &mut Local, states: &impl StatesOf<Self, M>) {
        local.locks.unlock_shared_and(states, |places| {
            self.parking.unlocked(places.iter().copied());
        });
    }

    fn keep_reads(&self, local: &mut Local) {
        local.locks.keep_shared();
    }

    fn read_past(&self, local: &mut Local, is_on: bool) -> u64 {
        let passed = local.passed.take().unwrap_or(0);
        local.passed = is_on.then_some(passed);
        passed
    }

    fn read_passed(
        &self,
        local: &mut Local,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        let Some(place) = local.passed_last else { return Ok(()) };
        let shared = local.locks.lock_shared(place, states.rows()(place), 0);
        shared.map_err(|_| Conflict::WouldBlock(place))?;
        self.granted(local, place);
        Ok(())
    }

    fn read_gap(&self, local: &mut Local, place: Place, gap: &State<M>) -> Result<(), Conflict> {
        local.locks.lock_shared(place, gap, 0).map_err(|_| Conflict::WouldBlock(place))?;
        self.granted(local, place);
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        place: Place,
        gap: &State<M>,
    ) -> Result<(), Conflict> {
        local.locks.check_sole_reader(place, gap).map_err(|_| Conflict::WouldBlock(place))?;
        self.granted(local, place);
        Ok(())
    }

    fn split(&self, _local: &mut Local, old: (Place, &State<M>), _new: (Place, &State<M>)) -> bool {
        !old.1.is_held()
    }

    fn wait(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        place: Place,
        round: u32,
    ) -> Result<(), AbortReason> {
        if round == 0 || !local.wait.is_for(place) {
            self.stop_waiting(local);
        }
        let waited_ns = local.wait.go_on::<M>(place, round);
        let sleeps = round >= SLEEP_FROM;
        if sleeps || round % ROUNDS_PER_LOOK == ROUNDS_PER_LOOK - 1 {
            if !local.is_shown {
                self.board.show(local.number, place, local.locks.places());
                local.is_shown = true;
                local.shown.is(&local.locks);
            } else if local.shown.lacks_some(&local.locks) {
                self.board.show_again(local.number, local.locks.places());
                local.shown.is(&local.locks);
            }
            if self.board.is_victim(local.number, &mut local.look) {
                return Err(AbortReason::Deadlock);
            }
        }
        if self.timeout_ns == 0 || waited_ns > self.timeout_ns {
            return Err(AbortReason::Timeout);
        }
        match &mut local.ticket {
            _ if !sleeps => M::wait(round),
            // It tries once more before it sleeps (`PARK-1`).
            None => local.ticket = Some(self.parking.register(place)),
            Some(ticket) => {
                let left = Duration::from_nanos(self.timeout_ns - waited_ns);
                self.parking.sleep(ticket, left.min(SLEEP_MAX));
            }
        }
        Ok(())
    }

    fn adopt(_state: &Self::State) {}

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, _committed: bool) {
        self.stop_waiting(local);
        (local.passed, local.passed_last) = (None, None);
        local.locks.unlock_all_and(states, |locks| self.parking.unlocked(locks.places()));
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use atoll_storage::TableId;

    use super::*;
    use crate::scheme::{Guarded, States};

    type Lock = State<Native>;

    /// A gap, followed by rows.
    struct Few(Vec<Lock>);

    impl Few {
        fn new(rows: usize) -> Self {
            Self((0..=rows).map(|_| Lock::default()).collect())
        }

        fn of(&self, place: Place) -> &Lock {
            match place.what() {
                Guarded::Row(row) => &self.0[1 + row as usize],
                Guarded::Gap(..) => &self.0[0],
            }
        }

        fn target(&self, row: u64) -> Target<'_, Lock> {
            let place = Place::row(TableId(0), row);
            Target { place, state: self.of(place) }
        }
    }

    /// A scheme without a timeout.
    fn patient() -> DlDetect<Native> {
        let options = SchemeOptions { lock_timeout_ns: u64::MAX, ..SchemeOptions::default() };
        DlDetect::new(&options)
    }

    impl States<Lock, Lock> for Few {
        fn row(&self, place: Place) -> &Lock {
            self.of(place)
        }

        fn gap(&self, place: Place) -> &Lock {
            self.of(place)
        }
    }

    /// As in a search for another row with a value of a unique index.
    #[test]
    fn a_deadlock_is_found_by_who_asks_again_for_what_it_has() {
        let (scheme, few) = (patient(), Few::new(2));
        let gap = Place::gap(TableId(0), 0, 0);
        let ask = |local: &mut Local, row: u64| {
            scheme.read_gap(local, gap, few.of(gap))?;
            scheme.write(local, &few, few.target(row), true)
        };
        let mut locals = [0, 1].map(|number| Scheme::<Native>::local(&scheme, number));
        for (local, row) in locals.iter_mut().zip([0, 1]) {
            ask(local, row).expect("it is free");
        }
        let mut victims = 0;
        for round in 0..4 * ROUNDS_PER_LOOK {
            for (local, row) in locals.iter_mut().zip([1, 0]) {
                assert!(matches!(ask(local, row), Err(Conflict::WouldBlock(_))));
                let waited = scheme.wait(local, &few, Place::row(TableId(0), row), round);
                victims += u32::from(waited == Err(AbortReason::Deadlock));
            }
        }
        assert!(victims > 0);
        locals.iter_mut().for_each(|local| scheme.end(local, &few, false));
        assert!(few.0.iter().all(|lock| !lock.is_held()));
    }

    /// As in a scan that starts over and finds another row before the one that it waits for.
    #[test]
    fn a_deadlock_is_found_over_a_lock_that_is_granted_during_a_wait() {
        let (scheme, few) = (patient(), Few::new(3));
        let mut locals = [0, 1].map(|number| Scheme::<Native>::local(&scheme, number));
        for (local, row) in locals.iter_mut().zip([0, 1]) {
            assert_eq!(scheme.write(local, &few, few.target(row), true), Ok(()));
        }
        let mut victims = 0;
        let mut wait = |local: &mut Local, row: u64, round: u32| {
            let asked = scheme.write(local, &few, few.target(row), true);
            assert!(matches!(asked, Err(Conflict::WouldBlock(_))));
            let waited = scheme.wait(local, &few, few.target(row).place, round);
            victims += u32::from(waited == Err(AbortReason::Deadlock));
        };
        for round in 0..8 * ROUNDS_PER_LOOK {
            if round == 2 * ROUNDS_PER_LOOK {
                assert_eq!(scheme.write(&mut locals[0], &few, few.target(2), true), Ok(()));
            }
            wait(&mut locals[0], 1, round);
            if let Some(round) = round.checked_sub(4 * ROUNDS_PER_LOOK) {
                wait(&mut locals[1], 2, round);
            }
        }
        assert!(victims > 0);
        locals.iter_mut().for_each(|local| scheme.end(local, &few, false));
    }

    #[test]
    fn a_deadlock_of_rows_that_are_owned_is_found_however_many_are_shared() {
        let (scheme, few) = (patient(), Few::new(300));
        let mut locals = [0, 1].map(|number| Scheme::<Native>::local(&scheme, number));
        for (local, row) in locals.iter_mut().zip([0, 1]) {
            assert_eq!(scheme.write(local, &few, few.target(row), true), Ok(()));
            for shared in 2..290 {
                let seen = scheme.read(local, &few, few.target(shared), &mut |_| true);
                assert_eq!(seen, Ok(Seen::Present));
            }
        }
        let mut victims = 0;
        for round in 0..4 * ROUNDS_PER_LOOK {
            for (local, row) in locals.iter_mut().zip([1, 0]) {
                let asked = scheme.write(local, &few, few.target(row), true);
                assert!(matches!(asked, Err(Conflict::WouldBlock(_))));
                let waited = scheme.wait(local, &few, few.target(row).place, round);
                victims += u32::from(waited == Err(AbortReason::Deadlock));
            }
        }
        assert!(victims > 0);
        locals.iter_mut().for_each(|local| scheme.end(local, &few, false));
    }
}
