//! Binding of `INSERT`, `UPDATE` and `DELETE`.
//!
//! The expressions of a change are bound as those of queries over the table that it changes, which
//! stands in them under a name of its own ([`TARGET`]): the new values of an `UPDATE` are
//! `SELECT value, … FROM target WHERE condition`. One such query finds the rows and another gives
//! the new values of a row that the transaction holds, so what a change does is decided by the row
//! as it is then.
//!
//! `CHANGE-1`: a clause that is not carried out is an error. `CHANGE-2`: all names, types and
//! constants are checked before a row is read.

mod assigned;
mod beside;
mod checks;
mod copy;
mod foreign;
mod generated;
mod insert;
mod lock;
mod target;

use std::sync::Arc;

use atoll::{DataType, Table, Value};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::{
    Delete, Expr, FromTable, Query, SelectItem, Spanned, Statement, TableWithJoins, Update,
    UpdateTableFromKind,
};
use sqlparser::tokenizer::Span;

use self::beside::Beside;
pub(crate) use self::checks::{Checks, Condition};
pub(crate) use self::copy::Copied;
pub(crate) use self::foreign::{Concerned, Doing, Foreign, Reference};
pub(crate) use self::generated::{Generated, invalid};
pub(crate) use self::insert::not_generated;
use self::target::{Target, assignments, named, refuse, select};
use super::query::Binder;
use super::wanted::Wanted;
use super::{Body, Prepared, Unbound};
use crate::declared::Declared;
use crate::error::SqlError;
use crate::live::{KEYED, LiveCatalog, TARGET};
use crate::sequence::mentions::changes_sequence;
use crate::short::access::Path;
use crate::short::columns::{Columns, value_types};
use crate::short::compile::{Compiler, NotShort};
use crate::short::explain;
use crate::short::plan::Node;
use crate::short::scalar::Scalar;

/// A change of the rows of one table.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) table: Table,
    pub(crate) verb: Verb,
    /// The conditions for the new rows.
    pub(crate) checks: Option<Checks>,
    /// The columns that are computed for new rows.
    pub(crate) generated: Option<Generated>,
    /// The foreign keys that it has to keep.
    pub(crate) foreign: Option<Foreign>,
    /// The columns that it returns of each changed row.
    pub(crate) returning: Option<Returning>,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum Verb {
    Insert {
        rows: Source,
        on_conflict: Option<Conflict>,
    },
    Update(Assignments),
    /// The rows to delete, by their primary keys, and whether a row that the caller gives is one of
    /// them.
    Delete {
        find: Node,
        again: Option<(Node, Wanted)>,
    },
    /// All rows of another table are inserted.
    Copy(Copied),
}

/// Where the rows of an `INSERT` come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// They are written out, complete and in the order of the table's columns.
    Written(Vec<Vec<Cell>>),
    /// A query delivers some columns.
    Query(Delivery),
}

/// Rows that a query delivers.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The columns that it fills.
    pub(crate) columns: Vec<usize>,
    /// The values of others.
    pub(crate) defaults: Vec<(usize, Cell)>,
    /// The short plan and the types of its columns, or why there is none.
    pub(crate) short: Result<(Node, Vec<DataType>), NotShort>,
    pub(crate) query: Box<Query>,
}

impl Change {
    /// Whether the query that delivers its rows is not short because a parameter has no type.
    pub(crate) fn lacks_type(&self) -> bool {
        match &self.verb {
            Verb::Insert { rows: Source::Query(delivery), .. } => {
                delivery.short.as_ref().is_err_and(NotShort::lacks_type)
            }
            _ => false,
        }
    }
}

/// A value of a row that is written out.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Value(Value),
    Scalar { scalar: Scalar, from: DataType },
}

/// New values of rows.
#[derive(Debug)]
pub(crate) struct Assignments {
    /// The primary key of each row, and its new values unless `again` gives them.
    pub(crate) find: Node,
    /// The new values of a row that the caller gives.
    pub(crate) again: Option<NewValues>,
    /// The columns that are set, and the types of their new values.
    pub(crate) columns: Vec<(usize, DataType)>,
}

