//! Values of columns that get another type, and the order of an index.

use atoll::{DataType, Table};
use sqlparser::ast::{Expr, Ident, IndexColumn, OrderByOptions, Spanned};
use sqlparser::tokenizer::Span;

use crate::declared::expression;
use crate::error::SqlError;
use crate::types;

/// The value of a column of the old table, for one of this type.
pub(super) fn as_it_was(old: &Table, name: &str, wanted: DataType) -> Expr {
    let value = Expr::Identifier(Ident::with_quote('"', name));
    let columns = old.schema().columns();
    match columns.iter().find(|one| one.name == name) {
        Some(column) => assigned(value, column.data_type, wanted),
        None => value,
    }
}

/// A value of a type as a column of the wanted one gets it.
pub(super) fn assigned(value: Expr, from: DataType, wanted: DataType) -> Expr {
    let is_text = |one| types::assigned(one) == DataType::Text;
    if from == wanted || is_text(from) && is_text(wanted) { value } else { cast(value, wanted) }
}

/// A value as one of a type. A text is not cut where it is too long: the column refuses it.
pub(super) fn cast(value: Expr, wanted: DataType) -> Expr {
    let cast = expression(&format!("CAST(NULL AS {})", types::assigned(wanted)));
    let mut cast = cast.expect("types have names of SQL");
    if let Expr::Cast { expr, .. } = &mut cast {
        **expr = value;
    }
    cast
}

/// The columns of an index without their directions, which are those of the index or all reversed:
/// an index is read in both ways.
pub(super) fn one_direction(columns: &[IndexColumn]) -> Result<Vec<IndexColumn>, SqlError> {
    let is = |descending: bool| {
        move |one: &IndexColumn| {
            let OrderByOptions { asc, nulls_first } = one.column.options;
            asc.unwrap_or(true) != descending && nulls_first.unwrap_or(descending) == descending
        }
    };
    if !columns.iter().all(is(false)) && !columns.iter().all(is(true)) {
        let message = "the columns of an index have one direction, with NULLs where it puts them";
        let span = columns.first().map_or_else(Span::empty, |one| one.column.span());
        return Err(SqlError::unsupported(message).at(span));
    }
    let plain = columns.iter().cloned().map(|mut one| {
        one.column.options = OrderByOptions { asc: None, nulls_first: None };
        one
    });
    Ok(plain.collect())
}
