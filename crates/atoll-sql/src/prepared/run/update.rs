//! `UPDATE` and `DELETE`: rows are found first, and each is looked at again when the transaction
//! holds it.

use std::collections::HashSet;

use atoll::{DataType, Table, Value};

use super::foreign::held;
use super::{Returned, Runner, check, fit, given};
use crate::prepared::change::{Assignments, NewValues};
use crate::prepared::wanted::Wanted;
use crate::sequence::context;
use crate::short::plan::Node;
use crate::short::run::{Rows, Stop};
use crate::short::value::GroupKey;

/// Rows of which the cache lines are fetched at the same time.
const PREFETCHED: usize = 16;

impl Runner<'_> {
    pub(super) fn update(
        &mut self,
        table: &Table,
        assignments: &Assignments,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        let Assignments { find, again, columns } = assignments;
        let width = table.schema().primary_key().len();
        let found = self.found(find, again.is_some())?;
        if again.is_some() {
            self.release_reads()?;
        }
        let mut changed = 0;
        let mut seen: HashSet<GroupKey> = HashSet::new();
        for (at, row) in found.iter().enumerate() {
            if let Some(again) = again
                && at % PREFETCHED == 0
            {
                let keys = found.some(at..at + PREFETCHED);
                self.transaction.prefetch(table, keys, |_| again.wanted.columns());
            }
            let (key, values) = row.split_at(width);
            let (values, beside) = values.split_at(values.len().min(columns.len()));
            let new = match again {
                Some(again) => self.update_row(table, key, again, None)?,
                // A join may find a row several times; as in PostgreSQL, one of them counts.
                None if !seen.insert(GroupKey(key.to_vec())) => continue,
                None => {
                    let values = fit(table, columns, values)?;
                    self.set_row(table, key, values)?
                }
            };
            if let Some(new) = new {
                changed += 1;
                returned.add_with(&new, beside, self)?;
            }
        }
        Ok(changed)
    }

    /// The rows that a change has to visit. One with a given key is not looked up before, if
    /// nothing else is asked of it, or is asked again (`is_checked`). Under READ COMMITTED it is,
    /// so that the transaction holds no row for which the condition is false.
    pub(super) fn found(&mut self, find: &Node, is_checked: bool) -> Result<Rows, Stop> {
        if let Node::Access(access) = find
            && (is_checked && !self.how.read_committed || !access.has_condition())
            && let Some(key) = access.only_key(&self.around)?
        {
            let width = access.table.schema().primary_key().len();
            let mut rows = Rows::new(width);
            key.into_iter().for_each(|key| rows.push(key));
            return Ok(rows);
        }
        self.node(find)
    }

    /// Changes the row with a key to the values that a plan gives for it, and returns the new row,
    /// with NULL for the columns that nothing looks at; `None` if there is no such row, or the plan
    /// gives none.
    pub(super) fn update_row(
        &mut self,
        table: &Table,
        key: &[Value],
        NewValues { node, columns, wanted, asks }: &NewValues,
        proposed: Option<&[Value]>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let schema = table.schema();
        let moves = columns.iter().any(|(column, _)| schema.primary_key().contains(column));
        let (around, interrupt) = (&self.around, self.how.interrupt);
        let new_values = |whole: &[Value]| -> Result<Option<Vec<(usize, Value)>>, Stop> {
            let rows: [&[Value]; 2] = [whole, proposed.unwrap_or_default()];
            let made = given(node, &rows, around, interrupt)?;
            Ok(made.iter().next().map(|values| fit(table, columns, values)).transpose()?)
        };
        let checks = self.checks;
        let check = |row: &[Value]| check(checks, table, row, around, interrupt);
        let is_noted = self.how.journal.is_some();
        let is_kept = self.keeper.is_some() || self.generated.is_some() || *asks;
        if moves || is_kept || is_noted && in_unique_index(table, columns) {
            let old = match is_kept {
                true => held(self.transaction, table, key)?,
                false => self.transaction.read(table, key)?,
            };
            let Some(old) = old else { return Ok(None) };
            return match new_values(&old)? {
                Some(values) => self.set_row(table, key, values),
                None => Ok(None),
            };
        }
        let mut outcome: Result<Option<Vec<Value>>, Stop> = Ok(None);
        let mut old: Vec<(usize, Value)> = Vec::new();
        let found = self.transaction.update_with(table, key, |row| {
            let mut whole = wanted.read(row);
            let before = if is_noted { whole.clone() } else { Vec::new() };
            let new = context::held(|| new_values(&whole)).and_then(|values| {
                let Some(values) = values else { return Ok(None) };
                values.iter().for_each(|(column, value)| whole[*column].clone_from(value));
                check(&whole).map(|()| Some(values))
            });
            outcome = new.map(|values| {
                values.map(|values| {
                    values.iter().for_each(|(column, value)| row.set(*column, value));
                    old.clear();
                    if is_noted {
                        old.extend(values.iter().map(|(at, _)| (*at, before[*at].clone())));
                    }
                    whole
                })
            });
        })?;
        let new = outcome?.filter(|_| found.is_some());
        if new.is_some()
            && let Some(journal) = &mut self.how.journal
        {
            journal.updated(table, key, old);
        }
        Ok(new)
    }

    /// Under READ COMMITTED, lets go of what was read only to find rows: the transaction looks at
    /// each again when it holds it, so two of them do not wait for each other's reads.
    pub(super) fn release_reads(&mut self) -> Result<(), Stop> {
        if self.how.read_committed {
            self.transaction.release_reads()?;
        }
        Ok(())
    }

    /// Sets columns of the row with a key, and returns the new row.
    pub(super) fn set_row(
        &mut self,
        table: &Table,
        key: &[Value],
        mut values: Vec<(usize, Value)>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let schema = table.schema();
        let old = match self.keeper.is_some() || self.generated.is_some() {
            true => held(self.transaction, table, key)?,
            false => self.transaction.read(table, key)?,
        };
        let Some(old) = old else { return Ok(None) };
        let mut row = old.clone();
        for (column, value) in &values {
            row[*column].clone_from(value);
        }
        self.compute_all(table, &mut row)?;
        if let Some(generated) = self.generated {
            values.extend(generated.columns.iter().map(|(at, _)| (*at, row[*at].clone())));
        }
        let moves = schema.primary_key().iter().any(|at| row[*at] != old[*at]);
        self.check(table, &row)?;
        if self.how.journal.is_some() {
            self.check_unique_but(table, &row, key)?;
        }
        self.store(&row, Some(&old))?;
        if moves {
            self.delete_row(table, key, Some(old.clone()))?;
            self.insert_row(table, &row)?;
        } else {
            self.transaction.update(table, key, &values)?;
            if let Some(journal) = &mut self.how.journal {
                let old = values.iter().map(|(column, _)| (*column, old[*column].clone()));
                journal.updated(table, key, old.collect());
            }
        }
        self.gone(&old, Some(&row));
        Ok(Some(row))
    }

    pub(super) fn delete(
        &mut self,
        table: &Table,
        find: &Node,
        again: Option<&(Node, Wanted)>,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stop> {
        // Serializable, what was found stays as it was.
        let again = again.filter(|_| self.how.read_committed);
        let found = self.found(find, again.is_some())?;
        if again.is_some() {
            self.release_reads()?;
        }
        let mut deleted = 0;
        let width = table.schema().primary_key().len();
        for row in found.iter() {
            let (key, beside) = row.split_at(width);
            if let Some(again) = again
                && !self.still_holds(table, key, again)?
            {
                continue;
            }
            let wants_row = returned.wants_rows() || self.how.journal.is_some();
            let old = match wants_row {
                _ if self.keeper.is_some() => held(self.transaction, table, key)?,
                true => self.transaction.read(table, key)?,
                false => None,
            };
            if self.delete_row(table, key, old.clone())? {
                deleted += 1;
                if let Some(old) = old {
                    self.gone(&old, None);
                    returned.add_with(&old, beside, self)?;
                }
            }
        }
        Ok(deleted)
    }

    /// Holds the row with a key; returns whether a condition still holds for it.
    pub(super) fn still_holds(
        &mut self,
        table: &Table,
        key: &[Value],
        (again, wanted): &(Node, Wanted),
    ) -> Result<bool, Stop> {
        let (around, interrupt) = (&self.around, self.how.interrupt);
        let mut outcome = Ok(false);
        self.transaction.update_with(table, key, |row| {
            let whole = wanted.read(row);
            let found = context::held(|| given(again, &[&whole], around, interrupt));
            outcome = found.map(|rows| rows.count() > 0);
        })?;
        outcome
    }

    /// Deletes a row, and notes it with its values.
    pub(super) fn delete_row(
        &mut self,
        table: &Table,
        key: &[Value],
        old: Option<Vec<Value>>,
    ) -> Result<bool, Stop> {
        let deleted = self.transaction.delete(table, key)?;
        if deleted && let (Some(journal), Some(old)) = (&mut self.how.journal, old) {
            journal.deleted(table, old);
        }
        Ok(deleted)
    }
}

/// Whether one of these columns is in a unique index.
fn in_unique_index(table: &Table, columns: &[(usize, DataType)]) -> bool {
    let schema = table.schema();
    let is_set =
        |name: &String| columns.iter().any(|(column, _)| schema.position(name) == Some(*column));
    table.indexes().iter().any(|spec| spec.unique && spec.columns.iter().any(is_set))
}