/// New values of a row that the caller gives.
#[derive(Debug)]
pub(crate) struct NewValues {
    /// The values, or no row if it is not to be changed.
    pub(crate) node: Node,
    /// The columns that are set, and the types of their new values.
    pub(crate) columns: Vec<(usize, DataType)>,
    /// The columns that this or RETURNING looks at.
    pub(crate) wanted: Wanted,
    /// They ask sequences, which may have to wait.
    pub(crate) asks: bool,
}

impl NewValues {
    fn new(
        table: &Table,
        node: Node,
        columns: Vec<(usize, DataType)>,
        (returning, asks): (Option<&Returning>, bool),
    ) -> Self {
        let nodes = std::iter::once(&node).chain(returning.map(|returning| &returning.node));
        let mut wanted = Wanted::of(table, nodes);
        columns.iter().for_each(|(column, _)| wanted.add(*column));
        Self { node, columns, wanted, asks }
    }

    /// The same, where also conditions for the new row are checked.
    fn with_checks(mut self, checks: Option<&Checks>) -> Self {
        let columns = checks.map_or(&[][..], Checks::columns);
        columns.iter().for_each(|at| self.wanted.add(*at));
        self
    }

    /// The same, where also the primary key of the new row is needed.
    fn with_key(mut self, table: &Table) -> Self {
        table.schema().primary_key().iter().for_each(|at| self.wanted.add(*at));
        self
    }
}

/// `ON CONFLICT`.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The unique index that decides; `None` for the primary key, and `any` for all of them.
    pub(crate) index: Option<String>,
    pub(crate) any: bool,
    /// New values of the row that is there, over it and the proposed one; `None` to do nothing.
    pub(crate) update: Option<NewValues>,
}

/// `RETURNING`: a plan over the row that was changed, and what was found beside it.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) node: Node,
    pub(crate) columns: Arc<Columns>,
    /// The columns of other tables that the search for the rows delivers, of so many.
    pub(crate) beside: Vec<usize>,
    pub(crate) beside_width: usize,
    /// The same columns as the search names them.
    items: Vec<Expr>,
}

