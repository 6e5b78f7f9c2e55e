//! OCC: optimistic, with a begin timestamp and a commit timestamp.
//!
//! Transactions are as in [`crate::common::optimistic`]; the version of a row is the timestamp of
//! its writer. A transaction locks the rows of its write set one by one and validates those of its
//! read set one by one: there is no global critical section ("Staring into the Abyss", sections 2.2
//! and 4.3). Then it takes the commit timestamp, which its new versions get.
//!
//! - `OCC-1`: a transaction reads the state at one moment: when every transaction up to its begin
//!   timestamp had locked its write set, and no later one had. The reason is that a transaction
//!   takes its commit timestamp while it holds these locks, that readers wait for locks, and that a
//!   version newer than the begin timestamp is a conflict. (This does not hold for batched
//!   timestamps, which have no such order. And a transaction that searches for a row which was
//!   deleted and collected meets no version; validation finds the inconsistency.)
//!
//! The study takes the begin timestamp from the shared source, like the commit timestamp. That is
//! not necessary: any timestamp that has been handed out will do, and each transaction number has
//! one, that of its last commit. In rare cases it is too old, and the transaction meets a newer
//! version. Then it moves its begin timestamp to the newest one of all: if everything that it has
//! read is unchanged, it would have read the same there (Riegel, Felber and Fetzer, "A lazy
//! snapshot algorithm with eager validation", DISC 2006).

mod local;
mod state;

use atoll_machine::Machine;

pub use local::Local;
pub use state::State;

use crate::common::gap::Gap;
use crate::common::optimistic::Optimistic;
use crate::common::timestamp::Timestamps;
use crate::common::version::NUMBER;
use crate::scheme::{AbortReason, Conflict, States};
use crate::schemes::SchemeOptions;

/// See the module.
pub struct Occ<M: Machine> {
    timestamps: Timestamps<M>,
    /// Transactions take a begin timestamp, see [`SchemeOptions::begin_timestamps`].
    takes_begin: bool,
}

/// A transaction that moves its begin timestamp again and again may check each row of its read set
/// this often, plus `LOOKS_MORE` rows in all, before it aborts.
const LOOKS_EACH: usize = 4;
const LOOKS_MORE: usize = 64;

impl<M: Machine> Occ<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        let timestamps = Timestamps::new(options.timestamps);
        Self { timestamps, takes_begin: options.begin_timestamps }
    }

    /// Moves the begin timestamp, see `OCC-1`.
    #[cold]
    fn begin_later(
        &self,
        local: &mut Local,
        states: &impl States<State<M>, Gap<M>>,
        version: u64,
    ) -> Result<(), AbortReason> {
        if self.takes_begin {
            return Err(AbortReason::TooLate);
        }
        // Before the checks. If they fail, the next attempt begins with this timestamp.
        local.begin = self.timestamps.newest(&mut local.source);
        while version > local.begin {
            // The version is from garbage collection (`unlock`), not from a transaction.
            local.begin = self.timestamps.next(&mut local.source);
        }
        let noted = local.set.noted();
        local.looks += noted;
        if local.looks > noted * LOOKS_EACH + LOOKS_MORE {
            return Err(AbortReason::TooLate);
        }
        if local.set.is_unchanged(states) { Ok(()) } else { Err(AbortReason::Changed) }
    }
}

impl<M: Machine> Optimistic for Occ<M> {
    const NAME: &'static str = "OCC";
    type Machine = M;
    type Local = Local;

    fn local_of(&self, number: u32) -> Local {
        Local::new(number)
    }

    fn begins(&self, local: &mut Local) {
        (local.expects, local.looks) = (false, 0);
        if self.takes_begin {
            local.begin = self.timestamps.next(&mut local.source);
        }
    }

    /// If the version is newer than the begin timestamp, moves the begin timestamp.
    #[inline(always)]
    fn has_read(
        &self,
        local: &mut Local,
        states: &impl States<State<M>, Gap<M>>,
        word: u64,
    ) -> Result<(), Conflict> {
        if word & NUMBER <= local.begin {
            return Ok(());
        }
        self.begin_later(local, states, word & NUMBER).map_err(Conflict::from)
    }

    fn locks(&self, local: &mut Local) {
        // Only once: a transaction that waits for a row must not take the cache line from others
        // with each attempt.
        if !local.set.writes.is_empty() && !std::mem::replace(&mut local.expects, true) {
            self.timestamps.expect();
        }
    }

    fn is_valid(&self, local: &mut Local) {
        if local.set.writes.is_empty() {
            return;
        }
        local.commit = self.timestamps.next(&mut local.source);
        while local.commit <= local.set.newest() {
            // As in `begin_later`; or the timestamp is from a batch.
            local.commit = self.timestamps.next(&mut local.source);
        }
    }

    fn number(&self, local: &mut Local) -> u64 {
        local.begin = local.begin.max(local.commit);
        local.commit
    }

