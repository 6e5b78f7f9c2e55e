//! Binding of `INSERT`.

use std::ops::ControlFlow;

use atoll::{Column, Schema, Table, Value};
use sqlparser::ast::{
    ConflictTarget, Expr, Ident, Insert, ObjectName, OnConflict, OnConflictAction, OnInsert, Query,
    SetExpr, Spanned, Statement, TableObject, Value as SqlValue, Values, visit_expressions,
};
use sqlparser::tokenizer::Span;

use super::assigned;
use super::target::{
    Target, always_numbered, assignments, is_default, named, refuse, relation, select,
};
use super::{Cell, Change, Checks, Conflict, Delivery, Doing, NewValues, Returning, Source, Verb};
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::live::{EXCLUDED, TARGET};
use crate::prepared::query::Binder;
use crate::prepared::{Unbound, parameters};
use crate::sequence::mentions::changes_sequence;
use crate::sequence_syntax::{self as syntax, Overriding};
use crate::short::columns::value_types;
use crate::short::compile::{Compiler, NotShort};
use crate::short::plan::Node;
use crate::short::scalar::Slot;
use crate::{eval, names};

impl Binder<'_> {
    pub(super) fn insert(
        &self,
        insert: &Insert,
        compiler: &mut Compiler,
    ) -> Result<Change, Unbound> {
        let target = self.insert_target(insert)?;
        let declared = Declared::of(target.table.schema())?;
        let columns =
            names::named_columns(&target.table, insert.columns.iter().map(names::column_name))?;
        let overriding = syntax::overriding(insert);
        // Without a list, the last columns may be left away.
        let names_none = insert.columns.is_empty();
        let is_plain = |source: &Query| {
            source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none()
        };
        let rows = match insert.source.as_ref().map(|source| (source, source.body.as_ref())) {
            // DEFAULT VALUES.
            None => {
                let row = Row { written: &[], columns: &[] };
                Source::Written(self.written(&[row], (&declared, None), &target.table, compiler)?)
            }
            Some((source, SetExpr::Values(values))) if is_plain(source) => {
                if !names_none {
                    names::check_others(&target.table, &columns)?;
                }
                let rows = written_rows(values, &columns, names_none)?;
                let rules = (&declared, overriding);
                Source::Written(self.written(&rows, rules, &target.table, compiler)?)
            }
            Some((source, _)) => {
                let into = (&target.table, &declared, overriding);
                self.delivered(source, (&columns, names_none), into, compiler)?
            }
        };
        let returning = self.returning(insert.returning.as_ref(), &target, &[], compiler)?;
        let checks = self.checks(&target.table, &declared, compiler)?;
        let on_conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(on)) => {
                let with = (&declared, returning.as_ref(), checks.as_ref());
                Some(self.conflict(on, &target, with, compiler)?)
            }
            Some(_) => {
                let error = SqlError::unsupported("ON DUPLICATE KEY is not supported");
                return Err(error
                    .with_hint(Some("write ON CONFLICT (…) DO UPDATE SET …".to_owned()))
                    .into());
            }
        };
        let generated = self.generated(&target.table, &declared, compiler)?;
        let update = on_conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let computed = generated.iter().flat_map(|generated| &generated.columns);
        let set = update.map(|update| update.columns.iter().chain(computed));
        let set: Option<Vec<usize>> = set.map(|set| set.map(|(column, _)| *column).collect());
        let doing = set.as_ref().map_or(Doing::Insert, |set| Doing::InsertOrUpdate(set));
        let foreign = self.foreign(&target.table, doing, compiler)?;
        let verb = Verb::Insert { rows, on_conflict };
        Ok(Change { table: target.table, verb, checks, generated, foreign, returning })
    }

    fn insert_target(&self, insert: &Insert) -> Result<Target, SqlError> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT needs the name of a table"));
        };
        let called = names::last(name);
        let (name, span) = names::table_name(name)?;
        let replaces =
            insert.or.is_some() || insert.replace_into || insert.ignore || insert.overwrite;
        let is_other = insert.partitioned.is_some()
            || !insert.assignments.is_empty()
            || !insert.after_columns.is_empty()
            || insert.output.is_some()
            || insert.insert_alias.is_some();
        let clause = match (replaces, is_other) {
            (true, _) => "replacing rows, other than by ON CONFLICT,",
            (_, true) => "this form of INSERT",
            _ => "",
        };
        refuse(clause, span)?;
        let alias = match &insert.table_alias {
            Some(alias) => alias.alias.clone(),
            None => Ident::with_quote('"', called),
        };
        Ok(Target { table: self.changed(&name, "insert into", span)?, alias, span })
    }

    /// The defaults of all columns.
    pub(super) fn defaults(
        &self,
        table: &Table,
        declared: &Declared,
        compiler: &mut Compiler,
    ) -> Result<Vec<Cell>, Unbound> {
        let row = Row { written: &[], columns: &[] };
        let rows = self.written(&[row], (declared, None), table, compiler)?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Rows that are written out, with defaults where nothing is written.
    fn written(
        &self,
        given: &[Row<'_>],
        rules: (&Declared, Option<Overriding>),
        table: &Table,
        compiler: &mut Compiler,
    ) -> Result<Vec<Vec<Cell>>, Unbound> {
        self.cells_of_rows(given, rules, table, compiler).map_err(|unbound| match unbound {
            Unbound::Error(error) => error.in_table(table).into(),
            short => short,
        })
    }

    fn cells_of_rows(
        &self,
        given: &[Row<'_>],
        (declared, overriding): (&Declared, Option<Overriding>),
        table: &Table,
        compiler: &mut Compiler,
    ) -> Result<Vec<Vec<Cell>>, Unbound> {
        let schema = table.schema();
        let default = |column: &Column| declared.default_of(&column.name);
        let defaults = schema.columns().iter().map(default).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::with_capacity(given.len());
        // Expressions that are bound together, with their places.
        let mut others: Vec<(usize, usize, Expr)> = Vec::new();
        // Defaults that are bound, once for all rows.
        let mut bound: Vec<Option<Cell>> = vec![None; defaults.len()];
        for Row { written, columns } in given {
            let mut exprs: Vec<Option<&Expr>> = vec![None; defaults.len()];
            for (expr, column) in written.iter().zip(*columns) {
                if !is_default(expr) {
                    not_generated(declared, schema, *column).map_err(|e| e.at(expr.span()))?;
                    if takes_value(declared, schema, *column, overriding)
                        .map_err(|e| e.at(expr.span()))?
                    {
                        exprs[*column] = Some(expr);
                    }
                }
            }
            let mut row = Vec::with_capacity(exprs.len());
            for (column, expr) in exprs.into_iter().enumerate() {
                row.push(match (expr, &defaults[column]) {
                    (None, None) => Cell::Value(Value::Null),
                    // Only a row that gets it is an error.
                    (None, Some(Expr::Value(default))) if default.value == SqlValue::Null => {
                        Cell::Value(Value::Null)
                    }
                    (Some(expr), _) => cell(expr, schema, column, compiler)?.unwrap_or_else(|| {
                        others.push((rows.len(), column, expr.clone()));
                        Cell::Value(Value::Null)
                    }),
                    (None, Some(default)) => match &bound[column] {
                        Some(cell) => cell.clone(),
                        None => {
                            let one = match cell(default, schema, column, compiler)? {
                                Some(one) => Some(one),
                                None => self.cells(vec![default.clone()], compiler)?.pop(),
                            };
                            let one = one.unwrap_or(Cell::Value(Value::Null));
                            bound[column].insert(one).clone()
                        }
                    },
                });
            }
            rows.push(row);
        }
        if !others.is_empty() {
            // Several subqueries in one SELECT would become a join.
            let (alone, together): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|(.., expr)| has_subquery(expr));
            let groups = alone.into_iter().map(|one| vec![one]).chain([together]);
            for group in groups.filter(|group| !group.is_empty()) {
                let exprs = group.iter().map(|(.., expr)| expr.clone()).collect();
                for ((row, column, expr), cell) in
                    group.into_iter().zip(self.cells(exprs, compiler)?)
                {
                    if let Cell::Scalar { from, .. } = &cell {
                        assigned::check(schema, column, *from, Some(&expr))?;
                    }
                    rows[row][column] = cell;
                }
            }
        }
        Ok(rows)
    }

    /// Expressions without columns, bound.
    fn cells(&self, exprs: Vec<Expr>, compiler: &mut Compiler) -> Result<Vec<Cell>, Unbound> {
        match self.cells_together(exprs.clone(), compiler) {
            // What several of them contain is computed once, in a row below theirs.
            Err(Unbound::NotShort(_)) if exprs.len() > 1 => {
                let mut cells = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    cells.extend(self.cells_together(vec![expr], compiler)?);
                }
                Ok(cells)
            }
            bound => bound,
        }
    }

    fn cells_together(
        &self,
        exprs: Vec<Expr>,
        compiler: &mut Compiler,
    ) -> Result<Vec<Cell>, Unbound> {
        let plan = self.plan(select(named(exprs).collect(), Vec::new(), None), None)?;
        let node = compiler.plan(&plan)?;
        let types = value_types(&plan)?;
        let scalars = match node {
            Node::Project { input, columns } if matches!(*input, Node::Empty { .. }) => columns,
            _ => return Err(NotShort::new("such a subquery in VALUES").into()),
        };
        let cell = |(scalar, from)| Cell::Scalar { scalar, from };
        Ok(scalars.into_iter().zip(types).map(cell).collect())
    }

    /// Rows that a query delivers.
    fn delivered(
        &self,
        query: &Query,
        (columns, names_none): (&[usize], bool),
        (table, declared, overriding): (&Table, &Declared, Option<Overriding>),
        compiler: &mut Compiler,
    ) -> Result<Source, Unbound> {
        let plan = self.plan(Statement::Query(Box::new(query.clone())), None)?;
        let count = plan.schema().fields().len();
        let columns = if names_none { &columns[..count.min(columns.len())] } else { columns };
        if count != columns.len() {
            let message = format!(
                "the query returns {count} columns for {} columns of the table",
                columns.len()
            );
            return Err(SqlError::new(SqlErrorKind::Syntax, message).into());
        }
        let schema = table.schema();
        columns.iter().try_for_each(|column| not_generated(declared, schema, *column))?;
        let types = value_types(&plan);
        if let Ok(types) = &types {
            let given: Vec<_> =
                columns.iter().copied().zip(types.iter().copied()).enumerate().collect();
            for (at, (column, from)) in given {
                let written = assigned::written_item(query, at, count);
                assigned::check(schema, column, from, written)?;
            }
        }
        let short = compiler.plan(&plan).and_then(|node| Ok((node, types?)));
        let row = Row { written: &[], columns: &[] };
        let row = self.written(&[row], (declared, None), table, compiler)?.swap_remove(0);
        let mut filled = Vec::with_capacity(columns.len());
        for column in columns {
            if takes_value(declared, schema, *column, overriding)? {
                filled.push(*column);
            }
        }
        let is_other = |(at, cell): &(usize, Cell)| {
            !filled.contains(at) && !matches!(cell, Cell::Value(Value::Null))
        };
        let defaults = row.into_iter().enumerate().filter(is_other).collect();
        let (columns, query) = (columns.to_vec(), Box::new(query.clone()));
        Ok(Source::Query(Delivery { columns, defaults, short, query }))
    }

    fn conflict(
        &self,
        on: &OnConflict,
        target: &Target,
        (declared, returning, checks): (&Declared, Option<&Returning>, Option<&Checks>),
        compiler: &mut Compiler,
    ) -> Result<Conflict, Unbound> {
        let table = &target.table;
        let (index, any) = match &on.conflict_target {
            None => (None, true),
            Some(ConflictTarget::Columns(idents)) => (unique_columns(table, idents)?, false),
            Some(ConflictTarget::OnConstraint(name)) => {
                let found = unique_constraint(table, self.scope.bare(table.name()), name);
                (found.map_err(|error| error.at(target.span))?, false)
            }
        };
        let update = match &on.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(_) if any => {
                let message = "ON CONFLICT DO UPDATE needs the columns that must be unique";
                let hint = "write ON CONFLICT (column, …) DO UPDATE SET …".to_owned();
                let error = SqlError::new(SqlErrorKind::Syntax, message).at(target.span);
                return Err(error.with_hint(Some(hint)).into());
            }
            OnConflictAction::DoUpdate(update) => {
                let (columns, values) = assignments(table, declared, &update.assignments)?;
                let values_ask = values.iter().any(changes_sequence);
                let excluded = relation(EXCLUDED, Ident::new("excluded"));
                let from = vec![target.relation(TARGET), excluded];
                let query = select(named(values).collect(), from, update.selection.clone());
                let (node, plan) = self.over_target(&query, target, true, compiler)?;
                if node.reads_a_table() {
                    return Err(NotShort::new("a subquery in ON CONFLICT").into());
                }
                let columns = columns.into_iter().zip(value_types(&plan)?).collect();
                let asks = values_ask || update.selection.as_ref().is_some_and(changes_sequence);
                let new = NewValues::new(table, node, columns, (returning, asks));
                Some(new.with_key(table).with_checks(checks))
            }
        };
        Ok(Conflict { index, any, update })
    }
}

