//! The views that a statement names become queries in parentheses.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Ident, ObjectName, Query, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins, visit_relations,
};

use super::relations::{self, Found};
use super::{Source, View, ident, table_alias};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::parse::MARK;
use crate::quoted::quoted_if_needed;
use crate::schemas::PUBLIC;
use crate::{depth, names, parse};

/// Most that views inside each other may add to the depth of a statement (`DEPTH-1`).
const DEPTH_MAX: usize = 512;
/// What the parentheses around a view add.
const NESTED: usize = 8;
/// Most relations that the views of a statement read: views that read others twice are soon many.
const SOURCES_MAX: usize = 1024;

/// Finds a view by its name.
pub(crate) type Find<'f> = &'f dyn Fn(&str) -> Result<Option<View>, SqlError>;

/// Whether a statement may name a view.
pub(crate) fn is_needed(statement: &Statement, is_view: &dyn Fn(&str) -> bool) -> bool {
    let found = visit_relations(statement, |name| match names::table_name(name) {
        Ok((name, _)) if is_view(&name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Puts the queries of views in their places. The tree of the statement may be deep then.
///
/// # Errors
/// The definition of a view cannot be read; too many views are inside each other.
pub(crate) fn statement(statement: &mut Statement, find: Find<'_>) -> Result<(), SqlError> {
    let mut expansion = Expansion { find, path: Vec::new(), depth: 0, sources: 0 };
    relations::each(statement, &mut |Found { factor, .. }| expansion.named(factor))
}

/// A query of all rows of a view.
///
/// # Errors
/// As [`statement`].
pub(crate) fn query(view: &View, find: Find<'_>) -> Result<Query, SqlError> {
    let mut expansion = Expansion { find, path: Vec::new(), depth: 0, sources: 0 };
    let (Statement::Query(mut query), _) = parse::kept("SELECT * FROM v")? else {
        return Err(SqlError::new(SqlErrorKind::Database, "a query is no query"));
    };
    let columns = view.columns.iter().map(|column| column.name.clone()).collect();
    let alias = aliased(Ident::new("v"), None, columns);
    let relation = expansion.query_of("", view, alias)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Ok(*query)
}

/// The columns of a relation that a view uses, as a relation of its query, where it is `written`
/// under this name.
///
/// # Errors
/// The names cannot be parsed.
pub(super) fn columns_of(
    source: &Source,
    written: &str,
    alias: Option<&TableAlias>,
) -> Result<TableFactor, SqlError> {
    let relation = vec![Ident::new(PUBLIC), ident(&source.relation)];
    columns_of_named(source, &relation.into(), written, alias)
}

/// The same of a relation that is named so.
///
/// # Errors
/// The names cannot be parsed.
pub(super) fn columns_of_named(
    source: &Source,
    relation: &ObjectName,
    written: &str,
    alias: Option<&TableAlias>,
) -> Result<TableFactor, SqlError> {
    let column = |(now, then): &(String, String)| match now == then {
        true => quoted_if_needed(now).into_owned(),
        false => format!("{} AS {}", quoted_if_needed(now), quoted_if_needed(then)),
    };
    let columns: Vec<_> = source.columns.iter().map(column).collect();
    // Of one that is only counted.
    let columns = if columns.is_empty() { "NULL".to_owned() } else { columns.join(", ") };
    let text = format!("SELECT {columns} FROM {relation}");
    let (Statement::Query(subquery), _) = parse::kept(&text)? else {
        return Err(SqlError::new(SqlErrorKind::Database, format!("\"{text}\" is no query")));
    };
    let alias = Some(alias.cloned().unwrap_or_else(|| table_alias(ident(written), Vec::new())));
    Ok(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}

struct Expansion<'f> {
    find: Find<'f>,
    /// The views around what is expanded.
    path: Vec<String>,
    depth: usize,
    sources: usize,
}

impl Expansion<'_> {
    /// A relation that the user's statement names.
    fn named(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        let TableFactor::Table { name, alias, .. } = &*factor else { return Ok(()) };
        let (written, span) = names::table_name(name)?;
        let Some(view) = (self.find)(&written)? else { return Ok(()) };
        if !is_plain(factor) {
            let message = format!("this way to read view \"{written}\" is not supported");
            return Err(SqlError::unsupported(message).at(span));
        }
        let columns = view.columns.iter().map(|column| column.name.clone()).collect();
        let name = Ident { span, ..Ident::with_quote('"', names::last(name)) };
        let alias = aliased(name, alias.as_ref(), columns);
        *factor = self.query_of(&written, &view, alias).map_err(|error| error.at(span))?;
        Ok(())
    }

    /// The query of a view under an alias.
    fn query_of(
        &mut self,
        name: &str,
        view: &View,
        alias: TableAlias,
    ) -> Result<TableFactor, SqlError> {
        if self.path.iter().any(|around| around == name) {
            let message = format!("infinite recursion detected in rules for relation \"{name}\"");
            return Err(
                SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidDefinition)
            );
        }
        let (mut query, depth) = view.parsed()?;
        let depth = depth + NESTED;
        self.sources += view.sources.len();
        self.depth += depth;
        if self.depth > DEPTH_MAX || self.sources > SOURCES_MAX {
            return Err(depth::too_complex());
        }
        self.path.push(name.to_owned());
        let mut sources = view.sources.iter();
        relations::each(&mut query, &mut |Found { factor, .. }| match sources.next() {
            Some(source) => self.source(factor, source),
            None => Ok(()),
        })?;
        self.path.pop();
        self.depth -= depth;
        let (subquery, alias) = (Box::new(query), Some(alias));
        Ok(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
    }

    /// A relation that the query of a view names.
    fn source(&mut self, factor: &mut TableFactor, source: &Source) -> Result<(), SqlError> {
        let TableFactor::Table { name, alias, .. } = &*factor else { return Ok(()) };
        let written = names::last(name);
        let Some(view) = (self.find)(&source.relation)? else {
            *factor = columns_of(source, &written, alias.as_ref())?;
            return Ok(());
        };
        // What the query does not use, it does not see.
        let seen = view.columns.iter().enumerate().map(|(at, column)| {
            let mut used = source.columns.iter();
            let used = used.find(|(now, _)| *now == column.name);
            used.map_or_else(|| format!("{MARK}{at}"), |(_, then)| then.clone())
        });
        let alias = aliased(ident(&written), alias.as_ref(), seen.collect());
        *factor = self.query_of(&source.relation, &view, alias)?;
        Ok(())
    }
}

/// An alias with the names of all columns; those that are written come first.
fn aliased(name: Ident, written: Option<&TableAlias>, columns: Vec<String>) -> TableAlias {
    let name = written.map_or(name, |alias| alias.name.clone());
    let written = written.map(|alias| alias.columns.clone()).unwrap_or_default();
    let rest = columns.iter().skip(written.len()).map(|name| quoted(name));
    let rest: Vec<_> = rest.collect();
    table_alias(name, written.into_iter().chain(rest).collect())
}

fn quoted(name: &str) -> TableAliasColumnDef {
    TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None }
}

/// Whether a relation is named and nothing else is said of it.
fn is_plain(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Table {
            args: None,
            version: None,
            with_ordinality: false,
            json_path: None,
            sample: None,
            with_hints,
            partitions,
            index_hints,
            ..
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty()
    )
}
