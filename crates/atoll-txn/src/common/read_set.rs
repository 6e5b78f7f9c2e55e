//! What an optimistic transaction has read and is going to write.

use super::gap::Gap;
use super::version::{LOCKED, STORING, Version};
use crate::scheme::{Place, Refusal, States};
use atoll_machine::Machine;

/// A transaction over a whole table must not leave its worker with the table's size.
const KEPT_MAX: usize = 4096;

/// A state with a version.
pub trait Versioned<M: Machine> {
    /// The version.
    fn version(&self) -> &Version<M>;
}

impl<M: Machine> Versioned<M> for Version<M> {
    fn version(&self) -> &Version<M> {
        self
    }
}

/// A row that is going to be written.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// Which; rows are locked in the order of places.
    pub place: Place,
    /// The word before it was locked.
    pub before: u64,
    /// Whether it is there afterwards.
    pub present: bool,
    /// Whether it is locked.
    pub locked: bool,
    /// Position in the order of writing.
    number: u32,
    /// Position of its read among the reads if it was read right before, or [`NO_READ`].
    read: u32,
}

const NO_READ: u32 = u32::MAX;

/// See the module.
#[derive(Debug, Default)]
pub struct ReadSet {
    /// Rows with the word that was read, which is marked as locked once the transaction has locked
    /// the row and found that word there.
    pub reads: Vec<(Place, u64)>,
    /// Gaps with the number that was read.
    pub gaps: Vec<(Place, u64)>,
    /// Rows to be written; sorted by place once locking has begun.
    pub writes: Vec<Write>,
    /// Of the sorted writes, so many are locked.
    locked: usize,
    sorted: bool,
}

impl ReadSet {
    /// A new transaction.
    pub fn clear(&mut self) {
        if self.reads.capacity().max(self.gaps.capacity()).max(self.writes.capacity()) > KEPT_MAX {
            *self = Self::default();
        }
        self.reads.clear();
        self.gaps.clear();
        self.writes.clear();
        self.locked = 0;
        self.sorted = false;
    }

    /// A row is going to be written.
    #[inline]
    pub fn write(&mut self, place: Place, present: bool) {
        let number = self.writes.len() as u32;
        let last = self.reads.len().wrapping_sub(1);
        let was_read = self.reads.get(last).is_some_and(|(read, _)| *read == place);
        let read = if was_read { u32::try_from(last).unwrap_or(NO_READ) } else { NO_READ };
        self.writes.push(Write { place, before: 0, present, locked: false, number, read });
    }

    /// A row is going to be written and has been locked, when its word was `before`.
    pub fn write_locked(&mut self, place: Place, present: bool, before: u64) {
        let (number, read) = (self.writes.len() as u32, NO_READ);
        self.writes.push(Write { place, before, present, locked: true, number, read });
    }

    /// Whether a row was locked before committing began.
    pub fn holds(&self, place: Place) -> bool {
        self.writes.iter().rev().any(|write| write.locked && write.place == place)
    }

    /// A gap was looked at when its number was this.
    #[inline]
    pub fn watch<M: Machine>(&mut self, place: Place, gap: &Gap<M>) {
        self.gaps.push((place, gap.watch()));
    }

    /// A gap was disturbed by the transaction itself: its own watching stays good if nobody else
    /// has disturbed it.
    #[inline]
    pub fn disturb<M: Machine>(&mut self, place: Place, gap: &Gap<M>) {
        let is_watcher = || self.gaps.iter().any(|(watched, _)| *watched == place);
        let Some(before) = gap.disturb(is_watcher) else { return };
        let watched = self.gaps.iter_mut().filter(|(watched, _)| *watched == place);
        watched.filter(|(_, number)| *number == before).for_each(|(_, number)| *number += 1);
    }

    /// A gap was split: who watched it must look again, and the transaction itself watches both.
    pub fn split<M: Machine>(&mut self, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) {
        self.disturb(old.0, old.1);
        if self.gaps.iter().any(|(place, _)| *place == old.0) {
            self.watch(new.0, new.1);
        }
    }

