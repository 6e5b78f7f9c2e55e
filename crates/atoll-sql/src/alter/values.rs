//! Values of columns that get another type, and the order of an index.

use atoll::{DataType, Labels, Table};
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
    match (from, wanted) {
        (from, wanted) if from == wanted || is_text(from) && is_text(wanted) => value,
        // An enum that is altered: its label goes, under the name that it has then.
        (DataType::Enum(old), DataType::Enum(new)) => relabelled(value, old, new),
        _ => cast(value, wanted),
    }
}

/// Whether values of a column of one type are the same values in one of another.
pub(super) fn keeps_values(before: DataType, data_type: DataType) -> bool {
    match (before, data_type) {
        (DataType::Enum(before), DataType::Enum(labels)) => {
            let (old, new) = (before.labels(), labels.labels());
            // Labels behind the others, or another name for one.
            new.starts_with(old) || new.len() == old.len()
        }
        _ => before == data_type,
    }
}

/// The label of a value of an enum, as another form of the type has it.
fn relabelled(value: Expr, old: Labels, new: Labels) -> Expr {
    let (old, new) = (old.labels(), new.labels());
    let mut pairs = old.iter().zip(new).filter(|(old, new)| old != new);
    match pairs.next() {
        Some((before, after)) if old.len() == new.len() => {
            let (before, after) = (quote_sql(before), quote_sql(after));
            let case = format!("CASE NULL WHEN {before} THEN {after} ELSE CAST(NULL AS text) END");
            let mut case = expression(&case).expect("it is an expression");
            if let Expr::Case { operand, else_result, .. } = &mut case {
                *operand = Some(Box::new(value.clone()));
                if let Some(Expr::Cast { expr, .. }) = else_result.as_deref_mut() {
                    **expr = value;
                }
            }
            case
        }
        _ => value,
    }
}

/// A text as SQL quotes it.
fn quote_sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A value as one of a type. A text is not cut where it is too long: the column refuses it.
pub(crate) fn cast(value: Expr, wanted: DataType) -> Expr {
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
