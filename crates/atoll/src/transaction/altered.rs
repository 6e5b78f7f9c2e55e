//! Tables that keep their rows and get another definition: names, constraints, indexes, and columns
//! in which all rows have one value.
//!
//! - `ALTERED-1`: the transaction uses the table by its new definition at once, all others when it
//!   has committed; handles of the old one are of an earlier version then.
//! - `ALTERED-2`: an index that the transaction has added is kept up to date, and goes if the
//!   transaction rolls back.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_machine::fork::Here;
use atoll_storage::{Column, Schema, StorageError, Value};
use atoll_txn::{Define, Impatience, IndexSpec};

use super::{Transaction, TransactionOptions};
use crate::core::Core;
use crate::error::{Error, Result, TxnResult};
use crate::table::{Definition, Table};

/// What a table is to become; its rows stay as they are.
#[derive(Debug, Clone)]
pub struct TableChange {
    /// Its name.
    pub name: String,
    /// Its schema: columns with the types of now in the order of now, of which the same are the
    /// primary key and the same can be NULL; behind them those that it gets.
    pub schema: Schema,
    /// For each column that it gets, the value of all rows.
    pub added: Vec<Value>,
    /// Its indexes, over the columns of the schema.
    pub indexes: Vec<IndexSpec>,
}

/// A table that the transaction alters.
#[derive(Clone)]
pub(super) struct Altered {
    /// As others see it.
    pub(super) old: Table,
    /// As the transaction sees it.
    pub(super) new: Table,
}

impl Altered {
    pub(super) fn define(&self) -> Define<Native> {
        let Definition { name, schema, indexes, .. } = self.new.definition();
        let (name, schema, indexes) = (name.clone(), schema.clone(), indexes.clone());
        let columns_before = self.old.schema().columns().len();
        let altered = atoll_txn::Altered { name, schema, columns_before, indexes };
        Define::Alter(Arc::clone(&self.new.core), altered)
    }
}

/// An index that is being made while other transactions use its table. One that is given up is
/// kept up to date until a transaction alters the table.
pub struct IndexBuild {
    core: Here<Arc<Core>>,
    table: Table,
    number: usize,
    spec: IndexSpec,
    state: State,
}

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Transactions keep it up to date.
    Begun,
    /// It has entries of all rows.
    Filled,
    /// No two rows have a key that must be of one.
    Checked,
    /// A transaction has shown it.
    Ended,
}

impl IndexBuild {
    /// Adds the entries of all rows, beside other transactions, when the one has committed that has
    /// begun the index. `gives_up` is asked now and then whether to give up. No other definition of
    /// the table is made meanwhile.
    ///
    /// # Errors
    /// [`Error::TableChanged`] if one was made since; [`Error::Storage`] for a key that is too
    /// long; [`Error::Aborted`] if it gave up; [`Error::TooManyTransactions`].
    pub fn fill(&mut self, gives_up: Impatience<'_>) -> Result<()> {
        let user = self.user()?;
        let engine = Arc::clone(&self.core.engine);
        let filled = engine.fill_index(&self.table.core, self.number, gives_up);
        drop(user);
        filled.map_err(Error::of_op)?;
        self.state = State::Filled;
        Ok(())
    }

    /// Checks that no two rows have one key, if that must be so. First it lets those transactions
    /// end that have used the table while the index was filled.
    ///
    /// # Errors
    /// [`Error::DuplicateIndexKey`]; [`Error::IndexNotFilled`]; as [`IndexBuild::fill`].
    pub fn check(&mut self, gives_up: Impatience<'_>) -> Result<()> {
        if self.state == State::Begun {
            return Err(Error::IndexNotFilled(self.spec.name.clone()));
        }
        if self.spec.unique {
            let mut alone = self.transaction()?;
            alone.restart(&TransactionOptions::default())?;
            alone.lock_table_until(&self.table, gives_up)?;
            drop(alone);
            let user = self.user()?;
            let engine = Arc::clone(&self.core.engine);
            let checked = engine.check_unique(&self.table.core, self.number, gives_up);
            drop(user);
            checked.map_err(Error::of_op)?;
        }
        self.state = State::Checked;
        Ok(())
    }

