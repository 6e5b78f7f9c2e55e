//! A table as `ALTER TABLE` makes it, and what of it has another name then.

use atoll::{DataType, Table};
use sqlparser::ast::Expr;

use crate::comments::Comments;
use crate::ddl::NewTable;
use crate::declared::Declared;
use crate::sequence::owned::Changed;
use crate::table_shape::TableShape;
use crate::view::follow::Kept;

/// A table as it becomes.
pub(crate) struct Altered {
    pub(crate) old: Table,
    pub(crate) new: NewTable,
    /// The value of each column, over a row of the old table.
    pub(crate) values: Vec<Expr>,
    /// All values stay where they are, and only columns behind them are added.
    pub(crate) keeps_rows: bool,
    /// It gets a condition that its rows have not been checked for.
    pub(crate) adds_check: bool,
    /// The foreign keys that its rows have not been checked for, and the tables that they refer to.
    pub(crate) unchecked: Vec<String>,
    pub(crate) parents: Vec<Table>,
    /// The columns that it keeps.
    pub(crate) columns: Vec<Kept>,
    /// Views and foreign keys that depend on what is dropped are dropped too.
    pub(crate) cascades: bool,
    /// The indexes and constraints that get another name.
    pub(super) renamed: Vec<(String, String)>,
    /// The sequences of its columns that go, or get another owner.
    pub(crate) sequences: Vec<Changed>,
}

impl Altered {
    /// Gives the comments on indexes and constraints their new names, and drops those on what the
    /// table has no more (`COMMENT-1`).
    pub(crate) fn name_parts(&self, comments: &mut Comments) {
        let indexes = &self.new.options.indexes;
        let is_index = |name: &str| indexes.iter().any(|index| index.name == name);
        let declared = Declared::of(&self.new.schema).unwrap_or_default();
        let is_key = |name: &str| name.ends_with("_pkey");
        for (of, is_here) in [
            (&mut comments.indexes, &is_index as &dyn Fn(&str) -> bool),
            (&mut comments.constraints, &|name| {
                is_index(name) || is_key(name) || declared.has_constraint(name)
            }),
        ] {
            let named = std::mem::take(of).into_iter().map(|(name, comment)| {
                let renamed = self.renamed.iter().find(|(old, _)| *old == name);
                (renamed.map_or(name, |(_, new)| new.clone()), comment)
            });
            *of = named.filter(|(name, _)| is_here(name)).collect();
        }
    }
}

/// The columns of a table that it keeps in another shape.
pub(super) fn kept_columns(old: &Table, shape: &TableShape) -> Vec<Kept> {
    let kept = shape.columns.iter().filter_map(|one| {
        let origin = one.origin.as_ref()?;
        let mut before = old.schema().columns().iter();
        let before = before.find(|column| column.name == *origin)?;
        let is_enum = |data_type| matches!(data_type, DataType::Enum(_));
        // That of an enum which is altered stays the same type.
        let is_altered =
            one.using.is_none() && is_enum(before.data_type) && is_enum(one.column.data_type);
        let has_other_type = before.data_type != one.column.data_type && !is_altered;
        Some(Kept { old: origin.clone(), new: one.column.name.clone(), has_other_type })
    });
    kept.collect()
}
