//! Access to the rows of one table: by its primary key, by a range of an ordered index, all of
//! them, or rows that the caller gives.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};

use atoll::{DataType, Index, Range, Row, Table, Transaction, TxnResult, Value};

use super::list::List;
use super::run::{Rows, Run, Stop};
use super::scalar::{Scalar, Surroundings};
use super::value::GroupKey;
use crate::error::SqlError;
use crate::literal::Literal;

/// Columns of a row from which on fetching their cache lines at the same time is worth it.
const PREFETCHED_COLUMNS: usize = 3;

/// Keys among which another is looked for one by one.
const FEW_KEYS: usize = 16;

/// A value of a key that a row is looked up with.
#[derive(Debug, Clone)]
pub(crate) struct KeyPart {
    /// Over the row of the outer side (`PLAN-1`).
    pub(super) scalar: Scalar,
    pub(super) from: DataType,
    /// The type of the column.
    pub(super) to: DataType,
}

/// The values of a list, by its place among those of the surroundings, as keys.
#[derive(Debug, Clone)]
pub(crate) struct ListedKeys {
    pub(super) list: usize,
    pub(super) from: DataType,
    /// The type of the column.
    pub(super) to: DataType,
}

/// One end of a range.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(super) part: KeyPart,
    pub(super) is_included: bool,
}

/// How an access finds its rows.
#[derive(Clone)]
pub(crate) enum Path {
    /// The row with this primary key.
    Key(Vec<KeyPart>),
    /// The rows with these primary keys, of one column.
    Keys(Vec<KeyPart>),
    /// The rows with the primary keys, of one column, that a parameter lists.
    List(ListedKeys),
    /// The rows of an index with these first values, between two ends of the next column.
    Index {
        index: Index,
        name: String,
        prefix: Vec<KeyPart>,
        ends: Box<[Option<End>; 2]>,
        descending: bool,
    },
    /// All rows, in no order.
    Heap,
    /// The row that the caller gives at this place, with all columns of the table.
    Given(usize),
}

/// An access.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) table: Table,
    pub(crate) path: Path,
    /// The columns of the table that are read.
    pub(super) loaded: Vec<usize>,
    /// Over the loaded columns.
    pub(super) condition: Option<Scalar>,
    /// Places in the loaded columns of those that are returned.
    pub(super) output: Vec<usize>,
    /// Most rows that are wanted.
    pub(super) limit: Option<usize>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.describe())
    }
}

impl ListedKeys {
    /// The keys, each once.
    fn keys(&self, around: &Surroundings) -> Vec<Value> {
        let values = around.lists[self.list].as_deref().map_or(&[][..], List::values);
        if self.from == self.to {
            return values.to_vec();
        }
        let fit = |value: &Value| Literal::of(value.clone(), self.from).into_value(self.to).ok();
        values.iter().filter_map(fit).collect()
    }
}

impl KeyPart {
    /// The value as the column has it; `None` if no value of the column equals it.
    fn value(&self, outer: &[Value], around: &Surroundings) -> Result<Option<Value>, SqlError> {
        let value = self.scalar.eval(outer, around)?;
        if *value == Value::Null {
            return Ok(None);
        }
        if self.from == self.to {
            return Ok(Some(value.into_owned()));
        }
        Ok(Literal::of(value.into_owned(), self.from).into_value(self.to).ok())
    }
}