/// Checks that a column takes a value.
///
/// # Errors
/// It is computed.
pub(crate) fn not_generated(
    declared: &Declared,
    schema: &Schema,
    column: usize,
) -> Result<(), SqlError> {
    let name = &schema.columns()[column].name;
    if !declared.generated.contains_key(name) {
        return Ok(());
    }
    let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
    Err(SqlError::new(SqlErrorKind::Constraint, message)
        .with_cause(Cause::GeneratedColumn)
        .with_detail(format!("Column \"{name}\" is a generated column.")))
}

/// Whether a column takes a value that is given for it: one that is numbered may not.
///
/// # Errors
/// It is always numbered.
fn takes_value(
    declared: &Declared,
    schema: &Schema,
    column: usize,
    overriding: Option<Overriding>,
) -> Result<bool, SqlError> {
    let name = &schema.columns()[column].name;
    match (declared.identities.get(name), overriding) {
        (Some(true), None) => {
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            Err(SqlError::new(SqlErrorKind::Constraint, message)
                .with_cause(Cause::GeneratedColumn)
                .with_detail(always_numbered(name))
                .with_hint(Some("Use OVERRIDING SYSTEM VALUE to override.".to_owned())))
        }
        (Some(_), Some(Overriding::User)) => Ok(false),
        _ => Ok(true),
    }
}

