//! `INSERT`, with and without `ON CONFLICT`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use atoll::{Table, Value};

use super::{Returned, Runner, check, compute, fit, key_of};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::prepared::change::{Cell, Conflict, Source};
use crate::prepared::not_short;
use crate::short::run::Stop;
use crate::short::scalar::Surroundings;
use crate::short::value::GroupKey;

/// Rows that are inserted together.
const INSERTED_TOGETHER: usize = 1024;

/// The value of a column that is written out.
pub(crate) fn value_of(
    cell: &Cell,
    table: &Table,
    column: usize,
    around: &Surroundings,
) -> Result<Value, Stop> {
    let schema = table.schema();
    let (scalar, from) = match cell {
        Cell::Value(value) => return Ok(value.clone()),
        Cell::Scalar { scalar, from } => (scalar, *from),
    };
    let value = scalar.eval(&[], around)?.into_owned();
    let is_same = from == schema.columns()[column].data_type;
    match is_same && value != Value::Null {
        true => Ok(value),
        false => Ok(Literal::of(value, from).into_column(schema, column)?),
    }
}

impl Runner<'_> {
    /// The rows of an `INSERT`, one after the other.
    pub(super) fn rows_of(&mut self, source: &Source, table: &Table) -> Result<Vec<Value>, Stop> {
        let schema = table.schema();
        let width = schema.columns().len();
        match source {
            Source::Written(list) => {
                let mut rows = Vec::with_capacity(list.len() * width);
                for row in list {
                    for (column, cell) in row.iter().enumerate() {
                        rows.push(value_of(cell, table, column, &self.around)?);
                    }
                }
                Ok(rows)
            }
            Source::Query(delivery) => {
                let (node, types) = match (self.how.delivered, &delivery.short) {
                    (Some(rows), _) => {
                        let mut rows = rows.concat();
                        self.fill(&mut rows, &delivery.defaults, table)?;
                        return Ok(rows);
                    }
                    (None, Ok(short)) => short,
                    (None, Err(reason)) => return Err(not_short(&reason.0).into()),
                };
                let delivered = self.node(node)?;
                let columns: Vec<_> =
                    delivery.columns.iter().copied().zip(types.iter().copied()).collect();
                let mut rows = Vec::with_capacity(delivered.count() * width);
                for (at, row) in delivered.iter().enumerate() {
                    let begin = rows.len();
                    rows.resize(begin + width, Value::Null);
                    let values = fit(table, &columns, row)
                        .map_err(|error| error.within(&format!("row {}", at + 1)))?;
                    for (column, value) in values {
                        rows[begin + column] = value;
                    }
                }
                self.fill(&mut rows, &delivery.defaults, table)?;
                Ok(rows)
            }
        }
    }

    /// Gives rows the defaults of columns that were not delivered.
    fn fill(
        &self,
        rows: &mut [Value],
        defaults: &[(usize, Cell)],
        table: &Table,
    ) -> Result<(), Stop> {
        for row in rows.chunks_mut(table.schema().columns().len()) {
            for (column, cell) in defaults {
                row[*column] = value_of(cell, table, *column, &self.around)?;
            }
        }
        Ok(())
    }

    /// Computes the generated columns of rows.
    pub(super) fn compute_all(&self, table: &Table, rows: &mut [Value]) -> Result<(), Stop> {
        if self.generated.is_none() {
            return Ok(());
        }
        let (around, interrupt) = (&self.around, self.how.interrupt);
        let mut rows = rows.chunks_mut(table.schema().columns().len());
        rows.try_for_each(|row| compute(self.generated, table, row, around, interrupt))
    }

    /// Checks the conditions for a new row.
    pub(super) fn check(&self, table: &Table, row: &[Value]) -> Result<(), Stop> {
        check(self.checks, table, row, &self.around, self.how.interrupt)
    }

    pub(super) fn insert(
        &mut self,
        table: &Table,
        rows: &[Value],
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let width = table.schema().columns().len();
        for some in rows.chunks(INSERTED_TOGETHER * width) {
            self.how.interrupt.check_row()?;
            if self.checks.is_some() {
                some.chunks(width).try_for_each(|row| self.check(table, row))?;
            }
            self.store(some, None)?;
            if self.how.journal.is_some() {
                // One that meets another row has to be told from those before it.
                some.chunks(width).try_for_each(|row| self.insert_row(table, row))?;
            } else {
                self.transaction.insert(table, some)?;
            }
        }
        if returned.wants_rows() {
            rows.chunks(width).try_for_each(|row| returned.add(row, self))?;
        }
        Ok((rows.len() / width) as u64)
    }

    /// Rows are about to be stored, or one that was `old`.
    pub(super) fn store(&mut self, rows: &[Value], old: Option<&[Value]>) -> Result<(), Stop> {
        match &mut self.keeper {
            Some(keeper) => keeper.store(self.transaction, self.at, rows, old),
            None => Ok(()),
        }
    }

    /// A row has gone, or has become `new`.
    pub(super) fn gone(&mut self, old: &[Value], new: Option<&[Value]>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.gone(self.at, old, new);
        }
    }

    /// Inserts a row and notes it.
    pub(super) fn insert_row(&mut self, table: &Table, row: &[Value]) -> Result<(), Stop> {
        if self.how.journal.is_some() {
            self.check_unique(table, row)?;
        }
        self.transaction.insert(table, row)?;
        if let Some(journal) = &mut self.how.journal {
            journal.inserted(table, key_of(table, row));
        }
        Ok(())
    }

    /// Checks that no row has the values of a row that is about to be stored in a unique index: the
    /// engine would roll the whole transaction back, and a savepoint with it.
    pub(super) fn check_unique(&mut self, table: &Table, row: &[Value]) -> Result<(), Stop> {
        self.check_unique_but(table, row, &key_of(table, row))
    }

    /// As above, but the row with this key does not count.
    pub(super) fn check_unique_but(
        &mut self,
        table: &Table,
        row: &[Value],
        key: &[Value],
    ) -> Result<(), Stop> {
        for spec in table.indexes().iter().filter(|spec| spec.unique) {
            let Some(other) = self.row_with(table, &spec.name, row)? else { continue };
            if other != key {
                let schema = table.schema();
                let columns: Vec<usize> =
                    spec.columns.iter().filter_map(|name| schema.position(name)).collect();
                let values: Vec<Value> = columns.iter().map(|at| row[*at].clone()).collect();
                return Err(SqlError::from(atoll::Error::DuplicateIndexKey {
                    table: table.name().to_owned(),
                    index: spec.name.clone(),
                    key: atoll::display_values(schema, &columns, &values),
                })
                .into());
            }
        }
        Ok(())
    }

    /// `INSERT … ON CONFLICT`.
    pub(super) fn insert_or(
        &mut self,
        table: &Table,
        rows: &[Value],
        conflict: &Conflict,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let schema = table.schema();
        let mut changed = 0;
        let mut touched: HashSet<GroupKey> = HashSet::new();
        for row in rows.chunks(schema.columns().len()) {
            self.how.interrupt.check_row()?;
            // As in PostgreSQL, a row that the table does not take is an error though another row
            // may be in its way.
            schema.check_row(row).map_err(SqlError::from)?;
            self.check(table, row)?;
            let there = match (&conflict.index, conflict.any) {
                (Some(index), _) => self.row_with(table, index, row)?,
                (None, false) => self.row_of_key(table, row)?,
                (None, true) => self.row_in_the_way(table, row)?,
            };
            let Some(key) = there else {
                self.store(row, None)?;
                self.insert_row(table, row)?;
                touched.insert(GroupKey(key_of(table, row)));
                changed += 1;
                returned.add(row, self)?;
                continue;
            };
            let Some(new) = &conflict.update else { continue };
            if touched.contains(&GroupKey(key.clone())) {
                let message = "ON CONFLICT DO UPDATE cannot change a row a second time: two \
                               proposed rows have the same key";
                let error = SqlError::new(SqlErrorKind::Constraint, message);
                return Err(error.with_cause(Cause::SecondRow).into());
            }
            if let Some(new) = self.update_row(table, &key, new, Some(row))? {
                touched.insert(GroupKey(key_of(table, &new)));
                changed += 1;
                returned.add(&new, self)?;
            }
        }
        Ok(changed)
    }

    /// The primary key of a row, if the table has a row with it.
    pub(super) fn row_of_key(
        &mut self,
        table: &Table,
        row: &[Value],
    ) -> Result<Option<Vec<Value>>, Stop> {
        let key = key_of(table, row);
        Ok(self.transaction.read_with(table, &key, |_| ())?.map(|()| key))
    }

    /// The primary key of the row that has the same values in a unique index.
    pub(super) fn row_with(
        &mut self,
        table: &Table,
        index: &str,
        row: &[Value],
    ) -> Result<Option<Vec<Value>>, Stop> {
        let schema = table.schema();
        let indexes = table.indexes();
        let Some(spec) = indexes.iter().find(|spec| spec.name == index) else { return Ok(None) };
        let columns = spec.columns.iter().filter_map(|name| schema.position(name));
        let values: Vec<Value> = columns.map(|column| row[column].clone()).collect();
        // NULL equals nothing, as a rule.
        if values.contains(&Value::Null) && !spec.nulls_not_distinct {
            return Ok(None);
        }
        let index = table.index(index).map_err(SqlError::from)?;
        let mut found = None;
        self.transaction.scan(
            &index,
            atoll::Range::prefix(&values),
            |row| schema.primary_key().iter().map(|at| row.value(*at)).collect::<Vec<_>>(),
            |key| {
                found = Some(key);
                ControlFlow::Break(())
            },
        )?;
        Ok(found)
    }

    /// The primary key of any row that the proposed one cannot stand beside.
    pub(super) fn row_in_the_way(
        &mut self,
        table: &Table,
        row: &[Value],
    ) -> Result<Option<Vec<Value>>, Stop> {
        let mut found = self.row_of_key(table, row)?;
        for spec in table.indexes().iter().filter(|spec| spec.unique) {
            if found.is_none() {
                found = self.row_with(table, &spec.name, row)?;
            }
        }
        Ok(found)
    }
}
