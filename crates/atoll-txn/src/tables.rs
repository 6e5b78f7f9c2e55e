//! Table contexts: each table with the scheme's states of its rows and gaps, and its indexes.
//!
//! A [`TableContext`] and the states in it never move, and live until the table is dropped; the
//! module `drop_table` says which thread may use them when. So a transaction can look up a place at
//! any time.

use std::sync::Arc;

use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::ordered::GuardId;
use atoll_storage::stable::{EmptyArray, EmptyList, PerRow, Replaceable, SharedVec, StableArray};
use atoll_storage::{Remains, RowId, Table, TableId};

use crate::column_set::ColumnSet;
use crate::index_set::IndexSet;
pub use crate::place::INDEXES_MAX;
use crate::row_header::RowHeader;
use crate::scheme::{Guarded, Place, Scheme, States};
pub use crate::table_options::{IndexSpec, TableOptions};

/// Stripes of a table's hash index, see [`Guarded::Gap`].
pub(crate) const STRIPES: usize = 1 << 12;
/// Gap states of a hash index that are allocated together, when the first of them is used.
const STRIPES_TOGETHER: usize = 1 << 6;
/// Gap states of an ordered index that are allocated together.
const GUARDS: u64 = 1 << 10;

/// A table, the scheme's states of its rows and gaps, and its indexes.
pub struct TableContext<S: Scheme<M>, M: Machine> {
    table_id: TableId,
    pub(crate) table: Arc<Table<M>>,
    rows: PerRow<RowHeader<S, M>, M>,
    /// Number of segments with rows that were loaded in bulk or restored (`ROWS-3`).
    loaded: M::Word,
    /// See `ROWS-2`.
    pub(crate) any_row: RowHeader<S, M>,
    stripes: StableArray<[S::Gap; STRIPES_TOGETHER], M, { STRIPES / STRIPES_TOGETHER }>,
    /// How many of them are used; a power of two.
    stripe_count: u32,
    indexes: Replaceable<IndexSet<S, M>, M>,
    pub(crate) replicated: bool,
    pub(crate) tablespace: u32,
    /// The greatest GSN of a commit that deleted a row, or moved one in an index.
    gone: GoneGsn<M>,
}

/// Bytes of tables that are in memory, but neither in their store nor in the heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentBytes {
    /// Row headers.
    pub headers: u64,
    /// Hash indexes and ordered indexes.
    pub indexes: u64,
}

/// A table in which no transaction has found a key absent, and in which none can meanwhile.
pub(crate) struct Untouched<'t, S: Scheme<M>, M: Machine> {
    _stripes: EmptyArray<'t, M>,
    _gaps: Vec<EmptyList<'t, Box<[S::Gap]>, M>>,
}

/// A table that was dropped; its memory has not been freed.
pub(crate) struct Dropped<S: Scheme<M>, M: Machine> {
    pub(crate) context: Arc<TableContext<S, M>>,
    pub(crate) remains: Remains,
}

/// On a cache line of its own.
#[repr(align(64))]
struct GoneGsn<M: Machine>(M::Word);

/// The tables by number.
pub struct Tables<S: Scheme<M>, M: Machine>(SharedVec<TableContext<S, M>, M>);

impl<S: Scheme<M>, M: Machine> Default for Tables<S, M> {
    fn default() -> Self {
        Self(SharedVec::default())
    }
}

impl<S: Scheme<M>, M: Machine> Tables<S, M> {
    /// The context of a table that the transaction may use.
    #[inline]
    pub(crate) fn context(&self, table: TableId) -> &TableContext<S, M> {
        self.get(table).expect("the table exists")
    }

    /// The context of the table with this number, if there is one.
    #[inline]
    pub(crate) fn get(&self, table: TableId) -> Option<&TableContext<S, M>> {
        self.0.get(u64::from(table.0))
    }

    pub(crate) fn add(&self, context: Arc<TableContext<S, M>>) {
        self.0.put(u64::from(context.table_id.0), context);
    }

    /// Takes out the context of a table.
    ///
    /// # Safety
    /// As [`SharedVec::take`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn take(&self, table: TableId) -> Option<Arc<TableContext<S, M>>> {
        // SAFETY: the caller ensures it.
        unsafe { self.0.take(u64::from(table.0)) }
    }

    /// A table.
    pub fn table(&self, table: TableId) -> &Arc<Table<M>> {
        &self.context(table).table
    }

    /// A function that finds contexts; it is fast while the table is the same as in the last call.
    #[inline]
    pub(crate) fn in_turn<'t>(&'t self) -> impl FnMut(TableId) -> &'t TableContext<S, M> {
        let mut latest: Option<&TableContext<S, M>> = None;
        move |table| match latest {
            Some(context) if context.table_id == table => context,
            _ => latest.insert(self.context(table)),
        }
    }
}

