//! ADAPTIVE: optimistic without contention, pessimistic on contended rows.
//!
//! All transactions validate as in SILO. If validation keeps failing because of a row (`heat.rs`),
//! writers lock the row at their first write, and readers wait for this lock instead of reading a
//! value that is about to change. If the lock is always free, the row cools down and is left to
//! validation again. Both modes exist side by side, and no transaction stops when a row changes its
//! mode, since a lock only prevents a validation from failing; correctness never depends on it.
//! (The study's section 6.1 proposes to change the scheme with the contention; Wang and Kimura,
//! "Mostly-optimistic concurrency control for highly contended dynamic workloads", VLDB 2016, lock
//! hot records before validation.)
//!
//! Read-only transactions read older versions and never abort (the study's section 6.1: versions
//! for those, locks for the others). They advance a clock. The upper bits of a version's number are
//! the clock at the time when the version was stored; a read-only transaction sees the versions
//! that are not newer than its own reading of the clock.
//!
//! - `ADAPTIVE-1`: a writer announces that it is storing, then reads the clock. A reader advances
//!   the clock, then reads rows. So a later store into a row that the reader does not find being
//!   stored into gets a greater stamp than the reader's.
//! - `ADAPTIVE-2`: a reader counts itself before it advances the clock, so a writer with a greater
//!   stamp sees that it must keep replaced versions.
//! - `ADAPTIVE-3`: transactions that wait for early locks may deadlock; a timeout ends the
//!   deadlock.
//! - `ADAPTIVE-4`: a large transaction, which stores in several sections, announces in the first
//!   one that it is storing into all its rows, and reads the clock again in the last one; its
//!   versions get the number of the last section. A reader that begins in between is ordered before
//!   all of the transaction. So the transaction always keeps the versions that it replaces, until
//!   no active reader is older than the transaction.

mod heat;
mod local;
mod state;

use std::sync::Arc;

use atoll_machine::{Machine, Ordering, Word};

use heat::Heat;
pub use local::Local;
pub use state::State;

use crate::before_image::BeforeImage;
use crate::common::active::Active;
use crate::common::gap::Gap;
use crate::common::row_latch::{LOOKS, RowLatch};
use crate::common::version::{LOCKED, NUMBER, PRESENT, STORING};
use crate::common::version_chain::{DeltaRecordId, VersionChainWriter, VersionChains};
use crate::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use crate::schemes::SchemeOptions;

/// Bits of a number below the clock. Each read-only transaction advances the clock; at a million
/// per second, its 53 bits last 285 years. A row that is written more often between two readings
/// than these bits can count advances the clock, too.
const SEQUENCE_BITS: u32 = 8;
/// Transactions between two garbage collections of the version chains.
const COLLECT_EVERY: u32 = 64;

#[repr(align(128))]
struct Line<W>(W);

/// See the module.
pub struct Adaptive<M: Machine> {
    heat: Heat<M>,
    clock: Line<M::Word>,
    readers: Line<M::Word>,
    active: Active<M>,
    chains: Arc<VersionChains<M>>,
    timeout_ns: u64,
}

impl<M: Machine> Adaptive<M> {
    /// The scheme.
    pub fn new(options: &SchemeOptions) -> Self {
        Self {
            heat: Heat::default(),
            clock: Line(M::Word::new(2)),
            readers: Line(M::Word::new(0)),
            active: Active::default(),
            chains: Arc::default(),
            timeout_ns: options.lock_timeout_ns,
        }
    }

    /// Reads the version that a read-only transaction sees.
    fn read_past(
        &self,
        local: &mut Local<M>,
        target: &Target<'_, State<M>>,
        reads_at: u64,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let State { version, chains } = target.state;
        let mut looks = 0;
        loop {
            let row_latch = (looks >= LOOKS).then(|| version.row_latch()).flatten();
            if looks >= LOOKS && row_latch.is_none() {
                // Wait outside the gate, then start over.
                return Err(Conflict::WouldBlock(target.place));
            }
            let word = row_latch.as_ref().map_or_else(|| version.load(), RowLatch::before);
            if word & STORING != 0 {
                return Err(Conflict::WouldBlock(target.place));
            }
            let there = if (word & NUMBER) >> SEQUENCE_BITS <= reads_at {
                word & PRESENT != 0 && fetch(None)
            } else {
                let newest = DeltaRecordId(chains.load(Ordering::Acquire));
                let older = &mut local.older;
                let found = self.chains.reconstruct(target.place, newest, reads_at, older);
                found && older.image().present && fetch(Some(older.image()))
            };
            M::fence(Ordering::Acquire);
            if version.load() & !LOCKED == word & !LOCKED {
                return Ok(if there { Seen::Present } else { Seen::Absent });
            }
            looks += 1;
        }
    }

