//! `CREATE VIEW`, `DROP VIEW` and `ALTER VIEW`.

use arrow_schema::SchemaRef;
use atoll::{Catalog, Table, TableOptions, Transaction};
use sqlparser::ast::{
    AlterTable, AlterTableOperation, CreateTableOptions, CreateView, Ident, Query,
    RenameTableNameKind, SetExpr, Spanned, Statement,
};
use sqlparser::tokenizer::Span;

use super::{Outcome, SqlSession};
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::live::LiveCatalog;
use crate::notice::Notice;
use crate::scope::Scope;
use crate::view::follow::{self, Becomes, Kept, Reshaped};
use crate::view::{View, ViewColumn, expand};
use crate::{comments, depth, names, needed, output_names, query, types};

impl SqlSession {
    /// Carries out `CREATE VIEW`.
    ///
    /// # Errors
    /// Those of the query; something of the name exists, and is no view that can be replaced.
    pub(super) fn create_view(&mut self, create: &CreateView) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE VIEW";
        self.may_define(TAG)?;
        let (name, span) = names::table_name(&create.name)?;
        refuse_clauses(create).map_err(|error| error.at(span))?;
        let scope = self.scope()?;
        let old = match scope.catalog.get(&name) {
            None => None,
            Some(old) if create.or_replace => match View::of(old.schema())? {
                Some(view) => Some((old, view)),
                None => return Err(is_no("view", &name).at(span)),
            },
            Some(_) => return Err(exists(&name).at(span)),
        };
        let view = self.view_of(&scope, create)?;
        if let Some((_, old)) = &old {
            check_replacement(old, &view)?;
            check_recursion(&scope.catalog, &name, &view)?;
        }
        let sources = all_sources(&scope.catalog, &view)?;
        let schema = view.schema().map_err(|error| error.at(span))?;
        let made = self.define(&mut |transaction| {
            sources.iter().try_for_each(|source| transaction.use_table(source))?;
            match old {
                Some((object, _)) => transaction.drop_table(object)?,
                None => comments::dropped(transaction, &name)?,
            }
            transaction.create_table(&name, schema.clone(), &TableOptions::default())?;
            Ok(())
        });
        made.map_err(|error| error.at(span))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// The view that a statement describes.
    fn view_of(&self, scope: &Scope, create: &CreateView) -> Result<View, SqlError> {
        let columns = self.columns_of_query(scope, &create.query)?;
        let columns = named(columns, create)?;
        let columns_of = |relation: &str| columns_of_relation(scope, relation);
        let mut failed = None;
        for all in [false, true] {
            let view = View::new(&create.query, columns.clone(), &columns_of, all)?;
            // What is kept must mean what was written.
            let find = |name: &str| View::find(&scope.catalog, name);
            // Views inside each other may be deep.
            let expanded = depth::with_room(|| expand::query(&view, &find))?;
            match self.columns_of_query(scope, &expanded) {
                Ok(seen) if seen.iter().eq(columns.iter()) => return Ok(view),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| SqlError::unsupported("no view can have this query")))
    }

    /// The columns of a query.
    fn columns_of_query(&self, scope: &Scope, query: &Query) -> Result<Vec<ViewColumn>, SqlError> {
        let catalog = LiveCatalog::new(scope.clone(), None);
        let statement = Statement::Query(Box::new(query.clone()));
        let plan = query::bind(catalog, statement, &self.interrupt())?;
        let schema = SchemaRef::new(plan.schema().as_arrow().clone());
        let schema = output_names::shown_schema(&schema);
        let column = |field: &arrow_schema::FieldRef| ViewColumn {
            name: field.name().clone(),
            data_type: types::shown(field),
        };
        Ok(schema.fields().iter().map(column).collect())
    }