    /// A transaction that uses the table, so that none alters it.
    fn user(&self) -> Result<Transaction> {
        let mut user = self.transaction()?;
        user.use_table(&self.table)?;
        Ok(user)
    }

    fn transaction(&self) -> Result<Transaction> {
        Ok(Transaction::new(Arc::clone(&self.core), self.core.txn()?))
    }
}

impl Drop for IndexBuild {
    fn drop(&mut self) {
        if self.state != State::Ended {
            self.core.engine.give_up_index(&self.table.core, self.number);
            self.core.unfinished.add(&self.table, self.number);
        }
    }
}

impl Transaction {
    /// Gives a table another definition, with the rows as they are; returns its new handle. `None`
    /// if that takes a copy of the table: it has rows of another shape; the transaction has created
    /// it; a new index would lack the rows that the transaction has changed, or what others have
    /// committed since it began and its scheme orders behind it; the table has had too many.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`]; [`Error::Storage`] for a name that exists or is invalid;
    /// [`Error::DuplicateIndexKey`] if two rows have the same key in a new unique index.
    pub fn alter_table(&mut self, table: &Table, to: &TableChange) -> TxnResult<Option<Table>> {
        self.check_defines()?;
        self.lock_table(table)?;
        if self.catalog().get(table.name()).is_none_or(|now| !now.is(table)) {
            return Err(Error::from(StorageError::UnknownTable(table.name().to_owned())).into());
        }
        if self.alone.has_created(table) || !fits(table, to) {
            return Ok(None);
        }
        self.reserve(table.name())?;
        if to.name != table.name() {
            self.reserve(&to.name)?;
            if self.catalog().get(&to.name).is_some() {
                return Err(Error::from(StorageError::TableExists(to.name.clone())).into());
            }
        }
        let Some(kept) = kept_indexes(table, to)? else { return Ok(None) };
        if kept.iter().any(Option::is_none) && !self.may_build()? {
            return Ok(None);
        }
        let mut indexes = Vec::with_capacity(kept.len());
        for (spec, kept) in to.indexes.iter().zip(kept) {
            let number = match kept {
                Some(number) => number,
                None => match self.build_index(table, to, spec)? {
                    Some(number) => number,
                    None => return Ok(None),
                },
            };
            indexes.push((number, spec.clone()));
        }
        if !to.added.is_empty() && !self.add_columns(table, to)? {
            return Ok(None);
        }
        Ok(Some(self.note_altered(table, (&to.name, to.schema.clone()), indexes)))
    }

    /// Adds the columns that a table gets. `false` if that takes a copy of the table.
    fn add_columns(&mut self, table: &Table, to: &TableChange) -> TxnResult<bool> {
        let before = table.core.schema().clone();
        let engine = Arc::clone(&self.core.engine);
        let done = engine.add_columns(&table.core, &to.schema, &to.added);
        let done = done.map_err(Error::of_op)?;
        if done {
            self.alone.widened.push((table.clone(), before));
        }
        Ok(done)
    }