    /// The number for the versions of a transaction that has announced that it is storing.
    fn number(&self, local: &Local<M>) -> u64 {
        let clock = self.clock.0.load(Ordering::SeqCst);
        let number = (local.set.newest() + 1).max(clock << SEQUENCE_BITS);
        let stamp = number >> SEQUENCE_BITS;
        let mut now = clock;
        while now < stamp {
            let raised =
                self.clock.0.compare_exchange(now, stamp, Ordering::SeqCst, Ordering::SeqCst);
            now = raised.err().unwrap_or(stamp);
        }
        number
    }

    /// Whether a transaction locks a row at its first write, instead of at its commit.
    pub fn is_pessimistic(&self, row: Place) -> bool {
        self.heat.is_hot(row)
    }

    /// Ends the wait for a place, if the transaction has waited for it.
    #[inline]
    fn granted(&self, local: &mut Local<M>, place: Place) {
        if local.wait.is_for(place) {
            self.stop_waiting(local);
        }
    }

    fn stop_waiting(&self, local: &mut Local<M>) {
        if let Some(place) = local.wait.end() {
            self.heat.waited(place);
        }
    }
}

impl<M: Machine> Scheme<M> for Adaptive<M> {
    const NAME: &'static str = "ADAPTIVE";
    const WRITES: Writes = Writes::AtCommit;
    const VERSIONED: bool = true;
    const READERS_NEVER_ABORT: bool = true;
    type State = State<M>;
    type Gap = Gap<M>;
    type Local = Local<M>;

    fn local(&self, number: u32) -> Local<M> {
        self.active.add(number);
        Local::new(number, VersionChainWriter::new(Arc::clone(&self.chains), number))
    }

    fn begin(&self, local: &mut Local<M>, start: &Start<'_>) -> Result<(), Conflict> {
        local.set.clear();
        local.reads_at = start.read_only.then(|| {
            self.readers.0.fetch_add(1, Ordering::SeqCst); // ADAPTIVE-2
            let advance = || self.clock.0.fetch_add(1, Ordering::SeqCst);
            self.active.begin(local.number, advance)
        });
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
        if let Some(reads_at) = local.reads_at {
            return self.read_past(local, &target, reads_at, fetch);
        }
        let version = &target.state.version;
        let mine = version.load() & LOCKED != 0 && local.set.holds(target.place);
        let read = version.read(!mine, fetch);
        let (seen, word) = read.ok_or(Conflict::WouldBlock(target.place))?;
        self.granted(local, target.place);
        local.set.read(target.place, word);
        Ok(seen)
    }

    #[inline]
    fn write(
        &self,
        local: &mut Local<M>,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, State<M>>,
        present: bool,
    ) -> Result<(), Conflict> {
        let Target { place, state } = target;
        if !self.heat.is_hot(place) || local.set.holds(place) {
            local.set.write(place, present);
            return Ok(());
        }
        let before = state.version.lock().ok_or(Conflict::WouldBlock(place))?;
        if local.wait.is_for(place) {
            self.stop_waiting(local);
        } else {
            self.heat.calm(place);
        }
        local.set.write_locked(place, present, before);
        let was_read = local.set.reads.iter().rev().find(|(read, _)| *read == place);
        if was_read.is_some_and(|(_, word)| *word != before) {
            return Err(AbortReason::Changed.into());
        }
        Ok(())
    }

    fn read_gap(&self, local: &mut Local<M>, place: Place, gap: &Gap<M>) -> Result<(), Conflict> {
        if local.reads_at.is_none() {
            local.set.read_gap(place, gap);
        }
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Local<M>,
        place: Place,
        gap: &Gap<M>,
    ) -> Result<(), Conflict> {
        local.set.insert_into_gap(place, gap);
        Ok(())
    }

