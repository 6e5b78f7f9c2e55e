//! `INSERT`, `UPDATE` and `DELETE`: from a syntax tree to a change, and from a change to the rows.
//!
//! Names, types, ranges and NULLs of a statement are checked before its transaction begins. Keys
//! and conflicts are left to the transaction.
//!
//! `DML-1`: a [`Change`] can be applied again from the start, so an aborted attempt costs nothing
//! but time.

use atoll::{Table, Transaction, Value};
use sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, Ident, Insert, ObjectName, SetExpr,
    Spanned, TableFactor, TableObject, TableWithJoins, Update, Values,
};
use sqlparser::tokenizer::Span;

use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::eval::{self, Row};
use crate::interrupt::Interrupt;
use crate::literal::Literal;
use crate::load::Source;
use crate::names;

/// A change to one table, checked and ready for a transaction.
pub(crate) enum Change {
    /// Rows to insert, complete and in the table's column order.
    Insert { table: Table, rows: Vec<Vec<Value>> },
    /// Columns of one row to set.
    Update { table: Table, key: Option<Vec<Value>>, assignments: Vec<(usize, Expr)> },
    /// A row to delete.
    Delete { table: Table, key: Option<Vec<Value>> },
    /// A file to load.
    Copy(Source),
}

impl Change {
    /// Carries the change out and returns the number of rows that it touched.
    pub(crate) fn apply(
        &self,
        transaction: &mut Transaction,
        interrupt: &Interrupt,
    ) -> Result<u64, ApplyError> {
        match self {
            Self::Insert { table, rows } => {
                for row in rows {
                    interrupt.check_row()?;
                    transaction.insert(table, row)?;
                }
                Ok(rows.len() as u64)
            }
            // A NULL key equals the key of no row.
            Self::Update { key: None, .. } | Self::Delete { key: None, .. } => Ok(0),
            Self::Update { table, key: Some(key), assignments } => {
                update(transaction, table, key, assignments)
            }
            Self::Delete { table, key: Some(key) } => {
                Ok(u64::from(transaction.delete(table, key)?))
            }
            Self::Copy(source) => source.load(transaction, interrupt, &mut |_| {}),
        }
    }
}

fn update(
    transaction: &mut Transaction,
    table: &Table,
    key: &[Value],
    assignments: &[(usize, Expr)],
) -> Result<u64, ApplyError> {
    let reads = assignments.iter().any(|(_, expr)| eval::names_a_column(expr));
    let old = if reads {
        match transaction.read(table, key)? {
            Some(row) => Some(row),
            None => return Ok(0),
        }
    } else {
        None
    };
    let row = Row { table: table.name(), schema: table.schema(), values: old.as_deref() };
    let changes = assignments
        .iter()
        .map(|(column, expr)| Ok((*column, assigned(row, *column, expr)?)))
        .collect::<Result<Vec<_>, SqlError>>()?;
    Ok(u64::from(transaction.update(table, key, &changes)?))
}

/// The value of an expression as the type of a column.
fn assigned(row: Row<'_>, column: usize, expr: &Expr) -> Result<Value, SqlError> {
    let literal = eval::evaluate(expr, Some(row))?;
    literal.into_column(row.schema, column).map_err(|error| error.at(expr.span()))
}

/// The table that an `INSERT` names.
pub(crate) fn insert_table(insert: &Insert) -> Result<(String, Span), SqlError> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT needs the name of a table"));
    };
    let (name, span) = names::table_name(name)?;
    let clause = if insert.on.is_some() {
        "ON CONFLICT"
    } else if insert.returning.is_some() {
        "RETURNING"
    } else if insert.or.is_some() || insert.replace_into || insert.ignore || insert.overwrite {
        "replacing rows"
    } else if insert.partitioned.is_some()
        || !insert.assignments.is_empty()
        || !insert.after_columns.is_empty()
    {
        "this form of INSERT"
    } else {
        return Ok((name, span));
    };
    Err(SqlError::unsupported(format!("{clause} is not supported in INSERT")).at(span))
}