    /// Begins to make an index of a table that others go on using when this transaction has ended.
    /// [`Transaction::end_index`] ends it. `None` if an index of this table cannot be made so: the
    /// scheme has partitions, this transaction has changed rows, or the table has had too many
    /// indexes.
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
        if self.core.scheme.is_partitioned()
            || self.alone.has_created(table)
            || self.change(|txn| txn.has_changes())?
        {
            return Ok(None);
        }
        let Ok(number) = self.core.engine.add_index(&table.core, spec) else { return Ok(None) };
        Ok(Some(IndexBuild {
            core: Here::new(Arc::clone(&self.core)),
            table: table.clone(),
            number,
            spec: spec.clone(),
            state: State::Begun,
        }))
    }

    /// Makes an index that has been filled and checked one that all may use, when the transaction
    /// commits.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`]; [`Error::TableChanged`] if the table was dropped, or has an
    /// index of the name by now; [`Error::IndexNotFilled`] if it was not checked, or another
    /// transaction has ended it and was rolled back.
    pub fn end_index(&mut self, build: &mut IndexBuild) -> TxnResult<Table> {
        self.check_defines()?;
        if build.state != State::Checked {
            return Err(Error::IndexNotFilled(build.spec.name.clone()).into());
        }
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
        build.state = State::Ended;
        self.show(table, build.number)?;
        let all = indexes.iter().cloned().chain([(build.number, spec)]).collect();
        Ok(self.note_altered(table, (name, schema.clone()), all))
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
        if let Err(error) = engine.build_index(&table.core, number, threads) {
            engine.drop_indexes(&table.core, &[number]);
            return Err(Error::of_op(error).into());
        }
        self.show(table, number)?;
        Ok(Some(number))
    }

    /// Whether an index that it makes has all that it needs of it.
    fn may_build(&mut self) -> TxnResult<bool> {
        Ok(!self.core.scheme.orders_by_timestamp() && !self.change(|txn| txn.has_changes())?)
    }

    /// Lets it use an index, and all others when it has committed.
    fn show(&mut self, table: &Table, number: usize) -> TxnResult<()> {
        self.alone.built.push((table.clone(), number));
        self.core.engine.show_index(&table.core, number).map_err(Error::of_op)?;
        self.change(|txn| txn.own_index(&table.core, number))
    }

    /// The transaction uses the table by another definition from now on.
    fn note_altered(
        &mut self,
        table: &Table,
        named: (&str, Schema),
        indexes: Vec<(usize, IndexSpec)>,
    ) -> Table {
        let new = table.altered(named, indexes);
        self.in_use.add(&new);
        self.alone.handles.push(new.clone());
        match self.alone.altered.iter_mut().find(|one| one.old.is(table)) {
            Some(before) => before.new = new.clone(),
            None => self.alone.altered.push(Altered { old: table.clone(), new: new.clone() }),
        }
        self.note();
        new
    }
}

/// Whether the rows of a table are those of another definition, apart from columns that are added.
fn fits(table: &Table, to: &TableChange) -> bool {
    let now = table.core.schema().columns().len();
    let Some(added) = to.schema.columns().get(now..) else { return false };
    let is_of = |(column, value): (&Column, &Value)| {
        value.fits(column.data_type) && (column.nullable || *value != Value::Null)
    };
    table.core.fits(&to.schema)
        && added.len() == to.added.len()
        && added.iter().zip(&to.added).all(is_of)
}

/// Of each index that a table is to have, the number of the one that it has, perhaps under another
/// name; `None` if it has not. `None` of all if one is of columns that are added.
#[allow(clippy::type_complexity)]
fn kept_indexes(table: &Table, to: &TableChange) -> TxnResult<Option<Vec<Option<usize>>>> {
    let columns = table.schema().columns().len();
    for spec in &to.indexes {
        let positions = spec.positions(&to.schema).map_err(Error::from)?;
        if positions.iter().any(|at| *at >= columns) {
            return Ok(None);
        }
    }
    let Definition { schema, indexes, .. } = table.definition();
    let mut left = Vec::with_capacity(indexes.len());
    for (number, spec) in indexes {
        let positions = spec.positions(schema).map_err(Error::from)?;
        let kind = (spec.unique, spec.nulls_not_distinct);
        left.push((*number, &spec.name, kind, positions));
    }
    let mut kept = vec![None; to.indexes.len()];
    // Those of the same name first, so that of two with the same columns each keeps its own.
    for by_name in [true, false] {
        for (spec, kept) in to.indexes.iter().zip(&mut kept) {
            let positions = spec.positions(&to.schema).map_err(Error::from)?;
            let is_it = |(_, name, kind, columns): &(usize, &String, (bool, bool), Vec<usize>)| {
                (!by_name || **name == spec.name)
                    && *kind == (spec.unique, spec.nulls_not_distinct)
                    && *columns == positions
            };
            if kept.is_none()
                && let Some(at) = left.iter().position(is_it)
            {
                *kept = Some(left.swap_remove(at).0);
            }
        }
    }
    Ok(Some(kept))
}