    fn split(&self, local: &mut Local<M>, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) -> bool {
        local.set.split(old, new);
        true
    }

    fn wait(
        &self,
        local: &mut Local<M>,
        _states: &impl StatesOf<Self, M>,
        place: Place,
        round: u32,
    ) -> Result<(), AbortReason> {
        M::wait(round);
        if local.reads_at.is_some() {
            return Ok(()); // For a writer that is storing and does not wait itself.
        }
        if local.wait.go_on::<M>(place, round) > self.timeout_ns {
            self.stop_waiting(local);
            return Err(AbortReason::Timeout);
        }
        Ok(())
    }

    fn prepare(
        &self,
        local: &mut Local<M>,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        local.set.lock(states)?;
        self.stop_waiting(local);
        Ok(())
    }

    fn validate(
        &self,
        local: &mut Local<M>,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        if !local.set.writes.is_empty() {
            local.set.begin_storing(states);
            M::fence(Ordering::SeqCst); // ADAPTIVE-1
            local.commit = self.number(local);
            local.keeps = section.is_part || self.readers.0.load(Ordering::SeqCst) > 0;
            local.replaced_from.get_or_insert(local.commit >> SEQUENCE_BITS);
        }
        match local.set.changed(states) {
            None => {
                local.set.validated();
                Ok(())
            }
            Some(place) => {
                self.heat.failed(place);
                Err(AbortReason::Changed)
            }
        }
    }

    fn supersede(&self, local: &mut Local<M>, target: Target<'_, State<M>>, before: &BeforeImage) {
        if !local.keeps {
            return;
        }
        let State { version, chains } = target.state;
        let stamp = (version.load() & NUMBER) >> SEQUENCE_BITS;
        let next = DeltaRecordId(chains.load(Ordering::Relaxed));
        let replaced_by = local.commit >> SEQUENCE_BITS;
        let record = local.chains.push(before, stamp, replaced_by, next);
        chains.store(record.0, Ordering::Release);
    }

    fn adopt(state: &Self::State) {
        state.version.adopt();
    }

    fn end(&self, local: &mut Local<M>, states: &impl StatesOf<Self, M>, committed: bool) {
        let next = local.commit;
        if let Some(from) = local.replaced_from.take() {
            local.chains.raise(from, next >> SEQUENCE_BITS); // ADAPTIVE-4
        }
        if committed {
            local.set.unlock(states, |write| if write.present { next | PRESENT } else { next });
        } else {
            // Another number with the same stamp, since readers find older versions by the stamp.
            let in_stamp = (1 << SEQUENCE_BITS) - 1;
            local.set.roll_back(states, |write| {
                (write.before & !in_stamp) | (write.before.wrapping_add(1) & in_stamp)
            });
        }
        local.set.clear();
        local.wait.end();
        if local.reads_at.take().is_some() {
            self.active.end(local.number);
            self.readers.0.fetch_sub(1, Ordering::SeqCst);
        }
        if local.until_collect == 0 {
            local.until_collect = COLLECT_EVERY;
            let horizon = self.horizon(local, 0);
            local.chains.collect(horizon);
        }
        local.until_collect -= 1;
    }

    fn stamp(&self, local: &Local<M>) -> u64 {
        local.commit >> SEQUENCE_BITS
    }

    fn horizon(&self, _local: &mut Local<M>, _newest: u64) -> u64 {
        // The whole clock: a reader that begins from now on gets a reading above the floor.
        self.active.horizon(self.clock.0.load(Ordering::SeqCst))
    }

    fn lock(&self, target: Target<'_, State<M>>) -> Option<(Seen, u64)> {
        let (seen, number) = target.state.version.lock_outside()?;
        Some((seen, number >> SEQUENCE_BITS))
    }

    fn unlock(&self, target: Target<'_, State<M>>, changed: bool) {
        target.state.version.unlock_outside(changed);
    }