/// A row that is written out: values of some columns.
struct Row<'r> {
    written: &'r [Expr],
    columns: &'r [usize],
}

/// The rows of `VALUES`, with values for these columns, or for the first of them.
fn written_rows<'r>(
    values: &'r Values,
    columns: &'r [usize],
    names_none: bool,
) -> Result<Vec<Row<'r>>, SqlError> {
    let first = values.rows.first().map_or(0, |row| row.content.len());
    let columns = if names_none { &columns[..first.min(columns.len())] } else { columns };
    let row = |row: &'r sqlparser::ast::Parens<Vec<Expr>>| {
        let written: &[Expr] = &row.content;
        if written.len() == columns.len() {
            return Ok(Row { written, columns });
        }
        let span = written.first().map_or_else(Span::empty, Spanned::span);
        let message = format!("{} values are given for {} columns", written.len(), columns.len());
        Err(SqlError::new(SqlErrorKind::Syntax, message).at(span))
    };
    values.rows.iter().map(row).collect()
}

/// The value of a column as it is written, if it is a constant or a parameter by itself.
fn cell(
    expr: &Expr,
    schema: &Schema,
    column: usize,
    compiler: &mut Compiler,
) -> Result<Option<Cell>, SqlError> {
    if let Some(number) = parameters::parameter(expr) {
        let data_type = schema.columns()[column].data_type;
        let scalar = compiler.parameter(Slot { number, data_type });
        return Ok(Some(Cell::Scalar { scalar, from: data_type }));
    }
    let Some(literal) = eval::constant(expr) else { return Ok(None) };
    let literal = literal?;
    assigned::check_constant(schema, column, &literal, expr)?;
    let value = literal.into_column(schema, column);
    Ok(Some(Cell::Value(value.map_err(|error| error.at(expr.span()))?)))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_query = |inner: &Expr| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_query).is_break()
}