    /// One write for each row, in the order of places, so that nobody who locks in that order can
    /// be waiting for us and we for them.
    pub fn sort(&mut self) {
        if self.sorted {
            return;
        }
        // A later write of a row says whether it is there in the end; a locked one stays.
        // Not a stable sort, which allocates.
        self.writes.sort_unstable_by_key(|write| (write.place, write.number));
        self.writes.dedup_by(|later, earlier| {
            let same = later.place == earlier.place;
            if same {
                earlier.present = later.present;
                if later.locked {
                    (earlier.locked, earlier.before) = (true, later.before);
                }
            }
            same
        });
        self.sorted = true;
    }

    /// Locks what is to be written; asked again after a wait, goes on where it was.
    ///
    /// # Errors
    /// [`Refusal::Wait`] for the first row that somebody else holds.
    pub fn lock<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
    ) -> Result<(), Refusal> {
        self.sort();
        let mut row = states.rows();
        while let Some(write) = self.writes.get_mut(self.locked) {
            if !write.locked {
                let locked = row(write.place).version().lock();
                write.before = locked.ok_or(Refusal::Wait(write.place))?;
                write.locked = true;
                if let Some((_, word)) = self.reads.get_mut(write.read as usize)
                    && *word == write.before
                {
                    *word |= LOCKED;
                }
            }
            self.locked += 1;
        }
        Ok(())
    }

    /// The write of a row, once locking has begun.
    pub fn own(&self, place: Place) -> Option<&Write> {
        let at = self.writes.binary_search_by_key(&place, |write| write.place).ok()?;
        Some(&self.writes[at])
    }

    /// Whether everything that was read is as it was: the first place that is not.
    pub fn changed<R: Versioned<M>, G: AsRef<Gap<M>>, M: Machine>(
        &self,
        states: &impl States<R, G>,
    ) -> Option<Place> {
        let mut state = states.rows();
        let row = self.reads.iter().find(|(place, word)| {
            let now = state(*place).version().load();
            let is_same = || now & !(LOCKED | STORING) == *word & !LOCKED;
            // A word that was marked has been locked by the transaction itself.
            now != *word && !(is_same() && (*word & LOCKED != 0 || self.own(*place).is_some()))
        });
        let gap = || {
            let moved =
                |(place, number): &&(Place, u64)| states.gap(*place).as_ref().number() != *number;
            self.gaps.iter().find(moved)
        };
        row.or_else(gap).map(|(place, _)| *place)
    }

    /// As [`ReadSet::changed`], of a transaction that goes on.
    pub fn is_unchanged<R: Versioned<M>, G: AsRef<Gap<M>>, M: Machine>(
        &self,
        states: &impl States<R, G>,
    ) -> bool {
        let mut row = states.rows();
        let same_row = |(place, word): &(Place, u64)| {
            let now = row(*place).version().load();
            now == *word || (now & !(LOCKED | STORING) == *word && self.holds(*place))
        };
        let same_gap =
            |(place, number): &(Place, u64)| states.gap(*place).as_ref().number() == *number;
        self.reads.iter().all(same_row) && self.gaps.iter().all(same_gap)
    }

    /// Tells readers of the locked rows that they are going to be stored into.
    pub fn begin_storing<R: Versioned<M>, G, M: Machine>(&self, states: &impl States<R, G>) {
        let mut row = states.rows();
        self.writes.iter().for_each(|write| row(write.place).version().begin_storing());
    }

    /// Lets the locked rows go: with the word that `after` says when committed, else as they were.
    pub fn unlock<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
        mut after: impl FnMut(&Write) -> u64,
    ) {
        let mut row = states.rows();
        for write in self.writes.iter().filter(|write| write.locked) {
            row(write.place).version().unlock(after(write));
        }
    }

    /// The greatest number among what was read and is being replaced.
    pub fn newest(&self) -> u64 {
        let reads = self.reads.iter().map(|(_, word)| *word);
        let words = reads.chain(self.writes.iter().map(|write| write.before));
        words.map(|word| word & super::version::NUMBER).max().unwrap_or(0)
    }
}
