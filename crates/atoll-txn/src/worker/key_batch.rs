//! Keys that are looked for together.
//!
//! What is the same for each of them is done once for a window of keys: going inside, finding what
//! belongs to the table. Their cache lines are brought in as [`super::prefetch`] describes; a
//! window's fit into a first cache. What has been found for a key is kept until the key's turn
//! comes.

use arrayvec::ArrayVec;
use atoll_machine::{Hints, Machine};
use atoll_storage::{Change, RowId, Slot, Table, Value};

use super::step::{Found, Step, Wanted};
use super::{Txn, Worker};
use crate::accounting::Component;
use crate::engine::{Engine, partition_of};
use crate::error::OpError;
use crate::scheme::Scheme;
use crate::tables::TableContext;

/// Keys whose cache lines are brought in at a time.
pub(super) const WINDOW: usize = u32::BITS as usize;

/// What is going to be done with the row of a key.
pub(super) trait Aim: Copy {
    /// Whether the row may be changed.
    fn updates(self) -> bool;
    /// Gathers a line, if there is one, and what will be accessed of the row besides `columns`.
    fn hint<M: Machine>(
        self,
        line: Option<*const u8>,
        table: &Table<M>,
        slot: Slot<'_, M>,
        hints: &mut Hints,
    );
    /// Columns that will be accessed, to be gathered for all rows together.
    fn columns<'a>(self) -> &'a [usize]
    where
        Self: 'a;
}

/// Says for the position of a key what is going to be done with its row.
pub(super) trait Aims<A> {
    /// `None` if that cannot be done.
    fn of(&self, at: usize) -> Option<A>;
    /// Why not.
    fn misfit(&self, at: usize) -> OpError;
}

/// A key that has been checked.
#[derive(Clone, Copy)]
struct Sought {
    hash: u64,
    /// Where the table guesses its row. Nothing if it does not, and the index is to be asked.
    predicted: Option<RowId>,
}

/// The keys of a window.
pub(super) struct KeyBatch<'w, A> {
    /// Position of its first key.
    pub(super) first: usize,
    keys: &'w [Value],
    /// So many values are a key, and so many keys there are.
    width: usize,
    count: usize,
    sought: ArrayVec<Sought, WINDOW>,
    /// What is going to be done with the row of each.
    aims: ArrayVec<A, WINDOW>,
    any_update: bool,
    /// They have been brought in with others before, most likely: none has been guessed here.
    are_known: bool,
}

impl<'w, A: Aim> KeyBatch<'w, A> {
    fn new(first: usize, keys: &'w [Value], width: usize) -> Self {
        let (sought, aims, count) = (ArrayVec::new(), ArrayVec::new(), keys.len() / width);
        Self { first, keys, width, count, sought, aims, any_update: false, are_known: false }
    }

    /// The hash of the key at a position, and what is going to be done with its row.
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

