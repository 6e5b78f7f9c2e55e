//! Tables that keep their rows and get another definition: names, constraints, indexes.
//!
//! - `ALTERED-1`: the transaction uses the table by its new definition at once, all others when it
//!   has committed; handles of the old one are of an earlier version then.
//! - `ALTERED-2`: an index that the transaction has added is kept up to date, and goes with it if it
//!   rolls back.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_machine::fork::Here;
use atoll_storage::{Schema, StorageError};
use atoll_txn::{Define, Impatience, IndexSpec};

use super::Transaction;
use crate::core::Core;
use crate::engine::Engine;
use crate::error::{Error, Result, TxnResult};
use crate::table::{Definition, Table};

/// What a table is to become; its rows stay as they are.
#[derive(Debug, Clone)]
pub struct TableChange {
    /// Its name.
    pub name: String,
    /// Its schema: columns with the types of now in the order of now, of which the same are the
    /// primary key and the same can be NULL.
    pub schema: Schema,
    /// Its indexes, over the columns of the schema.
    pub indexes: Vec<IndexSpec>,
}

/// A table that the transaction alters.
pub(super) struct Altered {
    /// As others see it.
    pub(super) old: Table,
    /// As the transaction sees it.
    pub(super) new: Table,
    /// The numbers of the indexes that it has added.
    built: Vec<usize>,
}

impl Altered {
    pub(super) fn define(&self) -> Define<Native> {
        let Definition { name, schema, indexes, .. } = self.new.definition();
        let (name, schema, indexes) = (name.clone(), schema.clone(), indexes.clone());
        Define::Alter(Arc::clone(&self.new.core), atoll_txn::Altered { name, schema, indexes })
    }

    /// The transaction has rolled back.
    pub(super) fn take_back(&self, engine: &Engine) {
        if !self.built.is_empty() {
            engine.drop_indexes(&self.old.core, &self.built);
        }
    }
}

/// An index that is being made while other transactions use its table. One that is given up is
/// kept up to date until somebody alters the table.
pub struct IndexBuild {
    core: Here<Arc<Core>>,
    table: Table,
    number: usize,
    spec: IndexSpec,
    is_finished: bool,
}

impl IndexBuild {
    /// Adds the entries of all rows, beside other transactions. `gives_up` is asked now and then
    /// whether to give up.
    ///
    /// # Errors
    /// [`Error::Storage`] for a key that is too long; [`Error::Aborted`] if it gave up;
    /// [`Error::TooManyTransactions`].
    pub fn fill(&self, gives_up: Impatience<'_>) -> Result<()> {
        self.core.check_owner()?;
        let engine = Arc::clone(&self.core.engine);
        engine.fill_index(&self.table.core, self.number, gives_up).map_err(Error::of_op)
    }

    /// Checks that no two rows have one key, if that must be so. All transactions have ended that
    /// used the table while the index was filled.
    ///
    /// # Errors
    /// [`Error::DuplicateIndexKey`]; as [`IndexBuild::fill`].
    pub fn check(&self, gives_up: Impatience<'_>) -> Result<()> {
        self.core.check_owner()?;
        if !self.spec.unique {
            return Ok(());
        }
        let engine = Arc::clone(&self.core.engine);
        engine.check_unique(&self.table.core, self.number, gives_up).map_err(Error::of_op)
    }
}

impl Drop for IndexBuild {
    fn drop(&mut self) {
        if !self.is_finished {
            self.core.unfinished.add(&self.table, self.number);
        }
    }
}

impl Transaction {
    /// Gives a table another definition, with the rows as they are; returns its new handle. `None`
    /// if that takes a copy of the table: it has rows of another shape, or the transaction has
    /// created it or has changed rows, and the index would lack them.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`]; [`Error::Storage`] for a name that exists or is invalid;
    /// [`Error::DuplicateIndexKey`] if two rows have the same key in a new unique index.
    pub fn alter_table(&mut self, table: &Table, to: &TableChange) -> TxnResult<Option<Table>> {
        self.check_defines()?;
        self.lock_table(table)?;
        if self.alone.has_created(table)
            || table.core.check_alteration(&to.name, &to.schema).is_err()
        {
            return Ok(None);
        }
        self.reserve(table.name())?;
        if to.name != table.name() {
            self.reserve(&to.name)?;
            if self.catalog().table(&to.name).is_some() {
                return Err(Error::from(StorageError::TableExists(to.name.clone())).into());
            }
        }
        let kept = kept_indexes(table, to)?;
        let mut built = Vec::new();
        if kept.iter().any(Option::is_none) && self.change(|txn| txn.has_changes())? {
            return Ok(None);
        }
        let mut indexes = Vec::with_capacity(kept.len());
        for (spec, kept) in to.indexes.iter().zip(kept) {
            let number = match kept {
                Some(number) => number,
                None => match self.build_index(table, to, spec) {
                    Ok(Some(number)) => {
                        built.push(number);
                        number
                    }
                    other => {
                        self.core.engine.drop_indexes(&table.core, &built);
                        return other.map(|_| None);
                    }
                },
            };
            indexes.push((number, spec.clone()));
        }
        Ok(Some(self.note_altered(table, (&to.name, to.schema.clone()), indexes, built)))
    }