impl Binder<'_> {
    /// Binds a change.
    ///
    /// # Errors
    /// Clauses that are not supported, names that do not exist, values that no column holds; an
    /// expression that the short executor does not have.
    pub(crate) fn change(&self, statement: &Statement) -> Result<Prepared, Unbound> {
        let mut compiler = Compiler::default();
        let change = match statement {
            Statement::Insert(insert) => self.insert(insert, &mut compiler)?,
            Statement::Update(update) => self.update(update, &mut compiler)?,
            Statement::Delete(delete) => self.delete(delete, &mut compiler)?,
            other => return Err(SqlError::unsupported(format!("{other} is no change")).into()),
        };
        let mut prepared = Prepared::new(Body::Change(Box::new(change)), compiler);
        prepared.version = Some(self.scope.version);
        Ok(prepared)
    }

    /// Plans a query over the target and compiles it. With `gives`, the caller gives the rows of
    /// the target.
    fn over_target(
        &self,
        query: &Statement,
        target: &Target,
        gives: bool,
        compiler: &mut Compiler,
    ) -> Result<(Node, LogicalPlan), Unbound> {
        let plan = self.plan(query.clone(), Some(&target.table))?;
        let node = match gives {
            true => given_rows(&plan, compiler)?,
            false => compiler.plan(&plan)?,
        };
        Ok((node, plan))
    }

    fn returning(
        &self,
        items: Option<&Vec<SelectItem>>,
        target: &Target,
        from: &[TableWithJoins],
        compiler: &mut Compiler,
    ) -> Result<Option<Returning>, Unbound> {
        let Some(items) = items else { return Ok(None) };
        let beside = match from {
            [] | [_] => None,
            from => Some(Beside::of(self, target, from)?),
        };
        let relations = match &beside {
            None => vec![target.relation(TARGET)],
            Some(beside) => beside.relations(target),
        };
        let query = select(items.clone(), relations, None);
        let mut catalog = LiveCatalog::new(self.scope.clone(), Some(target.table.clone()));
        if let Some(beside) = &beside {
            catalog = catalog.with_found(Arc::clone(&beside.schema));
        }
        let plan = self.plan_over(catalog, query)?;
        let node = given_rows(&plan, compiler)?;
        let columns = Columns::of(&plan)?;
        if node.reads_a_table() {
            return Err(NotShort::new("a subquery in RETURNING").into());
        }
        let used = beside.as_ref().map_or(Ok(Vec::new()), |beside| beside.used(&plan))?;
        let items = beside.as_ref().map_or_else(Vec::new, |beside| beside.items(&used));
        let beside_width = beside.map_or(0, |beside| beside.schema.fields().len());
        Ok(Some(Returning { node, columns, beside: used, beside_width, items }))
    }

    fn update(&self, update: &Update, compiler: &mut Compiler) -> Result<Change, Unbound> {
        let span = update.table.span();
        let clause = if update.or.is_some() || update.output.is_some() {
            "this form of UPDATE"
        } else if update.limit.is_some() || !update.order_by.is_empty() {
            "ORDER BY and LIMIT in UPDATE"
        } else {
            ""
        };
        refuse(clause, span)?;
        let target = self.target(std::slice::from_ref(&update.table), "UPDATE")?;
        let mut from = vec![target.relation(TARGET)];
        match &update.from {
            Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                from.extend(more.iter().cloned());
            }
            None => {}
        }
        let declared = Declared::of(target.table.schema())?;
        let (columns, values) = assignments(&target.table, &declared, &update.assignments)?;
        let returning = self.returning(update.returning.as_ref(), &target, &from, compiler)?;
        let beside = returning.as_ref().map_or(&[][..], |returning| &returning.items);
        let condition = update.selection.clone();
        let asks = values.iter().chain(&condition).any(changes_sequence);
        let written = values.clone();
        let change = self.assigned(&target, from, (values, beside), condition, compiler)?;
        let columns: Vec<_> = columns.into_iter().zip(change.types).collect();
        for ((column, data_type), written) in columns.iter().zip(&written) {
            assigned::check(target.table.schema(), *column, *data_type, Some(written))?;
        }
        let Found { find, again, .. } = change;
        let generated = self.generated(&target.table, &declared, compiler)?;
        let generated = generated.filter(|generated| generated.depends_on(&columns));
        let mut all = columns.clone();
        all.extend(generated.iter().flat_map(|generated| generated.columns.iter().copied()));
        let checks = self.checks(&target.table, &declared, compiler)?;
        let checks = checks.filter(|checks| checks.depend_on(&all));
        let new = |node| {
            let with = (returning.as_ref(), asks);
            let new = NewValues::new(&target.table, node, columns.clone(), with);
            new.with_checks(checks.as_ref())
        };
        let again = again.map(new);
        let set: Vec<usize> = all.iter().map(|(column, _)| *column).collect();
        let foreign = self.foreign(&target.table, Doing::Update(&set), compiler)?;
        let verb = Verb::Update(Assignments { find, again, columns });
        Ok(Change { table: target.table, verb, checks, generated, foreign, returning })
    }

    /// The plans for new values of the rows for which a condition holds.
    fn assigned(
        &self,
        target: &Target,
        from: Vec<TableWithJoins>,
        (values, beside): (Vec<Expr>, &[Expr]),
        condition: Option<Expr>,
        compiler: &mut Compiler,
    ) -> Result<Found, Unbound> {
        let is_alone = from.len() == 1;
        let key = target.key_columns();
        let others = values.iter().chain(beside).cloned();
        let columns = key.iter().cloned().map(SelectItem::UnnamedExpr).chain(named(others));
        let mut keyed = from.clone();
        keyed[0] = target.relation(KEYED);
        let whole = select(columns.collect(), keyed.clone(), condition.clone());
        let (find, plan) = self.over_target(&whole, target, false, compiler)?;
        let mut types = value_types(&plan)?.split_off(key.len());
        types.truncate(values.len());
        if !is_alone || !is_simple(&find) {
            return Ok(Found { find, again: None, types });
        }
        // Only the keys are looked for; the values are computed when the row is held.
        let items = key.into_iter().map(SelectItem::UnnamedExpr).collect();
        let keys = select(items, keyed, condition.clone());
        let (find, _) = self.over_target(&keys, target, false, compiler)?;
        let condition = condition.filter(|_| !is_only_key(&find));
        let again = select(named(values).collect(), from, condition);
        let (again, _) = self.over_target(&again, target, true, compiler)?;
        Ok(Found { find, again: Some(again), types })
    }

    fn delete(&self, delete: &Delete, compiler: &mut Compiler) -> Result<Change, Unbound> {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let span = tables.first().map_or_else(Span::empty, Spanned::span);
        let clause = if delete.limit.is_some() || !delete.order_by.is_empty() {
            "ORDER BY and LIMIT in DELETE"
        } else if !delete.tables.is_empty() || delete.output.is_some() {
            "this form of DELETE"
        } else {
            ""
        };
        refuse(clause, span)?;
        let target = self.target(tables, "DELETE")?;
        let mut from = vec![target.relation(TARGET)];
        from.extend(delete.using.iter().flatten().cloned());
        let returning = self.returning(delete.returning.as_ref(), &target, &from, compiler)?;
        let beside = returning.iter().flat_map(|returning| returning.items.iter().cloned());
        let key = target.key_columns().into_iter().map(SelectItem::UnnamedExpr);
        from[0] = target.relation(KEYED);
        let keys = select(key.chain(named(beside)).collect(), from, delete.selection.clone());
        let (find, _) = self.over_target(&keys, &target, false, compiler)?;
        let again = match delete.using.is_none() && is_simple(&find) && !is_only_key(&find) {
            true => {
                let (again, _) = self.over_target(&keys, &target, true, compiler)?;
                let wanted = Wanted::of(&target.table, std::iter::once(&again));
                Some((again, wanted))
            }
            false => None,
        };
        let foreign = self.foreign(&target.table, Doing::Delete, compiler)?;
        let verb = Verb::Delete { find, again };
        let (checks, generated) = (None, None);
        Ok(Change { table: target.table, verb, checks, generated, foreign, returning })
    }
}