/// The unique index over exactly these columns; `None` for the primary key.
fn unique_columns(table: &Table, idents: &[Ident]) -> Result<Option<String>, SqlError> {
    let schema = table.schema();
    let mut wanted = Vec::with_capacity(idents.len());
    for ident in idents {
        wanted.push(names::position(schema, table.name(), ident)?);
    }
    let is_same = |columns: &[usize]| {
        columns.len() == wanted.len() && columns.iter().all(|column| wanted.contains(column))
    };
    if is_same(schema.primary_key()) {
        return Ok(None);
    }
    let position = |name: &String| schema.position(name);
    let found = table.indexes().into_iter().find(|index| {
        index.unique && is_same(&index.columns.iter().filter_map(position).collect::<Vec<_>>())
    });
    found.map(|index| Some(index.name)).ok_or_else(|| {
        let message = "there is no primary key and no unique index over these columns";
        let span = idents.first().map_or_else(Span::empty, |ident| ident.span);
        let error = SqlError::new(SqlErrorKind::Schema, message).at(span);
        error.with_cause(Cause::InvalidReference)
    })
}

/// The unique index of a name; `None` for the primary key.
fn unique_constraint(
    table: &Table,
    bare: &str,
    name: &ObjectName,
) -> Result<Option<String>, SqlError> {
    let name = names::fold(names::column_name(name)?);
    if !table.schema().is_keyless() && name == format!("{bare}_pkey") {
        return Ok(None);
    }
    let found = table.indexes().into_iter().find(|index| index.unique && index.name == name);
    found.map(|index| Some(index.name)).ok_or_else(|| {
        let message = format!("constraint \"{name}\" of table \"{}\" does not exist", table.name());
        SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
    })
}