    /// Begins to make an index of a table that others go on using when this transaction has ended.
    /// [`Transaction::end_index`] ends it. `None` if an index of this table cannot be made so: the
    /// scheme has partitions, or the table has had too many indexes.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`]; [`Error::Storage`] for an index that cannot be.
    pub fn begin_index(
        &mut self,
        table: &Table,
        spec: &IndexSpec,
    ) -> TxnResult<Option<IndexBuild>> {
        self.check_defines()?;
        self.lock_table(table)?;
        spec.positions(table.schema()).map_err(Error::from)?;
        if self.core.scheme.is_partitioned() || self.alone.has_created(table) {
            return Ok(None);
        }
        let Ok(number) = self.core.engine.add_index(&table.core, spec) else { return Ok(None) };
        Ok(Some(IndexBuild {
            core: Here::new(Arc::clone(&self.core)),
            table: table.clone(),
            number,
            spec: spec.clone(),
            is_finished: false,
        }))
    }

    /// Makes an index that has been filled and checked one that all may use, when the transaction
    /// commits.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`]; [`Error::TableChanged`] if the table was dropped, or has an
    /// index of the name by now.
    pub fn end_index(&mut self, build: &mut IndexBuild) -> TxnResult<Table> {
        self.check_defines()?;
        let changed = || Error::TableChanged(build.table.name().to_owned());
        let catalog = self.catalog();
        let table = catalog.tables().find(|table| table.is(&build.table)).ok_or_else(changed)?;
        // It may get another definition before this one has it alone.
        self.lock_table(table)?;
        let Definition { name, schema, indexes, .. } = table.definition();
        let before = build.table.schema();
        let positions = build.spec.positions(before).map_err(Error::from)?;
        let columns = positions.iter().map(|at| schema.columns()[*at].name.clone()).collect();
        let spec = IndexSpec { columns, ..build.spec.clone() };
        if indexes.iter().any(|(_, other)| other.name == spec.name) {
            return Err(changed().into());
        }
        self.reserve(name)?;
        self.show(table, build.number)?;
        build.is_finished = true;
        let all = indexes.iter().cloned().chain([(build.number, spec)]).collect();
        Ok(self.note_altered(table, (name, schema.clone()), all, vec![build.number]))
    }

    /// Makes an index of a table that the transaction has alone; returns its number. `None` if the
    /// table has had too many.
    fn build_index(
        &mut self,
        table: &Table,
        to: &TableChange,
        spec: &IndexSpec,
    ) -> TxnResult<Option<usize>> {
        let engine = Arc::clone(&self.core.engine);
        // By the names that the columns have now.
        let positions = spec.positions(&to.schema).map_err(Error::from)?;
        let now = table.core.schema().columns();
        let columns = positions.iter().map(|at| now[*at].name.clone()).collect();
        let own = IndexSpec { columns, ..spec.clone() };
        let Ok(number) = engine.add_index(&table.core, &own) else { return Ok(None) };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let done = engine.build_index(&table.core, number, threads).map_err(Error::of_op);
        let done = done.map_err(Into::into).and_then(|()| self.show(table, number));
        if done.is_err() {
            engine.drop_indexes(&table.core, &[number]);
        }
        done.map(|()| Some(number))
    }

    fn show(&mut self, table: &Table, number: usize) -> TxnResult<()> {
        self.core.engine.show_index(&table.core, number).map_err(Error::of_op)?;
        self.change(|txn| txn.own_index(&table.core, number))
    }

    /// The transaction uses the table by another definition from now on.
    fn note_altered(
        &mut self,
        table: &Table,
        named: (&str, Schema),
        indexes: Vec<(usize, IndexSpec)>,
        built: Vec<usize>,
    ) -> Table {
        let new = table.altered(named, indexes);
        self.in_use.add(&new);
        match self.alone.altered.iter_mut().find(|one| one.old.is(table)) {
            Some(before) => {
                before.new = new.clone();
                before.built.extend(built);
            }
            None => {
                self.alone.altered.push(Altered { old: table.clone(), new: new.clone(), built })
            }
        }
        self.note();
        new
    }
}

/// Of each index that a table is to have, the number of the one that it has, perhaps under another
/// name; `None` if it has not.
fn kept_indexes(table: &Table, to: &TableChange) -> TxnResult<Vec<Option<usize>>> {
    let Definition { schema, indexes, .. } = table.definition();
    let mut left = Vec::with_capacity(indexes.len());
    for (number, spec) in indexes {
        let positions = spec.positions(schema).map_err(Error::from)?;
        left.push((*number, &spec.name, spec.unique, positions));
    }
    let mut kept = vec![None; to.indexes.len()];
    // Those of the same name first, so that of two with the same columns each keeps its own.
    for by_name in [true, false] {
        for (spec, kept) in to.indexes.iter().zip(&mut kept) {
            let positions = spec.positions(&to.schema).map_err(Error::from)?;
            let is_it = |(_, name, unique, columns): &(usize, &String, bool, Vec<usize>)| {
                (!by_name || **name == spec.name) && *unique == spec.unique && *columns == positions
            };
            if kept.is_none()
                && let Some(at) = left.iter().position(is_it)
            {
                *kept = Some(left.swap_remove(at).0);
            }
        }
    }
    Ok(kept)
}
