//! Batched lookups: windows of keys that are looked up together.
//!
//! The worker enters the gate and finds the table's context once for a window of keys. It
//! prefetches the cache lines of all keys as [`super::prefetch`] describes; those of one window fit
//! into the first-level cache. It keeps what it has found for a key until the key's turn comes.

use arrayvec::ArrayVec;
use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, RowId, Slot, Table, Value};

use super::call::Call;
use super::found::{Found, Wanted};
use super::ops::{Aim, Aims};
use super::step::Step;
use super::txn::TxnState;
use crate::accounting::Component;
use crate::engine::{Engine, partition_of};
use crate::error::OpError;
use crate::scheme::Scheme;
use crate::tables::TableContext;

/// Keys in a window.
pub(super) const WINDOW: usize = u32::BITS as usize;

/// A key that has been checked.
#[derive(Clone, Copy)]
struct Sought {
    hash: u64,
    /// The predicted row; `None` if there is no prediction and the index has to be searched.
    predicted: Option<RowId>,
}

/// The keys of a window.
pub(super) struct KeyBatch<'w, A> {
    /// Position of its first key.
    pub(super) first: usize,
    keys: &'w [Value],
    /// Values in a key.
    width: usize,
    /// Keys in the window.
    count: usize,
    sought: ArrayVec<Sought, WINDOW>,
    /// The operations on their rows.
    aims: ArrayVec<A, WINDOW>,
    any_update: bool,
    /// The transaction has probably prefetched these keys before, so there are no predictions here.
    are_known: bool,
}

impl<'w, A: Aim> KeyBatch<'w, A> {
    fn new(first: usize, keys: &'w [Value], width: usize) -> Self {
        let (sought, aims, count) = (ArrayVec::new(), ArrayVec::new(), keys.len() / width);
        Self { first, keys, width, count, sought, aims, any_update: false, are_known: false }
    }

    /// The hash of the key at a position, and the operation on its row.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<(u64, A)> {
        Some((self.sought.get(at)?.hash, *self.aims.get(at)?))
    }

    /// The key at a position.
    #[inline]
    pub(super) fn wanted(&self, at: usize, hash: u64) -> Wanted<'w> {
        Wanted { hash, key: &self.keys[at * self.width..][..self.width] }
    }

    #[inline(always)]
    fn all(&self) -> impl Iterator<Item = (&Sought, &A)> {
        self.sought.iter().zip(&self.aims)
    }

    /// Checks the keys and the operations. Unless the keys have been prefetched before, prefetches
    /// the index buckets of keys without a prediction.
    #[inline(always)]
    fn seek<M: Machine>(&mut self, table: &Table<M>, aims: &impl Aims<A>) -> Result<(), OpError> {
        // Two short loops, so that each keeps its values in registers.
        let keys = self.keys.chunks(self.width);
        if self.are_known {
            for key in keys {
                self.sought.push(Sought { hash: table.hash_of(key)?, predicted: None });
            }
        } else {
            let predictor = table.predictor();
            for key in keys {
                let (hash, predicted) = predictor.hash_and_predict(key)?;
                if predicted.is_none() {
                    prefetch_bucket(table, hash);
                }
                self.sought.push(Sought { hash, predicted });
            }
        }
        for at in (self.first..).take(self.sought.len()) {
            let Some(aim) = aims.of(at) else { return Err(aims.misfit(at)) };
            self.any_update |= aim.updates();
            self.aims.push(aim);
        }
        Ok(())
    }
}

/// Prefetches the index bucket of a key without a prediction.
#[inline(never)]
fn prefetch_bucket<M: Machine>(table: &Table<M>, hash: u64) {
    M::prefetch(table.index().bucket(hash).line(), 1);
}

