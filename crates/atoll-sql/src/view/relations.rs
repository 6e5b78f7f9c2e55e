//! The relations that a query reads from the database, and the columns of each that it uses.
//!
//! A name that a `WITH` around it has given to a query is none of them. Which columns are used is
//! decided by names: those that the query mentions, and all where it has a wildcard or joins by
//! nature. A column of another relation may have the same name, so a few too many may be found.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator, TableFactor,
    TableWithJoins, VisitMut, VisitorMut,
};

use crate::error::SqlError;
use crate::names;

/// A relation that was found.
pub(crate) struct Found<'f> {
    /// A table by its name, without arguments.
    pub(crate) factor: &'f mut TableFactor,
    pub(crate) uses: Uses<'f>,
}

/// What the query uses of a relation.
pub(crate) struct Uses<'f> {
    mentions: &'f Mentions,
    /// Of the `SELECT` that reads the relation.
    wildcards: Option<&'f Wildcards>,
}

/// The names that a query mentions.
#[derive(Default)]
struct Mentions {
    /// Columns without a qualifier.
    plain: HashSet<String>,
    /// Columns with one.
    qualified: HashSet<(String, String)>,
    has_natural_join: bool,
}

/// The wildcards of a `SELECT`.
struct Wildcards {
    has_plain: bool,
    qualified: Vec<String>,
}

impl Uses<'_> {
    /// Whether the query uses a column of the relation that it calls so.
    pub(super) fn has(&self, called: &str, column: &str) -> bool {
        let Mentions { plain, qualified, has_natural_join } = self.mentions;
        let is_in_wildcard = self.wildcards.is_some_and(|wildcards| {
            wildcards.has_plain || wildcards.qualified.iter().any(|one| one == called)
        });
        *has_natural_join
            || is_in_wildcard
            || plain.contains(column)
            || qualified.contains(&(called.to_owned(), column.to_owned()))
    }
}

/// Calls `found` with each relation of a query, in an order that depends on the query alone. It may
/// put something else in the place of the relation.
///
/// # Errors
/// Those of `found`.
pub(crate) fn each<T: VisitMut>(
    query: &mut T,
    found: &mut dyn FnMut(Found<'_>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let mut collector = Collector::default();
    // The collector never breaks off.
    let _ = query.visit(&mut collector);
    let mentions = collector.0;
    let mut walk = Walk { scopes: Vec::new(), wildcards: Vec::new(), mentions: &mentions, found };
    match query.visit(&mut walk) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The queries that a `WITH` names.
struct Scope {
    /// Where each query is in memory, and its name.
    named: Vec<(usize, String)>,
    /// How many of them the part that is visited now may name.
    visible: usize,
    is_recursive: bool,
}

/// Whether a query of a name is a UNION of which only the second part uses the name.
fn is_recursive(query: &Query, name: &str) -> bool {
    let SetExpr::SetOperation { op: SetOperator::Union, left, .. } = query.body.as_ref() else {
        return false;
    };
    let uses =
        sqlparser::ast::visit_relations(left, |relation| match names::last(relation) == name {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    uses.is_continue()
}

struct Walk<'w> {
    scopes: Vec<Scope>,
    wildcards: Vec<Wildcards>,
    mentions: &'w Mentions,
    found: &'w mut dyn FnMut(Found<'_>) -> Result<(), SqlError>,
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Walk<'_> {
    fn is_local(&self, name: &str) -> bool {
        let mut visible = self.scopes.iter().flat_map(|scope| &scope.named[..scope.visible]);
        visible.any(|(_, other)| other == name)
    }
}

impl VisitorMut for Walk<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let place = address(query);
        if let Some(around) = self.scopes.last_mut()
            && let Some(at) = around.named.iter().position(|(other, _)| *other == place)
        {
            // One of them sees itself only where a recursive query may: DataFusion takes the name
            // for that of a table elsewhere, and so does every check.
            let sees_itself = around.is_recursive && is_recursive(query, &around.named[at].1);
            around.visible = if sees_itself { at + 1 } else { at };
        }
        let with = query.with.as_ref();
        let tables = with.map(|with| with.cte_tables.as_slice()).unwrap_or_default();
        let named: Vec<_> =
            tables.iter().map(|one| (address(&one.query), names::fold(&one.alias.name))).collect();
        let is_recursive = with.is_some_and(|with| with.recursive);
        self.scopes.push(Scope { visible: named.len(), named, is_recursive });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.pop();
        let place = address(query);
        if let Some(around) = self.scopes.last_mut()
            && around.named.iter().any(|(other, _)| *other == place)
        {
            around.visible = around.named.len();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let (mut has_plain, mut qualified) = (false, Vec::new());
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => has_plain = true,
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => qualified.extend(last(name.0.iter().filter_map(|part| part.as_ident()))),
                _ => {}
            }
        }
        self.wildcards.push(Wildcards { has_plain, qualified });
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.wildcards.pop();
        ControlFlow::Continue(())
    }

    /// Behind what is inside of the relation, so that what takes its place is not visited.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        // The tables of `information_schema` are none of the database's.
        let Ok((table, _)) = names::table_name(name) else { return ControlFlow::Continue(()) };
        if name.0.len() == 1 && self.is_local(&table) {
            return ControlFlow::Continue(());
        }
        let uses = Uses { mentions: self.mentions, wildcards: self.wildcards.last() };
        match (self.found)(Found { factor, uses }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Collects the names that a query mentions.
#[derive(Default)]
struct Collector(Mentions);

impl Collector {
    fn note(&mut self, idents: &[Ident]) {
        match idents {
            [.., qualifier, column] => {
                let (qualifier, column) = (names::fold(qualifier), names::fold(column));
                self.0.qualified.insert((qualifier, column));
            }
            [column] => self.0.plain.extend([names::fold(column)]),
            [] => {}
        }
    }

    fn joins(&mut self, from: &[TableWithJoins]) {
        for one in from {
            self.nested(&one.relation);
            for join in &one.joins {
                self.nested(&join.relation);
                match constraint(&join.join_operator) {
                    Some(JoinConstraint::Natural) => self.0.has_natural_join = true,
                    Some(JoinConstraint::Using(columns)) => {
                        let columns = columns.iter().flat_map(|name| name.0.last()?.as_ident());
                        self.0.plain.extend(columns.map(names::fold));
                    }
                    _ => {}
                }
            }
        }
    }

    fn nested(&mut self, factor: &TableFactor) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.joins(std::slice::from_ref(table_with_joins));
        }
    }
}

impl VisitorMut for Collector {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.joins(&select.from);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(column) => self.note(std::slice::from_ref(column)),
            Expr::CompoundIdentifier(idents) => self.note(idents),
            // A row as a whole.
            Expr::QualifiedWildcard(..) | Expr::Wildcard(_) => self.0.has_natural_join = true,
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    let is_row = |argument: &FunctionArg| {
                        matches!(
                            argument,
                            FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_))
                        )
                    };
                    self.0.has_natural_join |= list.args.iter().any(is_row);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::CrossJoin(on)
        | JoinOperator::Semi(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::RightSemi(on)
        | JoinOperator::Anti(on)
        | JoinOperator::LeftAnti(on)
        | JoinOperator::RightAnti(on)
        | JoinOperator::StraightJoin(on) => Some(on),
        _ => None,
    }
}

fn last<'i>(idents: impl Iterator<Item = &'i Ident>) -> Option<String> {
    idents.last().map(names::fold)
}
