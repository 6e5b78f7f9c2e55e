//! Names of the columns of a result, as PostgreSQL gives them (`FigureColname` in its
//! `parse_target.c`): `count(*)` is called `count`, `a + 1` is called `?column?`.
//!
//! `NAME-1`: two columns may have one name. The planner needs unique ones, so a number stands
//! behind a mark in the names that are given here; [`shown`] removes both.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType as ArrowType, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;
use sqlparser::ast::{
    BinaryOperator, DataType as SqlType, Expr, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor,
};

use crate::parse::MARK;
use crate::{enums, lengths, names, types};

/// Gives names to the columns of a query, of its subqueries in FROM and of those behind WITH.
pub(crate) fn give(statement: &mut Statement) {
    if let Statement::Query(query) = statement {
        of_query(query, true);
    }
}

/// A name without mark and number.
pub(crate) fn shown(name: &str) -> &str {
    name.split_once(MARK).map_or(name, |(shown, _)| shown)
}

/// A text, of a message or a plan, without marks and numbers.
pub(crate) fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut cleared = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| cleared.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    cleared
}

/// A schema with the names and the extension types that a client sees.
pub(crate) fn shown_schema(schema: &SchemaRef) -> SchemaRef {
    let is_as_it_is = |field: &FieldRef| {
        !field.name().contains(MARK)
            && *field.data_type() != ArrowType::FixedSizeBinary(16)
            && enums::of(field.data_type()).is_none()
    };
    if schema.fields().iter().all(is_as_it_is) {
        return SchemaRef::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| types::shown_field(field, shown(field.name())));
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A batch with the names and the texts that a client sees.
///
/// # Errors
/// The columns are not those of the batch's schema.
pub(crate) fn shown_batch(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = shown_schema(batch.schema_ref());
    let is_padded = schema.fields().iter().any(|field| lengths::character(field).is_some());
    if !is_padded && Arc::ptr_eq(&schema, batch.schema_ref()) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| match array.data_type() {
        ArrowType::Timestamp(TimeUnit::Second, _) => enums::array_outside(array),
        _ => Ok(lengths::padded_array(array, field)),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn of_query(query: &mut Query, is_result: bool) {
    if let Some(with) = &mut query.with {
        with.cte_tables.iter_mut().for_each(|cte| of_query(&mut cte.query, false));
    }
    of_body(&mut query.body, is_result);
}

fn of_body(body: &mut SetExpr, is_result: bool) {
    match body {
        SetExpr::Select(select) => of_select(select, is_result),
        SetExpr::Query(query) => of_query(query, is_result),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, is_result);
            of_body(right, is_result);
        }
        _ => {}
    }
}

fn of_select(select: &mut Select, is_result: bool) {
    for from in &mut select.from {
        of_relation(&mut from.relation);
        from.joins.iter_mut().for_each(|join| of_relation(&mut join.relation));
    }
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut uses: HashMap<String, usize> = HashMap::new();
    for item in &select.projection {
        if let Some(name) = name_of_item(item) {
            *uses.entry(name).or_default() += 1;
        }
    }
    for (number, item) in select.projection.iter_mut().enumerate() {
        let Some(name) = name_of_item(item) else { continue };
        let is_unique = uses[&name] == 1 && !has_wildcard;
        let (expr, is_plain) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let is_plain = is_column(expr);
                (expr, is_plain)
            }
            SelectItem::ExprWithAlias { expr, .. } => (expr, true),
            _ => continue,
        };
        if is_unique && is_plain {
            continue;
        }
        // Clauses of the same query see no name that was not written.
        let given = if is_unique && !is_result { name } else { format!("{name}{MARK}{number}") };
        let expr = expr.clone();
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', given) };
    }
}

fn of_relation(relation: &mut TableFactor) {
    match relation {
        TableFactor::Derived { subquery, .. } => of_query(subquery, false),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            of_relation(&mut table_with_joins.relation);
            table_with_joins.joins.iter_mut().for_each(|join| of_relation(&mut join.relation));
        }
        _ => {}
    }
}

fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            Some(of_expr(expr).map_or_else(|| "?column?".to_owned(), |named| named.name))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(names::fold(alias)),
        _ => None,
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_column(inner),
        // A function without parentheses.
        Expr::Identifier(name) if names::fold(name) == "current_schema" => false,
        expr => matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
    }
}

