//! What the names of relations in a statement mean: names without a schema are given one.
//!
//! A statement is resolved once, when it has been parsed. Behind that a name with one part is of
//! `public`, and [`names::table_name`] makes a flat name of any other (`SCHEMA-1`). Views, defaults
//! and foreign keys keep what their names meant when they were defined.
//!
//! - `RESOLVE-1`: a name without a schema means the relation of the first schema of the search path
//!   that has one of the name. A new relation gets the first schema of the path that exists.
//! - `RESOLVE-2`: resolving a resolved statement again changes nothing.

use atoll::Snapshot;
use sqlparser::ast::{
    AlterColumnOperation, AlterIndexOperation, AlterTable, AlterTableOperation, ColumnDef,
    ColumnOption, CommentObject, CopySource, DataType as SqlType, Expr, Ident, ObjectName,
    ObjectNamePart, ObjectType, RenameTableNameKind, Spanned, Statement, TableConstraint,
    TableFactor, TableObject, TypedString, visit_expressions_mut,
};
use sqlparser::tokenizer::Span;
use std::ops::ControlFlow;

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::object_syntax::SET_SCHEMA;
use crate::parse::MARK;
use crate::quoted::quoted_ident;
use crate::schemas::{self, PUBLIC, SYSTEM, flat};
use crate::scope::Scope;
use crate::search_path::SearchPath;
use crate::user_types::resolve::named_mut;
use crate::user_types::unknown;
use crate::view::relations::{self, Found};
use crate::{
    grant_names, like_clause, names, path_functions, sequence_names, sequence_syntax, system,
};

/// Where relations are looked up.
pub(crate) enum Sight<'s> {
    Database(&'s Scope),
    Snapshot(&'s Snapshot),
}

impl Sight<'_> {
    /// Whether a relation or another object has this flat name.
    pub(crate) fn has(&self, flat: &str) -> bool {
        match self {
            Self::Database(scope) => scope.has(flat) || scope.inherited(flat).is_some(),
            Self::Snapshot(snapshot) => {
                snapshot.object(flat).is_some()
                    || snapshot.table(flat).is_ok()
                    || schemas::is_inherited(snapshot.bases(), flat)
            }
        }
    }

    /// Whether an object that is no table has this flat name.
    fn has_object(&self, flat: &str) -> bool {
        match self {
            Self::Database(scope) => scope.catalog.object(flat).is_some(),
            Self::Snapshot(snapshot) => snapshot.object(flat).is_some(),
        }
    }

    /// Whether an index has this flat name.
    fn has_index(&self, flat: &str) -> bool {
        match self {
            Self::Database(scope) => scope.table_of_index(flat).is_some(),
            Self::Snapshot(_) => false,
        }
    }
}

/// Resolves the names of a statement.
///
/// # Errors
/// A schema that does not exist; nothing to create something in; a name that is not one of its
/// place.
pub(crate) fn statement(
    statement: &mut Statement,
    path: &SearchPath,
    sight: &Sight<'_>,
) -> Result<(), SqlError> {
    let has = |name: &str| sight.has(name);
    let schemas = path.schemas(&|schema| schemas::exists(schema, &has));
    let is_usual = schemas == [PUBLIC];
    let resolver = Resolver { schemas, is_usual, sight };
    resolver.definition(statement)?;
    if is_usual {
        return Ok(());
    }
    if let Statement::Insert(insert) = statement
        && let TableObject::TableName(name) = &mut insert.table
    {
        resolver.relation(name)?;
    }
    relations::each(statement, &mut |Found { factor, .. }| match factor {
        TableFactor::Table { name, .. } => resolver.relation(name),
        _ => Ok(()),
    })?;
    resolver.expressions(statement)
}

struct Resolver<'r> {
    /// The schemas of the path that exist.
    schemas: Vec<&'r str>,
    /// The path is `public` alone.
    is_usual: bool,
    sight: &'r Sight<'r>,
}

/// The identifiers of a name without the one of the database before them.
fn parts(name: &ObjectName) -> Vec<&Ident> {
    let idents: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    match idents.as_slice() {
        [database, rest @ ..] if rest.len() == 2 && names::fold(database) == names::CATALOG => {
            rest.to_vec()
        }
        _ => idents,
    }
}