/// The candidate rows of a window's keys; empty if they were not looked up.
pub(super) type Candidates<'g, S, M> = ArrayVec<Option<Found<'g, S, M>>, WINDOW>;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Calls `some` for windows of keys, each time inside the gate. `some` executes as many
    /// operations as it can from a position of the window on, and advances the position. `keys` is
    /// a concatenation of keys, each with as many values as the primary key has columns. `aims` may
    /// be called several times for a key.
    #[inline(always)]
    pub(super) fn in_windows<A: Aim>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        aims: &impl Aims<A>,
        mut some: impl FnMut(
            &mut TxnState<S, M>,
            (&Engine<S, M>, &TableContext<S, M>, Change),
            (&KeyBatch<'_, A>, &Candidates<'_, S, M>),
            &mut usize,
        ) -> Step<()>,
    ) -> Result<(), OpError> {
        self.check_open()?;
        self.check_table(table)?;
        let width = table.schema().primary_key().len();
        if !keys.len().is_multiple_of(width) {
            table.schema().check_key(&keys[keys.len() / width * width..])?;
        }
        let windows = keys.chunks(WINDOW * width).enumerate();
        let windows = windows.map(|(at, keys)| KeyBatch::new(at * WINDOW, keys, width));
        if keys.len() > WINDOW * width {
            // Check the keys of all windows before the first one executes anything.
            windows.clone().try_for_each(|mut window| self.seek(table, &mut window, aims))?;
        }
        for mut window in windows {
            self.seek(table, &mut window, aims)?;
            let (mut at, mut is_new) = (0, true);
            while at < window.count {
                self.until_done(table, |txn, (engine, context, change)| {
                    let mut seen = ArrayVec::new();
                    if std::mem::take(&mut is_new) {
                        txn.look_ahead(context, &window, &mut seen);
                    }
                    some(txn, (engine, context, change), (&window, &seen), &mut at)
                })?;
                self.add_entries(table)?;
            }
        }
        Ok(())
    }

    /// Checks the keys of a window before it executes anything.
    #[inline]
    fn seek<A: Aim>(
        &mut self,
        table: &Table<M>,
        window: &mut KeyBatch<'_, A>,
        aims: &impl Aims<A>,
    ) -> Result<(), OpError> {
        let before = self.txn.stopwatch.switch::<M>(Component::Index);
        // If `aims` panics, rows of other windows may have been changed.
        self.txn.is_broken = true;
        let first = || window.keys.chunks(window.width).next().map(|key| table.hash(key));
        window.are_known = self.txn.prefetched.has_prefetched(table.id(), window.count, first);
        let sought = window.seek(table, aims);
        self.txn.is_broken = false;
        self.txn.stopwatch.switch::<M>(before);
        sought?;
        if window.any_update {
            self.check_writable(table)?;
        }
        if S::PARTITIONED && !self.txn.partitions.is_empty() {
            self.check_partitions(table, window)?;
        }
        Ok(())
    }

    /// Checks that the transaction may access the keys.
    #[inline]
    fn check_partitions<A: Aim>(
        &mut self,
        table: &Table<M>,
        window: &KeyBatch<'_, A>,
    ) -> Result<(), OpError> {
        let keys = window.keys.chunks_exact(window.width);
        if let [named] = self.txn.partitions[..]
            && !self.engine.tables.context(table.id()).replicated
        {
            // The common case: one partition, and no key of another one.
            let partitions = self.engine.partitions();
            let is_named = |key: &[Value]| partition_of(key.first(), partitions) == named;
            if keys.clone().all(is_named) {
                return Ok(());
            }
        }
        let mut checked = (None, false);
        for (aim, key) in window.aims.iter().zip(keys) {
            let access = (key.first(), aim.updates());
            // Most keys are in the same partition as the key before.
            if access != checked {
                self.check_partition(table, access.0, access.1)?;
                checked = access;
            }
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Finds the candidate rows of a window's keys and prefetches what the operations access.
    #[inline]
    fn look_ahead<'g, A: Aim>(
        &mut self,
        context: &'g TableContext<S, M>,
        window: &KeyBatch<'_, A>,
        seen: &mut Candidates<'g, S, M>,
    ) {
        let Some(first) = window.sought.first() else { return };
        let before = self.stopwatch.switch::<M>(Component::Index);
        let table = &*context.table;
        if self.prefetched.expects(table.id()) {
            self.look_where_expected(context, window, first.hash, seen);
        } else {
            let hints = &mut self.prefetched.hints;
            for (sought, aim) in window.all() {
                seen.push(look_at(context, *sought, *aim, hints));
            }
            hint_at_columns(context, window, seen, u32::MAX, hints);
        }
        self.stopwatch.switch::<M>(before);
    }

    /// As [`TxnState::look_ahead`], for a table with keys that the transaction has prefetched, so
    /// that their rows may be known and in the cache.
    // Not inlined, like everything below that most keys do not need, so that the loop for most keys
    // keeps its values in registers.
    #[inline(never)]
    fn look_where_expected<'g, A: Aim>(
        &mut self,
        context: &'g TableContext<S, M>,
        window: &KeyBatch<'_, A>,
        first: u64,
        seen: &mut Candidates<'g, S, M>,
    ) {
        let table = &*context.table;
        let (mut expected, hints) = self.prefetched.prefetched(table.id(), first);
        // A bit for each key that was not prefetched.
        let mut untouched = 0u32;
        for (at, (&Sought { hash, mut predicted }, aim)) in window.all().enumerate() {
            // A prefetched key's row is known and in the cache.
            if let Some(row) = expected.as_mut().and_then(|stream| stream.next(hash)) {
                seen.push(Found::at_predicted(context, row, hash));
                continue;
            }
            untouched |= 1 << at;
            if window.are_known {
                predicted = table.predict(hash);
            }
            seen.push(look_at(context, Sought { hash, predicted }, *aim, hints));
        }
        hint_at_columns(context, window, seen, untouched, hints);
    }
}

