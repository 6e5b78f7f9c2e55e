//! The columns of a row that a change or a lock looks at.

use atoll::{RowEdit, Table, Value};

use crate::short::plan::Node;

/// The columns of a row that are needed, in order: reading a column may cost a cache miss.
#[derive(Debug)]
pub(crate) struct Wanted {
    columns: Vec<usize>,
    width: usize,
}

impl Wanted {
    /// Those that plans look at of a row of this table which the caller gives.
    pub(super) fn of<'n>(table: &Table, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut wanted = Self { columns: Vec::new(), width: table.schema().columns().len() };
        for node in nodes {
            node.accesses(&mut |access| {
                access.columns_of_given(0).iter().for_each(|at| wanted.add(*at));
            });
        }
        wanted
    }

    /// Adds a column.
    pub(super) fn add(&mut self, column: usize) {
        if let Err(at) = self.columns.binary_search(&column) {
            self.columns.insert(at, column);
        }
    }

    /// The columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The row, with NULL for the columns that are not needed.
    pub(crate) fn read(&self, row: &RowEdit<'_>) -> Vec<Value> {
        let mut values = vec![Value::Null; self.width];
        self.columns.iter().for_each(|at| values[*at] = row.value(*at));
        values
    }
}
