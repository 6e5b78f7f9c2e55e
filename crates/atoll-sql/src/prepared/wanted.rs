//! The columns of a row that a change or a lock looks at.

use atoll::{RowEdit, Table, Value};

use crate::short::plan::Node;

/// Which columns of a row are needed: reading a column may cost a cache miss.
#[derive(Debug)]
pub(crate) struct Wanted(Vec<bool>);

impl Wanted {
    /// Those that plans look at of a row of this table which the caller gives.
    pub(super) fn of<'n>(table: &Table, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut wanted = vec![false; table.schema().columns().len()];
        for node in nodes {
            node.accesses(&mut |access| {
                access.columns_of_given(0).iter().for_each(|at| wanted[*at] = true);
            });
        }
        Self(wanted)
    }

    /// Adds a column.
    pub(super) fn add(&mut self, column: usize) {
        self.0[column] = true;
    }

    /// The row, with NULL for the columns that are not needed.
    pub(crate) fn read(&self, row: &RowEdit<'_>) -> Vec<Value> {
        let value = |(at, is_wanted): (usize, &bool)| match is_wanted {
            true => row.value(at),
            false => Value::Null,
        };
        self.0.iter().enumerate().map(value).collect()
    }
}
