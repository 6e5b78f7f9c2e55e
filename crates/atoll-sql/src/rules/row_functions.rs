//! Functions that make rows, in FROM and among selected columns: `unnest`, `generate_series` and
//! `generate_subscripts`, and those of JSON and texts ([`super::json_rows`]).
//!
//! The planner makes rows of arrays, which may come from columns of tables further left. So the
//! others become an `unnest` of a function that makes an array, and WITH ORDINALITY one of a second
//! array that counts. `generate_series` of constants in FROM stays a table ([`super::series`]).

use std::ops::ControlFlow;

use sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, TableAlias, TableAliasColumnDef, TableFactor, Value, ValueWithSpan, Visit,
    Visitor,
};

use super::functions::{ORDINALS, SUBSCRIPTS};
use super::json_rows::{self, call_named};
use super::spelled::call;
use crate::error::SqlError;
use crate::mark::MARK;
use crate::names;

/// The function of the system that tells the tables that a partition is of.
pub(crate) const ANCESTORS: &str = "pg_partition_ancestors";

/// Whether a function makes rows.
pub(crate) fn is_known(name: &ObjectName) -> bool {
    known(name).is_some()
}

/// Whether a function makes rows of the columns that are defined behind it.
pub(crate) fn defines_columns(name: &ObjectName) -> bool {
    bare(name).is_some_and(|name| json_rows::defines_columns(&name).is_some())
}

/// The name of a function of the system.
pub(crate) fn bare(name: &ObjectName) -> Option<String> {
    let parts: Option<Vec<String>> =
        name.0.iter().map(|part| part.as_ident().map(names::fold)).collect();
    let parts = parts?;
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == "pg_catalog" => Some(name.clone()),
        _ => None,
    }
}

fn known(name: &ObjectName) -> Option<String> {
    bare(name).filter(|name| {
        let is_own = matches!(
            name.as_str(),
            "unnest" | "generate_series" | "generate_subscripts" | ANCESTORS
        );
        is_own || json_rows::of(name).is_some() || json_rows::defines_columns(name).is_some()
    })
}

/// A call among selected columns as an `unnest`.
pub(super) fn selected(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let Some(name) = known(&function.name) else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    let Some(arguments) = plain(&list.args) else { return };
    let made = match json_rows::of(&name) {
        Some(rows) => rows.selected(&name, arguments),
        None => matches!(name.as_str(), "generate_subscripts" | ANCESTORS)
            .then(|| call("unnest", vec![array_of(&name, arguments)])),
    };
    if let Some(made) = made {
        *expr = made;
    }
}

/// A call in FROM as an `unnest`, and its columns with their names. `is_mentioned` tells whether a
/// column of a name stands in the statement.
///
/// # Errors
/// A function needs definitions of columns.
pub(super) fn table(
    table: &mut TableFactor,
    is_mentioned: &dyn Fn(&str) -> bool,
) -> Result<(), SqlError> {
    let (name, arguments, alias, with_ordinality) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            let Some(arguments) = plain(&args.args) else { return Ok(()) };
            (known(name), arguments, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            let Some(arguments) = plain(args) else { return Ok(()) };
            (known(name), arguments, alias, *with_ordinality)
        }
        TableFactor::UNNEST { array_exprs, alias, with_ordinality, .. } => {
            (Some("unnest".to_owned()), array_exprs.clone(), alias, *with_ordinality)
        }
        _ => return Ok(()),
    };
    let Some(name) = name else { return Ok(()) };
    let is_lateral = !arguments.iter().all(is_constant);
    if let Some(rows) = json_rows::of(&name) {
        let how = (with_ordinality, is_lateral);
        *table = rows.table(&name, &arguments, alias.take(), how, is_mentioned);
        return Ok(());
    }
    if let Some(rows) = json_rows::defines_columns(&name)
        && let [argument] = arguments.as_slice()
    {
        *table = json_rows::record(&name, rows, argument.clone(), alias.take(), is_lateral)?;
        return Ok(());
    }
    let is_table = name == "generate_series" && !with_ordinality;
    if is_table && !is_lateral {
        return Ok(());
    }
    let mut arrays = match name.as_str() {
        "unnest" => arguments,
        name => vec![array_of(name, arguments)],
    };
    let alias = with_columns(alias.take(), &name, arrays.len(), with_ordinality);
    if with_ordinality {
        arrays.push(ordinals(&arrays));
    }
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: arrays,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    Ok(())
}

/// A scalar function in FROM as a query of one row.
pub(crate) fn single(table: &mut TableFactor, name: &str) {
    let (function, arguments, alias, with_ordinality) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, &*args, alias, *with_ordinality)
        }
        _ => return,
    };
    let Some(arguments) = plain(arguments) else { return };
    let is_lateral = !arguments.iter().all(is_constant);
    let mut made = call(name, arguments);
    if let Expr::Function(call) = &mut made {
        call.name = function.clone();
    }
    *table = json_rows::single(name, made, alias.take(), (with_ordinality, is_lateral));
}

fn plain(arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    let one = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    arguments.iter().map(one).collect()
}

pub(super) fn is_constant(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let is_open = match expr {
                // Their arguments have no types yet.
                Expr::Function(call) => is_of_arrays(&call.name),
                Expr::Identifier(_)
                | Expr::CompoundIdentifier(_)
                | Expr::Subquery(_)
                | Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => true,
                _ => false,
            };
            if is_open { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Columns).is_continue()
}

/// Whether a function tells the bounds of an array.
fn is_of_arrays(name: &ObjectName) -> bool {
    let bounds = ["array_length", "array_lower", "array_upper", "cardinality"];
    bounds.contains(&names::last(name).as_str())
}

/// The array of the rows that a function makes.
fn array_of(name: &str, arguments: Vec<Expr>) -> Expr {
    match name {
        "generate_subscripts" => call_named(SUBSCRIPTS, arguments),
        name => call(name, arguments),
    }
}

/// The numbers of the rows, as many as the longest array has.
fn ordinals(arrays: &[Expr]) -> Expr {
    let element = ArrayElemTypeDef::SquareBracket(Box::new(DataType::BigInt(None)), None);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call_named(ORDINALS, arrays.to_vec())),
        data_type: DataType::Array(element),
        array: false,
        format: None,
    }
}

/// The alias with a name for each column: one column has the name of the table.
fn with_columns(
    alias: Option<TableAlias>,
    function: &str,
    count: usize,
    with_ordinality: bool,
) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    let own = match count {
        1 => names::fold(&alias.name),
        _ => function.to_owned(),
    };
    let total = count + usize::from(with_ordinality);
    for at in alias.columns.len()..total {
        let name = match at {
            0 => own.clone(),
            at if at == count => "ordinality".to_owned(),
            at => format!("{own}{MARK}{at}"),
        };
        let name = Ident::with_quote('"', name);
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    alias
}
