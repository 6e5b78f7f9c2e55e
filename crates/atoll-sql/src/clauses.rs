//! Clauses of a query that the parser accepts and the planner would silently ignore.
//!
//! `CLAUSES-1`: a query does what is written in it or is refused. This module handles the clauses
//! that the planner ignores; the planner itself refuses others. `FETCH FIRST n ROWS`, which it
//! refuses, and `EXPLAIN (ANALYZE)`, which it ignores, are rewritten to forms that it supports.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryLength, DataType as SqlType, DuplicateTreatment, Expr, Fetch, Function,
    FunctionArguments, GroupByExpr, LimitClause, OrderBy, OrderByExpr, Query, Select, SetExpr,
    Statement, TableAlias, TableFactor, UtilityOption, Value, VisitMut, VisitorMut,
};

use crate::error::{SqlError, SqlErrorKind};
use crate::frame_offsets;
use crate::names;
use crate::rules::row_functions;
use crate::ties;

/// Refuses the clauses that would be ignored, and rewrites those with an equivalent form.
/// `is_scalar` tells whether a function of this name is a scalar function.
///
/// # Errors
/// A clause that is not supported, named.
pub(crate) fn check(
    statement: &mut Statement,
    is_scalar: &dyn Fn(&str) -> bool,
) -> Result<(), SqlError> {
    if let Statement::Explain { .. } = statement {
        explain(statement)?;
    }
    match statement.visit(&mut Clauses { is_scalar }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// `EXPLAIN (ANALYZE, VERBOSE false) …` as `EXPLAIN ANALYZE …`.
///
/// # Errors
/// An option that is not supported.
pub(crate) fn explain(statement: &mut Statement) -> Result<(), SqlError> {
    let Statement::Explain { analyze, verbose, query_plan, estimate, options, .. } = statement
    else {
        return Ok(());
    };
    if *query_plan || *estimate {
        return Err(refused("EXPLAIN QUERY PLAN and ESTIMATE", "EXPLAIN shows the plan"));
    }
    for UtilityOption { name, arg } in options.take().into_iter().flatten() {
        let chosen = match name.value.to_ascii_lowercase().as_str() {
            "analyze" | "analyse" => &mut *analyze,
            "verbose" => &mut *verbose,
            // None of these is ever shown.
            "costs" | "settings" | "buffers" | "wal" | "timing" | "summary"
                if arg.as_ref().and_then(truth) == Some(false) =>
            {
                continue;
            }
            _ => {
                let error = refused(
                    &format!("the option {} of EXPLAIN", name.value.to_uppercase()),
                    "the options are ANALYZE, VERBOSE and FORMAT",
                );
                return Err(error.at(name.span));
            }
        };
        *chosen = match &arg {
            None => true,
            Some(arg) => truth(arg).ok_or_else(|| {
                let what = format!("{} of EXPLAIN is true or false", name.value.to_uppercase());
                SqlError::new(SqlErrorKind::Syntax, what).at(name.span)
            })?,
        };
    }
    Ok(())
}

/// The spellings of true and false that PostgreSQL accepts in an option.
fn truth(value: &Expr) -> Option<bool> {
    let word = match value {
        Expr::Identifier(word) => word.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::Boolean(value) => return Some(*value),
            Value::SingleQuotedString(word) | Value::Number(word, _) => word.clone(),
            _ => return None,
        },
        _ => return None,
    };
    match word.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Some(true),
        "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn refused(what: &str, hint: &str) -> SqlError {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    SqlError::unsupported(format!("{what} is not supported")).with_hint(hint)
}

const ORDINALITY: &str = "WITH ORDINALITY";

struct Clauses<'a> {
    is_scalar: &'a dyn Fn(&str) -> bool,
}

type Checked = Result<(), SqlError>;

/// An error if the clause is there.
fn unless(absent: bool, what: &str, hint: &str) -> Checked {
    if absent { Ok(()) } else { Err(refused(what, hint)) }
}

fn flow(checked: Checked) -> ControlFlow<SqlError> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Clauses<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(of_query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        flow(frame_offsets::compute_named(select).and_then(|()| of_select(select)))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        if let Some(name) = self.single(table) {
            row_functions::single(table, &name);
        }
        flow(of_table(table))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let checked = match expr {
            Expr::Function(_) => frame_offsets::compute(expr).and_then(|()| self.function(expr)),
            Expr::Cast { data_type, format, array, .. } => unless(
                format.is_none() && !*array,
                "FORMAT in CAST",
                "a value is read in the format of its type",
            )
            .and_then(|()| of_type(data_type)),
            _ => Ok(()),
        };
        flow(checked)
    }
}