impl Change {
    /// Its plan, as `EXPLAIN` shows it.
    pub(crate) fn explain(&self) -> Vec<String> {
        let table = self.table.name();
        let (title, input) = match &self.verb {
            Verb::Insert { rows, on_conflict } => {
                let input = match rows {
                    Source::Written(rows) => vec![format!("Values, {} rows", rows.len())],
                    Source::Query(Delivery { short: Ok((node, _)), .. }) => explain::lines(node),
                    Source::Query(_) => vec!["Query on a snapshot".to_owned()],
                };
                let conflict = match on_conflict {
                    None => "",
                    Some(Conflict { update: None, .. }) => ", on conflict nothing",
                    Some(_) => ", on conflict update",
                };
                (format!("Insert on {table}{conflict}"), input)
            }
            Verb::Update(assignments) => {
                (format!("Update on {table}"), explain::lines(&assignments.find))
            }
            Verb::Delete { find, .. } => (format!("Delete on {table}"), explain::lines(find)),
            Verb::Copy(copied) => {
                (format!("Copy to {table}"), vec![format!("Scan of {}", copied.from.name())])
            }
        };
        let below = input.into_iter().enumerate().map(|(at, line)| match at {
            0 => format!("-> {line}"),
            _ => format!("   {line}"),
        });
        std::iter::once(title).chain(below).collect()
    }
}

/// The plans for the rows of an `UPDATE`.
struct Found {
    find: Node,
    again: Option<Node>,
    types: Vec<DataType>,
}

/// Compiles a plan for which the caller gives the rows of the target.
fn given_rows(plan: &LogicalPlan, compiler: &mut Compiler) -> Result<Node, NotShort> {
    compiler.gives_rows = true;
    let node = compiler.plan(plan);
    compiler.gives_rows = false;
    node
}

/// Whether a plan finds the row with a key, whatever else is in it.
fn is_only_key(node: &Node) -> bool {
    match node {
        Node::Access(access) => matches!(access.path, Path::Key(_)) && !access.has_condition(),
        _ => false,
    }
}

/// Whether a plan finds each row of the target by itself, so that its conditions can be checked
/// again on that row.
fn is_simple(node: &Node) -> bool {
    match node {
        Node::Access(access) => !matches!(access.path, Path::Given(_)),
        Node::Project { input, .. } | Node::Filter { input, .. } => is_simple(input),
        Node::Empty { has_row: false, .. } => true,
        _ => false,
    }
}
