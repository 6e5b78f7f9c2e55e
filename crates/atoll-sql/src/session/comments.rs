//! `COMMENT ON`.

use atoll::Table;
use sqlparser::ast::{CommentObject, Ident, ObjectName};

use super::{Outcome, SqlSession};
use crate::alter::{index_name, unknown};
use crate::comments::{self, Comments};
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::names;
use crate::parse::MARK;
use crate::scope::Scope;
use crate::view::View;

/// What a comment is on.
enum Part {
    Relation,
    Column(String),
    Index(String),
    Constraint(String),
}

impl SqlSession {
    /// Carries out `COMMENT ON`.
    ///
    /// # Errors
    /// Something that does not exist or is of another kind; a kind that takes no comment.
    pub(super) fn comment_on(
        &mut self,
        kind: CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<Outcome, SqlError> {
        const TAG: &str = "COMMENT";
        self.may_define(TAG)?;
        if kind == CommentObject::Schema {
            return self.comment_on_schema(name, comment);
        }
        let scope = self.scope()?;
        let (relation, part) = found(&scope, kind, name)?;
        // As in PostgreSQL, an empty comment is none.
        let comment = comment.filter(|comment| !comment.is_empty()).map(str::to_owned);
        self.define(&mut |transaction| {
            transaction.use_table(&relation)?;
            comments::change(transaction, relation.name(), |all| {
                let Comments { relation, columns, indexes, constraints, .. } = all;
                let (of, name) = match &part {
                    Part::Relation => {
                        relation.clone_from(&comment);
                        return;
                    }
                    Part::Column(name) => (columns, name),
                    Part::Index(name) => (indexes, name),
                    Part::Constraint(name) => (constraints, name),
                };
                match &comment {
                    Some(comment) => drop(of.insert(name.clone(), comment.clone())),
                    None => drop(of.remove(name)),
                }
            })
        })?;
        Ok(Outcome::done(TAG, 0))
    }
}

/// The relation of what a statement names, and the part of it.
fn found(scope: &Scope, kind: CommentObject, name: &ObjectName) -> Result<(Table, Part), SqlError> {
    let idents: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    match (kind, idents.as_slice()) {
        (CommentObject::Table, [mark, relation @ .., constraint])
            if mark.value.starts_with(MARK) =>
        {
            let relation = ObjectName::from(relation.iter().copied().cloned().collect::<Vec<_>>());
            let (table, span) = names::table_name(&relation)?;
            let table = names::find_table(scope, &table, span)?;
            let constraint_name = names::fold(constraint);
            if !has_constraint(&table, scope.bare(table.name()), &constraint_name)? {
                let name = table.name();
                let message =
                    format!("constraint \"{constraint_name}\" for table \"{name}\" does not exist");
                return Err(SqlError::new(SqlErrorKind::Schema, message)
                    .with_cause(Cause::UnknownObject)
                    .at(constraint.span));
            }
            Ok((table, Part::Constraint(constraint_name)))
        }
        (CommentObject::Table, _) => {
            let (table, span) = names::table_name(name)?;
            Ok((names::find_table(scope, &table, span)?, Part::Relation))
        }
        (CommentObject::Type, _) => Ok((object(scope, name, "enum")?, Part::Relation)),
        (CommentObject::Domain, _) => Ok((object(scope, name, "domain")?, Part::Relation)),
        (CommentObject::View, _) => Ok((object(scope, name, "view")?, Part::Relation)),
        (CommentObject::Sequence, _) => Ok((object(scope, name, "sequence")?, Part::Relation)),
        (CommentObject::Index, _) => {
            let (index, span) = index_name(name)?;
            let table = scope.table_of_index(&index);
            let table = table.ok_or_else(|| unknown("index", &index).at(span))?;
            Ok((table, Part::Index(scope.bare(&index).to_owned())))
        }
        (CommentObject::Column, [relation @ .., column]) if !relation.is_empty() => {
            let relation = ObjectName::from(relation.iter().copied().cloned().collect::<Vec<_>>());
            let (relation, span) = names::table_name(&relation)?;
            let name = names::fold(column);
            if let Some(view) = View::find(&scope.catalog, &relation)? {
                let known = view.columns.iter().map(|one| one.name.as_str());
                return match scope.catalog.object(&relation) {
                    Some(object) if known.clone().any(|one| one == name) => {
                        Ok((object.clone(), Part::Column(name)))
                    }
                    _ => Err(names::unknown_column(&name, Some(&relation), known).at(column.span)),
                };
            }
            let table = names::find_table(scope, &relation, span)?;
            names::position(table.schema(), &relation, column)?;
            Ok((table, Part::Column(name)))
        }
        (CommentObject::Column, _) => {
            let message = "column name must be qualified";
            let span = idents.first().map(|ident| ident.span);
            let error = SqlError::new(SqlErrorKind::Syntax, message);
            Err(span.map_or(error.clone(), |span| error.at(span)))
        }
        (other, _) => {
            let message = format!("COMMENT ON {other} is not supported");
            Err(SqlError::unsupported(message).with_hint(Some(
                "a comment is on a TABLE, COLUMN, VIEW, INDEX, CONSTRAINT, SCHEMA, TYPE or DOMAIN"
                    .to_owned(),
            )))
        }
    }
}

/// An object that is no table.
fn object(scope: &Scope, name: &ObjectName, kind: &str) -> Result<Table, SqlError> {
    let (name, span) = names::table_name(name)?;
    match scope.catalog.get(&name) {
        Some(object) if object.schema().object().is_some_and(|(one, _)| one == kind) => {
            Ok(object.clone())
        }
        Some(_) => {
            let message = format!("\"{name}\" is not a {kind}");
            let error = SqlError::new(SqlErrorKind::Schema, message);
            Err(error.with_cause(Cause::OtherObject).at(span))
        }
        None => {
            let message = format!("{kind} \"{name}\" does not exist");
            Err(SqlError::new(SqlErrorKind::UnknownTable, message).at(span))
        }
    }
}

/// Whether a table has a constraint of this name: one that was declared, or one of its indexes.
fn has_constraint(table: &Table, bare: &str, name: &str) -> Result<bool, SqlError> {
    let declared = Declared::of(table.schema())?;
    let key: Vec<&str> = {
        let schema = table.schema();
        schema.primary_key().iter().map(|at| schema.columns()[*at].name.as_str()).collect()
    };
    let is_one = |index: &atoll::IndexSpec| index.unique || index.columns == key;
    Ok(declared.has_constraint(name)
        || name == format!("{bare}_pkey")
        || table.indexes().iter().any(|index| index.name == name && is_one(index)))
}