fn of_query(query: &mut Query) -> Checked {
    if let Some(lock) = query.locks.first() {
        let what = format!("FOR {}", lock.lock_type);
        let hint = "a query reads a snapshot, which never changes; \
                    BEGIN and UPDATE take the locks of the rows that they change";
        return Err(refused(&what, hint));
    }
    let changes = matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    );
    let hint = "run the change by itself, with RETURNING, before the query";
    unless(!changes, "a statement in WITH that changes data", hint)?;
    unless(query.for_clause.is_none(), "FOR XML, FOR JSON and FOR BROWSE", "")?;
    unless(query.settings.is_none(), "SETTINGS", "")?;
    unless(query.format_clause.is_none(), "FORMAT", "")?;
    unless(query.pipe_operators.is_empty(), "|> in a query", "")?;
    if let Some(order_by) = &query.order_by {
        of_order(order_by)?;
    }
    match query.fetch.take() {
        Some(fetch) => limit(query, fetch),
        None => Ok(()),
    }
}

/// `FETCH FIRST n ROWS ONLY` as `LIMIT n`.
fn limit(query: &mut Query, fetch: Fetch) -> Checked {
    let hint = "FETCH FIRST n ROWS ONLY and LIMIT n give the first n rows";
    unless(!fetch.percent, "FETCH … PERCENT", hint)?;
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let rows = fetch.quantity.unwrap_or_else(one);
    if fetch.with_ties {
        return ties::with_ties(query, rows);
    }
    match &mut query.limit_clause {
        None => {
            let (limit, limit_by) = (Some(rows), Vec::new());
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by });
            Ok(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            Ok(())
        }
        Some(_) => {
            let message = "a query has LIMIT or FETCH, not both";
            Err(SqlError::new(SqlErrorKind::Syntax, message))
        }
    }
}

fn of_order(order_by: &OrderBy) -> Checked {
    unless(order_by.interpolate.is_none(), "INTERPOLATE", "")?;
    let sqlparser::ast::OrderByKind::Expressions(keys) = &order_by.kind else {
        return Err(refused("ORDER BY ALL", "name the columns"));
    };
    keys.iter().try_for_each(of_key)
}

fn of_key(key: &OrderByExpr) -> Checked {
    unless(key.with_fill.is_none(), "WITH FILL", "")
}

fn of_select(select: &Select) -> Checked {
    if select.into.is_some() {
        let hint = "CREATE TABLE makes a table, and INSERT INTO … SELECT fills it";
        return Err(refused("SELECT … INTO", hint));
    }
    unless(select.select_modifiers.is_none(), "a modifier behind SELECT", "")?;
    unless(select.exclude.is_none(), "EXCLUDE behind the columns", "write * EXCLUDE (a, b)")?;
    unless(select.prewhere.is_none(), "PREWHERE", "write WHERE")?;
    unless(select.connect_by.is_empty(), "CONNECT BY", "WITH RECURSIVE walks a tree")?;
    unless(select.distribute_by.is_empty(), "DISTRIBUTE BY", "")?;
    unless(select.value_table_mode.is_none(), "SELECT AS STRUCT and AS VALUE", "")?;
    let (GroupByExpr::Expressions(_, modifiers) | GroupByExpr::All(modifiers)) = &select.group_by;
    unless(
        modifiers.is_empty(),
        "WITH behind GROUP BY",
        "write GROUP BY ROLLUP (a, b) or CUBE (a, b)",
    )
}

