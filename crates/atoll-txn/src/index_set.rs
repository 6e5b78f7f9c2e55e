//! The ordered indexes of a table.
//!
//! - `INDEXES-1`: a set never changes; a definition gives the table another one, while no
//!   transaction uses the table and none of the threads of `drop_table` looks at its indexes
//!   ([`Engine::replace_indexes`](crate::Engine)).
//! - `INDEXES-2`: an index has a number as long as it exists, and no later index of the table gets
//!   it. So places, garbage and handles name an index by its number.
//! - `INDEXES-3`: transactions keep an index up to date from the moment when it is in the set. It
//!   has entries for older rows when it is shown, and only transactions that have begun since may
//!   rely on it: it knows nothing of what happened before.

use std::ops::Index;
use std::sync::Arc;

use atoll_machine::{Machine, Ordering, Word};
use atoll_storage::ordered::encode::{self, KeyColumn};
use atoll_storage::ordered::{KEY_BYTES_MAX, OrderedIndex};
use atoll_storage::stable::StableVec;
use atoll_storage::{Schema, SegmentBuffer, StorageError};

use crate::column_set::ColumnSet;
use crate::place::INDEXES_MAX;
use crate::row::Row;
use crate::scheme::Scheme;
use crate::table_options::{IndexSpec, TableOptions};

/// An ordered index of a table; cheap to clone.
pub struct Ordered<S: Scheme<M>, M: Machine> {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) key: Vec<KeyColumn>,
    pub(crate) unique: bool,
    /// A key with NULL is one that no other row may have, too.
    pub(crate) nulls_not_distinct: bool,
    /// All its columns are part of the primary key, so an update never moves a row in it.
    pub(crate) fixed: bool,
    /// The number of the definition that showed it, see [`Engine::shown`](crate::Engine); `None`
    /// while it is being filled (`INDEXES-3`).
    pub(crate) since: Option<u64>,
    /// Not 0 once it is given up: it is going to be dropped, and refuses no row until then.
    pub(crate) given_up: Arc<M::Word>,
    pub(crate) index: Arc<OrderedIndex<M>>,
    pub(crate) gaps: Arc<StableVec<Box<[S::Gap]>, M>>,
}

/// See the module.
pub(crate) struct IndexSet<S: Scheme<M>, M: Machine> {
    /// By number; `None` for those that were dropped.
    indexes: Vec<Option<Ordered<S, M>>>,
    /// Columns in which an update moves a row in an index.
    pub(crate) moving: ColumnSet,
    /// These, and the columns with long values; a change of other columns needs no further work.
    pub(crate) noted: ColumnSet,
    views: ColumnSet,
    /// Those that exist.
    count: usize,
}

impl<S: Scheme<M>, M: Machine> Clone for Ordered<S, M> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            columns: self.columns.clone(),
            key: self.key.clone(),
            index: Arc::clone(&self.index),
            gaps: Arc::clone(&self.gaps),
            given_up: Arc::clone(&self.given_up),
            ..*self
        }
    }
}

impl<S: Scheme<M>, M: Machine> Index<usize> for IndexSet<S, M> {
    type Output = Ordered<S, M>;

    #[inline]
    fn index(&self, number: usize) -> &Ordered<S, M> {
        self.indexes[number].as_ref().expect("a transaction uses indexes that exist")
    }
}

impl<S: Scheme<M>, M: Machine> IndexSet<S, M> {
    /// The indexes of a new table; `views` are its columns with long values.
    ///
    /// # Errors
    /// [`StorageError::Schema`].
    pub(crate) fn new(schema: &Schema, options: &TableOptions) -> Result<Self, StorageError> {
        check_indexes(schema, options.indexes.iter())?;
        let indexes = options.indexes.iter().map(|spec| Ordered::new(schema, spec));
        let indexes = indexes.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(indexes.into_iter().map(Some).collect(), views_of(schema)))
    }

    fn of(indexes: Vec<Option<Ordered<S, M>>>, views: ColumnSet) -> Self {
        let mut moving = ColumnSet::default();
        let moved = indexes.iter().flatten().filter(|index| !index.fixed);
        moved.flat_map(|index| &index.columns).for_each(|at| moving.add(*at));
        let count = indexes.iter().flatten().count();
        Self { indexes, moving, noted: moving.with(&views), views, count }
    }

    /// Columns of texts and binaries, with long values in a heap.
    #[inline]
    pub(crate) fn views(&self) -> &ColumnSet {
        &self.views
    }

    /// All of them with their numbers.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Ordered<S, M>)> {
        let all = self.indexes.iter().enumerate();
        all.filter_map(|(number, index)| Some((number, index.as_ref()?)))
    }

    /// Those that transactions may use, with their numbers.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (usize, &Ordered<S, M>)> {
        self.iter().filter(|(_, index)| index.since.is_some())
    }

    /// An index, if it exists.
    pub(crate) fn get(&self, number: usize) -> Option<&Ordered<S, M>> {
        self.indexes.get(number)?.as_ref()
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The set with one more, which is not shown; and its number.
    ///
    /// # Errors
    /// [`StorageError::Schema`]: there is no number left.
    pub(crate) fn with(&self, added: Ordered<S, M>) -> Result<(Self, usize), StorageError> {
        let number = self.indexes.len();
        check_count(number + 1)?;
        let hidden = Ordered { since: None, ..added };
        let indexes = self.indexes.iter().cloned().chain([Some(hidden)]);
        Ok((Self::of(indexes.collect(), self.views), number))
    }

    /// The set for a table that has got columns.
    pub(crate) fn widened(&self, schema: &Schema) -> Self {
        Self::of(self.indexes.clone(), views_of(schema))
    }

    /// The set with each index as `change` has it, which gets its number; without those for which
    /// that is `None`.
    pub(crate) fn changed(
        &self,
        change: impl Fn(usize, Ordered<S, M>) -> Option<Ordered<S, M>>,
    ) -> Self {
        let all = self.indexes.iter().cloned().enumerate();
        let indexes = all.map(|(number, index)| change(number, index?));
        Self::of(indexes.collect(), self.views)
    }
}

