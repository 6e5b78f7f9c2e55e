//! TIMESTAMP: basic timestamp ordering, row by row.
//!
//! The order of timestamps is the serial order. A transaction that comes too late for it aborts and
//! starts again with a new timestamp: if it reads a row that a later transaction has written, or
//! writes a row that a later transaction has read or written ("Staring into the Abyss", section
//! 2.2). Reads copy what they need. A writer announces its write on the row, as its owner, and
//! stores at commit. A transaction with a greater timestamp waits for an announced write, so there
//! is no deadlock.
//!
//! - `TO-1`: a reader raises the row's read timestamp and then checks the row's owner; a writer
//!   becomes the owner and then checks the read timestamp. One of the two sees the other.
//! - `TO-2`: a transaction aborts if a snapshot was cut between its timestamp and its commit
//!   (`SCHEME-4`): the snapshot may show transactions with greater timestamps.
//! - `TO-3`: entries of deleted rows stay until all timestamps in use are greater than that of the
//!   deletion. So a transaction that is ordered before the deletion still finds the row, and finds
//!   that it has come too late.

mod local;
mod state;

use atoll_machine::{Machine, Ordering, Word};

pub use local::Local;
pub use state::{GapState, State};

use crate::common::active::Active;
use crate::common::row_latch::{LOOKS, RowLatch};
use crate::common::timestamp::Timestamps;
use crate::kept;
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;
use state::{PRESENT, STORING, TIMESTAMP, raise};

/// The owner of a row that garbage collection has locked or a reader has latched: older than every
/// transaction.
const NO_TRANSACTION: u64 = 1;

/// See the module.
pub struct TimestampOrdering<M: Machine> {
    timestamps: Timestamps<M>,
    active: Active<M>,
}

impl<M: Machine> TimestampOrdering<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self { timestamps: Timestamps::new(options.timestamps), active: Active::default() }
    }
}

impl<M: Machine> Scheme<M> for TimestampOrdering<M> {
    const NAME: &'static str = "TIMESTAMP";
    const WRITES: Writes = Writes::AtCommit;
    const ORDERS_BY_TIMESTAMP: bool = true;
    type State = State<M>;
    type Gap = GapState<M>;
    type Local = Local;

    fn local(&self, number: u32) -> Local {
        self.active.add(number);
        Local::new(number)
    }

    fn begin(&self, local: &mut Local, start: &Start<'_>) -> Result<(), Conflict> {
        if start.cuts != local.cuts {
            self.timestamps.discard(&mut local.source);
        }
        let source = &mut local.source;
        local.timestamp = self.active.begin(local.number, || self.timestamps.next(source));
        local.cuts = start.cuts;
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
        let State { owner, version, read } = target.state;
        let mine = local.timestamp;
        let mut looks = 0;
        loop {
            let row_latch =
                (looks >= LOOKS).then(|| RowLatch::<M>::begin(owner, 0, NO_TRANSACTION)).flatten();
            if looks >= LOOKS && row_latch.is_none() {
                // Wait outside the gate, then start over.
                return Err(Conflict::WouldBlock(target.place));
            }
            let owned = if row_latch.is_some() { 0 } else { owner.load(Ordering::SeqCst) };
            let written = version.load(Ordering::SeqCst);
            if written & TIMESTAMP > mine {
                return Err(AbortReason::TooLate.into());
            }
            let pending = owned & TIMESTAMP;
            if pending != 0 && pending < mine {
                return Err(Conflict::WouldBlock(target.place));
            }
            if owned & STORING != 0 && pending != mine {
                return Err(AbortReason::TooLate.into());
            }
            raise::<M>(read, mine);
            let there = written & PRESENT != 0 && fetch(None);
            M::fence(Ordering::Acquire);
            let is_same = || {
                owner.load(Ordering::SeqCst) == owned && version.load(Ordering::SeqCst) == written
            };
            if row_latch.is_some() || is_same() {
                return Ok(if there { Seen::Present } else { Seen::Absent });
            }
            looks += 1;
        }
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        present: bool,
    ) -> Result<(), Conflict> {
        let State { owner, version, read } = target.state;
        let mine = local.timestamp;
        match owner.compare_exchange(0, mine, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {}
            Err(owned) if owned & TIMESTAMP == mine => {
                let known = local.writes.iter_mut().rfind(|(place, _)| *place == target.place);
                known.expect("an owned row was written down").1 = present;
                return Ok(());
            }
            Err(owned) if owned & TIMESTAMP < mine => {
                return Err(Conflict::WouldBlock(target.place));
            }
            Err(_) => return Err(AbortReason::TooLate.into()),
        }
        let written = version.load(Ordering::SeqCst) & TIMESTAMP;
        if read.load(Ordering::SeqCst).max(written) > mine {
            owner.store(0, Ordering::SeqCst);
            return Err(AbortReason::TooLate.into());
        }
        local.writes.push((target.place, present));
        Ok(())
    }

