//! Functions that make rows of JSON and of texts: `jsonb_array_elements`, `jsonb_each`,
//! `jsonb_to_recordset`, `regexp_matches` and the like.
//!
//! Each becomes a query over `unnest` of functions that make arrays of texts, with what such a text
//! stands for: `jsonb_each(x)` is `SELECT k AS key, v::jsonb AS value FROM unnest(keys(x),
//! values(x))`.

use sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Ident, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};

use super::functions::json_rows::{
    ELEMENTS, ELEMENTS_TEXT, FIELDS, FIELDS_TEXT, KEYS, OBJECT_KEYS,
};
use super::functions::{MATCHES, ORDINALS};
use super::spelled::call;
use crate::error::{SqlError, SqlErrorKind};
use crate::mark::MARK;
use crate::quoted::written;
use crate::{names, parse};

/// What a text of an array stands for.
#[derive(Clone, Copy, PartialEq)]
enum Stands {
    Itself,
    Json,
    Jsonb,
    Texts,
}

/// A function that makes rows.
pub(super) struct RowsOf {
    /// For each column: its name, the function that makes the array of its values, and what they
    /// stand for.
    columns: &'static [(&'static str, &'static str, Stands)],
}

/// The function of a name.
pub(super) fn of(name: &str) -> Option<RowsOf> {
    use Stands::{Itself, Json, Jsonb, Texts};
    let columns: &'static [_] = match name {
        "json_array_elements" => &[("value", ELEMENTS, Json)],
        "jsonb_array_elements" => &[("value", ELEMENTS, Jsonb)],
        "json_array_elements_text" | "jsonb_array_elements_text" => {
            &[("value", ELEMENTS_TEXT, Itself)]
        }
        "json_object_keys" | "jsonb_object_keys" => &[("", OBJECT_KEYS, Itself)],
        "json_each" => &[("key", KEYS, Itself), ("value", FIELDS, Json)],
        "jsonb_each" => &[("key", KEYS, Itself), ("value", FIELDS, Jsonb)],
        "json_each_text" | "jsonb_each_text" => {
            &[("key", KEYS, Itself), ("value", FIELDS_TEXT, Itself)]
        }
        "regexp_split_to_table" => &[("", "regexp_split_to_array", Itself)],
        "string_to_table" => &[("", "string_to_array", Itself)],
        "regexp_matches" => &[("", MATCHES, Texts)],
        _ => return None,
    };
    Some(RowsOf { columns })
}