/// A name, and whether a cast around the expression keeps it.
struct Named {
    name: String,
    is_strong: bool,
}

fn strong(name: impl Into<String>) -> Option<Named> {
    Some(Named { name: name.into(), is_strong: true })
}

fn weak(name: impl Into<String>) -> Option<Named> {
    Some(Named { name: name.into(), is_strong: false })
}

fn of_expr(expr: &Expr) -> Option<Named> {
    match expr {
        Expr::Identifier(ident) => strong(names::fold(ident)),
        Expr::CompoundIdentifier(idents) => strong(names::fold(idents.last()?)),
        Expr::CompoundFieldAccess { root, .. } => of_expr(root),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => of_expr(inner),
        Expr::Function(function) => {
            let name = last(&function.name)?;
            let is_subquery = matches!(function.args, FunctionArguments::Subquery(_));
            if is_subquery && name != "array" { None } else { strong(name) }
        }
        Expr::Cast { expr, data_type, .. } => {
            of_expr(expr).filter(|named| named.is_strong).or_else(|| weak(of_type(data_type)))
        }
        Expr::TypedString(typed) => weak(of_type(&typed.data_type)),
        Expr::Interval(_) => weak("interval"),
        Expr::Case { else_result, .. } => {
            let named = else_result.as_ref().and_then(|result| of_expr(result));
            named.filter(|named| named.is_strong).or_else(|| weak("case"))
        }
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.as_slice() {
                [SelectItem::UnnamedExpr(expr)] => of_expr(expr),
                [SelectItem::ExprWithAlias { alias, .. }] => strong(names::fold(alias)),
                _ => None,
            },
            _ => None,
        },
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => strong("overlaps"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim",
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(names::fold)
}

/// The name by which PostgreSQL's catalog knows a type.
fn of_type(data_type: &SqlType) -> String {
    let written = data_type.to_string().to_lowercase();
    let plain = written.split('(').next().unwrap_or_default().trim();
    let known = match plain {
        "smallint" => "int2",
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "character varying" => "varchar",
        "char" | "character" => "bpchar",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(sql: &str) -> Vec<String> {
        let mut statement = crate::parse::one(sql).unwrap();
        give(&mut statement);
        let Statement::Query(query) = statement else { panic!("{sql} is no query") };
        let SetExpr::Select(select) = *query.body else { panic!("{sql} is no SELECT") };
        let named = select.projection.iter().map(|item| match item {
            SelectItem::UnnamedExpr(expr) => expr.to_string(),
            SelectItem::ExprWithAlias { alias, .. } => shown(&alias.value).to_owned(),
            other => other.to_string(),
        });
        named.collect()
    }

    /// The names are those that PostgreSQL 15 shows.
    #[test]
    fn columns_have_the_names_of_postgresql() {
        for (items, wanted) in [
            ("count(*), sum(a), SUM(b)", "count sum sum"),
            ("a + 1, -a, a > 1, a IS NULL, NOT b, 1, 'x', NULL, true", &"?column? ".repeat(9)),
            ("a, t.a, (a), \"A b\"", "a a a \"A b\""),
            ("a::text, CAST(a + 1 AS bigint), '1'::int, 1.5::real", "a int8 int4 float4"),
            ("lower(a)::text, DATE '2020-01-01', 'x'::numeric(3, 1)", "lower date numeric"),
            ("CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 ELSE b END", "case b"),
            ("coalesce(a, 1), nullif(a, 1), greatest(a, 1)", "coalesce nullif greatest"),
            ("(SELECT max(a) FROM t), EXISTS (SELECT 1), (SELECT 1 AS q)", "max exists q"),
            ("ARRAY(SELECT 1), ARRAY[1]", "array array"),
            ("extract(year FROM a), substring(a FROM 1), trim(a)", "extract substring btrim"),
            ("a AS x, b y", "x y"),
        ] {
            let given = names(&format!("SELECT {items} FROM t")).join(" ");
            assert_eq!(given, wanted.trim(), "{items}");
        }
    }

    #[test]
    fn marks_are_not_shown() {
        let mut statement = crate::parse::one("SELECT a, a, count(*) FROM t").unwrap();
        give(&mut statement);
        let text = without_marks(&statement.to_string());
        assert_eq!(text, "SELECT a AS \"a\", a AS \"a\", count(*) AS \"count\" FROM t");
    }
}
