//! What a statement says of the system: which tables, views, functions and types of it are named.
//!
//! A statement that names any is rewritten before it is planned: names of tables get their schema,
//! views become their queries, and types that are numbers or texts here become these. A name that
//! is cast to `regclass` and its like becomes the number; the number becomes the name again where
//! it is shown, or cast to a text.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType as SqlType, Expr, Function, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Spanned, Statement, Subscript,
    TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use super::{expanded, functions, tables, views};
use crate::error::{SqlError, SqlErrorKind};
use crate::rules::row_functions;
use crate::rules::spelled::call;
use crate::schemas::SYSTEM;
use crate::{names, output_names, sequence_names};

const PG_CATALOG: &str = "pg_catalog";
/// Identifiers that are functions without parentheses.
const BARE: [&str; 6] =
    ["current_user", "session_user", "user", "current_role", "current_catalog", "system_user"];
/// Columns that are vectors, with subscripts from 0; the last by the name that pgjdbc gives it.
const VECTORS: [&str; 8] = [
    "indkey",
    "indoption",
    "indclass",
    "indcollation",
    "proargtypes",
    "partattrs",
    "tgattr",
    "i_indoption",
];

/// Whether a statement names a table, a function or a type of the system.
fn is_used(statement: &Statement) -> bool {
    statement.visit(&mut Mentions).is_break()
}

/// The same, but for names of sequences where a function asks one; the statement has those as texts
/// then.
pub(crate) fn is_used_apart_from_sequences(statement: &mut Statement) -> bool {
    if !is_used(statement) {
        return false;
    }
    sequence_names::without_regclasses(statement);
    is_used(statement)
}

/// Whether a bare name means a relation of the system, whatever the search path is.
pub(crate) fn is_relation(name: &str) -> bool {
    (name.starts_with("pg_") || name.starts_with("atoll_")) && is_there(PG_CATALOG, name)
}

