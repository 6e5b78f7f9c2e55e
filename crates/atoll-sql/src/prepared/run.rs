//! Running bound statements on a transaction.

use std::collections::HashSet;

use atoll::{Table, Transaction, Value};

use super::change::{Assignments, Cell, Change, Conflict, Source, Verb};
use super::{Body, Prepared};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::literal::Literal;
use crate::short::plan::Node;
use crate::short::run::{Rows, Run, Stop};
use crate::short::scalar::Surroundings;
use crate::short::value::GroupKey;

/// Rows that are inserted together.
const INSERTED_TOGETHER: usize = 1024;

/// What a statement has done.
pub(crate) struct Ran {
    /// Rows changed; 0 for a query.
    pub(crate) changed: u64,
    /// What it returns, of a query or of RETURNING.
    pub(crate) rows: Option<Rows>,
}

/// A statement on its way through a transaction.
struct Runner<'r> {
    transaction: &'r mut Transaction,
    around: Surroundings,
    interrupt: &'r Interrupt,
    rows_left: u64,
}

/// Runs a statement. It may look at `rows_left` rows; `long` are the rows that an `INSERT` inserts,
/// where a query on a snapshot has delivered them.
///
/// # Errors
/// [`Stop`]; the transaction then has a part of its changes.
pub(crate) fn run(
    prepared: &Prepared,
    around: Surroundings,
    transaction: &mut Transaction,
    interrupt: &Interrupt,
    rows_left: u64,
    long: Option<&[Vec<Value>]>,
) -> Result<Ran, Stop> {
    let mut runner = Runner { transaction, around, interrupt, rows_left };
    for subquery in &prepared.subqueries {
        let rows = runner.node(subquery)?;
        if rows.count() > 1 {
            let message = "a subquery that stands for a value returns more than one row";
            return Err(SqlError::new(SqlErrorKind::Query, message).into());
        }
        let value = rows.iter().next().and_then(<[Value]>::first).cloned();
        runner.around.subqueries.push(value.unwrap_or(Value::Null));
    }
    match &prepared.body {
        Body::Query(query) => Ok(Ran { changed: 0, rows: Some(runner.node(&query.node)?) }),
        Body::Change(change) => runner.change(change, long),
        Body::NotShort(reason) => Err(not_short(reason).into()),
    }
}

/// The error for a statement in a transaction that only a query on a snapshot could carry out.
pub(crate) fn not_short(reason: &str) -> SqlError {
    SqlError::unsupported(format!(
        "inside BEGIN … COMMIT this statement is not supported: it needs {reason}"
    ))
    .with_hint(Some(
        "COMMIT or ROLLBACK first; a query outside a transaction runs on a snapshot, which has all \
         of SQL"
            .to_owned(),
    ))
}

/// Collects what `RETURNING` returns.
struct Returned<'c> {
    change: &'c Change,
    rows: Option<Rows>,
}

impl<'c> Returned<'c> {
    fn new(change: &'c Change) -> Self {
        let width = change.returning.as_ref().map(|returning| returning.node.width());
        Self { change, rows: width.map(Rows::new) }
    }

    fn wants_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Adds what is returned of a row that was changed.
    fn add(&mut self, row: &[Value], runner: &Runner<'_>) -> Result<(), Stop> {
        if let (Some(rows), Some(returning)) = (&mut self.rows, &self.change.returning) {
            for returned in given(&returning.node, &[row], &runner.around, runner.interrupt)?.iter()
            {
                rows.push(returned.iter().cloned());
            }
        }
        Ok(())
    }
}

/// Runs a plan over rows that are given, which reads no table.
fn given(
    node: &Node,
    given: &[&[Value]],
    around: &Surroundings,
    interrupt: &Interrupt,
) -> Result<Rows, Stop> {
    let run = &mut Run { transaction: None, around, given, interrupt, rows_left: u64::MAX };
    node.run(run, &[])
}

/// The values that are assigned to columns of a row, as the columns have them.
fn fit(
    table: &Table,
    columns: &[(usize, atoll::DataType)],
    values: &[Value],
) -> Result<Vec<(usize, Value)>, SqlError> {
    let fit = |((column, from), value): (&(usize, _), &Value)| {
        Ok((*column, Literal::of(value.clone(), *from).into_column(table.schema(), *column)?))
    };
    columns.iter().zip(values).map(fit).collect()
}