/// The values of a key; `None` if no row has it.
fn key(
    parts: &[KeyPart],
    outer: &[Value],
    around: &Surroundings,
) -> Result<Option<Vec<Value>>, SqlError> {
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        match part.value(outer, around)? {
            Some(value) => values.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}

impl Access {
    /// Whether the caller gives its row.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self.path, Path::Given(_))
    }

    /// The columns that it reads of the row that the caller gives at a place.
    pub(crate) fn columns_of_given(&self, place: usize) -> &[usize] {
        match self.path {
            Path::Given(at) if at == place => &self.loaded,
            _ => &[],
        }
    }

    /// Whether it visits the rows of its table from end to end.
    pub(crate) fn visits_all(&self) -> bool {
        match &self.path {
            Path::Heap => true,
            Path::Index { prefix, ends, .. } => {
                prefix.is_empty() && ends.iter().all(Option::is_none) && self.limit.is_none()
            }
            Path::Key(_) | Path::Keys(_) | Path::List(_) | Path::Given(_) => false,
        }
    }

    /// Whether it returns only some of the rows on its path.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// The primary key of its only row, if it looks one up; `Some(None)` if no row can have it.
    ///
    /// # Errors
    /// Those of the expressions of the key.
    pub(crate) fn only_key(
        &self,
        around: &Surroundings,
    ) -> Result<Option<Option<Vec<Value>>>, SqlError> {
        match &self.path {
            Path::Key(parts) => key(parts, &[], around).map(Some),
            _ => Ok(None),
        }
    }

    /// The values that the first column of the primary key has in all rows that it may visit;
    /// `None` if they are not known before the plan runs.
    pub(crate) fn first_key_values(&self, around: &Surroundings) -> Option<Vec<Value>> {
        let one = |part: &KeyPart| match part.is_dependent() {
            true => None,
            false => part.value(&[], around).ok(),
        };
        match &self.path {
            Path::Given(_) => Some(Vec::new()),
            Path::Key(parts) => Some(one(parts.first()?)?.into_iter().collect()),
            Path::Keys(parts) => {
                let values: Option<Vec<_>> = parts.iter().map(one).collect();
                Some(values?.into_iter().flatten().collect())
            }
            Path::List(listed) => Some(listed.keys(around)),
            Path::Index { name, prefix, .. } => {
                let schema = self.table.schema();
                let specs = self.table.indexes();
                let leading = specs.iter().find(|spec| spec.name == *name)?.columns.first()?;
                if schema.position(leading) != schema.primary_key().first().copied() {
                    return None;
                }
                Some(one(prefix.first()?)?.into_iter().collect())
            }
            Path::Heap => None,
        }
    }

    /// Fetches the cache lines of the rows that it will look up for these outer rows. Returns
    /// whether it looks rows up at all.
    ///
    /// # Errors
    /// Those of the expressions of the key.
    pub(super) fn prefetch<'o>(
        &self,
        outer: impl Iterator<Item = &'o [Value]>,
        run: &mut Run<'_>,
    ) -> Result<bool, SqlError> {
        let Path::Key(parts) = &self.path else { return Ok(false) };
        let mut keys = Vec::new();
        for row in outer {
            keys.extend(key(parts, row, run.around)?.into_iter().flatten());
        }
        if let Some(transaction) = run.transaction.as_deref_mut() {
            transaction.prefetch(&self.table, &keys, |_| &self.loaded);
        }
        Ok(true)
    }

    /// How it finds its rows, for `EXPLAIN`.
    pub(crate) fn describe(&self) -> String {
        let table = self.table.name();
        let columns = self.table.schema().columns();
        let how = match &self.path {
            Path::Key(_) => format!("Primary Key Lookup on {table}"),
            Path::Keys(parts) => format!("Primary Key Lookup of {} keys on {table}", parts.len()),
            Path::List(_) => format!("Primary Key Lookup of a list of keys on {table}"),
            Path::Heap => format!("Table Scan on {table}"),
            Path::Given(_) => format!("Row of {table}"),
            Path::Index { name, prefix, ends, descending, .. } => {
                let backward = if *descending { " Backward" } else { "" };
                let bound = match (prefix.len(), ends.iter().any(Option::is_some)) {
                    (0, false) => String::new(),
                    (count, false) => format!(", {count} columns fixed"),
                    (0, true) => ", a range".to_owned(),
                    (count, true) => format!(", {count} columns fixed and a range"),
                };
                format!("Index Scan{backward} using {name} on {table}{bound}")
            }
        };
        let names: Vec<&str> = self.loaded.iter().map(|at| columns[*at].name.as_str()).collect();
        let filter = if self.condition.is_some() { "; filtered" } else { "" };
        format!("{how} ({}){filter}", names.join(", "))
    }

    /// Makes its rows.
    ///
    /// # Errors
    /// An abort, an error of an expression, or more rows than it may look at.
    pub(super) fn run(&self, run: &mut Run<'_>, outer: &[Value]) -> Result<Rows, Stop> {
        let mut rows = Rows::new(self.output.len());
        match &self.path {
            Path::Key(parts) => {
                if let Some(key) = key(parts, outer, run.around)? {
                    self.look_up(&key, run, &mut rows)?;
                }
            }
            Path::Keys(parts) => {
                let mut keys: Vec<Value> = Vec::with_capacity(parts.len());
                let mut seen = HashSet::new();
                for part in parts {
                    let Some(value) = part.value(outer, run.around)? else { continue };
                    // A few are compared faster than they are hashed.
                    let is_new = match parts.len() {
                        ..FEW_KEYS => !keys.contains(&value),
                        _ => seen.insert(GroupKey(vec![value.clone()])),
                    };
                    if is_new {
                        keys.push(value);
                    }
                }
                self.look_up_each(&keys, run, &mut rows)?;
            }
            Path::List(listed) => {
                self.look_up_each(&listed.keys(run.around), run, &mut rows)?;
            }
            Path::Index { index, prefix, ends, descending, .. } => {
                self.scan(index, (prefix, ends, *descending), (run, outer), &mut rows)?;
            }
            Path::Heap => {
                let ran = self.visit(run, &mut rows, |transaction, look, take| {
                    transaction.scan_table(&self.table, look, take)
                });
                ran?;
            }
            Path::Given(at) => {
                let whole = run.given[*at];
                let mut row = self.loaded.iter().map(|at| whole[*at].clone()).collect();
                self.keep(&mut row, run.around, &mut rows)?;
            }
        }
        Ok(rows)
    }

    /// Copies the loaded columns of a row.
    fn load(&self, row: &Row<'_>, into: &mut Vec<Value>) {
        into.clear();
        into.extend(self.loaded.iter().map(|column| row.value(*column)));
    }

    fn look_up_each(&self, keys: &[Value], run: &mut Run<'_>, rows: &mut Rows) -> Result<(), Stop> {
        for key in keys {
            if self.limit.is_some_and(|limit| rows.count() >= limit) {
                break;
            }
            self.look_up(std::slice::from_ref(key), run, rows)?;
        }
        Ok(())
    }

    fn look_up(&self, key: &[Value], run: &mut Run<'_>, rows: &mut Rows) -> Result<(), Stop> {
        run.look()?;
        let Some(transaction) = run.transaction.as_deref_mut() else { return Ok(()) };
        if self.loaded.len() >= PREFETCHED_COLUMNS && !run.has_prefetched {
            transaction.prefetch(&self.table, key, |_| &self.loaded);
        }
        let mut loaded = Vec::with_capacity(self.loaded.len());
        let found = transaction.read_with(&self.table, key, |row| self.load(row, &mut loaded))?;
        if found.is_some() {
            self.keep(&mut loaded, run.around, rows)?;
        }
        Ok(())
    }

    /// Adds a row to the result if the condition holds for it. The room of `loaded` is used again.
    fn keep(
        &self,
        loaded: &mut Vec<Value>,
        around: &Surroundings,
        rows: &mut Rows,
    ) -> Result<(), SqlError> {
        if let Some(condition) = &self.condition
            && condition.truth(loaded, around)? != Some(true)
        {
            return Ok(());
        }
        if !self.output.iter().enumerate().all(|(place, at)| place == *at) {
            rows.push(self.output.iter().map(|at| loaded[*at].clone()));
        } else if rows.values.capacity() == 0 {
            loaded.truncate(self.output.len());
            rows.count += 1;
            rows.values = std::mem::take(loaded);
        } else {
            rows.push(loaded.drain(..).take(self.output.len()));
        }
        Ok(())
    }

    fn scan(
        &self,
        index: &Index,
        (prefix, ends, descending): (&[KeyPart], &[Option<End>; 2], bool),
        (run, outer): (&mut Run<'_>, &[Value]),
        rows: &mut Rows,
    ) -> Result<(), Stop> {
        let Some(fixed) = key(prefix, outer, run.around)? else { return Ok(()) };
        let mut bounds: [Bound<Vec<Value>>; 2] = [Bound::Unbounded, Bound::Unbounded];
        for (end, bound) in ends.iter().zip(&mut bounds) {
            *bound = match end {
                Some(End { part, is_included }) => {
                    let Some(value) = part.value(outer, run.around)? else { return Ok(()) };
                    let mut values = fixed.clone();
                    values.push(value);
                    if *is_included { Bound::Included(values) } else { Bound::Excluded(values) }
                }
                None if fixed.is_empty() => Bound::Unbounded,
                None => Bound::Included(fixed.clone()),
            };
        }
        let [from, to] = &bounds;
        let range = Range {
            from: from.as_ref().map(Vec::as_slice),
            to: to.as_ref().map(Vec::as_slice),
            descending,
        };
        self.visit(run, rows, |transaction, look, take| transaction.scan(index, range, look, take))
    }

    /// Adds the rows that a scan visits.
    fn visit(
        &self,
        run: &mut Run<'_>,
        rows: &mut Rows,
        scan: impl FnOnce(
            &mut Transaction,
            &mut dyn FnMut(&Row<'_>),
            &mut dyn FnMut(()) -> ControlFlow<()>,
        ) -> TxnResult<()>,
    ) -> Result<(), Stop> {
        let (around, interrupt) = (run.around, run.interrupt);
        let Some(transaction) = run.transaction.as_deref_mut() else { return Ok(()) };
        let (mut failed, mut left) = (None, run.rows_left);
        // The row that was looked at last.
        let loaded = RefCell::new(Vec::with_capacity(self.loaded.len()));
        let scanned =
            scan(transaction, &mut |row| self.load(row, &mut loaded.borrow_mut()), &mut |()| {
                let kept = interrupt.check_row().map_err(Stop::from).and_then(|()| {
                    left = left.checked_sub(1).ok_or(Stop::TooManyRows)?;
                    Ok(self.keep(&mut loaded.borrow_mut(), around, rows)?)
                });
                match kept {
                    Err(stop) => {
                        failed = Some(stop);
                        ControlFlow::Break(())
                    }
                    Ok(()) if self.limit.is_some_and(|limit| rows.count() >= limit) => {
                        ControlFlow::Break(())
                    }
                    Ok(()) => ControlFlow::Continue(()),
                }
            });
        run.rows_left = left;
        scanned?;
        failed.map_or(Ok(()), Err)
    }
}
