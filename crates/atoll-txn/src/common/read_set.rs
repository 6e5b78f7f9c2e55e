//! The read set and the write set of an optimistic transaction, as places.

use super::gap::Gap;
use super::version::{LOCKED, NUMBER, STORING, Version};
use crate::scheme::{Conflict, Place, Seen, States};
use crate::work;
use atoll_machine::{Machine, Ordering};

/// A larger set frees its memory at the next transaction, so that a transaction over a whole table
/// does not leave its state with the memory of a whole table.
const KEPT_MAX: usize = 4096;

/// A row state that has a version.
pub trait Versioned<M: Machine> {
    /// The version.
    fn version(&self) -> &Version<M>;
}

impl<M: Machine> Versioned<M> for Version<M> {
    fn version(&self) -> &Version<M> {
        self
    }
}

/// A row of the write set.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// The row.
    pub place: Place,
    /// The word before the row was locked; until then the word that was read, if the row was read
    /// together with the write.
    pub before: u64,
    /// Whether the row is present afterwards.
    pub present: bool,
    /// Whether the row is locked.
    pub locked: bool,
    /// Whether the row was read together with the write; then it is not among the reads.
    is_read: bool,
    /// Position in the order of writes.
    number: u32,
    /// Position of the row's read among the reads if it was read right before, or [`NO_READ`].
    read: u32,
}

const NO_READ: u32 = u32::MAX;

/// What locking rows reveals; the fields are as in [`ReadSet`].
struct Met {
    stale: Option<Place>,
    newest: u64,
}