impl<S: Scheme<M>, M: Machine> States<S::State, S::Gap> for Tables<S, M> {
    #[inline]
    fn row(&self, place: Place) -> &S::State {
        let Guarded::Row(row) = place.what() else { panic!("{place:?} is no row") };
        &self.context(place.table()).header(RowId(row)).state
    }

    #[inline]
    fn rows<'s>(&'s self) -> impl FnMut(Place) -> &'s S::State
    where
        S::State: 's,
    {
        let mut context = self.in_turn();
        move |place| {
            let Guarded::Row(row) = place.what() else { panic!("{place:?} is no row") };
            &context(place.table()).header(RowId(row)).state
        }
    }

    fn gap(&self, place: Place) -> &S::Gap {
        let Guarded::Gap(index, guard) = place.what() else { panic!("{place:?} is no gap") };
        self.context(place.table()).gap(index, guard)
    }
}

impl<S: Scheme<M>, M: Machine> TableContext<S, M> {
    pub(crate) fn new(
        table: Arc<Table<M>>,
        indexes: IndexSet<S, M>,
        options: &TableOptions,
        stripes: u32,
    ) -> Self {
        let stripe_count = stripes.clamp(1, STRIPES as u32).next_power_of_two();
        Self {
            table_id: table.id(),
            table,
            rows: PerRow::default(),
            loaded: M::Word::new(0),
            any_row: RowHeader::of_any(),
            stripes: StableArray::default(),
            stripe_count,
            indexes: Replaceable::new(Arc::new(indexes)),
            replicated: options.replicated,
            tablespace: options.tablespace.unwrap_or(0),
            gone: GoneGsn(M::Word::new(0)),
        }
    }

    /// Its ordered indexes.
    #[inline]
    pub(crate) fn indexes(&self) -> &IndexSet<S, M> {
        self.indexes.get()
    }

    /// Its columns of texts and binaries, with long values in a heap.
    #[inline]
    pub(crate) fn views(&self) -> &ColumnSet {
        self.indexes().views()
    }

    /// Its ordered indexes, also when a definition gives it others meanwhile.
    pub(crate) fn share_indexes(&self) -> Arc<IndexSet<S, M>> {
        self.indexes.share()
    }