fn views_of(schema: &Schema) -> ColumnSet {
    let mut views = ColumnSet::default();
    let columns = schema.columns().iter().enumerate();
    columns.filter(|(_, one)| one.data_type.is_view()).for_each(|(at, _)| views.add(at));
    views
}

/// Checks that a table with this schema can have these indexes.
///
/// # Errors
/// [`StorageError::Schema`].
pub(crate) fn check_indexes<'s>(
    schema: &Schema,
    indexes: impl Iterator<Item = &'s IndexSpec>,
) -> Result<(), StorageError> {
    let mut names: Vec<&str> = Vec::new();
    for spec in indexes {
        spec.positions(schema)?;
        if names.contains(&&*spec.name) {
            let message = format!("there are two indexes with the name \"{}\"", spec.name);
            return Err(StorageError::Schema(message));
        }
        names.push(&spec.name);
    }
    check_count(names.len())
}

fn check_count(count: usize) -> Result<(), StorageError> {
    if count <= INDEXES_MAX {
        return Ok(());
    }
    Err(StorageError::Schema(format!("a table has {INDEXES_MAX} indexes at most")))
}

impl<S: Scheme<M>, M: Machine> Ordered<S, M> {
    pub(crate) fn new(schema: &Schema, spec: &IndexSpec) -> Result<Self, StorageError> {
        let columns = spec.positions(schema)?;
        let described = columns.iter().map(|at| &schema.columns()[*at]);
        let key = described
            .map(|column| KeyColumn { data_type: column.data_type, nullable: column.nullable });
        Ok(Self {
            name: spec.name.clone(),
            since: Some(0),
            given_up: Arc::new(M::Word::new(0)),
            key: key.collect(),
            unique: spec.unique,
            nulls_not_distinct: spec.nulls_not_distinct,
            fixed: columns.iter().all(|column| schema.is_in_key(*column)),
            columns,
            index: Arc::default(),
            gaps: Arc::default(),
        })
    }

    /// Lets the index refuse no row any more.
    pub(crate) fn give_up(&self) {
        self.given_up.store(1, Ordering::Release);
    }

    /// Whether it was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire) != 0
    }

    /// Rejects a key that is too long for the index to distinguish it from others.
    pub(crate) fn check_key_len(&self, key: &[u8]) -> Result<(), StorageError> {
        let (bytes, bytes_max) = (key.len(), KEY_BYTES_MAX);
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(StorageError::IndexKeyTooLong { index: self.name.clone(), bytes, bytes_max })
    }

    /// As [`Ordered::key_of`], for a row that is on its way into the table.
    pub(crate) fn key_of_buffered(
        &self,
        rows: &SegmentBuffer,
        row: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let mut unique = self.unique;
        for (column, key) in self.columns.iter().zip(&self.key) {
            rows.show(row, *column, |plain| {
                unique &= plain.is_some() || self.nulls_not_distinct;
                encode::encode_plain(*key, plain, out);
            });
        }
        unique
    }

    /// Encodes the key of a row in the index; returns whether no other row may have it.
    pub(crate) fn key_of(&self, row: &Row<'_, M>, out: &mut Vec<u8>) -> bool {
        out.clear();
        let mut unique = self.unique;
        for (column, key) in self.columns.iter().zip(&self.key) {
            if let Some(plain) = row.table.plain(*column).filter(|one| one.width() == 8) {
                // A number or a moment that cannot be NULL, as in most keys.
                let mut room = [0; 8];
                row.plain(plain, &mut room);
                encode::encode_plain(*key, Some(&room), out);
                continue;
            }
            row.show(*column, |plain| {
                unique &= plain.is_some() || self.nulls_not_distinct;
                encode::encode_plain(*key, plain, out);
            });
        }
        unique
    }
}