impl Runner<'_> {
    fn node(&mut self, node: &Node) -> Result<Rows, Stop> {
        let mut run = Run {
            transaction: Some(self.transaction),
            around: &self.around,
            given: &[],
            interrupt: self.interrupt,
            rows_left: self.rows_left,
        };
        let rows = node.run(&mut run, &[]);
        self.rows_left = run.rows_left;
        rows
    }

    fn change(&mut self, change: &Change, long: Option<&[Vec<Value>]>) -> Result<Ran, Stop> {
        let mut returned = Returned::new(change);
        let changed = match &change.verb {
            Verb::Insert { rows, on_conflict } => {
                let rows = self.rows_of(rows, &change.table, long)?;
                match on_conflict {
                    None => self.insert(&change.table, &rows, &mut returned)?,
                    Some(conflict) => {
                        self.insert_or(&change.table, &rows, conflict, &mut returned)?
                    }
                }
            }
            Verb::Update(assignments) => self.update(&change.table, assignments, &mut returned)?,
            Verb::Delete { find } => self.delete(&change.table, find, &mut returned)?,
        };
        Ok(Ran { changed, rows: returned.rows })
    }

    /// The rows of an `INSERT`, one after the other.
    fn rows_of(
        &mut self,
        source: &Source,
        table: &Table,
        long: Option<&[Vec<Value>]>,
    ) -> Result<Vec<Value>, Stop> {
        let schema = table.schema();
        let width = schema.columns().len();
        match source {
            Source::Written(list) => {
                let mut rows = Vec::with_capacity(list.len() * width);
                for row in list {
                    for (column, cell) in row.iter().enumerate() {
                        rows.push(match cell {
                            Cell::Value(value) => value.clone(),
                            Cell::Scalar { scalar, from } => {
                                let value = scalar.eval(&[], &self.around)?.into_owned();
                                let is_same = *from == schema.columns()[column].data_type;
                                match is_same && value != Value::Null {
                                    true => value,
                                    false => {
                                        Literal::of(value, *from).into_column(schema, column)?
                                    }
                                }
                            }
                        });
                    }
                }
                Ok(rows)
            }
            Source::Query(delivery) => {
                let (node, types) = match (long, &delivery.short) {
                    (Some(rows), _) => return Ok(rows.concat()),
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
                Ok(rows)
            }
        }
    }

    fn insert(
        &mut self,
        table: &Table,
        rows: &[Value],
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let width = table.schema().columns().len();
        for some in rows.chunks(INSERTED_TOGETHER * width) {
            self.interrupt.check_row()?;
            self.transaction.insert(table, some)?;
        }
        if returned.wants_rows() {
            rows.chunks(width).try_for_each(|row| returned.add(row, self))?;
        }
        Ok((rows.len() / width) as u64)
    }

    /// `INSERT … ON CONFLICT`.
    fn insert_or(
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
            self.interrupt.check_row()?;
            let there = match (&conflict.index, conflict.any) {
                (Some(index), _) => self.row_with(table, index, row)?,
                (None, false) => self.row_of_key(table, row)?,
                (None, true) => self.row_in_the_way(table, row)?,
            };
            let Some(key) = there else {
                self.transaction.insert(table, row)?;
                touched.insert(GroupKey(key_of(table, row)));
                changed += 1;
                returned.add(row, self)?;
                continue;
            };
            let Some((node, columns)) = &conflict.update else { continue };
            if touched.contains(&GroupKey(key.clone())) {
                let message = "ON CONFLICT DO UPDATE cannot change a row a second time: two \
                               proposed rows have the same key";
                return Err(SqlError::new(SqlErrorKind::Constraint, message).into());
            }
            if let Some(new) = self.update_row(table, &key, node, columns, Some(row))? {
                touched.insert(GroupKey(key_of(table, &new)));
                changed += 1;
                returned.add(&new, self)?;
            }
        }
        Ok(changed)
    }

    /// The primary key of a row, if the table has a row with it.
    fn row_of_key(&mut self, table: &Table, row: &[Value]) -> Result<Option<Vec<Value>>, Stop> {
        let key = key_of(table, row);
        Ok(self.transaction.read_with(table, &key, |_| ())?.map(|()| key))
    }

    /// The primary key of the row that has the same values in a unique index.
    fn row_with(
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
        // NULL equals nothing.
        if values.contains(&Value::Null) {
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
                std::ops::ControlFlow::Break(())
            },
        )?;
        Ok(found)
    }

    /// The primary key of any row that the proposed one cannot stand beside.
    fn row_in_the_way(&mut self, table: &Table, row: &[Value]) -> Result<Option<Vec<Value>>, Stop> {
        let mut found = self.row_of_key(table, row)?;
        for spec in table.indexes().iter().filter(|spec| spec.unique) {
            if found.is_none() {
                found = self.row_with(table, &spec.name, row)?;
            }
        }
        Ok(found)
    }

    fn update(
        &mut self,
        table: &Table,
        assignments: &Assignments,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let Assignments { find, again, columns } = assignments;
        let width = table.schema().primary_key().len();
        let found = self.found(find, again.is_some())?;
        let mut changed = 0;
        let mut seen: HashSet<GroupKey> = HashSet::new();
        for row in found.iter() {
            let (key, values) = row.split_at(width);
            let new = match again {
                Some(again) => self.update_row(table, key, again, columns, None)?,
                // A join may find a row several times; as in PostgreSQL, one of them counts.
                None if !seen.insert(GroupKey(key.to_vec())) => continue,
                None => {
                    let values = fit(table, columns, values)?;
                    self.set_row(table, key, values)?
                }
            };
            if let Some(new) = new {
                changed += 1;
                returned.add(&new, self)?;
            }
        }
        Ok(changed)
    }

    /// The rows that a change has to visit. One with a given key is not looked up before, if
    /// nothing else is asked of it, or is asked again (`is_checked`).
    fn found(&mut self, find: &Node, is_checked: bool) -> Result<Rows, Stop> {
        if let Node::Access(access) = find
            && (is_checked || !access.has_condition())
            && let Some(key) = access.only_key(&self.around)?
        {
            let width = access.table.schema().primary_key().len();
            let mut rows = Rows::new(width);
            key.into_iter().for_each(|key| rows.push(key));
            return Ok(rows);
        }
        self.node(find)
    }

    /// Changes the row with a key to the values that a plan gives for it, and returns the new row;
    /// `None` if there is no such row, or the plan gives none.
    fn update_row(
        &mut self,
        table: &Table,
        key: &[Value],
        again: &Node,
        columns: &[(usize, atoll::DataType)],
        proposed: Option<&[Value]>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let schema = table.schema();
        let moves = columns.iter().any(|(column, _)| schema.primary_key().contains(column));
        let (around, interrupt) = (&self.around, self.interrupt);
        let new_values = |whole: &[Value]| -> Result<Option<Vec<(usize, Value)>>, Stop> {
            let rows: [&[Value]; 2] = [whole, proposed.unwrap_or_default()];
            let made = given(again, &rows, around, interrupt)?;
            Ok(made.iter().next().map(|values| fit(table, columns, values)).transpose()?)
        };
        if moves {
            let Some(old) = self.transaction.read(table, key)? else { return Ok(None) };
            return match new_values(&old)? {
                Some(values) => self.set_row(table, key, values),
                None => Ok(None),
            };
        }
        let mut outcome: Result<Option<Vec<Value>>, Stop> = Ok(None);
        let found = self.transaction.update_with(table, key, |row| {
            let mut whole: Vec<Value> = (0..row.columns()).map(|at| row.value(at)).collect();
            outcome = new_values(&whole).map(|values| {
                values.map(|values| {
                    for (column, value) in values {
                        row.set(column, &value);
                        whole[column] = value;
                    }
                    whole
                })
            });
        })?;
        let new = outcome?;
        Ok(new.filter(|_| found.is_some()))
    }

    /// Sets columns of the row with a key, and returns the new row.
    fn set_row(
        &mut self,
        table: &Table,
        key: &[Value],
        values: Vec<(usize, Value)>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let schema = table.schema();
        let Some(mut row) = self.transaction.read(table, key)? else { return Ok(None) };
        let mut moves = false;
        for (column, value) in &values {
            moves |= schema.primary_key().contains(column) && row[*column] != *value;
            row[*column].clone_from(value);
        }
        if moves {
            self.transaction.delete(table, key)?;
            self.transaction.insert(table, &row)?;
        } else {
            self.transaction.update(table, key, &values)?;
        }
        Ok(Some(row))
    }

    fn delete(
        &mut self,
        table: &Table,
        find: &Node,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let found = self.found(find, false)?;
        let mut deleted = 0;
        for key in found.iter() {
            let old = match returned.wants_rows() {
                true => self.transaction.read(table, key)?,
                false => None,
            };
            if self.transaction.delete(table, key)? {
                deleted += 1;
                if let Some(old) = old {
                    returned.add(&old, self)?;
                }
            }
        }
        Ok(deleted)
    }
}

/// The primary key of a whole row.
fn key_of(table: &Table, row: &[Value]) -> Vec<Value> {
    table.schema().primary_key().iter().map(|at| row[*at].clone()).collect()
}