    /// Gives the table other indexes; returns the former ones.
    ///
    /// # Safety
    /// As [`Replaceable::replace`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn replace_indexes(&self, set: IndexSet<S, M>) -> Arc<IndexSet<S, M>> {
        // SAFETY: the caller ensures it.
        unsafe { self.indexes.replace(Arc::new(set)) }
    }

    /// The header of a row. The caller is inside the gate, unless the header has been used before.
    #[inline]
    pub(crate) fn header(&self, row: RowId) -> &RowHeader<S, M> {
        self.rows.get(row).unwrap_or_else(|| self.first_header(row))
    }

    /// Whether the segment of a row has row headers (`ROWS-3`).
    pub(crate) fn has_headers(&self, row: RowId) -> bool {
        self.rows.get(row).is_some()
    }

    /// Whether a slot may hold a row, also one that a transaction is about to remove or to bring
    /// back.
    pub(crate) fn may_be_row(&self, row: RowId) -> bool {
        match self.rows.get(row) {
            Some(header) => header.is_named(),
            None => self.table.is_present(row),
        }
    }

    #[cold]
    fn first_header(&self, row: RowId) -> &RowHeader<S, M> {
        let loaded = self.loaded.load(Ordering::Acquire);
        if row.segment() < loaded {
            // ROWS-3
            let slots = self.table.slots_of(row.segment());
            let present = slots.filter(|row| self.table.is_present(*row));
            self.rows.make_segment(row.segment(), present, |row, header| {
                header.set_hash(self.table.hash_stored(self.table.slot(row)));
                S::adopt(&header.state);
            });
        } else {
            self.rows.make(row.segment(), loaded);
        }
        self.rows.get(row).expect("it was made")
    }

    /// Keeps transactions from finding a key absent for a while, also in ordered indexes; `None` if
    /// one has done so already. The caller is inside the gate and has sealed its epoch, since
    /// others wait inside meanwhile.
    pub(crate) fn keep_untouched(&self) -> Option<Untouched<'_, S, M>> {
        let _stripes = self.stripes.keep_empty()?;
        let gaps = self.indexes().iter().map(|(_, ordered)| ordered.gaps.keep_empty());
        Some(Untouched { _stripes, _gaps: gaps.collect::<Option<_>>()? })
    }

    /// Whether no transaction has found a key absent so far.
    pub(crate) fn is_untouched(&self) -> bool {
        self.stripes.keep_empty().is_some()
            && self.indexes().iter().all(|(_, ordered)| ordered.gaps.keep_empty().is_some())
    }

    /// Bytes of row headers and of indexes that are in memory and not in the heap.
    pub(crate) fn resident_bytes(&self) -> ResidentBytes {
        let indexes = self.share_indexes();
        let ordered = indexes.iter().map(|(_, ordered)| ordered.index.resident_bytes());
        ResidentBytes {
            headers: self.rows.resident_bytes(),
            indexes: self.table.index().resident_bytes() + ordered.sum::<u64>(),
        }
    }

    /// Announces that the table gets its first rows, `segments` segments of them, which have no
    /// headers yet (`ROWS-3`).
    pub(crate) fn note_loaded(&self, segments: u64) {
        self.loaded.store(segments, Ordering::Release);
    }

    /// Makes a slot no longer the row of its key; its index entry is going to be removed.
    pub(crate) fn unlink(&self, row: RowId) {
        self.table.invalidate_dense(row);
        self.header(row).clear_hash();
    }

    /// The GSN that a transaction has seen if it finds a key absent.
    #[inline]
    pub(crate) fn gone_gsn(&self) -> u64 {
        self.gone.0.load(Ordering::Acquire)
    }

    pub(crate) fn raise_gone(&self, gsn: u64) {
        self.gone.0.fetch_max(gsn, Ordering::AcqRel);
    }

    pub(crate) fn gap(&self, index: u16, guard: u32) -> &S::Gap {
        if index == 0 {
            return self.gap_of_stripe(guard);
        }
        let gaps = &self.indexes()[usize::from(index) - 1].gaps;
        let (list, at) = (u64::from(guard) / GUARDS, u64::from(guard) % GUARDS);
        let make = || (0..GUARDS).map(|_| S::Gap::default()).collect();
        &gaps.get_or_init(list, make)[at as usize]
    }

    /// The stripe of a hash.
    #[inline]
    pub(crate) fn stripe(&self, hash: u64) -> (Place, &S::Gap) {
        self.stripe_at((hash >> 20) as u32 & (self.stripe_count - 1))
    }

    /// How many stripes there are.
    pub(crate) fn stripe_count(&self) -> u32 {
        self.stripe_count
    }

    /// A stripe by its number.
    #[inline]
    pub(crate) fn stripe_at(&self, number: u32) -> (Place, &S::Gap) {
        (self.gap_place(0, number), self.gap_of_stripe(number))
    }

    #[inline]
    fn gap_of_stripe(&self, number: u32) -> &S::Gap {
        let (group, at) = (number as usize / STRIPES_TOGETHER, number as usize % STRIPES_TOGETHER);
        let make = || std::array::from_fn(|_| S::Gap::default());
        &self.stripes.get_or_init(group, make)[at]
    }

    /// The guard of a leaf of an ordered index.
    pub(crate) fn leaf(&self, index: usize, guard: GuardId) -> (Place, &S::Gap) {
        let number = index as u16 + 1;
        (self.gap_place(number, guard.0), self.gap(number, guard.0))
    }

    fn gap_place(&self, index: u16, guard: u32) -> Place {
        Place::gap(self.table_id, index, guard)
    }

    /// A row as a place.
    #[inline]
    pub(crate) fn place(&self, row: RowId) -> Place {
        Place::row(self.table_id, row.0)
    }

    /// The number of an index that transactions may use.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.indexes().shown().find(|(_, index)| index.name == name).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use atoll_machine::Native;
    use atoll_memory::Memory;
    use atoll_memory::store::{Store, StoreOptions};
    use atoll_memory::swing::{SwingConfig, SwingMalloc};
    use atoll_storage::{Column, DataType, Directory, Schema};

    use super::{STRIPES, STRIPES_TOGETHER, TableOptions};
    use crate::any::{AnyEngine, AnyTxn, Attached};
    use crate::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
    use crate::{Begin, Engine, EngineOptions, Pool, Scheme};

    struct Stripes;

    impl SchemeVisitor<Native> for Stripes {
        type Output = ();

        fn visit<S: Scheme<Native>>(self, scheme: S) {
            let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
            let options = StoreOptions {
                capacity_bytes: SwingMalloc::capacity_for(&swing),
                limit_bytes: 64 << 20,
                huge_pages: false,
            };
            let store = Arc::new(Store::create_memfd("stripes", &options).unwrap());
            let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
            let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
            let engine = Engine::new(scheme, Arc::new(directory), EngineOptions::default());
            let engine = Pool::new(Arc::new(engine));
            let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
            let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
            let made = || {
                let context = engine.engine().tables.context(table.id());
                let groups = 0..STRIPES / STRIPES_TOGETHER;
                groups.filter(|group| context.stripes.get(*group).is_some()).count()
            };
            assert_eq!(made(), 0, "{}", S::NAME);
            let mut worker = Attached::new(&engine).unwrap();
            worker.begin(Begin::default()).unwrap();
            worker.insert(&table, &[1i64.into()]).unwrap();
            assert_eq!(worker.read(&table, &[2i64.into()], &[0]).unwrap(), None);
            worker.commit().unwrap();
            assert!((1..=2).contains(&made()), "{}", S::NAME);
        }
    }

    #[test]
    fn an_empty_table_has_no_gap_states_of_its_hash_index() {
        for kind in SchemeKind::ALL {
            kind.visit(&SchemeOptions::default(), Stripes);
        }
    }
}