impl Write {
    /// Notes that the row has been locked, and that its word was `before`.
    #[inline(always)]
    fn locked_at(&mut self, before: u64, reads: &mut [(Place, u64)], met: &mut Met) {
        if self.is_read && self.before != before {
            met.stale = Some(self.place);
        }
        (self.before, self.locked) = (before, true);
        met.newest = met.newest.max(before & NUMBER);
        if self.read != NO_READ
            && let Some((_, word)) = reads.get_mut(self.read as usize)
            && *word == before
        {
            *word |= LOCKED;
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct ReadSet {
    /// The read set: rows with the word that was read. [`LOCKED`] is set in the word once the
    /// transaction itself has locked the row and found the word unchanged.
    pub reads: Vec<(Place, u64)>,
    /// Gaps with the number that was read.
    pub gaps: Vec<(Place, u64)>,
    /// The write set; each row occurs once when all are locked.
    pub writes: Vec<Write>,
    /// The number of writes from the first on that are locked.
    locked: usize,
    /// Whether the writes are in the order of places.
    sorted: bool,
    /// A row that was read together with its write, and has another word since.
    stale: Option<Place>,
    /// The transaction may have stored into the locked rows.
    may_be_stored: bool,
    /// See [`ReadSet::newest`].
    newest: u64,
}

impl AsMut<Self> for ReadSet {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// Up to this many rows are locked in the order of the writes if no other transaction holds one.
const UNSORTED_MAX: usize = 64;

impl ReadSet {
    /// Empties the sets for a new transaction.
    pub fn clear(&mut self) {
        if self.reads.capacity().max(self.gaps.capacity()).max(self.writes.capacity()) > KEPT_MAX {
            *self = Self::default();
        }
        self.reads.clear();
        self.gaps.clear();
        self.writes.clear();
        self.locked = 0;
        self.sorted = false;
        self.stale = None;
        self.may_be_stored = false;
        self.newest = 0;
    }

    /// Adds a row to the read set, with the word that was read.
    #[inline]
    pub fn read(&mut self, place: Place, word: u64) {
        self.newest = self.newest.max(word & NUMBER);
        self.reads.push((place, word));
    }

    /// Adds a row to the write set.
    #[inline]
    pub fn write(&mut self, place: Place, present: bool) {
        let number = self.writes.len() as u32;
        let last = self.reads.len().wrapping_sub(1);
        let was_read = self.reads.get(last).is_some_and(|(read, _)| *read == place);
        let read = if was_read { u32::try_from(last).unwrap_or(NO_READ) } else { NO_READ };
        let (before, locked, is_read) = (0, false, false);
        self.writes.push(Write { place, before, present, locked, is_read, number, read });
    }

    /// Adds a present row that was read together with its write. Locking the row checks that its
    /// word is unchanged, so validation need not check it again.
    #[inline]
    pub fn update(&mut self, place: Place, word: u64) {
        self.newest = self.newest.max(word & NUMBER);
        let (number, read) = (self.writes.len() as u32, NO_READ);
        let (before, present, locked, is_read) = (word, true, false, true);
        self.writes.push(Write { place, before, present, locked, is_read, number, read });
    }

    /// Adds a row that was read for an update. If the row is absent, it was only read.
    #[inline]
    pub fn update_if_there(&mut self, place: Place, seen: Seen, word: u64) {
        match seen {
            Seen::Present => self.update(place, word),
            Seen::Absent | Seen::Held => self.read(place, word),
        }
    }

    /// Adds a row to the write set that has been locked; its word was `before`.
    pub fn write_locked(&mut self, place: Place, present: bool, before: u64) {
        let (number, read) = (self.writes.len() as u32, NO_READ);
        self.newest = self.newest.max(before & NUMBER);
        let (locked, is_read) = (true, false);
        self.writes.push(Write { place, before, present, locked, is_read, number, read });
    }

    /// Whether the transaction has locked a row before its commit.
    pub fn holds(&self, place: Place) -> bool {
        self.writes.iter().rev().any(|write| write.locked && write.place == place)
    }

    /// Registers a gap read.
    #[inline]
    pub fn read_gap<M: Machine>(&mut self, place: Place, gap: &Gap<M>) {
        self.gaps.push((place, gap.read()));
    }

    /// Registers a gap insert. A gap read of the transaction itself stays valid unless another
    /// transaction has inserted into the gap.
    #[inline]
    pub fn insert_into_gap<M: Machine>(&mut self, place: Place, gap: &Gap<M>) {
        let is_reader = || self.gaps.iter().any(|(read, _)| *read == place);
        let Some(before) = gap.insert(is_reader) else { return };
        let read = self.gaps.iter_mut().filter(|(read, _)| *read == place);
        read.filter(|(_, number)| *number == before).for_each(|(_, number)| *number += 1);
    }

    /// Registers the split of a gap: transactions that have read the gap will not validate, and if
    /// this transaction has read it, it has read both parts.
    pub fn split<M: Machine>(&mut self, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) {
        self.insert_into_gap(old.0, old.1);
        if self.gaps.iter().any(|(place, _)| *place == old.0) {
            self.read_gap(new.0, new.1);
        }
    }

    /// Merges the writes of each row and sorts them by place. Transactions that lock in this order
    /// cannot deadlock.
    fn sort<M: Machine>(&mut self) {
        if self.sorted {
            return;
        }
        M::work(work::sort(self.writes.len()));
        // The last write of a row determines whether the row is present in the end; a locked one
        // keeps its lock. The sort is unstable, since a stable one allocates.
        self.writes.sort_unstable_by_key(|write| (write.place, write.number));
        let stale = &mut self.stale;
        self.writes.dedup_by(|later, earlier| {
            let same = later.place == earlier.place;
            if same {
                earlier.present = later.present;
                if earlier.is_read && (later.is_read | later.locked) {
                    let is_changed = earlier.before != later.before;
                    *stale = stale.or(is_changed.then_some(later.place));
                }
                if later.is_read | later.locked {
                    (earlier.before, earlier.is_read) = (later.before, later.is_read);
                    earlier.locked |= later.locked;
                }
            }
            same
        });
        self.sorted = true;
    }

    /// Locks the rows of the write set, before anything is stored. If the caller repeats the call
    /// after a wait, it continues where it was refused.
    ///
    /// # Errors
    /// [`Conflict::WouldBlock`] for the first row that another transaction holds.
    #[inline]
    pub fn lock<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
    ) -> Result<(), Conflict> {
        M::work((self.writes.len() - self.locked) * work::ENTRY);
        if self.locked < self.writes.len() && !self.lock_unsorted(states) {
            self.lock_sorted(states)?;
        }
        M::fence(Ordering::Release);
        Ok(())
    }

    /// Locks a few rows in the order of the writes: an order by place matters only to a transaction
    /// that waits while it holds locks. If another transaction holds one of the rows, or a row
    /// occurs twice, returns false and unlocks the rows that it has locked.
    fn lock_unsorted<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
    ) -> bool {
        if self.sorted || self.writes.len() > UNSORTED_MAX {
            return false;
        }
        let mut row = states.rows();
        let mut locked_here = 0u64;
        let mut met = Met { stale: self.stale, newest: self.newest };
        let is_refused = self.writes.iter_mut().enumerate().any(|(at, write)| {
            if write.locked {
                return false;
            }
            let Some(before) = row(write.place).version().lock() else { return true };
            locked_here |= 1 << at;
            write.locked_at(before, &mut self.reads, &mut met);
            false
        });
        Met { stale: self.stale, newest: self.newest } = met;
        if !is_refused {
            self.locked = self.writes.len();
            return true;
        }
        for (at, write) in self.writes.iter_mut().enumerate() {
            if locked_here >> at & 1 == 1 {
                row(write.place).version().unlock(write.before);
                write.locked = false;
                if let Some((_, word)) = self.reads.get_mut(write.read as usize) {
                    *word &= !LOCKED;
                }
            }
        }
        false
    }

    #[cold]
    fn lock_sorted<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
    ) -> Result<(), Conflict> {
        self.sort::<M>();
        let mut row = states.rows();
        while let Some(write) = self.writes.get_mut(self.locked) {
            if !write.locked {
                let before = row(write.place).version().lock();
                let before = before.ok_or(Conflict::WouldBlock(write.place))?;
                let mut met = Met { stale: self.stale, newest: self.newest };
                write.locked_at(before, &mut self.reads, &mut met);
                Met { stale: self.stale, newest: self.newest } = met;
            }
            self.locked += 1;
        }
        Ok(())
    }

    /// The write of a row, if all are locked.
    pub fn own_write(&self, place: Place) -> Option<&Write> {
        if !self.sorted {
            return self.writes.iter().find(|write| write.place == place);
        }
        let at = self.writes.binary_search_by_key(&place, |write| write.place).ok()?;
        Some(&self.writes[at])
    }

    /// Validates the reads after the write set has been locked: returns a place that has changed
    /// since it was read.
    pub fn changed<R: Versioned<M>, G: AsRef<Gap<M>>, M: Machine>(
        &self,
        states: &impl States<R, G>,
    ) -> Option<Place> {
        if self.stale.is_some() {
            return self.stale;
        }
        M::work((self.reads.len() + self.gaps.len()) * work::ENTRY);
        let mut state = states.rows();
        let row = self.reads.iter().find(|(place, word)| {
            let now = state(*place).version().load();
            let is_same = || now & !(LOCKED | STORING) == *word & !LOCKED;
            // If `LOCKED` is set in the word of the read set, the transaction holds the lock.
            now != *word
                && !(is_same() && (*word & LOCKED != 0 || self.own_write(*place).is_some()))
        });
        let gap = || {
            let moved =
                |(place, number): &&(Place, u64)| states.gap(*place).as_ref().number() != *number;
            self.gaps.iter().find(moved)
        };
        row.or_else(gap).map(|(place, _)| *place)
    }

    /// Validates the reads of a transaction that has not locked its write set yet.
    pub fn is_unchanged<R: Versioned<M>, G: AsRef<Gap<M>>, M: Machine>(
        &self,
        states: &impl States<R, G>,
    ) -> bool {
        let mut row = states.rows();
        let mut same_row = |(place, word): &(Place, u64)| {
            let now = row(*place).version().load();
            now == *word || (now & !(LOCKED | STORING) == *word && self.holds(*place))
        };
        let same_gap =
            |(place, number): &(Place, u64)| states.gap(*place).as_ref().number() == *number;
        let read_to_write = self.writes.iter().filter(|write| write.is_read && !write.locked);
        self.stale.is_none()
            && self.reads.iter().all(&mut same_row)
            && read_to_write.map(|write| (write.place, write.before)).all(|read| same_row(&read))
            && self.gaps.iter().all(same_gap)
    }

    /// Announces to readers of the locked rows that are not patient that the transaction is going
    /// to store into them.
    pub fn begin_storing<R: Versioned<M>, G, M: Machine>(&self, states: &impl States<R, G>) {
        let mut row = states.rows();
        self.writes.iter().for_each(|write| row(write.place).version().begin_storing());
        M::fence(Ordering::Release);
    }

    /// Notes that the transaction has validated, so that it may store into the locked rows.
    #[inline]
    pub fn validated(&mut self) {
        self.may_be_stored = true;
    }

    /// Unlocks the rows after a rollback. If the transaction may have stored into them, they get
    /// the word that `anew` returns: a reader that has read a value which was rolled back must not
    /// find the word with which it began (`SCHEME-5`). Otherwise they keep their word.
    #[cold]
    pub fn roll_back<R: Versioned<M>, G, M: Machine>(
        &mut self,
        states: &impl States<R, G>,
        mut anew: impl FnMut(&Write) -> u64,
    ) {
        let stored = self.may_be_stored;
        self.unlock(states, |write| if stored { anew(write) } else { write.before });
    }

    /// Unlocks the rows with the word that `after` returns.
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

    /// The number of reads, gap reads and writes.
    pub fn noted(&self) -> usize {
        self.reads.len() + self.gaps.len() + self.writes.len()
    }

    /// The greatest version number of the rows that were read or locked.
    pub fn newest(&self) -> u64 {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::super::few;
    use super::super::version::PRESENT;
    use super::*;
    use atoll_machine::Native;

    type Few = few::Few<Version<Native>, Gap<Native>>;

    impl Few {
        fn locked(&self) -> Vec<usize> {
            let locked = |row: &usize| self.0[*row].load() & LOCKED != 0;
            (0..self.0.len()).filter(locked).collect()
        }
    }

    fn row(row: u64) -> Place {
        Few::place(row)
    }

    /// Present rows.
    fn rows(count: usize) -> Few {
        Few::new(count, Version::adopt)
    }

    /// The set of a transaction that has read these rows and is going to write them.
    fn set(few: &Few, rows: impl IntoIterator<Item = u64>) -> ReadSet {
        let mut set = ReadSet::default();
        for at in rows {
            set.read(row(at), few.0[at as usize].load() & !LOCKED);
            set.write(row(at), true);
        }
        set
    }

    #[test]
    fn who_meets_a_lock_lets_go_and_then_waits_with_those_before_it_only() {
        for others in 0..6u64 {
            let few = rows(6);
            let held = few.0[others as usize].lock();
            let mut mine = set(&few, [4, 1, 5, 0, 3, 2]);
            let reads = mine.reads.clone();
            assert!(!mine.lock_unsorted(&few));
            assert_eq!(few.locked(), [others as usize], "all let go");
            assert_eq!(mine.reads, reads);
            let before: Vec<usize> = (0..=others as usize).collect();
            for _ in 0..3 {
                assert_eq!(mine.lock(&few), Err(Conflict::WouldBlock(row(others))));
                assert_eq!(few.locked(), before);
            }
            few.0[others as usize].unlock(held.expect("it was free") + 7);
            assert_eq!(mine.lock(&few), Ok(()));
            assert_eq!((few.locked().len(), mine.newest()), (6, 7));
            assert_eq!(mine.changed(&few), Some(row(others)), "the other one has changed it");
            mine.unlock(&few, |write| write.before);
            assert_eq!(few.0.iter().map(Version::load).max(), Some(PRESENT | 7));
        }
    }

    #[test]
    fn a_lock_from_before_is_kept_by_who_meets_another() {
        let few = rows(4);
        let mut mine = set(&few, [2, 0]);
        let before = few.0[3].lock().expect("it is free");
        mine.write_locked(row(3), true, before);
        mine.write(row(3), false);
        let held = few.0[1].lock();
        mine.write(row(1), true);
        assert!(!mine.lock_unsorted(&few));
        assert_eq!(few.locked(), [1, 3]);
        assert!(mine.holds(row(3)) && !mine.holds(row(2)));
        assert_eq!(mine.lock(&few), Err(Conflict::WouldBlock(row(1))));
        few.0[1].unlock(held.expect("it was free"));
        assert_eq!((mine.lock(&few), mine.writes.len()), (Ok(()), 4));
        let own = mine.own_write(row(3)).expect("it is written");
        assert_eq!(
            (own.before, own.present),
            (before, false),
            "the lock's word, and what came last"
        );
        mine.unlock(&few, |write| write.before);
        assert_eq!(few.locked(), []);
    }

    #[test]
    fn a_row_that_was_read_to_be_written_is_looked_at_when_it_is_locked() {
        // With few rows, and with many, which are locked in sorted order.
        for count in [1, 4, UNSORTED_MAX as u64 + 9] {
            for changed in 0..count {
                let few = rows(count as usize);
                let mut mine = ReadSet::default();
                let word = |at: u64| few.0[at as usize].load();
                (0..count).rev().for_each(|at| mine.update(row(at), word(at)));
                assert!(mine.reads.is_empty() && mine.is_unchanged(&few));
                let held = few.0[changed as usize].lock();
                assert!(!mine.is_unchanged(&few), "another transaction has locked it");
                assert_eq!(mine.lock(&few), Err(Conflict::WouldBlock(row(changed))));
                few.0[changed as usize].unlock(held.expect("it was free") + 3);
                assert!(!mine.is_unchanged(&few));
                assert_eq!(mine.lock(&few), Ok(()));
                assert_eq!((mine.changed(&few), mine.newest()), (Some(row(changed)), 3));
                mine.unlock(&few, |write| write.before);
                mine.clear();
                (0..count).for_each(|at| mine.update(row(at), word(at)));
                assert_eq!((mine.lock(&few), mine.changed(&few)), (Ok(()), None));
                assert!(mine.is_unchanged(&few), "the transaction itself has locked it");
                assert_eq!(mine.newest(), 3);
                mine.unlock(&few, |write| write.before);
            }
        }
    }

    #[test]
    fn a_row_that_was_let_go_for_another_may_have_changed_when_it_is_locked_again() {
        let few = rows(2);
        let mut mine = ReadSet::default();
        (0..2).for_each(|at| mine.update(row(at), PRESENT));
        let held = few.0[1].lock();
        assert!(!mine.lock_unsorted(&few));
        let before = few.0[0].lock().expect("it was let go");
        few.0[0].unlock(before + 1);
        few.0[1].unlock(held.expect("it was free"));
        assert_eq!((mine.lock(&few), mine.changed(&few)), (Ok(()), Some(row(0))));
    }

    #[test]
    fn rows_go_back_with_another_word_if_they_may_have_been_stored_into() {
        let few = rows(3);
        let word = |at: usize| few.0[at].load();
        for (is_validated, expected) in [(false, PRESENT), (true, PRESENT | 1)] {
            let mut mine = set(&few, [0, 2]);
            assert_eq!((mine.lock(&few), mine.changed(&few)), (Ok(()), None));
            if is_validated {
                mine.validated();
            }
            mine.roll_back(&few, |write| write.before + 1);
            assert_eq!([word(0), word(1), word(2)], [expected, PRESENT, expected]);
            mine.clear();
        }
    }

    #[test]
    fn what_was_read_to_be_written_stays_so_if_it_is_written_otherwise_too() {
        let read_as = |set: &mut ReadSet, word| set.update(row(1), word);
        let writes: [fn(&mut ReadSet); 3] = [
            |set| set.write(row(1), false),
            |set| set.update(row(1), PRESENT),
            |set| set.read(row(1), PRESENT),
        ];
        for is_stale in [false, true] {
            for write in writes {
                for is_first in [false, true] {
                    let few = rows(2);
                    let word = if is_stale { PRESENT | 5 } else { PRESENT };
                    let mut mine = ReadSet::default();
                    if is_first {
                        read_as(&mut mine, word);
                    }
                    write(&mut mine);
                    if !is_first {
                        read_as(&mut mine, word);
                    }
                    assert_eq!(mine.is_unchanged(&few), !is_stale);
                    assert_eq!((mine.lock(&few), mine.writes.len()), (Ok(()), 1));
                    assert_eq!(mine.changed(&few), is_stale.then_some(row(1)));
                    assert_eq!(mine.is_unchanged(&few), !is_stale);
                    mine.unlock(&few, |write| write.before);
                    assert_eq!(few.0[1].load(), PRESENT);
                }
            }
        }
    }

    #[test]
    fn rows_are_locked_once_whether_few_or_many_and_however_often_they_are_written() {
        for count in [1, 3, UNSORTED_MAX as u64, UNSORTED_MAX as u64 + 1, 100] {
            let few = rows(count as usize);
            for again in [0, 1, count] {
                let mut mine = set(&few, (0..count).rev().chain(0..again));
                assert_eq!((mine.lock(&few), mine.lock(&few)), (Ok(()), Ok(())));
                assert_eq!(few.locked().len() as u64, count);
                assert_eq!((mine.writes.len() as u64, mine.changed(&few)), (count, None));
                assert!((0..count).all(|at| mine.own_write(row(at)).is_some()));
                assert!(mine.own_write(row(count)).is_none());
                mine.unlock(&few, |write| write.before);
                assert_eq!(few.locked(), []);
            }
        }
    }
}