    fn is_consistent(&self, local: &mut Local<M>, states: &impl StatesOf<Self, M>) -> bool {
        local.set.is_unchanged(states)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::Native;
    use atoll_storage::TableId;

    use super::*;
    use crate::common::few;
    use crate::scheme::States;

    const WHOLE: Section = Section { cuts: 1, is_part: false };

    type Few = few::Few<State<Native>, Gap<Native>>;

    #[test]
    fn a_row_that_was_deleted_is_absent_however_often_the_clock_was_read() {
        let few = Few::new(2, |_| ());
        let scheme = Adaptive::<Native>::new(&SchemeOptions::default());
        let mut local = Scheme::<Native>::local(&scheme, 0);
        let place = Place::row(TableId(0), 0);
        // After a day and a half, a year and two years of a million read-only ones per second.
        for readings in [1 << 37, 1 << 44, (1 << 45) - 1] {
            scheme.clock.0.store(readings, Ordering::SeqCst);
            let version = &few.row(place).version;
            for present in [true, false] {
                scheme.begin(&mut local, &Start { read_only: true, ..Start::default() }).unwrap();
                scheme.end(&mut local, &few, true);
                scheme.begin(&mut local, &Start::default()).unwrap();
                let target = || Target { place, state: few.row(place) };
                scheme.read(&mut local, &few, target(), &mut |_| true).unwrap();
                scheme.write(&mut local, &few, target(), present).unwrap();
                scheme.prepare(&mut local, &few).unwrap();
                scheme.validate(&mut local, &few, WHOLE).unwrap();
                scheme.end(&mut local, &few, true);
                let word = version.load();
                assert_eq!((word & PRESENT != 0, word >> 62), (present, 0), "{readings}");
                assert!((word & NUMBER) >> SEQUENCE_BITS > readings);
            }
        }
    }

    #[test]
    fn a_row_that_is_written_again_and_again_makes_the_clock_go_on() {
        let few = Few::new(2, |_| ());
        let scheme = Adaptive::<Native>::new(&SchemeOptions::default());
        let mut local = Scheme::<Native>::local(&scheme, 0);
        let place = Place::row(TableId(0), 0);
        let mut last = 0;
        for _ in 0..3 << SEQUENCE_BITS {
            scheme.begin(&mut local, &Start::default()).unwrap();
            let target = || Target { place, state: few.row(place) };
            scheme.read(&mut local, &few, target(), &mut |_| true).unwrap();
            scheme.write(&mut local, &few, target(), true).unwrap();
            scheme.prepare(&mut local, &few).unwrap();
            scheme.validate(&mut local, &few, WHOLE).unwrap();
            scheme.end(&mut local, &few, true);
            let number = few.row(place).version.load() & NUMBER;
            assert!(number > last);
            assert!(number >> SEQUENCE_BITS <= scheme.clock.0.load(Ordering::SeqCst));
            last = number;
        }
        assert!(scheme.clock.0.load(Ordering::SeqCst) > 3);
    }

    /// A step that reads a free row before one that another transaction never unlocks.
    #[test]
    fn a_wait_ends_although_something_else_is_granted_with_each_try() {
        let options = SchemeOptions { lock_timeout_ns: 1000, ..SchemeOptions::default() };
        let (scheme, few) = (Adaptive::<Native>::new(&options), Few::new(2, |_| ()));
        let mut local = Scheme::<Native>::local(&scheme, 0);
        let read = |local: &mut Local<Native>, row| {
            let place = Place::row(TableId(0), row);
            let target = Target { place, state: few.row(place) };
            scheme.read(local, &few, target, &mut |_| true).map(|_| place)
        };
        assert!(few.0[1].version.lock().is_some());
        scheme.begin(&mut local, &Start::default()).expect("it need not wait");
        let ended = (0..1000).find_map(|round| {
            read(&mut local, 0).expect("it is free");
            let Err(Conflict::WouldBlock(place)) = read(&mut local, 1) else {
                panic!("it is locked")
            };
            scheme.wait(&mut local, &few, place, round).err()
        });
        assert_eq!(ended, Some(AbortReason::Timeout));
        // A wait of another step starts anew.
        read(&mut local, 0).expect("it is free");
        let Err(Conflict::WouldBlock(place)) = read(&mut local, 1) else { panic!("it is locked") };
        assert_eq!(scheme.wait(&mut local, &few, place, 0), Ok(()));
        scheme.end(&mut local, &few, false);
    }
}