/// The literal rows of an `INSERT`, or `None` if a query delivers them.
pub(crate) fn insert_values(insert: &Insert) -> Result<Option<&Values>, SqlError> {
    let Some(source) = &insert.source else {
        return Err(SqlError::unsupported("INSERT … DEFAULT VALUES is not supported")
            .with_hint(Some("columns have no defaults; write VALUES (…)".to_owned())));
    };
    let plain = source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none();
    Ok(match source.body.as_ref() {
        SetExpr::Values(values) if plain => Some(values),
        _ => None,
    })
}

/// The column list of an `INSERT`.
pub(crate) fn insert_columns(table: &Table, insert: &Insert) -> Result<Vec<usize>, SqlError> {
    names::target_columns(table, insert.columns.iter().map(names::column_name))
}

/// The change for `INSERT … VALUES`.
pub(crate) fn insert(table: Table, insert: &Insert, values: &Values) -> Result<Change, SqlError> {
    let targets = insert_columns(&table, insert)?;
    let schema = table.schema();
    let mut rows = Vec::with_capacity(values.rows.len());
    for expressions in &values.rows {
        let expressions: &Vec<Expr> = &expressions.content;
        if expressions.len() != targets.len() {
            let span = expressions.first().map_or_else(Span::empty, Spanned::span);
            return Err(SqlError::new(
                SqlErrorKind::Syntax,
                format!("{} values are given for {} columns", expressions.len(), targets.len()),
            )
            .at(span));
        }
        let mut row = vec![Value::Null; schema.columns().len()];
        for (expr, column) in expressions.iter().zip(&targets) {
            let literal = eval::evaluate(expr, None)?;
            row[*column] =
                literal.into_column(schema, *column).map_err(|error| error.at(expr.span()))?;
        }
        rows.push(row);
    }
    Ok(Change::Insert { table, rows })
}

/// The one table of an `UPDATE` or `DELETE`.
fn only_table(tables: &[TableWithJoins]) -> Result<(&ObjectName, Span), SqlError> {
    match tables {
        [TableWithJoins { relation: TableFactor::Table { name, alias: None, .. }, joins }]
            if joins.is_empty() =>
        {
            Ok((name, name.span()))
        }
        _ => Err(SqlError::unsupported("UPDATE and DELETE work on one table without an alias")),
    }
}

/// The table that an `UPDATE` names.
pub(crate) fn update_table(update: &Update) -> Result<(String, Span), SqlError> {
    let (name, span) = only_table(std::slice::from_ref(&update.table))?;
    if update.from.is_some() {
        return Err(SqlError::unsupported("UPDATE … FROM is not supported").at(span));
    }
    if update.returning.is_some() {
        return Err(SqlError::unsupported("RETURNING is not supported in UPDATE").at(span));
    }
    if update.or.is_some() || update.limit.is_some() || !update.order_by.is_empty() {
        return Err(SqlError::unsupported("this form of UPDATE is not supported").at(span));
    }
    names::table_name(name)
}

/// The table that a `DELETE` names.
pub(crate) fn delete_table(delete: &Delete) -> Result<(String, Span), SqlError> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let (name, span) = only_table(tables)?;
    if delete.using.is_some() || !delete.tables.is_empty() {
        return Err(SqlError::unsupported("DELETE … USING is not supported").at(span));
    }
    if delete.returning.is_some() {
        return Err(SqlError::unsupported("RETURNING is not supported in DELETE").at(span));
    }
    if delete.limit.is_some() || !delete.order_by.is_empty() {
        return Err(SqlError::unsupported("this form of DELETE is not supported").at(span));
    }
    names::table_name(name)
}

