//! Binding of the copy that gives a table another shape.

use atoll::{DataType, Table};
use sqlparser::ast::{Expr, Ident};

use super::target::{named, relation, select};
use super::{Change, Doing, Verb, given_rows};
use crate::declared::Declared;
use crate::error::SqlError;
use crate::live::TARGET;
use crate::prepared::query::Binder;
use crate::prepared::{Body, Prepared, Unbound};
use crate::short::columns::value_types;
use crate::short::compile::{Compiler, NotShort};
use crate::short::plan::Node;

/// All rows of a table, as another one has them.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) from: Table,
    /// The values of all columns, over a row that the caller gives.
    pub(crate) node: Node,
    /// Their types.
    pub(crate) types: Vec<DataType>,
    /// The rows are stored. Otherwise the other table is the same one with another definition, and
    /// the rows are only checked.
    pub(crate) stores: bool,
}

impl Binder<'_> {
    /// Binds the copy of all rows of a table into another one, which has a value for each column.
    /// The rows are checked for the foreign keys of these names.
    ///
    /// # Errors
    /// Names that do not exist, types that do not fit, subqueries.
    pub(crate) fn copy(
        &self,
        from: &Table,
        into: &Table,
        values: Vec<Expr>,
        unchecked: &[String],
    ) -> Result<Prepared, SqlError> {
        self.copied((from, into), values, (unchecked, true)).map_err(refused)
    }

    /// Binds the check of all rows of a table, which has another definition by now.
    ///
    /// # Errors
    /// As [`Binder::copy`].
    pub(crate) fn check_rows(
        &self,
        old: &Table,
        new: &Table,
        values: Vec<Expr>,
        unchecked: &[String],
    ) -> Result<Prepared, SqlError> {
        self.copied((old, new), values, (unchecked, false)).map_err(refused)
    }

    fn copied(
        &self,
        (from, into): (&Table, &Table),
        values: Vec<Expr>,
        (unchecked, stores): (&[String], bool),
    ) -> Result<Prepared, Unbound> {
        let mut compiler = Compiler::default();
        let alias = Ident::with_quote('"', self.scope.bare(from.name()));
        let relation = relation(TARGET, alias);
        let query = select(named(values).collect(), vec![relation], None);
        let plan = self.plan(query, Some(from))?;
        let node = given_rows(&plan, &mut compiler)?;
        if node.reads_a_table() {
            return Err(NotShort::new("a subquery").into());
        }
        let types = value_types(&plan)?;
        let declared = Declared::of(into.schema())?;
        let checks = self.checks(into, &declared, &mut compiler)?;
        let generated = self.generated(into, &declared, &mut compiler)?;
        let copied = Copied { from: from.clone(), node, types, stores };
        let (table, verb) = (into.clone(), Verb::Copy(copied));
        let foreign = self.foreign(into, Doing::Adopt(unchecked), &mut compiler)?;
        let change = Change { table, verb, checks, generated, foreign, returning: None };
        Ok(Prepared::new(Body::Change(Box::new(change)), compiler))
    }
}

fn refused(unbound: Unbound) -> SqlError {
    match unbound {
        Unbound::Error(error) => error,
        Unbound::NotShort(reason) => {
            SqlError::unsupported(format!("{} is not supported in ALTER TABLE", reason.0))
        }
    }
}