    fn read_gap(
        &self,
        local: &mut Local,
        _place: Place,
        gap: &GapState<M>,
    ) -> Result<(), Conflict> {
        raise::<M>(&gap.0, local.timestamp);
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local,
        _place: Place,
        gap: &GapState<M>,
    ) -> Result<(), Conflict> {
        if gap.0.load(Ordering::SeqCst) > local.timestamp {
            return Err(AbortReason::TooLate.into());
        }
        Ok(())
    }

    fn split(
        &self,
        _local: &mut Local,
        old: (Place, &GapState<M>),
        new: (Place, &GapState<M>),
    ) -> bool {
        raise::<M>(&new.1.0, old.1.0.load(Ordering::SeqCst));
        true
    }

    fn remove_from_gap(&self, gap: &GapState<M>, state: &State<M>, _stamp: u64) {
        raise::<M>(&gap.0, state.read.load(Ordering::SeqCst));
    }

    fn validate(
        &self,
        local: &mut Local,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        if section.cuts != local.cuts && !local.writes.is_empty() {
            return Err(AbortReason::Cut); // TO-2
        }
        for (place, _) in &local.writes {
            states.row(*place).owner.store(local.timestamp | STORING, Ordering::SeqCst);
        }
        M::fence(Ordering::Release);
        Ok(())
    }

    fn adopt(state: &Self::State) {
        state.version.store(PRESENT, Ordering::Release);
    }

    fn end(&self, local: &mut Local, states: &impl StatesOf<Self, M>, committed: bool) {
        for (place, present) in local.writes.drain(..) {
            let state = states.row(place);
            if committed {
                let flag = if present { PRESENT } else { 0 };
                state.version.store(local.timestamp | flag, Ordering::SeqCst);
            } else if state.owner.load(Ordering::Relaxed) & STORING != 0 {
                // SCHEME-5: as if this transaction had written the restored value.
                let flag = state.version.load(Ordering::Relaxed) & PRESENT;
                state.version.store(local.timestamp | flag, Ordering::SeqCst);
            }
            state.owner.store(0, Ordering::SeqCst);
        }
        kept::clear(&mut local.writes);
        self.active.end(local.number);
    }

    fn stamp(&self, local: &Local) -> u64 {
        local.timestamp
    }

    fn horizon(&self, local: &mut Local, newest: u64) -> u64 {
        self.active.horizon(local.timestamp.max(newest))
    }

    fn lock(&self, target: Target<'_, State<M>>) -> Option<(Seen, u64)> {
        let State { owner, version, .. } = target.state;
        owner.compare_exchange(0, NO_TRANSACTION, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        let version = version.load(Ordering::SeqCst);
        let seen = if version & PRESENT == 0 { Seen::Absent } else { Seen::Present };
        Some((seen, version & TIMESTAMP))
    }

    fn unlock(&self, target: Target<'_, State<M>>, _changed: bool) {
        // A writer checks after `write` whether the slot still holds the row of its key.
        target.state.owner.store(0, Ordering::SeqCst);
    }
}