    fn ends(&self, _local: &mut Local) {
        if self.takes_begin {
            self.timestamps.expect();
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;

    use super::*;
    use crate::common::few;
    use crate::common::timestamp::TimestampKind;
    use crate::scheme::{Scheme, Section, Seen, Start};

    type Few = few::Few<State<Native>, Gap<Native>>;

    /// Present rows.
    fn rows() -> Few {
        Few::new(40, State::adopt)
    }

    fn version(few: &Few, row: usize) -> u64 {
        few.0[row].load() & NUMBER
    }

    fn scheme(timestamps: TimestampKind, begin_timestamps: bool) -> Occ<Native> {
        Occ::new(&SchemeOptions { timestamps, begin_timestamps, ..SchemeOptions::default() })
    }

    fn read(occ: &Occ<Native>, local: &mut Local, few: &Few, row: u64) -> Result<Seen, Conflict> {
        occ.read(local, few, few.target(row), &mut |_| true)
    }

    fn commit(occ: &Occ<Native>, local: &mut Local, few: &Few) -> Result<(), AbortReason> {
        assert_eq!(occ.prepare(local, few), Ok(()));
        let validated = occ.validate(local, few, Section { cuts: 0, is_part: false });
        occ.end(local, few, validated.is_ok());
        validated
    }

    fn begin(occ: &Occ<Native>, local: &mut Local) {
        assert_eq!(occ.begin(local, &Start::default()), Ok(()));
    }

    /// A whole transaction that changes these rows.
    fn change(occ: &Occ<Native>, local: &mut Local, few: &Few, rows: &[u64]) {
        begin(occ, local);
        for row in rows {
            let seen = occ.update(local, few, few.target(*row), &mut |_| true);
            assert_eq!(seen, Ok(Seen::Present));
        }
        assert_eq!(commit(occ, local, few), Ok(()));
    }

    #[test]
    fn who_meets_a_newer_row_begins_later_unless_what_was_read_has_changed() {
        for kind in TimestampKind::ALL.into_iter().filter(|one| *one != TimestampKind::Batched) {
            let (occ, few) = (scheme(kind, false), rows());
            let [mut one, mut two] = [0, 1].map(|number| occ.local(number));
            for is_read in [false, true] {
                for changed in [&[1][..], &[0, 1]] {
                    begin(&occ, &mut one);
                    if is_read {
                        assert_eq!(read(&occ, &mut one, &few, 0), Ok(Seen::Present));
                    }
                    change(&occ, &mut two, &few, changed);
                    let is_moment = !is_read || changed.len() == 1;
                    let expected = if is_moment {
                        Ok(Seen::Present)
                    } else {
                        Err(Conflict::Abort(AbortReason::Changed))
                    };
                    assert_eq!(read(&occ, &mut one, &few, 1), expected, "{kind} {changed:?}");
                    if is_moment {
                        assert_eq!(commit(&occ, &mut one, &few), Ok(()));
                    } else {
                        occ.end(&mut one, &few, false);
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_that_is_going_to_be_written_is_looked_at_again_too() {
        let (occ, few) = (scheme(TimestampKind::Atomic, false), rows());
        let [mut one, mut two] = [0, 1].map(|number| occ.local(number));
        begin(&occ, &mut one);
        let seen = occ.update(&mut one, &few, few.target(0), &mut |_| true);
        assert_eq!(seen, Ok(Seen::Present));
        change(&occ, &mut two, &few, &[0, 1]);
        let changed = Err(Conflict::Abort(AbortReason::Changed));
        assert_eq!(read(&occ, &mut one, &few, 1), changed);
        occ.end(&mut one, &few, false);
    }

    #[test]
    fn whose_begin_is_taken_meets_nothing_newer() {
        let (occ, few) = (scheme(TimestampKind::Atomic, true), rows());
        let [mut one, mut two] = [0, 1].map(|number| occ.local(number));
        begin(&occ, &mut one);
        change(&occ, &mut two, &few, &[1]);
        let too_late = Err(Conflict::Abort(AbortReason::TooLate));
        assert_eq!(read(&occ, &mut one, &few, 1), too_late);
        occ.end(&mut one, &few, false);
        begin(&occ, &mut one);
        assert_eq!(read(&occ, &mut one, &few, 1), Ok(Seen::Present));
        occ.end(&mut one, &few, true);
    }

    #[test]
    fn a_version_that_no_transaction_has_given_keeps_nobody_out_and_grows_when_one_does() {
        for kind in TimestampKind::ALL {
            let (occ, few) = (scheme(kind, false), rows());
            let mut local = occ.local(0);
            change(&occ, &mut local, &few, &[0]);
            for _ in 0..20 {
                assert!(occ.lock(few.target(0)).is_some());
                occ.unlock(few.target(0), true);
            }
            begin(&occ, &mut local);
            assert_eq!(read(&occ, &mut local, &few, 0), Ok(Seen::Present));
            assert_eq!(commit(&occ, &mut local, &few), Ok(()));
            // For a row that it writes without reading, it learns the version under the lock.
            (0..40).for_each(|_| few.0[1].unlock_outside(true));
            let before = version(&few, 1);
            begin(&occ, &mut local);
            assert_eq!(occ.write(&mut local, &few, few.target(1), true), Ok(()));
            assert_eq!(commit(&occ, &mut local, &few), Ok(()));
            assert!(version(&few, 1) > before, "{kind}");
        }
    }

    #[test]
    fn who_meets_newer_rows_all_the_time_does_not_look_at_everything_each_time() {
        let (occ, few) = (scheme(TimestampKind::Atomic, false), rows());
        let [mut one, mut two] = [0, 1].map(|number| occ.local(number));
        begin(&occ, &mut one);
        let mut seen = (0..few.0.len() as u64).map(|row| {
            change(&occ, &mut two, &few, &[row]);
            read(&occ, &mut one, &few, row)
        });
        // Nothing that it has read has changed, so it might go on, but with more work for each row.
        assert!(seen.by_ref().take(8).all(|seen| seen == Ok(Seen::Present)));
        assert_eq!(seen.find(Result::is_err), Some(Err(AbortReason::TooLate.into())));
    }
}