    /// Checks the keys and, unless what they need has been brought in before, brings in the buckets
    /// of the index for those whose row cannot be guessed.
    #[inline(always)]
    fn seek<M: Machine>(&mut self, table: &Table<M>, aims: &impl Aims<A>) -> Result<(), OpError> {
        // In two short loops, each of which keeps what it needs in registers.
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

/// Brings in the bucket of a key whose row cannot be guessed.
#[inline(never)]
fn prefetch_bucket<M: Machine>(table: &Table<M>, hash: u64) {
    M::prefetch(table.index().bucket(hash).line(), 1);
}

/// Where the rows of a window's keys were seen; nothing of it if they were not looked for.
pub(super) type Seen<'g, S, M> = ArrayVec<Option<Found<'g, S, M>>, WINDOW>;

impl<S: Scheme<M>, M: Machine> Worker<S, M> {
    /// Calls `some` for windows of keys, each time inside the gate, to do what it can from a
    /// position of the window on, and to move that on. Keys lie one after the other, each with as
    /// many values as the primary key has columns; what `aims` says is asked several times perhaps.
    #[inline(always)]
    pub(super) fn in_windows<A: Aim>(
        &mut self,
        table: &Table<M>,
        keys: &[Value],
        aims: &impl Aims<A>,
        mut some: impl FnMut(
            &mut Txn<S, M>,
            (&Engine<S, M>, &TableContext<S, M>, Change),
            (&KeyBatch<'_, A>, &Seen<'_, S, M>),
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
            // Before anything is done in the first, the keys of all are checked.
            windows.clone().try_for_each(|mut window| self.seek(table, &mut window, aims))?;
        }
        for mut window in windows {
            self.seek(table, &mut window, aims)?;
            let (mut at, mut is_new) = (0, true);
            while at < window.count {
                self.until_done(table, |engine, txn, context, change| {
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

    /// Checks the keys of a window, before anything is done with their rows.
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
        if S::PARTITIONED && !self.partitions.is_empty() {
            self.check_partitions(table, window)?;
        }
        Ok(())
    }

    /// That the transaction may touch the keys.
    #[inline]
    fn check_partitions<A: Aim>(
        &mut self,
        table: &Table<M>,
        window: &KeyBatch<'_, A>,
    ) -> Result<(), OpError> {
        let keys = window.keys.chunks_exact(window.width);
        if let [named] = self.partitions[..]
            && !self.engine.tables.context(table.id()).replicated
        {
            // Nearly always: one partition, and nothing of others.
            let partitions = self.engine.partitions();
            let is_named = |key: &[Value]| partition_of(key.first(), partitions) == named;
            if keys.clone().all(is_named) {
                return Ok(());
            }
        }
        let mut checked = (None, false);
        for (aim, key) in window.aims.iter().zip(keys) {
            let access = (key.first(), aim.updates());
            // Most are of the partition of the key before.
            if access != checked {
                self.check_partition(table, access.0, access.1)?;
                checked = access;
            }
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Txn<S, M> {
    /// Sees where the rows of a window's keys are and brings in what will be accessed of them.
    #[inline]
    fn look_ahead<'g, A: Aim>(
        &mut self,
        context: &'g TableContext<S, M>,
        window: &KeyBatch<'_, A>,
        seen: &mut Seen<'g, S, M>,
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

    /// As [`Txn::look_ahead`], of a table some of whose keys are expected, so that their rows have
    /// been found and brought in perhaps.
    // Not inlined, as all below that most keys do not need: their loop would lose its registers.
    #[inline(never)]
    fn look_where_expected<'g, A: Aim>(
        &mut self,
        context: &'g TableContext<S, M>,
        window: &KeyBatch<'_, A>,
        first: u64,
        seen: &mut Seen<'g, S, M>,
    ) {
        let table = &*context.table;
        let (mut expected, hints) = self.prefetched.prefetched(table.id(), first);
        // A bit for each key that is not.
        let mut untouched = 0u32;
        for (at, (&Sought { hash, mut predicted }, aim)) in window.all().enumerate() {
            // What was prefetched has been found, and brought in.
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

/// Where the row of a key is, most likely; gathers what will be accessed of it.
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

/// The row that the index names for a hash: if not in the bucket where it should be, in one of the
/// next, or nowhere.
#[inline(never)]
fn by_index<M: Machine>(table: &Table<M>, hash: u64) -> Option<RowId> {
    let index = table.index();
    index.bucket(hash).candidate(hash).or_else(|| index.find(hash, |_| true))
}

/// Names what has been gathered, and what will be accessed of the rows of the keys that have a bit:
/// values, and then what long ones name.
#[inline(always)]
fn hint_at_columns<S: Scheme<M>, M: Machine, A: Aim>(
    context: &TableContext<S, M>,
    window: &KeyBatch<'_, A>,
    seen: &Seen<'_, S, M>,
    which: u32,
    hints: &mut Hints,
) {
    if which != 0 && window.aims.iter().any(|aim| !aim.columns().is_empty()) {
        hint_by_column(context, window, seen, which, hints);
    }
    hints.give::<M>();
}

/// As [`hint_at_columns`], together for rows that follow each other in a window and of which the
/// same columns will be accessed.
#[inline(never)]
fn hint_by_column<S: Scheme<M>, M: Machine, A: Aim>(
    context: &TableContext<S, M>,
    window: &KeyBatch<'_, A>,
    seen: &Seen<'_, S, M>,
    which: u32,
    hints: &mut Hints,
) {
    let mut slots = ArrayVec::<Slot<'_, M>, WINDOW>::new();
    // Columns, and where the rows begin of which they will be accessed.
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
    if !context.views.is_empty() {
        for (slots, columns) in groups {
            context.table.hint_at_long_values(slots, columns, hints);
        }
    }
}