    /// Carries out `DROP VIEW`.
    ///
    /// # Errors
    /// A view that does not exist, or that another one reads.
    pub(super) fn drop_views(&mut self, statement: &Statement) -> Result<Outcome, SqlError> {
        const TAG: &str = "DROP VIEW";
        let Statement::Drop { if_exists, names, cascade, purge, temporary, table, .. } = statement
        else {
            return Ok(Outcome::done(TAG, 0));
        };
        if *purge || *temporary || table.is_some() {
            return Err(SqlError::unsupported("this form of DROP VIEW is not supported"));
        }
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let mut views: Vec<Table> = Vec::new();
        for written in names {
            let (name, span) = names::table_name(written)?;
            match find_view(&scope, &name, true) {
                Ok(view) if views.iter().any(|one| one.name() == view.name()) => {}
                Ok(view) => views.push(view.clone()),
                Err(error) if *if_exists && error.kind() == SqlErrorKind::UnknownTable => {
                    self.tell_missing(&scope, "view", written);
                }
                Err(error) => return Err(error.at(span)),
            }
        }
        if views.is_empty() {
            return Ok(Outcome::done(TAG, 0));
        }
        let names: Vec<&str> = views.iter().map(Table::name).collect();
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            views.iter().try_for_each(|view| transaction.lock_table(view))?;
            let dependent = follow::dependent(&transaction.catalog(), &names)?;
            if !*cascade && !dependent.is_empty() {
                let object = (names.len() == 1).then(|| format!("view {}", names[0]));
                let lines: Vec<_> = dependent.iter().map(follow::Dependent::line).collect();
                return Err(needed::cannot_drop(object.as_deref(), &lines).into());
            }
            gone = dependent.iter().map(|one| format!("view {}", one.view)).collect();
            drop_dependent(transaction, &dependent)?;
            for view in &views {
                transaction.drop_table(view)?;
                comments::dropped(transaction, view.name())?;
            }
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `ALTER VIEW`, or an `ALTER TABLE` that names a view.
    ///
    /// # Errors
    /// A view that does not exist; a part that is not supported; something has the new name.
    pub(super) fn alter_view(
        &mut self,
        alter: &AlterTable,
        tag: &'static str,
    ) -> Result<Outcome, SqlError> {
        self.may_define(tag)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(&alter.name)?;
        let object = match find_view(&scope, &name, false) {
            Ok(object) => object.clone(),
            Err(error) if alter.if_exists && error.kind() == SqlErrorKind::UnknownTable => {
                self.tell(Notice::missing("relation", &names::last(&alter.name)));
                return Ok(Outcome::done(tag, 0));
            }
            Err(error) => return Err(error.at(span)),
        };
        let mut view = View::find(&scope.catalog, &name)?.ok_or_else(|| is_no("view", &name))?;
        let mut new = name.clone();
        if let [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }] =
            alter.operations.as_slice()
            && names::last(to) == names::last(&alter.name)
        {
            let (to, _) = names::table_name(to)?;
            if to != name {
                return self.set_schema(&name, &to, tag);
            }
        }
        for operation in &alter.operations {
            match operation {
                AlterTableOperation::RenameTable {
                    table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to),
                } => {
                    let (to, span) = names::table_name(to)?;
                    if scope.catalog.get(&to).is_some() {
                        return Err(exists(&to).at(span));
                    }
                    new = to;
                }
                AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                    rename_column(&mut view, &name, old_column_name, new_column_name)?;
                }
                other => {
                    let message =
                        format!("\"{name}\" is a view, for which {other} is not supported");
                    return Err(SqlError::unsupported(message)
                        .with_state("42809")
                        .at(other.span())
                        .with_hint(Some("the parts are RENAME TO and RENAME COLUMN".to_owned())));
                }
            }
        }
        let before = View::find(&scope.catalog, &name)?.map(|view| view.columns);
        let columns = before.into_iter().flatten().zip(&view.columns).map(|(old, new)| Kept {
            old: old.name,
            new: new.name.clone(),
            has_other_type: false,
        });
        let columns: Vec<Kept> = columns.collect();
        let schema = view.schema()?;
        let made = self.define(&mut |transaction| {
            transaction.lock_table(&object)?;
            let to = Reshaped { old: &name, new: &new, columns: &columns, cascades: false };
            let others = follow::reshaped(&transaction.catalog(), &to)?;
            transaction.drop_table(&object)?;
            transaction.create_table(&new, schema.clone(), &TableOptions::default())?;
            comments::follow(transaction, (&name, &new), &columns, |_| ())?;
            become_all(transaction, others)
        });
        made.map_err(|error| error.at(span))?;
        Ok(Outcome::done(tag, 0))
    }
}

