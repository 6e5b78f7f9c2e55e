//! TICTOC: optimistic, with timestamps computed from the data.
//!
//! A version has the timestamp of its write and a timestamp until which it is known to be valid. A
//! transaction commits at the smallest timestamp at which all versions that it has read are valid
//! and all rows that it writes are free. If a version was only known to be valid until an earlier
//! timestamp, the transaction extends its validity, unless another transaction has changed the row
//! (Yu et al., "TicToc: time traveling optimistic concurrency control", SIGMOD 2016). So a
//! transaction may be ordered before one that committed earlier: the schedule is serializable but
//! not strictly serializable.
//!
//! - `TICTOC-1`: commits after a cut have greater timestamps than all commits before it, so a cut
//!   separates timestamps as it separates commits. Each transaction number shows its greatest
//!   timestamp. At the first commit of a number after a cut, when no worker is inside the gate
//!   under an epoch before the cut, the transaction reads the timestamps of all numbers.
//! - `TICTOC-2`: gap reads and gap inserts are ordered by timestamps, like reads and writes of
//!   rows.

mod local;
mod state;

use atoll_machine::{Machine, Ordering, Word};

pub use local::Local;
pub use state::{GapState, State};

use crate::common::read_set::Write;
use crate::common::version::{LOCKED, NUMBER, PRESENT, STORING};
use crate::scheme::TXNS_MAX;
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;
use state::raise;

#[repr(align(64))]
struct Line<W>(W);

/// See the module.
pub struct TicToc<M: Machine> {
    /// The greatest timestamp of each transaction number.
    shown: Box<[Line<M::Word>]>,
}

impl<M: Machine> TicToc<M> {
    /// The scheme.
    pub fn new(_options: &SchemeOptions) -> Self {
        Self { shown: (0..TXNS_MAX).map(|_| Line(M::Word::new(0))).collect() }
    }

    fn newest_of_all(&self) -> u64 {
        self.shown.iter().map(|line| line.0.load(Ordering::SeqCst)).max().unwrap_or(0)
    }

    /// The smallest timestamp at which the transaction can commit.
    fn timestamp(&self, local: &Local, states: &impl StatesOf<Self, M>) -> u64 {
        let reads = local.set.reads.iter().map(|(_, word)| word & NUMBER);
        let writes = local
            .set
            .writes
            .iter()
            .map(|write| states.row(write.place).valid_until.load(Ordering::SeqCst) + 1);
        let gaps = local
            .inserted_into
            .iter()
            .map(|place| states.gap(*place).valid_until.load(Ordering::SeqCst) + 1);
        let smallest = reads.chain(writes).chain(gaps).max().unwrap_or(0);
        smallest.max(local.base).max(local.after)
    }

    /// Whether a read is valid at `commit`; extends the validity of its version if necessary.
    fn is_valid(
        &self,
        local: &Local,
        states: &impl StatesOf<Self, M>,
        at: usize,
        commit: u64,
    ) -> bool {
        if local.valid_until[at] >= commit {
            return true;
        }
        let (place, word) = local.set.reads[at];
        if word & LOCKED != 0 {
            return true; // The transaction itself has locked the row, and the word was unchanged.
        }
        let state = states.row(place);
        let is_same = || {
            let now = state.version.load();
            now & !(LOCKED | STORING) == word
                && (now & LOCKED == 0 || local.set.own_write(place).is_some())
        };
        if !is_same() {
            return false;
        }
        if local.set.own_write(place).is_some() {
            return true;
        }
        // A writer that locks the row after this sees the extended time; `is_same` sees a writer
        // that has locked it before.
        state.extend(commit);
        is_same()
    }
}

impl<M: Machine> Scheme<M> for TicToc<M> {
    const NAME: &'static str = "TICTOC";
    const WRITES: Writes = Writes::AtCommit;
    const ORDERS_BY_TIMESTAMP: bool = true;
    // A new row of an old key is absent from time 0 on; only the gap knows until when the old row
    // was present.
    const READS_GAP_OF_ABSENT: bool = true;
    type State = State<M>;
    type Gap = GapState<M>;
    type Local = Local;

    fn local(&self, number: u32) -> Local {
        Local { number, ..Local::default() }
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
        let State { version, valid_until } = target.state;
        let (seen, word, until) = loop {
            let (seen, word) =
                version.read(true, fetch).ok_or(Conflict::WouldBlock(target.place))?;
            let until = valid_until.load(Ordering::Acquire);
            // `until` is the time of this version only if the version is still the newest and the
            // row is not locked. A writer that holds the lock may have read the time before another
            // transaction raised it, in vain (`is_valid`).
            if version.load() == word {
                break (seen, word, until);
            }
        };
        local.set.read(target.place, word);
        local.valid_until.push(until);
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
        local.set.write(target.place, present);
        Ok(())
    }

