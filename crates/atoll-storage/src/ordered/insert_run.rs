//! Inserting sorted entries beside other threads.
//!
//! Entries that follow each other mostly belong into one leaf. So one descent finds the leaf of the
//! first, and one latch covers all entries that belong into it and that it has room for. An entry
//! costs a search in a leaf that is in the cache, and nothing moves while a leaf is filled at its
//! end. A full leaf is split for one entry as [`OrderedIndex::insert`] does it.

use std::ops::Range;

use atoll_machine::Machine;

use super::build::EntryRun;
use super::entry_position::{EntryPosition, head_of};
use super::node::{Changed, SLOTS};
use super::walk::retry;
use super::{GuardId, OrderedIndex};

impl<M: Machine> OrderedIndex<M> {
    /// Inserts some entries of a sorted run, unless they are present. `split` is as that of
    /// [`OrderedIndex::insert`].
    pub fn insert_run(
        &self,
        run: &EntryRun,
        entries: Range<usize>,
        split: &mut dyn FnMut(GuardId, GuardId) -> bool,
    ) {
        let (mut at, mut key) = (entries.start, Vec::new());
        while at < entries.end {
            at += match retry::<M, _>(|| self.try_insert_run(run, at..entries.end, &mut key)) {
                0 => {
                    let row = run.entry(at, &mut key);
                    self.insert_place(&EntryPosition::new(&key, row), None, split);
                    1
                }
                inserted => inserted,
            };
        }
    }

    /// One attempt to insert the first entries, those of one leaf; returns how many, 0 if their
    /// leaf is full.
    fn try_insert_run(
        &self,
        run: &EntryRun,
        entries: Range<usize>,
        key: &mut Vec<u8>,
    ) -> Result<usize, Changed> {
        let row = run.entry(entries.start, key);
        let first = EntryPosition::new(key, row);
        let step = self.descend(|node| self.child_for(node, &first), |_| Ok(()))?;
        let leaf = step.here;
        if leaf.node.count() == SLOTS {
            leaf.validate()?;
            return Ok(0);
        }
        // The range of the leaf is this one while its visit is valid, so also under the latch.
        let mut high = Vec::new();
        let high_row = self.fence(step.fences.high, &mut high)?;
        let high = step.fences.high.map(|_| EntryPosition::new(&high, high_row));
        let mut held = leaf.latch()?;
        let node = held.change();
        for at in entries.clone() {
            let row = run.entry(at, key);
            let place = EntryPosition::new(key, row);
            if node.count() == SLOTS || high.is_some_and(|high| place >= high) {
                return Ok(at - entries.start);
            }
            let (slot, is_there) = self.position(node, &place);
            if !is_there {
                let payload = self.arena.store(&place);
                node.insert_slot(slot, head_of(place.key(), node.skip()), payload);
            }
        }
        Ok(entries.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Bound;

    use atoll_machine::Native;

    use super::super::{Batch, KeyRange};
    use super::*;
    use crate::layout::RowId;

    /// All entries of an index, in its order.
    fn all(index: &OrderedIndex<Native>) -> Vec<(Vec<u8>, u64)> {
        let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
        let (mut batch, mut found) = (Batch::default(), Vec::new());
        while {
            let more = index.batch(&range, &mut |_| (), &mut batch);
            found.extend(batch.iter().map(|one| (one.key.to_vec(), one.row.0)));
            more
        } {}
        found
    }

    /// A key that is short, or long with many neighbours of the same head, or one of few.
    fn key(number: u64) -> Vec<u8> {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match number % 4 {
            0 => mixed.to_be_bytes().to_vec(),
            1 => format!("a common beginning {:05}", mixed % 20_000).into_bytes(),
            2 => vec![(mixed % 7) as u8],
            _ => mixed.to_be_bytes()[..3].to_vec(),
        }
    }

    /// Threads insert the parts of a set as runs and one by one; some entries by both ways.
    #[test]
    fn runs_and_single_entries_of_several_threads_are_all_there_once() {
        let (index, count) = (OrderedIndex::<Native>::default(), 24_000u64);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let index = &index;
                scope.spawn(move || {
                    let mine = (0..count).filter(|number| number % 5 == thread || number % 5 == 4);
                    if thread % 2 == 1 {
                        for number in mine {
                            index.insert(&key(number), RowId(number), &mut |_, _| true);
                        }
                        return;
                    }
                    let mut run = EntryRun::default();
                    mine.for_each(|number| run.add(&key(number), RowId(number), true));
                    run.sort();
                    let mut from = 0;
                    while from < run.len() {
                        let to = run.len().min(from + 1000);
                        index.insert_run(&run, from..to, &mut |_, new| new.0 % 2 == 0);
                        from = to;
                    }
                });
            }
        });
        let expected = (0..count).map(|number| (key(number), number)).collect::<BTreeSet<_>>();
        assert!(all(&index).into_iter().eq(expected));
    }
}