/// The change for an `UPDATE`.
pub(crate) fn update_change(table: Table, update: &Update) -> Result<Change, SqlError> {
    let schema = table.schema();
    let row = Row { table: table.name(), schema, values: None };
    let mut assignments: Vec<(usize, Expr)> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(SqlError::unsupported("SET (a, b) = … is not supported; set one by one"));
        };
        let ident = names::column_name(name)?;
        let column = names::position(schema, table.name(), ident)?;
        let fault = |kind, text: &str| {
            SqlError::new(kind, format!("column \"{}\" {text}", names::fold(ident))).at(ident.span)
        };
        if schema.is_in_key(column) {
            return Err(fault(SqlErrorKind::Unsupported, "is in the primary key and stays")
                .with_hint(Some("delete the row and insert it under its new key".to_owned())));
        }
        if assignments.iter().any(|(other, _)| *other == column) {
            return Err(fault(SqlErrorKind::Syntax, "is set twice"));
        }
        if eval::names_a_column(&assignment.value) {
            // Only whether the names are right can be known before the row is read.
            check_names(&assignment.value, row)?;
        } else {
            assigned(row, column, &assignment.value)?;
        }
        assignments.push((column, assignment.value.clone()));
    }
    let key = key(&table, update.selection.as_ref())?;
    Ok(Change::Update { table, key, assignments })
}

/// Checks the names of an expression; with NULL for every column nothing else can fail but what
/// fails for every row.
fn check_names(expr: &Expr, row: Row<'_>) -> Result<(), SqlError> {
    eval::evaluate(expr, Some(row)).map(drop)
}

/// The change for a `DELETE`.
pub(crate) fn delete_change(table: Table, delete: &Delete) -> Result<Change, SqlError> {
    let key = key(&table, delete.selection.as_ref())?;
    Ok(Change::Delete { table, key })
}

/// The primary key that a condition fixes; `None` if it compares with NULL, which no row equals.
fn key(table: &Table, condition: Option<&Expr>) -> Result<Option<Vec<Value>>, SqlError> {
    let schema = table.schema();
    let names: Vec<&str> =
        schema.primary_key().iter().map(|at| schema.columns()[*at].name.as_str()).collect();
    let refuse = |span: Span| {
        let shape: Vec<String> = names.iter().map(|name| format!("{name} = …")).collect();
        SqlError::unsupported(
            "UPDATE and DELETE support only conditions on the whole primary key for now",
        )
        .at(span)
        .with_hint(Some(format!("write WHERE {}", shape.join(" AND "))))
    };
    let condition = condition.ok_or_else(|| refuse(Span::empty()))?;
    let mut equalities = Vec::new();
    if !conjunction(condition, &mut equalities) {
        return Err(refuse(condition.span()));
    }
    let mut key: Vec<Option<Value>> = vec![None; schema.primary_key().len()];
    for (ident, expr) in equalities {
        let column = names::position(schema, table.name(), ident)?;
        let place = schema.primary_key().iter().position(|at| *at == column);
        let place = place.filter(|at| key[*at].is_none()).ok_or_else(|| refuse(ident.span))?;
        let literal = eval::evaluate(expr, None)?;
        if literal == Literal::Null {
            return Ok(None);
        }
        let value = literal.into_column(schema, column).map_err(|e| e.at(expr.span()))?;
        key[place] = Some(value);
    }
    let key: Option<Vec<Value>> = key.into_iter().collect();
    key.map(Some).ok_or_else(|| refuse(condition.span()))
}

/// Splits `a = 1 AND 2 = b`; `false` if the condition is anything else.
fn conjunction<'a>(condition: &'a Expr, found: &mut Vec<(&'a Ident, &'a Expr)>) -> bool {
    match condition {
        Expr::Nested(inner) => conjunction(inner, found),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunction(left, found) && conjunction(right, found)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            match (column_of(left), column_of(right)) {
                (Some(ident), None) => found.push((ident, right)),
                (None, Some(ident)) => found.push((ident, left)),
                _ => return false,
            }
            true
        }
        _ => false,
    }
}

fn column_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}
