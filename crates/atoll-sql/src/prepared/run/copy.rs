//! The copy of a table into one of another shape.

use std::ops::{Bound, ControlFlow};

use atoll::{Index, Range, Row, Table, Value};

use super::{Runner, check, compute, fit, given};
use crate::prepared::change::Copied;
use crate::short::run::Stop;

/// Rows that are read, and inserted, together.
const COPIED_TOGETHER: usize = 1024;

impl Runner<'_> {
    /// Inserts all rows of another table, or only checks them.
    pub(super) fn copy(&mut self, into: &Table, copied: &Copied) -> Result<u64, Stop> {
        let Copied { from, node, types, stores } = copied;
        // Generated columns are computed, whatever is copied.
        let is_computed = |at: &usize| {
            self.generated.is_some_and(|one| one.columns.iter().any(|(column, _)| column == at))
        };
        let all = types.iter().copied().enumerate();
        let columns: Vec<_> = all.filter(|(at, _)| !is_computed(at)).collect();
        let new_width = into.schema().columns().len();
        let width = from.schema().columns().len();
        let (order, mut count) = (order_of_key(from), 0);
        let mut last: Option<Vec<Value>> = None;
        let mut new = Vec::with_capacity(COPIED_TOGETHER * new_width);
        loop {
            let rows = self.some_rows(from, order.as_ref(), last.as_deref())?;
            for row in rows.chunks(width) {
                self.how.interrupt.check_row()?;
                for values in given(node, &[row], &self.around, self.how.interrupt)?.iter() {
                    let begin = new.len();
                    new.resize(begin + new_width, Value::Null);
                    let copied: Vec<Value> =
                        columns.iter().map(|(at, _)| values[*at].clone()).collect();
                    for (at, value) in fit(into, &columns, &copied)? {
                        new[begin + at] = value;
                    }
                    if !*stores && into.schema().is_keyless() {
                        // A row that stays where it is keeps its number, by which it is found.
                        new[begin + new_width - 1] = row[width - 1].clone();
                    }
                    let row = &mut new[begin..];
                    compute(self.generated, into, row, &self.around, self.how.interrupt)?;
                    check(self.checks, into, &new[begin..], &self.around, self.how.interrupt)?;
                }
                if new.len() >= COPIED_TOGETHER * new_width {
                    self.put(into, &mut new, *stores)?;
                    new.clear();
                }
            }
            count += rows.len() / width;
            let is_last = order.is_none() || rows.len() < COPIED_TOGETHER * width;
            if is_last {
                self.put(into, &mut new, *stores)?;
                return Ok(count as u64);
            }
            let row = &rows[rows.len() - width..];
            last = Some(from.schema().primary_key().iter().map(|at| row[*at].clone()).collect());
        }
    }

    fn put(&mut self, into: &Table, rows: &mut [Value], stores: bool) -> Result<(), Stop> {
        if stores {
            into.number_in(rows);
        }
        self.store(rows, None)?;
        if stores {
            self.transaction.insert(into, rows)?;
        }
        Ok(())
    }

    /// The rows behind a key, so many of them; all rows if there is no order.
    fn some_rows(
        &mut self,
        table: &Table,
        order: Option<&Index>,
        last: Option<&[Value]>,
    ) -> Result<Vec<Value>, Stop> {
        let columns = table.schema().columns().len();
        let mut rows = Vec::new();
        let look = |row: &Row<'_>| (0..columns).map(|at| row.value(at)).collect::<Vec<_>>();
        match order {
            None => self.transaction.scan_table(table, look, |row| {
                rows.extend(row);
                ControlFlow::Continue(())
            })?,
            Some(index) => {
                let from = last.map_or(Bound::Unbounded, Bound::Excluded);
                let range = Range { from, ..Range::ALL };
                self.transaction.scan(index, range, look, |row| {
                    rows.extend(row);
                    match rows.len() < COPIED_TOGETHER * columns {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                })?;
            }
        }
        Ok(rows)
    }
}

/// An index that has the order of the primary key.
fn order_of_key(table: &Table) -> Option<Index> {
    let schema = table.schema();
    let key = schema.primary_key().iter().map(|at| schema.columns()[*at].name.as_str());
    let index = table.indexes().into_iter().find(|index| key.clone().eq(&index.columns));
    index.and_then(|index| table.index(&index.name).ok())
}