/// Whether a function makes rows of the columns that are defined behind it, and how many.
pub(super) fn defines_columns(name: &str) -> Option<Rows> {
    match name {
        "json_to_record" | "jsonb_to_record" => Some(Rows::One),
        "json_to_recordset" | "jsonb_to_recordset" => Some(Rows::Each),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rows {
    One,
    Each,
}

/// A call of a function, whatever its name is.
pub(super) fn call_named(name: &str, arguments: Vec<Expr>) -> Expr {
    let mut made = written(name, []);
    if let (Expr::Function(made), Expr::Function(other)) = (&mut made, call(name, arguments)) {
        made.args = other.args;
    }
    made
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

impl Stands {
    fn of(self, text: Expr) -> Expr {
        match self {
            Self::Itself => text,
            Self::Json => call_named("json_as", vec![text]),
            Self::Jsonb => call_named("jsonb_as", vec![text]),
            Self::Texts => {
                let element = Box::new(DataType::Text);
                cast(text, DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)))
            }
        }
    }
}

impl RowsOf {
    /// A call among selected columns; `None` if it has several columns.
    pub(super) fn selected(&self, name: &str, mut arguments: Vec<Expr>) -> Option<Expr> {
        let [(_, array, stands)] = self.columns else { return None };
        settle(name, &mut arguments);
        Some(stands.of(call_named("unnest", vec![call_named(array, arguments)])))
    }

    /// A call in FROM.
    pub(super) fn table(
        &self,
        name: &str,
        arguments: &[Expr],
        alias: Option<TableAlias>,
        (with_ordinality, is_lateral): (bool, bool),
        is_mentioned: &dyn Fn(&str) -> bool,
    ) -> TableFactor {
        let alias = alias.unwrap_or_else(|| named(name));
        let own = names::fold(&alias.name);
        let mut arguments = arguments.to_vec();
        settle(name, &mut arguments);
        let arrays = self.columns.iter().map(|(_, array, _)| call_named(array, arguments.clone()));
        let mut arrays: Vec<Expr> = arrays.collect();
        let mut items = Vec::new();
        for (at, (column, _, stands)) in self.columns.iter().enumerate() {
            let column = match *column {
                "" => own.clone(),
                // The row of one column is its value.
                _ if self.columns.len() == 1 && is_mentioned(&own) => own.clone(),
                column => column.to_owned(),
            };
            items.push(item(stands.of(column_at(at)), column));
        }
        if with_ordinality {
            let ordinals = call_named(ORDINALS, arrays[..1].to_vec());
            let element = Box::new(DataType::BigInt(None));
            let list = DataType::Array(ArrayElemTypeDef::SquareBracket(element, None));
            items.push(item(column_at(arrays.len()), "ordinality".to_owned()));
            arrays.push(cast(ordinals, list));
        }
        derived(items, Some(unnest(arrays)), alias, is_lateral)
    }
}

/// Gives a text or a parameter the type that the function of the name takes.
fn settle(name: &str, arguments: &mut [Expr]) {
    let data_type = match name.split('_').next() {
        Some("jsonb") => DataType::JSONB,
        Some("json") => DataType::JSON,
        _ => return,
    };
    for argument in arguments {
        if let Expr::Value(value) = argument
            && matches!(value.value, Value::SingleQuotedString(_) | Value::Placeholder(_))
        {
            *argument = cast(argument.clone(), data_type.clone());
        }
    }
}

/// A call of a function in FROM that is followed by definitions of columns.
///
/// # Errors
/// There are none; an array among their types.
pub(super) fn record(
    name: &str,
    rows: Rows,
    mut argument: Expr,
    alias: Option<TableAlias>,
    is_lateral: bool,
) -> Result<TableFactor, SqlError> {
    settle(name, std::slice::from_mut(&mut argument));
    let missing = || {
        let message =
            "a column definition list is required for functions returning \"record\"".to_owned();
        SqlError::new(SqlErrorKind::Syntax, message)
    };
    let mut alias = alias.ok_or_else(missing)?;
    let as_json = if name.starts_with("jsonb") { Stands::Jsonb } else { Stands::Json };
    let object = match rows {
        Rows::One => argument.clone(),
        Rows::Each => as_json.of(column_at(0)),
    };
    let mut items = Vec::new();
    for column in std::mem::take(&mut alias.columns) {
        let data_type = column.data_type.ok_or_else(missing)?;
        let field = names::fold(&column.name);
        let key = Expr::value(Value::SingleQuotedString(field.clone()));
        let value = match data_type {
            DataType::JSON | DataType::JSONB => call_named("json_get", vec![object.clone(), key]),
            DataType::Array(_) => {
                let message = "arrays among the columns of a record of JSON are not supported";
                return Err(SqlError::unsupported(message).at(column.name.span));
            }
            _ => call_named("json_get_text", vec![object.clone(), key]),
        };
        items.push(item(cast(value, data_type), field));
    }
    if items.is_empty() {
        return Err(missing());
    }
    let from = (rows == Rows::Each).then(|| unnest(vec![call_named(ELEMENTS, vec![argument])]));
    Ok(derived(items, from, alias, is_lateral))
}

/// A scalar function in FROM: a row of its value.
pub(super) fn single(
    name: &str,
    call: Expr,
    alias: Option<TableAlias>,
    (with_ordinality, is_lateral): (bool, bool),
) -> TableFactor {
    let alias = alias.unwrap_or_else(|| named(name));
    let mut items = vec![item(call, names::fold(&alias.name))];
    if with_ordinality {
        let one = Expr::value(Value::Number("1".to_owned(), false));
        items.push(item(cast(one, DataType::BigInt(None)), "ordinality".to_owned()));
    }
    derived(items, None, alias, is_lateral)
}

fn named(name: &str) -> TableAlias {
    let (name, columns) = (Ident::with_quote('"', name), Vec::new());
    TableAlias { explicit: true, name, columns, at: None }
}

fn column_name(at: usize) -> Ident {
    Ident::with_quote('"', format!("{MARK}row{at}"))
}

fn column_at(at: usize) -> Expr {
    Expr::Identifier(column_name(at))
}

fn item(expr: Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

fn unnest(array_exprs: Vec<Expr>) -> TableFactor {
    let column = |at| TableAliasColumnDef { name: column_name(at), data_type: None };
    let columns = (0..array_exprs.len()).map(column).collect();
    let name = Ident::with_quote('"', format!("{MARK}rows"));
    TableFactor::UNNEST {
        alias: Some(TableAlias { explicit: true, name, columns, at: None }),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

fn derived(
    items: Vec<SelectItem>,
    from: Option<TableFactor>,
    alias: TableAlias,
    lateral: bool,
) -> TableFactor {
    let mut query = empty();
    if let SetExpr::Select(select) = query.body.as_mut() {
        let select: &mut Select = select;
        select.projection = items;
        select.from = from
            .into_iter()
            .map(|relation| TableWithJoins { relation, joins: Vec::new() })
            .collect();
    }
    let (alias, subquery, sample) = (Some(alias), Box::new(query), None);
    TableFactor::Derived { lateral, subquery, alias, sample }
}

fn empty() -> Query {
    match parse::one("SELECT 1") {
        Ok(Statement::Query(query)) => *query,
        _ => unreachable!("it is a query"),
    }
}