/// The candidate row of a key; adds prefetch hints for what the operation accesses.
#[inline(always)]
fn look_at<'g, S: Scheme<M>, M: Machine>(
    context: &'g TableContext<S, M>,
    Sought { hash, predicted }: Sought,
    aim: impl Aim,
    hints: &mut Hints,
) -> Option<Found<'g, S, M>> {
    let row = predicted.or_else(|| by_index(&context.table, hash))?;
    let found = Found::at_predicted(context, row, hash)?;
    aim.hint(found.line_beside(context), &*context.table, found.slot, hints);
    Some(found)
}

/// The candidate row of a hash in the index: of its bucket or, by a search, of a later one.
#[inline(never)]
fn by_index<M: Machine>(table: &Table<M>, hash: u64) -> Option<RowId> {
    let index = table.index();
    index.bucket(hash).candidate(hash).or_else(|| index.find(hash, |_| true))
}

/// Issues the prefetch hints. For keys with a bit in `which`, also prefetches the values of their
/// columns, then the heap bytes of long values.
#[inline(always)]
fn hint_at_columns<S: Scheme<M>, M: Machine, A: Aim>(
    context: &TableContext<S, M>,
    window: &KeyBatch<'_, A>,
    seen: &Candidates<'_, S, M>,
    which: u32,
    hints: &mut Hints,
) {
    if which != 0 && window.aims.iter().any(|aim| !aim.columns().is_empty()) {
        hint_by_column(context, window, seen, which, hints);
    }
    hints.give::<M>();
}

/// Prefetches columns together for successive rows with the same columns.
#[inline(never)]
fn hint_by_column<S: Scheme<M>, M: Machine, A: Aim>(
    context: &TableContext<S, M>,
    window: &KeyBatch<'_, A>,
    seen: &Candidates<'_, S, M>,
    which: u32,
    hints: &mut Hints,
) {
    let mut slots = ArrayVec::<Slot<'_, M>, WINDOW>::new();
    // Each group of rows: its columns, and the position of its first row in `slots`.
    let mut groups = ArrayVec::<(&[usize], usize), WINDOW>::new();
    let mut columns: &[usize] = &[];
    for (at, (found, aim)) in seen.iter().zip(&window.aims).enumerate() {
        if !std::ptr::eq(aim.columns(), columns) {
            columns = aim.columns();
            groups.push((columns, slots.len()));
        }
        if which >> at & 1 == 1
            && let Some(found) = found
        {
            slots.push(found.slot);
        }
    }
    let ends = groups.iter().skip(1).map(|(_, begin)| *begin).chain([slots.len()]);
    let groups = groups.iter().zip(ends);
    let groups = groups.map(|((columns, begin), end)| (&slots[*begin..end], *columns));
    for (slots, columns) in groups.clone() {
        context.table.hint_at_values(slots, columns, hints);
    }
    hints.give::<M>();
    if !context.views().is_empty() {
        for (slots, columns) in groups {
            context.table.hint_at_long_values(slots, columns, hints);
        }
    }
}