/// Makes views what they become.
pub(super) fn become_all(
    transaction: &mut Transaction,
    views: Vec<Becomes>,
) -> Result<(), ApplyError> {
    for Becomes { name, view } in views {
        let Some(object) = transaction.catalog().object(&name).cloned() else { continue };
        transaction.drop_table(&object)?;
        match view {
            Some(view) => {
                transaction.create_table(&name, view.schema()?, &TableOptions::default())?;
            }
            None => comments::dropped(transaction, &name)?,
        }
    }
    Ok(())
}

/// Drops views that depend on something that is dropped.
pub(super) fn drop_dependent(
    transaction: &mut Transaction,
    dependent: &[follow::Dependent],
) -> Result<(), ApplyError> {
    let dropped = dependent.iter().rev();
    let dropped = dropped.map(|one| Becomes { name: one.view.clone(), view: None });
    become_all(transaction, dropped.collect())
}

fn refuse_clauses(create: &CreateView) -> Result<(), SqlError> {
    let clause = if create.temporary {
        "TEMPORARY"
    } else if create.materialized {
        "MATERIALIZED"
    } else if create.if_not_exists {
        "IF NOT EXISTS"
    } else if create.options != CreateTableOptions::None {
        "WITH (…)"
    } else if create.or_alter
        || create.secure
        || create.copy_grants
        || create.with_no_schema_binding
        || create.to.is_some()
        || create.comment.is_some()
        || create.params.is_some()
        || !create.cluster_by.is_empty()
        || create
            .columns
            .iter()
            .any(|column| column.data_type.is_some() || column.options.is_some())
    {
        "an option"
    } else if !create.query.locks.is_empty() {
        "FOR UPDATE or FOR SHARE"
    } else if reads_by_table(&create.query.body) {
        "TABLE in the place of a query"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("{clause} is not supported in CREATE VIEW")))
}

fn reads_by_table(body: &SetExpr) -> bool {
    match body {
        SetExpr::Table(_) => true,
        SetExpr::SetOperation { left, right, .. } => reads_by_table(left) || reads_by_table(right),
        SetExpr::Query(query) => reads_by_table(&query.body),
        _ => false,
    }
}

/// The columns of a relation that a view may read.
fn columns_of_relation(scope: &Scope, name: &str) -> Option<Vec<String>> {
    let names = |columns: &[atoll::Column]| columns.iter().map(|one| one.name.clone()).collect();
    if let Ok(Some(view)) = View::find(&scope.catalog, name) {
        return Some(view.columns.into_iter().map(|column| column.name).collect());
    }
    match scope.catalog.table(name) {
        Some(table) => Some(names(table.schema().visible())),
        None => scope.inherited(name).map(|table| names(table.schema().visible())),
    }
}

/// The columns of a query under the names that the statement gives them.
fn named(mut columns: Vec<ViewColumn>, create: &CreateView) -> Result<Vec<ViewColumn>, SqlError> {
    let span = |at: usize| create.columns.get(at).map_or_else(Span::empty, |one| one.name.span);
    if create.columns.len() > columns.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(SqlErrorKind::Syntax, message).at(span(columns.len())));
    }
    for (column, given) in columns.iter_mut().zip(&create.columns) {
        column.name = names::fold(&given.name);
    }
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::ColumnExists)
                .at(span(at)));
        }
    }
    Ok(columns)
}