/// Whether a statement is a query that reads no table but those of the system: what it returns does
/// not depend on what transactions have changed.
pub(crate) fn reads_no_table(statement: &Statement) -> bool {
    if !matches!(statement, Statement::Query(_)) {
        return false;
    }
    let mut local = Locals(Vec::new());
    let _ = statement.visit(&mut local);
    let found = sqlparser::ast::visit_relations(statement, |name: &ObjectName| {
        let is_local = || local.0.contains(&names::last(name));
        let is_other = relation(name).is_none()
            && !row_functions::is_known(name)
            && !(name.0.len() == 1 && is_local());
        if is_other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_continue()
}

/// Whether a statement is a query that reads a table or a view of the system.
pub(crate) fn reads_system(statement: &Statement) -> bool {
    if !matches!(statement, Statement::Query(_)) {
        return false;
    }
    let mut local = Locals(Vec::new());
    let _ = statement.visit(&mut local);
    let found = sqlparser::ast::visit_relations(statement, |name: &ObjectName| {
        let is_local = name.0.len() == 1 && local.0.contains(&names::last(name));
        match !is_local && relation(name).is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// The relation of the system that a name means.
fn relation(name: &ObjectName) -> Option<(String, String)> {
    let idents: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    match idents.as_slice() {
        [.., schema, table] if SYSTEM.contains(&names::fold(schema).as_str()) => {
            Some((names::fold(schema), names::fold(table)))
        }
        [table] => {
            let table = names::fold(table);
            is_relation(&table).then(|| (PG_CATALOG.to_owned(), table))
        }
        _ => None,
    }
}

fn is_there(schema: &str, name: &str) -> bool {
    schema == PG_CATALOG && tables::named(name).is_some() || views::exists(schema, name)
}

/// What a type of the system is here.
enum Here {
    Number,
    Text,
    /// A number that is written as a name; the function that makes the one of the other.
    Named(&'static str),
}

fn type_here(data_type: &SqlType) -> Option<Here> {
    let name = match data_type {
        SqlType::Regclass => "regclass".to_owned(),
        SqlType::Custom(name, modifiers) if modifiers.is_empty() => names::last(name),
        _ => return None,
    };
    Some(match name.as_str() {
        "oid" | "xid" | "cid" => Here::Number,
        "name" | "char" | "cstring" | "pg_node_tree" | "aclitem" | "sql_identifier"
        | "character_data" | "yes_or_no" => Here::Text,
        "regclass" => Here::Named(functions::REGCLASS),
        "regtype" => Here::Named(functions::REGTYPE),
        "regnamespace" => Here::Named(functions::REGNAMESPACE),
        "regrole" => Here::Named(functions::REGROLE),
        "regproc" | "regprocedure" => Here::Named(functions::REGPROC),
        _ => return None,
    })
}

/// Stops where the system is named.
struct Mentions;

impl Visitor for Mentions {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        match relation(name).is_some() || functions::is_known(&names::last(name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_it = match expr {
            Expr::Function(function) => functions::is_known(&names::last(&function.name)),
            Expr::Identifier(ident) => bare(ident).is_some(),
            Expr::Cast { data_type, .. } => {
                type_here(data_type).is_some() || element(data_type).is_some()
            }
            Expr::TypedString(typed) => type_here(&typed.data_type).is_some(),
            _ => false,
        };
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The type of the elements of an array of such a type.
fn element(data_type: &SqlType) -> Option<Here> {
    use sqlparser::ast::ArrayElemTypeDef::SquareBracket;
    match data_type {
        SqlType::Array(SquareBracket(element, _)) => type_here(element),
        _ => None,
    }
}

fn bare(ident: &Ident) -> Option<&'static str> {
    let name = BARE.into_iter().find(|name| ident.value.eq_ignore_ascii_case(name));
    name.filter(|_| ident.quote_style.is_none())
}

/// The names that `WITH` gives.
struct Locals(Vec<String>);

impl Visitor for Locals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.0.extend(with.cte_tables.iter().map(|one| names::fold(&one.alias.name)));
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites a statement that names the system.
///
/// # Errors
/// A relation that the system does not have.
pub(super) fn rewrite(statement: &mut Statement) -> Result<(), SqlError> {
    output_names::give(statement);
    loop {
        let mut relations = Relations { locals: Vec::new(), has_expanded: false };
        if let ControlFlow::Break(error) = statement.visit(&mut relations) {
            return Err(error);
        }
        if !relations.has_expanded {
            break;
        }
    }
    expanded::rewrite(statement);
    let _ = statement.visit(&mut Expressions);
    if let Statement::Query(query) = statement {
        show(&mut query.body);
    }
    Ok(())
}

/// Gives relations their schemas, and views their queries.
struct Relations {
    locals: Vec<String>,
    has_expanded: bool,
}

impl VisitorMut for Relations {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Some(with) = &query.with {
            self.locals.extend(with.cte_tables.iter().map(|one| names::fold(&one.alias.name)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some((schema, table)) = relation(name) else { return ControlFlow::Continue(()) };
        if name.0.len() == 1 && self.locals.contains(&table) {
            return ControlFlow::Continue(());
        }
        if !is_there(&schema, &table) {
            let message = format!("relation \"{schema}.{table}\" does not exist");
            let error = SqlError::new(SqlErrorKind::UnknownTable, message).at(name.span());
            return ControlFlow::Break(error);
        }
        if views::exists(&schema, &table) {
            self.has_expanded = true;
            match views::expanded(&schema, &table, alias.take()) {
                Ok(expanded) => *factor = expanded,
                Err(error) => return ControlFlow::Break(error),
            }
        } else if name.0.len() == 1 {
            let schema = Ident { span: name.span(), ..Ident::new(PG_CATALOG) };
            name.0.insert(0, ObjectNamePart::Identifier(schema));
        }
        ControlFlow::Continue(())
    }
}

/// Puts types and functions that there are into the place of those that are PostgreSQL's own.
struct Expressions;

impl VisitorMut for Expressions {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => {
                if let Some(name) = bare(ident) {
                    *expr = call(name, Vec::new());
                }
            }
            Expr::Cast { expr: inner, data_type, .. } => {
                if let Some(here) = type_here(data_type) {
                    cast(expr, &here);
                } else if let Some(here) = element(data_type) {
                    *data_type = array_of(match here {
                        Here::Text => SqlType::Text,
                        _ => SqlType::BigInt(None),
                    });
                } else if is_text(data_type) {
                    let shown = named(inner);
                    if let Some(shown) = shown {
                        **inner = shown;
                    }
                }
            }
            Expr::TypedString(typed) => {
                if let Some(here) = type_here(&typed.data_type) {
                    let value = Expr::Value(typed.value.clone());
                    *expr = value;
                    wrap(expr, &here);
                }
            }
            Expr::Collate { expr: inner, collation } => {
                let name = names::last(collation);
                if matches!(name.as_str(), "default" | "C" | "POSIX") {
                    *expr = std::mem::replace(inner, Expr::value(sqlparser::ast::Value::Null));
                }
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(known) = parts.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => from_zero(root, access_chain),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn array_of(element: SqlType) -> SqlType {
    SqlType::Array(sqlparser::ast::ArrayElemTypeDef::SquareBracket(Box::new(element), None))
}

fn is_text(data_type: &SqlType) -> bool {
    matches!(
        data_type,
        SqlType::Text | SqlType::Varchar(_) | SqlType::CharacterVarying(_) | SqlType::String(_)
    )
}

/// The value of a cast as one of a type here.
fn cast(expr: &mut Expr, here: &Here) {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return };
    match here {
        Here::Number => *data_type = SqlType::BigInt(None),
        Here::Text => {
            *data_type = SqlType::Text;
            if let Some(shown) = named(inner) {
                **inner = shown;
            }
        }
        Here::Named(_) => {
            *expr = std::mem::replace(inner, Expr::value(sqlparser::ast::Value::Null));
            wrap(expr, here);
        }
    }
}

fn wrap(expr: &mut Expr, here: &Here) {
    if let Here::Named(number) = here {
        let value = std::mem::replace(expr, Expr::value(sqlparser::ast::Value::Null));
        *expr = call(number, vec![value]);
    }
}

/// What shows the name of a number that was made of one, or of a number.
fn named(expr: &Expr) -> Option<Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(_), .. }) = expr else {
        return match expr {
            Expr::Nested(inner) => named(inner),
            _ => None,
        };
    };
    let shown = functions::shows(&names::last(name))?;
    Some(call(shown, vec![expr.clone()]))
}

/// Shows names in the list of a query.
fn show(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
                else {
                    continue;
                };
                if let Some(shown) = named(expr) {
                    *expr = shown;
                }
            }
        }
        SetExpr::Query(query) => show(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            show(left);
            show(right);
        }
        _ => {}
    }
}

/// The operator of `OPERATOR(pg_catalog.…)`.
fn operator(name: &str) -> Option<BinaryOperator> {
    use BinaryOperator as Op;
    Some(match name {
        "~" => Op::PGRegexMatch,
        "~*" => Op::PGRegexIMatch,
        "!~" => Op::PGRegexNotMatch,
        "!~*" => Op::PGRegexNotIMatch,
        "~~" => Op::PGLikeMatch,
        "~~*" => Op::PGILikeMatch,
        "!~~" => Op::PGNotLikeMatch,
        "!~~*" => Op::PGNotILikeMatch,
        "=" => Op::Eq,
        "<>" => Op::NotEq,
        "<" => Op::Lt,
        "<=" => Op::LtEq,
        ">" => Op::Gt,
        ">=" => Op::GtEq,
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "||" => Op::StringConcat,
        _ => return None,
    })
}

/// Subscripts of vectors begin with 0.
fn from_zero(root: &Expr, chain: &mut [AccessExpr]) {
    let of_root = match root {
        Expr::Identifier(ident) => Some(names::fold(ident)),
        Expr::CompoundIdentifier(idents) => idents.last().map(names::fold),
        _ => None,
    };
    let mut before = of_root;
    for access in chain {
        match access {
            AccessExpr::Dot(Expr::Identifier(ident)) => before = Some(names::fold(ident)),
            AccessExpr::Subscript(Subscript::Index { index })
                if before.as_deref().is_some_and(|name| VECTORS.contains(&name)) =>
            {
                let one = Expr::value(sqlparser::ast::Value::Number("1".to_owned(), false));
                let (left, op, right) = (index.clone(), BinaryOperator::Plus, Box::new(one));
                let left = Box::new(Expr::Nested(Box::new(left)));
                *index = Expr::BinaryOp { left, op, right };
            }
            _ => before = None,
        }
    }
}
