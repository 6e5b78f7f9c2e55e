//! How the target of a change is called in it, and the queries over it.

use atoll::Table;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, SelectItem, SetExpr, Spanned, Statement,
    TableAlias, TableFactor, TableWithJoins, Value as SqlValue,
};
use sqlparser::tokenizer::Span;

use super::assigned;
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
#[cfg(doc)]
use crate::live::KEYED;
use crate::prepared::parameters::{self, ParameterType};
use crate::prepared::query::Binder;
use crate::view::View;
use crate::{eval, names, parse, types};

/// How the target of a change is called in it.
pub(super) struct Target {
    pub(super) table: Table,
    pub(super) alias: Ident,
    pub(super) span: Span,
}

impl Binder<'_> {
    /// The one table of an `UPDATE` or `DELETE`.
    pub(super) fn target(&self, tables: &[TableWithJoins], verb: &str) -> Result<Target, SqlError> {
        let refused = || {
            let span = tables.first().map_or_else(Span::empty, Spanned::span);
            SqlError::unsupported(format!("{verb} changes one table, which it names")).at(span)
        };
        let [
            TableWithJoins { relation: TableFactor::Table { name, alias, args: None, .. }, joins },
        ] = tables
        else {
            return Err(refused());
        };
        if !joins.is_empty() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(refused());
        }
        let alias = match alias {
            Some(alias) => alias.name.clone(),
            None => Ident::with_quote('"', names::last(name)),
        };
        let (name, span) = names::table_name(name)?;
        let what = match verb {
            "UPDATE" => "update",
            "DELETE" => "delete from",
            _ => "lock rows in",
        };
        Ok(Target { table: self.changed(&name, what, span)?, alias, span })
    }

    /// The table of a change.
    ///
    /// # Errors
    /// There is none of the name; it is a view.
    pub(super) fn changed(&self, name: &str, what: &str, span: Span) -> Result<Table, SqlError> {
        if View::find(&self.scope.catalog, name)?.is_none() {
            return names::find_table(self.scope, name, span);
        }
        let message = format!("cannot {what} view \"{name}\"");
        Err(SqlError::new(SqlErrorKind::Unsupported, message)
            .with_state("55000")
            .with_detail("Views are not updatable.".to_owned())
            .with_hint(Some("Change the rows of the tables that the view reads.".to_owned()))
            .at(span))
    }
}

impl Target {
    /// The target as a relation of a query.
    pub(super) fn relation(&self, name: &str) -> TableWithJoins {
        relation(name, self.alias.clone())
    }

    /// The columns of its primary key, in a query over [`KEYED`].
    pub(super) fn key_columns(&self) -> Vec<Expr> {
        let schema = self.table.schema();
        let column = |at: &usize| {
            let name = Ident::with_quote('"', schema.columns()[*at].name.clone());
            Expr::CompoundIdentifier(vec![self.alias.clone(), name])
        };
        schema.primary_key().iter().map(column).collect()
    }
}

/// A table of this name as a relation of a query.
pub(super) fn relation(name: &str, alias: Ident) -> TableWithJoins {
    let name = ObjectName::from(vec![Ident::with_quote('"', name)]);
    let alias = TableAlias { explicit: true, name: alias, columns: Vec::new(), at: None };
    let relation = TableFactor::Table {
        name,
        alias: Some(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    TableWithJoins { relation, joins: Vec::new() }
}

pub(super) fn refuse(clause: &str, span: Span) -> Result<(), SqlError> {
    match clause {
        "" => Ok(()),
        clause => Err(SqlError::unsupported(format!("{clause} is not supported")).at(span)),
    }
}

/// Expressions as columns with names that do not meet those of the table.
pub(super) fn named(values: impl IntoIterator<Item = Expr>) -> impl Iterator<Item = SelectItem> {
    values.into_iter().enumerate().map(|(at, expr)| SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', format!("\u{1}value{at}")),
    })
}

/// `SELECT items FROM relations WHERE condition`.
pub(super) fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    condition: Option<Expr>,
) -> Statement {
    let mut statement = parse::one("SELECT 1").expect("it is a statement");
    if let Statement::Query(query) = &mut statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = items;
        select.from = from;
        select.selection = condition;
    }
    statement
}

/// The columns that are assigned to, with their new values. A parameter that is a value by itself
/// has the type of its column.
pub(super) fn assignments(
    table: &Table,
    declared: &Declared,
    assignments: &[Assignment],
) -> Result<(Vec<usize>, Vec<Expr>), SqlError> {
    let schema = table.schema();
    let (mut columns, mut values): (Vec<usize>, Vec<Expr>) = (Vec::new(), Vec::new());
    for (name, value) in pairs(assignments)? {
        let ident = names::column_name(name)?;
        let column = names::position(schema, table.name(), ident)?;
        if columns.contains(&column) {
            let message = format!("column \"{}\" is set twice", names::fold(ident));
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(ident.span));
        }
        let data_type = schema.columns()[column].data_type;
        if declared.generated.contains_key(&schema.columns()[column].name) {
            if is_default(value) {
                continue;
            }
            let name = names::fold(ident);
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlErrorKind::Constraint, message)
                .with_cause(Cause::GeneratedColumn)
                .with_detail(format!("Column \"{name}\" is a generated column."))
                .at(ident.span));
        }
        let name = &schema.columns()[column].name;
        if declared.identities.get(name) == Some(&true) && !is_default(value) {
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlErrorKind::Constraint, message)
                .with_cause(Cause::GeneratedColumn)
                .with_detail(always_numbered(name))
                .at(ident.span));
        }
        let given = match (parameters::parameter(value), value) {
            // A cast would cut a text that is too long.
            (Some(at), _) => {
                parameters::declared(at, ParameterType::One(types::assigned(data_type)))
            }
            (None, value) if is_default(value) => {
                let default = declared.default_of(&schema.columns()[column].name)?;
                Some(default.unwrap_or_else(|| Expr::value(SqlValue::Null)))
            }
            // What a constant is, its column decides: a text may be a date, a number exact. NULL is
            // an error only if a row would get it.
            (None, Expr::Value(constant))
                if !matches!(constant.value, SqlValue::Placeholder(_) | SqlValue::Null) =>
            {
                if let Some(literal) = eval::constant(value) {
                    let literal = literal?;
                    assigned::check_constant(schema, column, &literal, value)?;
                    let checked = literal.into_column(schema, column);
                    checked.map_err(|error| error.at(value.span()))?;
                }
                None
            }
            _ => None,
        };
        columns.push(column);
        values.push(given.unwrap_or_else(|| value.clone()));
    }
    Ok((columns, values))
}

/// Columns with their values; `(a, b) = (1, 2)` are two.
fn pairs(assignments: &[Assignment]) -> Result<Vec<(&ObjectName, &Expr)>, SqlError> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => pairs.push((name, value)),
            (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                pairs.extend(names.iter().zip(values));
            }
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
                let message = format!("{} columns are set to {} values", names.len(), values.len());
                let span = assignment.target.span();
                return Err(SqlError::new(SqlErrorKind::Syntax, message).at(span));
            }
            (AssignmentTarget::Tuple(_), _) => {
                let message = "SET (a, b) takes values in parentheses, and no subquery";
                return Err(SqlError::unsupported(message).at(assignment.target.span()));
            }
        }
    }
    Ok(pairs)
}

/// Whether a value is DEFAULT.
pub(super) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// What an error says of a column that is always numbered.
pub(super) fn always_numbered(column: &str) -> String {
    format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.")
}
