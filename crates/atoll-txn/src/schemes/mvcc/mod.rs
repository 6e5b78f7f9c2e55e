//! MVCC: timestamp ordering with version chains, so that a read never comes too late.
//!
//! The newest version of a row is in its table, older ones are in a chain
//! ([`version_chain`](crate::common::version_chain)). A transaction reads the version that was the
//! newest at its timestamp. A write comes too late if a later transaction has read or replaced the
//! version that it would replace ("Staring into the Abyss", section 2.2). A version is collected
//! when all timestamps in use are greater than that of its successor.
//!
//! - `MVCC-1`: as `TO-1`, for the newest version of a row. An older version has a successor
//!   already, so no write can come between the two.
//! - `MVCC-2`: an owner writes the delta record of the version that it replaces before it announces
//!   that it is storing, and announces this before it stores. So a reader that finds a row being
//!   stored into finds all changing columns in the chain.
//! - `MVCC-3`: as `TO-2` and `TO-3`.

mod local;
mod state;

use std::sync::Arc;

use atoll_machine::{Machine, Ordering, Word};

pub use local::Local;
pub use state::{GapState, State};

use crate::before_image::BeforeImage;
use crate::common::active::Active;
use crate::common::row_latch::{LOOKS, RowLatch};
use crate::common::timestamp::Timestamps;
use crate::common::version_chain::{DeltaRecordId, VersionChainWriter, VersionChains};
use crate::kept;
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;
use state::{PRESENT, STORING, TIMESTAMP, raise};

/// Transactions between two garbage collections of the version chains.
const COLLECT_EVERY: u32 = 64;
/// The owner of a row that garbage collection has locked or a reader has latched: older than every
/// transaction.
const NO_TRANSACTION: u64 = 1;

/// See the module.
pub struct Mvcc<M: Machine> {
    timestamps: Timestamps<M>,
    active: Active<M>,
    chains: Arc<VersionChains<M>>,
}

impl<M: Machine> Mvcc<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self {
            timestamps: Timestamps::new(options.timestamps),
            active: Active::default(),
            chains: Arc::default(),
        }
    }
}

impl<M: Machine> Scheme<M> for Mvcc<M> {
    const NAME: &'static str = "MVCC";
    const WRITES: Writes = Writes::AtCommit;
    const ORDERS_BY_TIMESTAMP: bool = true;
    const VERSIONED: bool = true;
    type State = State<M>;
    type Gap = GapState<M>;
    type Local = Local<M>;

    fn local(&self, number: u32) -> Local<M> {
        self.active.add(number);
        Local::new(number, VersionChainWriter::new(Arc::clone(&self.chains), number))
    }

    fn begin(&self, local: &mut Local<M>, start: &Start<'_>) -> Result<(), Conflict> {
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
        local: &mut Local<M>,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let State { owner, version, read, chains } = target.state;
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
            let pending = owned & TIMESTAMP;
            if pending != 0 && pending < mine {
                return Err(Conflict::WouldBlock(target.place));
            }
            let is_newest = written & TIMESTAMP <= mine;
            if is_newest {
                raise::<M>(read, mine);
            }
            let being_stored = owned & STORING != 0 && pending != mine;
            let there = if is_newest && !being_stored {
                written & PRESENT != 0 && fetch(None)
            } else {
                let newest = DeltaRecordId(chains.load(Ordering::Acquire));
                let older = &mut local.older;
                let found = self.chains.reconstruct(target.place, newest, mine, older);
                found && older.image().present && fetch(Some(older.image()))
            };
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
        local: &mut Local<M>,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        present: bool,
    ) -> Result<(), Conflict> {
        let State { owner, version, read, .. } = target.state;
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
        local: &mut Local<M>,
        _place: Place,
        gap: &GapState<M>,
    ) -> Result<(), Conflict> {
        raise::<M>(&gap.0, local.timestamp);
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local<M>,
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
        _local: &mut Local<M>,
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
        local: &mut Local<M>,
        _states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        if section.cuts != local.cuts && !local.writes.is_empty() {
            return Err(AbortReason::Cut); // MVCC-3
        }
        Ok(())
    }

    fn supersede(&self, local: &mut Local<M>, target: Target<'_, State<M>>, before: &BeforeImage) {
        let State { owner, version, chains, .. } = target.state;
        let (stamp, mine) = (version.load(Ordering::Relaxed) & TIMESTAMP, local.timestamp);
        let next = DeltaRecordId(chains.load(Ordering::Relaxed));
        let record = local.chains.push(before, stamp, mine, next);
        chains.store(record.0, Ordering::SeqCst);
        owner.store(mine | STORING, Ordering::SeqCst); // MVCC-2
        M::fence(Ordering::Release);
    }

    fn adopt(state: &Self::State) {
        state.version.store(PRESENT, Ordering::Release);
    }

    fn end(&self, local: &mut Local<M>, states: &impl StatesOf<Self, M>, committed: bool) {
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
        if local.until_collect == 0 {
            local.until_collect = COLLECT_EVERY;
            local.chains.collect(self.active.horizon(local.timestamp));
        }
        local.until_collect -= 1;
    }

    fn stamp(&self, local: &Local<M>) -> u64 {
        local.timestamp
    }

    fn horizon(&self, local: &mut Local<M>, newest: u64) -> u64 {
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