    fn read_gap(&self, local: &mut Local, place: Place, gap: &GapState<M>) -> Result<(), Conflict> {
        local.set.read_gap(place, &gap.count);
        local.after = local.after.max(gap.emptied_at.load(Ordering::SeqCst));
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        place: Place,
        gap: &GapState<M>,
    ) -> Result<(), Conflict> {
        local.set.insert_into_gap(place, &gap.count);
        local.inserted_into.push(place);
        Ok(())
    }

    fn split(
        &self,
        local: &mut Local,
        old: (Place, &GapState<M>),
        new: (Place, &GapState<M>),
    ) -> bool {
        // A transaction that raises the old gap's time after it is read here finds the old gap's
        // count changed.
        local.set.split((old.0, &old.1.count), (new.0, &new.1.count));
        raise::<M>(&new.1.valid_until, old.1.valid_until.load(Ordering::SeqCst));
        raise::<M>(&new.1.emptied_at, old.1.emptied_at.load(Ordering::SeqCst));
        true
    }

    fn remove_from_gap(&self, gap: &GapState<M>, state: &State<M>, stamp: u64) {
        raise::<M>(&gap.emptied_at, stamp);
        raise::<M>(&gap.valid_until, state.valid_until.load(Ordering::SeqCst));
        gap.count.insert(|| false);
    }

    fn prepare(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> Result<(), Conflict> {
        local.set.lock(states)
    }

    fn validate(
        &self,
        local: &mut Local,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        if local.cuts != Some(section.cuts) {
            local.base = self.newest_of_all() + 1; // TICTOC-1
            local.cuts = Some(section.cuts);
        }
        let commit = self.timestamp(local, states);
        let reads = 0..local.set.reads.len();
        if !reads.into_iter().all(|at| self.is_valid(local, states, at, commit)) {
            return Err(AbortReason::Changed);
        }
        let is_quiet = |(place, count): &(Place, u64)| {
            let gap = states.gap(*place);
            raise::<M>(&gap.valid_until, commit);
            gap.count.number() == *count
        };
        if !local.set.gaps.iter().all(is_quiet) {
            return Err(AbortReason::Changed);
        }
        local.commit = commit;
        let shown = &self.shown[local.number as usize].0;
        if shown.load(Ordering::Relaxed) < commit {
            shown.store(commit, Ordering::SeqCst);
        }
        local.set.validated();
        Ok(())
    }

    fn adopt(state: &Self::State) {
        state.version.adopt();
    }

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, committed: bool) {
        let valid_until = |write: &Write| &states.row(write.place).valid_until;
        if committed {
            let commit = local.commit;
            local.set.unlock(states, |write| {
                valid_until(write).store(commit, Ordering::SeqCst);
                if write.present { commit | PRESENT } else { commit }
            });
        } else {
            local.set.roll_back(states, |write| {
                let word = write.before + 1;
                raise::<M>(valid_until(write), word & NUMBER); // As in `unlock`.
                word
            });
        }
        local.clear();
    }

    fn stamp(&self, local: &Local) -> u64 {
        local.commit
    }

    fn lock(&self, target: Target<'_, State<M>>) -> Option<(Seen, u64)> {
        target.state.version.lock_outside()
    }

    fn unlock(&self, target: Target<'_, State<M>>, changed: bool) {
        let State { version, valid_until } = target.state;
        if changed {
            // The row's number grows by one: no transaction may commit a version with that number.
            raise::<M>(valid_until, (version.load() & NUMBER) + 1);
        }
        version.unlock_outside(changed);
    }

    fn is_consistent(&self, local: &mut Local, states: &impl StatesOf<Self, M>) -> bool {
        // As in a commit without writes, it does not suffice that nothing has changed: the next
        // writer of a row that was read could be ordered before another version that was read. So
        // raise the times first, then check: the check sees a writer that has locked a row before,
        // and a writer that locks it later sees the raised time.
        let at = local.set.newest().max(local.after);
        local.set.reads.iter().for_each(|(place, _)| states.row(*place).extend(at));
        let gaps = local.set.gaps.iter().map(|(place, _)| states.gap(*place));
        gaps.for_each(|gap| raise::<M>(&gap.valid_until, at));
        local.set.is_unchanged(states)
    }
}
