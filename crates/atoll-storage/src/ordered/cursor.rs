//! Reading a range, one leaf at a time.
//!
//! 1. Descend to the leaf in which the rest of the range begins.
//! 2. Observe the leaf's guard, then read its entries, then validate the leaf.
//! 3. The rest of the range begins at the leaf's fence, whatever happens to the leaf meanwhile.

use std::num::NonZeroUsize;
use std::ops::Bound;

use atoll_machine::Machine;

use super::entry_position::{EntryPosition, ROW_END};
use super::node::{Changed, Visit};
use super::walk::retry;
use super::{GuardId, KeyRange, OrderedIndex};
use crate::layout::RowId;

/// The entries of one read, and the position at which the next read begins. A batch that is reused
/// allocates nothing.
#[derive(Debug, Default)]
pub struct Batch {
    /// Rows, and the ends of their keys in `keys`.
    rows: Vec<(RowId, usize)>,
    keys: Vec<u8>,
    /// The position at which the next read begins; no row at the beginning of the range.
    resume: Vec<u8>,
    resume_row: Option<u64>,
    fence: Vec<u8>,
    /// Row of the position at which this read began.
    began_row: Option<u64>,
    is_at_end: bool,
    entries_max: Option<NonZeroUsize>,
}

/// An entry that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found<'b> {
    /// Its row.
    pub row: RowId,
    /// Its key.
    pub key: &'b [u8],
}

impl Batch {
    /// Resets the batch: the next call reads its range from the beginning.
    pub fn rewind(&mut self) {
        self.clear();
        self.resume_row = None;
        self.is_at_end = false;
    }

    /// Makes the next call read the same part of the range again.
    pub fn step_back(&mut self) {
        std::mem::swap(&mut self.resume, &mut self.fence);
        self.resume_row = self.began_row;
        self.is_at_end = false;
    }

    /// Sets the most entries of one read: a caller that needs the first entry of a range need not
    /// read a whole leaf. `None`: all entries of a leaf.
    pub fn limit(&mut self, entries: Option<NonZeroUsize>) {
        self.entries_max = entries;
    }

    /// The entries, in the direction of the range.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Found<'_>> {
        (0..self.rows.len()).map(|at| self.get(at).expect("in range"))
    }

    /// Entries in the batch.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The entry at a position.
    pub fn get(&self, at: usize) -> Option<Found<'_>> {
        let (row, end) = *self.rows.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.rows[before].1);
        Some(Found { row, key: &self.keys[start..end] })
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
    }
}

/// The rest of a range: from the first position to the second, exclusive.
struct RemainingRange<'k> {
    from: EntryPosition<'k>,
    to: Option<EntryPosition<'k>>,
    descending: bool,
}

impl<'k> RemainingRange<'k> {
    fn new(range: &KeyRange<'k>, resume: Option<EntryPosition<'k>>) -> Self {
        let from = match range.from {
            Bound::Included(key) => EntryPosition::new(key, 0),
            Bound::Excluded(key) => EntryPosition::new(key, ROW_END),
            Bound::Unbounded => EntryPosition::new(&[], 0),
        };
        let to = match range.to {
            Bound::Included(key) => Some(EntryPosition::new(key, ROW_END)),
            Bound::Excluded(key) => Some(EntryPosition::new(key, 0)),
            Bound::Unbounded => None,
        };
        match resume {
            Some(_) if range.descending => Self { from, to: resume, descending: true },
            Some(from) => Self { from, to, descending: false },
            None => Self { from, to, descending: range.descending },
        }
    }
}

impl<M: Machine> OrderedIndex<M> {
    /// Reads the entries of one leaf that are in the range into `out`; the next call continues
    /// behind them. Returns false when the end of the range is reached. A batch may be empty before
    /// the end. Nothing stays latched between calls.
    ///
    /// `observe(guard)` is called before the leaf is read, also for attempts that find the leaf
    /// changed, and for a leaf without an entry in the range.
    pub fn batch(
        &self,
        range: &KeyRange<'_>,
        observe: &mut dyn FnMut(GuardId),
        out: &mut Batch,
    ) -> bool {
        out.clear();
        if out.is_at_end {
            return false;
        }
        out.began_row = out.resume_row;
        let resume = std::mem::take(&mut out.resume);
        let rest =
            RemainingRange::new(range, out.resume_row.map(|row| EntryPosition::new(&resume, row)));
        let next = match rest.to {
            Some(to) if to <= rest.from => None,
            _ => retry::<M, _>(|| self.try_batch(&rest, observe, out)),
        };
        out.resume_row = next;
        out.is_at_end = next.is_none();
        out.resume = std::mem::replace(&mut out.fence, resume);
        next.is_some()
    }

    /// One attempt; returns the row of the position in `out.fence` at which to continue.
    fn try_batch(
        &self,
        rest: &RemainingRange<'_>,
        observe: &mut dyn FnMut(GuardId),
        out: &mut Batch,
    ) -> Result<Option<u64>, Changed> {
        out.clear();
        let step = if rest.descending {
            self.descend(
                |node| rest.to.map_or(node.count(), |to| self.position(node, &to).0),
                |_| Ok(()),
            )?
        } else {
            self.descend(|node| self.child_for(node, &rest.from), |_| Ok(()))?
        };
        let leaf = step.here;
        let guard = leaf.node.guard();
        leaf.validate()?;
        observe(guard);
        // A position is searched in a node only if it is between the node's fences.
        let fence = if rest.descending { step.fences.low } else { step.fences.high };
        let fence_row = self.fence(fence, &mut out.fence)?;
        let fence = fence.map(|_| EntryPosition::new(&out.fence, fence_row));
        let before = |at: EntryPosition<'_>| self.position(leaf.node, &at).0;
        let count = leaf.node.count();
        let (more, start, end) = if rest.descending {
            let more = fence.is_some_and(|fence| fence > rest.from);
            let start = if more { 0 } else { before(rest.from) };
            (more, start, rest.to.map_or(count, before))
        } else {
            let more = fence.is_some_and(|fence| rest.to.is_none_or(|to| fence < to));
            let end = rest.to.filter(|_| !more).map_or(count, before);
            (more, before(rest.from), end)
        };
        let most = out.entries_max.map_or(usize::MAX, NonZeroUsize::get);
        let is_cut = end.saturating_sub(start) > most;
        let slots = match (is_cut, rest.descending) {
            (false, _) => start..end,
            (true, false) => start..start + most,
            (true, true) => end - most..end,
        };
        self.read(leaf, slots, rest.descending, out)?;
        if !is_cut {
            return Ok(more.then_some(fence_row));
        }
        // The rest of the range begins behind the last entry.
        let at = out.len() - 1;
        let last = out.rows[at].0.0;
        let key = at.checked_sub(1).map_or(0, |before| out.rows[before].1)..;
        out.fence.clear();
        out.fence.extend_from_slice(&out.keys[key]);
        Ok(Some(if rest.descending { last } else { last + 1 }))
    }

    fn read(
        &self,
        leaf: Visit<'_, M>,
        slots: std::ops::Range<usize>,
        descending: bool,
        out: &mut Batch,
    ) -> Result<(), Changed> {
        slots.clone().for_each(|at| self.arena.prefetch(leaf.node.payload(at)));
        let mut push = |at| {
            let row = self.entry(leaf.node, at, &mut out.keys)?;
            out.rows.push((RowId(row), out.keys.len()));
            Ok(())
        };
        if descending {
            slots.rev().try_for_each(&mut push)?;
        } else {
            slots.into_iter().try_for_each(&mut push)?;
        }
        leaf.validate()
    }
}