fn qualify(name: &mut ObjectName, schema: &str) {
    let place = name.0.first().map_or_else(Span::empty, Spanned::span);
    let schema = Ident { span: place, ..quoted_ident(schema) };
    name.0.insert(0, ObjectNamePart::Identifier(schema));
}

impl Resolver<'_> {
    fn has(&self, name: &str) -> bool {
        self.sight.has(name)
    }

    /// A name of something that `is_there` knows by its flat name.
    fn find(&self, name: &mut ObjectName, is_there: &dyn Fn(&str) -> bool) -> Result<(), SqlError> {
        let [ident] = parts(name)[..] else { return Ok(()) };
        if self.is_usual {
            return Ok(());
        }
        let (bare, span) = (names::fold(ident), ident.span);
        let found = self.schemas.iter().find(|schema| is_there(&flat(schema, &bare)));
        match found.or(self.schemas.iter().find(|schema| **schema == PUBLIC)) {
            Some(schema) => qualify(name, schema),
            None => match self.schemas.first() {
                Some(schema) => qualify(name, schema),
                None => {
                    let message = format!("table \"{bare}\" does not exist");
                    let hint = "the search path is empty: write the schema before the name";
                    return Err(SqlError::new(SqlErrorKind::UnknownTable, message)
                        .with_hint(Some(hint.to_owned()))
                        .at(span));
                }
            },
        }
        Ok(())
    }

    /// A relation.
    fn relation(&self, name: &mut ObjectName) -> Result<(), SqlError> {
        if let [ident] = parts(name)[..]
            && system::is_relation(&names::fold(ident))
        {
            qualify(name, SYSTEM[0]);
            return Ok(());
        }
        self.find(name, &|flat| self.has(flat))
    }

    fn index(&self, name: &mut ObjectName) -> Result<(), SqlError> {
        self.find(name, &|flat| self.sight.has_index(flat))
    }

    /// Relations that are dropped; with IF EXISTS, those that cannot be anywhere are left out.
    fn dropped(
        &self,
        names: &mut Vec<ObjectName>,
        if_exists: bool,
        find: &dyn Fn(&mut ObjectName) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        if if_exists && self.schemas.is_empty() {
            names.retain(|name| parts(name).len() > 1);
        }
        names.iter_mut().try_for_each(find)
    }

    /// The name of something new.
    fn new_name(&self, name: &mut ObjectName) -> Result<(), SqlError> {
        match parts(name)[..] {
            [ident] => {
                let Some(schema) = self.schemas.first() else {
                    let message = "no schema has been selected to create in";
                    let error = SqlError::new(SqlErrorKind::Schema, message);
                    return Err(error.with_state("3F000").at(ident.span));
                };
                self.check_dots(schema, ident)?;
                if !self.is_usual {
                    qualify(name, schema);
                }
                Ok(())
            }
            [schema, ident] => self.check_dots(&self.check_schema(schema)?, ident),
            _ => Ok(()),
        }
    }

    /// The schema that something is to be in.
    fn check_schema(&self, ident: &Ident) -> Result<String, SqlError> {
        let schema = names::fold(ident);
        if SYSTEM.contains(&schema.as_str()) {
            let message = format!("permission denied to create in schema \"{schema}\"");
            let detail = "System catalog modifications are currently disallowed.".to_owned();
            let error = SqlError::new(SqlErrorKind::Schema, message).with_state("42501");
            return Err(error.with_detail(detail).at(ident.span));
        }
        match schemas::exists(&schema, &|name| self.has(name)) {
            true => Ok(schema),
            false => Err(schemas::unknown(&schema).at(ident.span)),
        }
    }

    /// `SCHEMA-2`: a name of `public` is none of another schema.
    fn check_dots(&self, schema: &str, ident: &Ident) -> Result<(), SqlError> {
        let name = names::fold(ident);
        if schema != PUBLIC {
            return Ok(());
        }
        match schemas::split(&name, &|name| self.has(name)) {
            (PUBLIC, _) => Ok(()),
            (other, bare) => {
                let message = format!(
                    "the name \"{name}\" would be that of \"{bare}\" in the schema \"{other}\""
                );
                let hint = format!("leave the quotes around {name} away, or use another name");
                Err(SqlError::new(SqlErrorKind::Schema, message)
                    .with_state("42602")
                    .with_hint(Some(hint))
                    .at(ident.span))
            }
        }
    }

    /// The schema of a relation that has been resolved.
    fn schema_of(&self, name: &ObjectName) -> Result<String, SqlError> {
        let (flat, _) = names::table_name(name)?;
        Ok(schemas::split(&flat, &|name| self.has(name)).0.to_owned())
    }

    /// The new name of a relation that has been resolved: it stays in its schema, or in `SET
    /// SCHEMA` it keeps its name.
    fn renamed(&self, old: &ObjectName, new: &mut ObjectName) -> Result<(), SqlError> {
        match parts(new)[..] {
            [mark, schema] if mark.value == SET_SCHEMA => {
                self.check_schema(schema)?;
                let bare = parts(old).last().map(|ident| (*ident).clone());
                let both = [Some(schema.clone()), bare].into_iter().flatten();
                *new = both.collect::<Vec<_>>().into();
                Ok(())
            }
            [ident] => {
                let schema = self.schema_of(old)?;
                self.check_dots(&schema, ident)?;
                let (bare, flat) = (names::fold(ident), names::table_name(old)?.0);
                let is_there = self.has(&flat) || self.sight.has_index(&flat);
                if is_there && schemas::bare(&flat, &|name| self.has(name)) == bare {
                    let message = format!("relation \"{bare}\" already exists");
                    let error = SqlError::new(SqlErrorKind::Schema, message).at(ident.span);
                    return Err(error.with_cause(Cause::TableExists));
                }
                if schema != PUBLIC || !self.is_usual {
                    qualify(new, &schema);
                }
                Ok(())
            }
            _ => {
                let message = "a new name has no schema; SET SCHEMA moves to another one";
                Err(SqlError::new(SqlErrorKind::Syntax, message).at(new.span()))
            }
        }
    }

    /// The names of a statement that defines something.
    fn definition(&self, statement: &mut Statement) -> Result<(), SqlError> {
        match statement {
            Statement::CreateTable(create) => {
                self.new_name(&mut create.name)?;
                create.columns.iter_mut().try_for_each(|column| self.column(column))?;
                create.constraints.iter_mut().try_for_each(|one| self.constraint(one))
            }
            Statement::CreateView(create) => self.new_name(&mut create.name),
            Statement::CreateType { name, .. } => self.new_name(name),
            Statement::AlterType(alter) => self.relation(&mut alter.name),
            Statement::DropDomain(drop) => self.relation(&mut drop.name),
            Statement::AlterTable(alter) => self.alter(alter),
            Statement::CreateIndex(create) => {
                self.relation(&mut create.table_name)?;
                let Some(name) = &mut create.name else { return Ok(()) };
                match parts(name)[..] {
                    [_] => {
                        let schema = self.schema_of(&create.table_name)?;
                        if schema != PUBLIC || !self.is_usual {
                            qualify(name, &schema);
                        }
                        Ok(())
                    }
                    _ => {
                        let message = "an index has the schema of its table; name it without one";
                        Err(SqlError::new(SqlErrorKind::Syntax, message).at(name.span()))
                    }
                }
            }
            Statement::AlterIndex { name, operation } => {
                self.index(name)?;
                let AlterIndexOperation::RenameIndex { index_name } = operation;
                self.renamed(name, index_name)
            }
            Statement::CreateSequence { temporary: alters, name, data_type, owned_by, .. } => {
                match *alters {
                    true => self.relation(name)?,
                    false => self.new_name(name)?,
                }
                if let Some(new) = sequence_syntax::new_name_mut(data_type.as_mut()) {
                    self.renamed(name, new)?;
                }
                match owned_by {
                    Some(owner) if !sequence_syntax::is_none(owner) => self.column_name(owner),
                    _ => Ok(()),
                }
            }
            Statement::Drop { object_type, names, if_exists, .. } => {
                let (relation, index) = (
                    |name: &mut ObjectName| self.relation(name),
                    |name: &mut ObjectName| self.index(name),
                );
                match object_type {
                    ObjectType::Schema => Ok(()),
                    ObjectType::Index => self.dropped(names, *if_exists, &index),
                    _ => self.dropped(names, *if_exists, &relation),
                }
            }
            Statement::Grant(_) | Statement::Revoke(_) => {
                grant_names::relations_mut(statement).iter_mut().try_for_each(|n| self.relation(n))
            }
            Statement::Truncate(truncate) => {
                truncate.table_names.iter_mut().try_for_each(|one| self.relation(&mut one.name))
            }
            Statement::Lock(lock) => {
                lock.tables.iter_mut().try_for_each(|one| self.relation(&mut one.name))
            }
            Statement::Copy { source: CopySource::Table { table_name, .. }, .. } => {
                self.relation(table_name)
            }
            Statement::Comment { object_type, object_name, .. } => match object_type {
                CommentObject::Schema => Ok(()),
                CommentObject::Index => self.index(object_name),
                CommentObject::Column => self.column_name(object_name),
                _ if object_name.0.first().is_some_and(is_mark) => {
                    let mark = object_name.0.remove(0);
                    let done = self.column_name(object_name);
                    object_name.0.insert(0, mark);
                    done
                }
                _ => self.relation(object_name),
            },
            Statement::Prepare { statement, .. } | Statement::Explain { statement, .. } => {
                self.definition(statement)?;
                match statement.as_mut() {
                    Statement::Insert(insert) => match &mut insert.table {
                        TableObject::TableName(name) => self.relation(name),
                        _ => Ok(()),
                    },
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn alter(&self, alter: &mut AlterTable) -> Result<(), SqlError> {
        let AlterTable { name, operations, .. } = alter;
        self.relation(name)?;
        for operation in operations {
            match operation {
                AlterTableOperation::RenameTable {
                    table_name: RenameTableNameKind::To(new) | RenameTableNameKind::As(new),
                } => self.renamed(name, new)?,
                AlterTableOperation::AddColumn { column_def, .. } => self.column(column_def)?,
                AlterTableOperation::AddConstraint { constraint, .. } => {
                    self.constraint(constraint)?;
                }
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDataType { data_type, .. },
                    ..
                } => self.data_type(data_type)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn column(&self, column: &mut ColumnDef) -> Result<(), SqlError> {
        if let Some(other) = like_clause::other_mut(column) {
            return self.relation(other);
        }
        self.data_type(&mut column.data_type)?;
        column.options.iter_mut().try_for_each(|one| match &mut one.option {
            ColumnOption::ForeignKey(key) => self.relation(&mut key.foreign_table),
            _ => Ok(()),
        })
    }

    /// A type: those of SQL itself are of no schema.
    fn data_type(&self, data_type: &mut SqlType) -> Result<(), SqlError> {
        let Some(name) = named_mut(data_type).filter(|_| !self.is_usual) else { return Ok(()) };
        let [ident] = parts(name)[..] else { return Ok(()) };
        let (bare, span) = (names::fold(ident), ident.span);
        match self.schemas.iter().find(|one| self.has(&flat(one, &bare))) {
            Some(schema) => qualify(name, schema),
            // Without a schema it would be that of `public`, which is not in the path.
            None if self.sight.has_object(&bare) => return Err(unknown(&bare).at(span)),
            None => {}
        }
        Ok(())
    }

    fn constraint(&self, constraint: &mut TableConstraint) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::ForeignKey(key) => self.relation(&mut key.foreign_table),
            _ => Ok(()),
        }
    }

    /// A column with its relation, of which the last part is the name.
    fn column_name(&self, name: &mut ObjectName) -> Result<(), SqlError> {
        if name.0.len() != 2 {
            return Ok(());
        }
        let Some(column) = name.0.pop() else { return Ok(()) };
        let done = self.relation(name);
        name.0.push(column);
        done
    }

    /// The sequences that texts name, types, and what tells the path.
    fn expressions(&self, statement: &mut Statement) -> Result<(), SqlError> {
        sequence_names::each_name(statement, &mut |text| {
            let Ok(mut name) = sequence_names::object_name(text) else { return };
            if parts(&name).len() == 1 && self.relation(&mut name).is_ok() {
                *text = name.to_string();
            }
        });
        let resolved = visit_expressions_mut(statement, |expr| {
            if let Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) =
                expr
                && let Err(error) = self.data_type(data_type)
            {
                return ControlFlow::Break(error);
            }
            path_functions::resolve(expr, &self.schemas);
            ControlFlow::Continue(())
        });
        match resolved {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn is_mark(part: &ObjectNamePart) -> bool {
    part.as_ident().is_some_and(|ident| ident.value.starts_with(MARK))
}