/// Checks that a view may take the place of another: it has its columns, and perhaps more.
fn check_replacement(old: &View, new: &View) -> Result<(), SqlError> {
    let error = |message: String| SqlError::new(SqlErrorKind::Schema, message);
    if new.columns.len() < old.columns.len() {
        return Err(error("cannot drop columns from view".to_owned()));
    }
    for (old, new) in old.columns.iter().zip(&new.columns) {
        if old.name != new.name {
            let (old, new) = (&old.name, &new.name);
            let message = format!("cannot change name of view column \"{old}\" to \"{new}\"");
            let hint =
                "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return Err(error(message).with_hint(Some(hint.to_owned())));
        }
        if old.data_type != new.data_type {
            let (name, old, new) = (&old.name, &old.data_type, &new.data_type);
            return Err(error(format!(
                "cannot change data type of view column \"{name}\" from {old} to {new}"
            )));
        }
    }
    Ok(())
}

/// Checks that a view which takes the place of another does not read itself.
/// What a view reads, also by way of other views: as long as the transaction uses all of it, none
/// of it comes to read the view.
fn all_sources<'c>(catalog: &'c Catalog, view: &View) -> Result<Vec<&'c Table>, SqlError> {
    let mut names: Vec<String> = view.relations().map(str::to_owned).collect();
    let (mut at, mut sources) = (0, Vec::new());
    while at < names.len() {
        sources.extend(catalog.get(&names[at]));
        if let Some(view) = View::find(catalog, &names[at])? {
            let new: Vec<String> = view
                .relations()
                .filter(|one| !names.iter().any(|known| known == one))
                .map(str::to_owned)
                .collect();
            names.extend(new);
        }
        at += 1;
    }
    Ok(sources)
}

fn check_recursion(catalog: &Catalog, name: &str, view: &View) -> Result<(), SqlError> {
    let others = follow::dependent(catalog, &[name])?;
    let reads = |one: &str| one == name || others.iter().any(|other| other.view == one);
    if !view.relations().any(reads) {
        return Ok(());
    }
    let message = format!("infinite recursion detected in rules for relation \"{name}\"");
    Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidDefinition))
}

fn rename_column(view: &mut View, name: &str, old: &Ident, new: &Ident) -> Result<(), SqlError> {
    let (from, to) = (names::fold(old), names::fold(new));
    if view.columns.iter().any(|column| column.name == to) {
        let message = format!("column \"{to}\" of relation \"{name}\" already exists");
        return Err(SqlError::new(SqlErrorKind::Schema, message)
            .with_cause(Cause::ColumnExists)
            .at(new.span));
    }
    match view.columns.iter_mut().find(|column| column.name == from) {
        Some(column) => {
            column.name = to;
            Ok(())
        }
        None => {
            let known = view.columns.iter().map(|column| column.name.as_str());
            Err(names::unknown_column(&from, Some(name), known).at(old.span))
        }
    }
}

/// The object of a view.
fn find_view<'s>(scope: &'s Scope, name: &str, drops: bool) -> Result<&'s Table, SqlError> {
    match scope.catalog.get(name) {
        Some(object) if View::of(object.schema())?.is_some() => Ok(object),
        None if scope.inherited(name).is_none() => {
            let message = format!("view \"{name}\" does not exist");
            Err(SqlError::new(SqlErrorKind::UnknownTable, message))
        }
        _ => {
            let hint = "Use DROP TABLE to remove a table.".to_owned();
            Err(is_no("view", name).with_hint(drops.then_some(hint)))
        }
    }
}

/// The error of something of another kind.
fn is_no(kind: &str, name: &str) -> SqlError {
    let message = format!("\"{name}\" is not a {kind}");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::OtherObject)
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, format!("relation \"{name}\" already exists"))
        .with_cause(Cause::TableExists)
}