fn of_table(table: &TableFactor) -> Checked {
    let sampling = "TABLESAMPLE";
    let hint = "ORDER BY random() LIMIT n gives n rows by chance";
    match table {
        TableFactor::Table {
            name,
            args,
            alias,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
            ..
        } => {
            unless(sample.is_none(), sampling, hint)?;
            let makes_rows = args.is_some() && row_functions::is_known(name);
            unless(!with_ordinality || makes_rows, ORDINALITY, "row_number() OVER () counts rows")?;
            unless(version.is_none(), "the version of a table", "a snapshot is one version")?;
            unless(with_hints.is_empty() && index_hints.is_empty(), "a hint behind a table", "")?;
            unless(partitions.is_empty(), "PARTITION behind a table", "")?;
            unless(json_path.is_none(), "a path behind a table", "")?;
            of_alias(alias.as_ref(), args.is_some() && row_functions::defines_columns(name))
        }
        TableFactor::Derived { alias, sample, .. } => {
            unless(sample.is_none(), sampling, hint)?;
            of_alias(alias.as_ref(), false)
        }
        TableFactor::Function { name, with_ordinality, alias, lateral, .. } => {
            let makes_rows = row_functions::is_known(name);
            unless(!with_ordinality || makes_rows, ORDINALITY, "row_number() OVER () counts rows")?;
            unless(!lateral || makes_rows, "LATERAL before this function", "")?;
            of_alias(alias.as_ref(), row_functions::defines_columns(name))
        }
        TableFactor::UNNEST { with_offset, alias, .. } => {
            unless(!with_offset, "WITH OFFSET", "row_number() OVER () counts rows")?;
            of_alias(alias.as_ref(), false)
        }
        TableFactor::NestedJoin { alias, .. } => of_alias(alias.as_ref(), false),
        TableFactor::Pivot { .. } => Err(refused("PIVOT", "sum(…) FILTER (WHERE …) does it")),
        TableFactor::Unpivot { .. } => Err(refused("UNPIVOT", "UNION ALL does it")),
        TableFactor::MatchRecognize { .. } => Err(refused("MATCH_RECOGNIZE", "")),
        TableFactor::TableFunction { .. } => Err(refused("TABLE (…) in FROM", "")),
        TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } => {
            Err(refused("JSON_TABLE", ""))
        }
        TableFactor::XmlTable { .. } => Err(refused("XMLTABLE", "")),
        _ => Err(refused("this in FROM", "")),
    }
}

fn of_alias(alias: Option<&TableAlias>, defines_columns: bool) -> Checked {
    let Some(alias) = alias else { return Ok(()) };
    unless(alias.at.is_none(), "AT behind the name of a table", "")?;
    let typed = alias.columns.iter().find(|column| column.data_type.is_some());
    match typed.filter(|_| !defines_columns) {
        Some(column) => {
            Err(refused("a type behind the name of a column in FROM", "CAST the column")
                .at(column.name.span))
        }
        None => Ok(()),
    }
}

/// A length that would be ignored.
fn of_type(data_type: &SqlType) -> Checked {
    let has_length = match data_type {
        SqlType::Varbinary(length) => matches!(length, Some(BinaryLength::IntegerLength { .. })),
        _ => false,
    };
    unless(
        !has_length,
        &format!("the length of {data_type} in CAST"),
        "left(text, n) cuts a text to n characters",
    )
}

impl Clauses<'_> {
    /// The name of a scalar function that stands in FROM.
    fn single(&self, table: &TableFactor) -> Option<String> {
        let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) =
            table
        else {
            return None;
        };
        let name = if row_functions::is_known(name) { None } else { row_functions::bare(name) };
        name.filter(|name| (self.is_scalar)(name))
    }

    fn function(&self, expr: &Expr) -> Checked {
        let Expr::Function(function) = expr else { return Ok(()) };
        let [name] = function.name.0.as_slice() else { return Ok(()) };
        let Some(name) = name.as_ident() else { return Ok(()) };
        let span = name.span;
        let folded = names::fold(name);
        self.clauses_of(function, &folded).map_err(|error| error.at(span))
    }

    fn clauses_of(&self, function: &Function, name: &str) -> Checked {
        let plain = function.parameters == FunctionArguments::None && !function.uses_odbc_syntax;
        unless(plain, "such a call of a function", "write name(argument, …)")?;
        if !(self.is_scalar)(name) {
            return Ok(());
        }
        let of_single = "works on single values, not on several rows";
        let (is_distinct, has_clauses) = match &function.args {
            FunctionArguments::List(list) => (
                list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
                !list.clauses.is_empty(),
            ),
            _ => (false, false),
        };
        let found = [
            (is_distinct, "DISTINCT"),
            (has_clauses, "ORDER BY"),
            (function.filter.is_some(), "FILTER"),
            (function.over.is_some(), "OVER"),
            (!function.within_group.is_empty(), "WITHIN GROUP"),
            (function.null_treatment.is_some(), "the treatment of NULL"),
        ];
        match found.iter().find(|(is_there, _)| *is_there) {
            Some((_, clause)) => Err(SqlError::new(
                SqlErrorKind::Syntax,
                format!("{clause} does not go with {name}, which {of_single}"),
            )),
            None => Ok(()),
        }
    }
}
