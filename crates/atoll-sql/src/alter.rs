//! `ALTER TABLE`, `CREATE INDEX` and `DROP INDEX`: what a table becomes.
//!
//! A statement changes the shape of the table, part by part. Then the table is made anew in that
//! shape, under its name, and the rows are copied; all of it is part of the transaction.

mod altered;
mod columns;
mod errors;
mod follow;
mod passes;
mod values;

use atoll::{DataType, Labels, Schema, Table, TableOptions};
use sqlparser::ast::{
    AlterTableOperation, ColumnOption, ColumnOptionDef, CreateIndex, DropBehavior, Expr, Ident,
    IndexType, ObjectName, RenameTableNameKind, Spanned, TableConstraint, Value as SqlValue,
};
use sqlparser::tokenizer::Span;

pub(crate) use self::altered::Altered;
use self::columns::changed_sequences;
use self::follow::follow;
pub(crate) use self::passes::in_passes;
pub(crate) use self::values::cast;
use self::values::{as_it_was, keeps_values, one_direction};
use crate::ddl::NewTable;
use crate::declared::Declared;
use crate::declared::domain::Domain;
use crate::domain_type;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign::define::{self, Child};
use crate::names;
use crate::notice::Notice;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::table_shape::{Defined, TableShape};
use crate::user_types::follow::replace_text;

/// A table that gets another shape.
pub(crate) struct Alteration {
    old: Table,
    name: String,
    /// The name in its schema.
    called: String,
    shape: TableShape,
    /// Foreign keys of other tables, and views, that depend on what is dropped are dropped too.
    cascades: bool,
    /// The indexes and constraints that get another name.
    renamed: Vec<(String, String)>,
    /// It gets a condition that its rows have not been checked for.
    adds_check: bool,
    /// What is to be told of it.
    notices: Vec<Notice>,
    span: Span,
}

impl Alteration {
    /// A table as it is.
    ///
    /// # Errors
    /// What was declared of it cannot be read.
    pub(crate) fn of(scope: &Scope, old: Table, span: Span) -> Result<Self, SqlError> {
        let (name, shape) = (old.name().to_owned(), TableShape::of(&old)?);
        let called = scope.bare(&name).to_owned();
        let (cascades, adds_check, renamed) = (false, false, Vec::new());
        let notices = Vec::new();
        Ok(Self { old, name, called, shape, cascades, renamed, adds_check, notices, span })
    }

    /// What is to be told of the parts that have been carried out.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Notes that a part of the table is not there.
    fn tell_missing(&mut self, what: &str, name: &str) {
        let table = &self.called;
        let message = format!("{what} \"{name}\" of relation \"{table}\" does not exist, skipping");
        self.notices.push(Notice::new("00000", message));
    }

    /// Carries out a part of `ALTER TABLE`.
    ///
    /// # Errors
    /// A part that is not supported; names that do not exist, or exist already.
    pub(crate) fn apply(&mut self, operation: &AlterTableOperation) -> Result<(), SqlError> {
        use AlterTableOperation as Operation;
        match operation {
            Operation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                let exists = self.position(&column_def.name).is_ok();
                if exists && *if_not_exists {
                    let name = names::fold(&column_def.name);
                    let table = &self.called;
                    let message = format!(
                        "column \"{name}\" of relation \"{table}\" already exists, skipping"
                    );
                    self.notices.push(Notice::new("42701", message));
                    return Ok(());
                }
                let is_check = |one: &ColumnOptionDef| matches!(one.option, ColumnOption::Check(_));
                self.adds_check |= column_def.options.iter().any(is_check);
                let domain = domain_type::of_marked(&column_def.data_type);
                self.adds_check |= domain.is_some_and(|(domain, _)| domain.has_rules());
                self.shape.add_column(column_def)?;
                if let Some(added) = self.shape.columns.last_mut() {
                    // Rows that are there get the default of now.
                    let default = self.shape.rules.first_value(&added.column.name)?;
                    added.using = Some(default.unwrap_or_else(|| Expr::value(SqlValue::Null)));
                }
                Ok(())
            }
            Operation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                self.cascades |= *drop_behavior == Some(DropBehavior::Cascade);
                column_names.iter().try_for_each(|name| self.drop_column(name, *if_exists))
            }
            Operation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(old_column_name, new_column_name)
            }
            Operation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => {
                let called = names::last(name);
                self.shape.rules.rename_table(&self.called, &called);
                (self.name, self.called) = (names::table_name(name)?.0, called);
                Ok(())
            }
            Operation::AlterColumn { column_name, op } => self.alter_column(column_name, op),
            Operation::AddConstraint { constraint, not_valid: false } => {
                self.adds_check |= matches!(constraint, TableConstraint::Check(_));
                self.shape.add_constraint(constraint)
            }
            Operation::DropConstraint { if_exists, name, drop_behavior } => {
                self.cascades |= *drop_behavior == Some(DropBehavior::Cascade);
                self.drop_constraint(name, *if_exists)
            }
            Operation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(old_name, new_name)
            }
            other => Err(SqlError::unsupported(format!("ALTER TABLE … {other} is not supported"))
                .at(other.span())
                .with_hint(Some(
                    "the parts are ADD, DROP, ALTER and RENAME COLUMN, ADD, DROP and RENAME \
                     CONSTRAINT, and RENAME TO"
                        .to_owned(),
                ))),
        }
    }

    /// Adds an index.
    ///
    /// # Errors
    /// Clauses that are not supported, columns that do not exist.
    pub(crate) fn create_index(
        &mut self,
        create: &CreateIndex,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let clause = if !matches!(create.using, None | Some(IndexType::BTree)) {
            "USING, other than btree,"
        } else if !create.include.is_empty() {
            "INCLUDE"
        } else if create.predicate.is_some() {
            "WHERE"
        } else if !create.index_options.is_empty() || !create.alter_options.is_empty() {
            "an option"
        } else {
            ""
        };
        if !clause.is_empty() {
            let message = format!("{clause} is not supported in CREATE INDEX");
            return Err(SqlError::unsupported(message).at(self.span));
        }
        let name = create.name.as_ref().map(index_name).transpose()?;
        let name = name.map(|(name, _)| scope.bare(&name).to_owned());
        // As in PostgreSQL it means nothing for an index that is not unique.
        let how = (create.unique, create.unique && create.nulls_distinct == Some(false));
        self.shape.create_index(name, &one_direction(&create.columns)?, how)
    }

    /// Drops an index.
    ///
    /// # Errors
    /// It has the order of the primary key.
    pub(crate) fn drop_index(&mut self, name: &str) -> Result<(), SqlError> {
        let index = self.shape.indexes.iter().position(|one| one.name.as_deref() == Some(name));
        let Some(at) = index else { return Err(unknown("index", name).at(self.span)) };
        if self.shape.indexes[at].columns == self.shape.key && !self.shape.indexes[at].unique {
            let message = format!("index \"{name}\" is that of the primary key");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::Needed)
                .at(self.span));
        }
        self.shape.indexes.remove(at);
        Ok(())
    }

    /// Gives an index another name.
    ///
    /// # Errors
    /// It does not exist.
    pub(crate) fn rename_index(&mut self, old: &str, new: &str) -> Result<(), SqlError> {
        let mut indexes = self.shape.indexes.iter_mut();
        match indexes.find(|one| one.name.as_deref() == Some(old)) {
            Some(index) => {
                index.name = Some(new.to_owned());
                self.renamed.push((old.to_owned(), new.to_owned()));
            }
            None => return Err(unknown("index", old).at(self.span)),
        }
        Ok(())
    }

    /// A sequence that defaults ask has another name.
    ///
    /// # Errors
    /// None.
    pub(crate) fn rename_sequence(&mut self, old: &str, new: &str) -> Result<(), SqlError> {
        self.shape.rules.rename_sequence(old, new);
        Ok(())
    }

    /// The table gets another flat name.
    pub(crate) fn move_to(&mut self, scope: &Scope, new: &str) {
        let called = scope.bare(new).to_owned();
        self.shape.rules.rename_table(&self.called, &called);
        (self.name, self.called) = (new.to_owned(), called);
    }

    /// Drops the default of a column.
    pub(crate) fn drop_default(&mut self, column: &str) {
        self.shape.rules.drop_default(column);
    }

    /// Drops columns, and what depends on them.
    ///
    /// # Errors
    /// As `DROP COLUMN`.
    pub(crate) fn drop_columns(&mut self, columns: &[String]) -> Result<(), SqlError> {
        self.cascades = true;
        columns.iter().try_for_each(|name| {
            // A generated one may have gone with another.
            self.drop_column(&Ident::with_quote('"', name), true)
        })?;
        self.notices.clear();
        Ok(())
    }

    /// An enum has become another one, perhaps with another name for a label.
    pub(crate) fn change_enum(
        &mut self,
        old: Labels,
        new: Labels,
        renamed: Option<&(String, String)>,
    ) {
        for one in &mut self.shape.columns {
            if one.column.data_type != DataType::Enum(old) {
                continue;
            }
            one.column.data_type = DataType::Enum(new);
            let default = self.shape.rules.default_mut(&one.column.name);
            if let (Some(default), Some((label, name))) = (default, renamed) {
                replace_text(default, label, name);
            }
        }
    }

    /// A domain has become another one, perhaps with rules that rows have not been checked for.
    pub(crate) fn change_domain(&mut self, old: &str, new: &Domain, checks_rows: bool) {
        self.shape.rules.change_domain(old, new);
        self.adds_check |= checks_rows;
    }

    /// Drops the foreign keys of these names.
    pub(crate) fn drop_foreign_keys(&mut self, names: &[String]) {
        self.shape.rules.foreign_keys().retain(|key| !names.contains(&key.name));
    }

    /// What the table becomes, and behind it other tables, if their foreign keys follow.
    ///
    /// # Errors
    /// The parts do not fit together; another table or index has the name; foreign keys of other
    /// tables depend on what is dropped.
    pub(crate) fn finish_all(mut self, binder: &Binder<'_>) -> Result<Vec<Altered>, SqlError> {
        let (shape, to) = (&mut self.shape, (self.name.as_str(), self.cascades));
        let others = follow(binder.scope, &self.old, to, shape).map_err(|e| e.at(self.span))?;
        let mut altered = vec![self.finish(binder)?];
        for (child, keys) in others {
            let mut alteration = Self::of(binder.scope, child, Span::empty())?;
            *alteration.shape.rules.foreign_keys() = keys;
            altered.push(alteration.finish(binder)?);
        }
        Ok(altered)
    }

    /// What the table becomes.
    ///
    /// # Errors
    /// The parts do not fit together; another table or index has the name.
    pub(crate) fn finish(self, binder: &Binder<'_>) -> Result<Altered, SqlError> {
        let Self { old, name, mut shape, span, cascades, adds_check, renamed, .. } = self;
        if name != old.name() && (binder.scope.has(&name) || binder.scope.table(&name).is_ok()) {
            let message = format!("table \"{name}\" exists already");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::TableExists)
                .at(span));
        }
        let is_taken = |name: &str| binder.scope.catalog.get(name).is_some();
        let new_sequences = shape.sequences(&name, &is_taken)?;
        let sequences = changed_sequences(binder, &old, &name, &shape)?;
        let null = || Expr::value(SqlValue::Null);
        let values = shape.columns.iter().map(|one| match (&one.using, &one.origin) {
            // It is computed when the row is stored.
            _ if shape.rules.is_generated(&one.column.name) => null(),
            (Some(value), _) => value.clone(),
            (None, Some(origin)) => as_it_was(&old, origin, one.column.data_type),
            (None, None) => null(),
        });
        let values = values.collect();
        let columns = altered::kept_columns(&old, &shape);
        // Columns behind the others, each with a value for all rows.
        let added =
            shape.columns.iter().rev().take_while(|one| {
                one.origin.is_none() && !shape.rules.is_generated(&one.column.name)
            });
        let kept = shape.columns.len() - added.count();
        let changed = shape.columns[..kept].iter().filter(|one| {
            let mut columns = old.schema().columns().iter();
            let origin = columns.find(|column| Some(&column.name) == one.origin.as_ref());
            let keeps =
                origin.is_some_and(|origin| keeps_values(origin.data_type, one.column.data_type));
            one.using.is_some() || !keeps
        });
        let changed: Vec<String> = changed.map(|one| one.column.name.clone()).collect();
        let origins = shape.columns[..kept].iter().map(|one| one.origin.as_deref());
        let keeps_rows = changed.is_empty()
            && origins.eq(old.schema().visible().iter().map(|column| Some(&*column.name)));
        let Defined { schema, indexes, mut rules, .. } = shape.finish(&name, &is_taken, span)?;
        let known: Vec<String> = rules.foreign_keys().iter().map(|key| key.name.clone()).collect();
        let new: Vec<String> = new_sequences.iter().map(|one| one.name.clone()).collect();
        let schema = rules.declare(binder, &name, (schema, &indexes), &new)?;
        let mut keys = Declared::of(&schema)?.foreign_keys;
        // Those of an enum that is altered refer to the same labels, here and there.
        let is_changed = |name: &String| changed.contains(name) && !is_enum(&old, &schema, name);
        keys.retain(|key| !known.contains(&key.name) || key.columns.iter().any(is_changed));
        let parents = define::parents(binder.scope, &name, &keys)?;
        let child = Child { name: &name, schema: &schema, indexes: &indexes };
        keys.iter().try_for_each(|key| define::check_types(binder.scope, child, key))?;
        let unchecked = keys.into_iter().map(|key| key.name).collect();
        let tablespace = Some(old.tablespace()).filter(|_| binder.scope.db.durability().is_some());
        let options = TableOptions { tablespace, indexes, ..TableOptions::default() };
        let new = NewTable { name, schema, options, sequences: new_sequences };
        Ok(Altered {
            old,
            new,
            values,
            keeps_rows,
            adds_check,
            unchecked,
            parents,
            columns,
            cascades,
            renamed,
            sequences,
        })
    }

    fn drop_constraint(&mut self, ident: &Ident, if_exists: bool) -> Result<(), SqlError> {
        let name = names::fold(ident);
        if self.shape.rules.drop_constraint(&name) {
            return Ok(());
        }
        let index = self.shape.indexes.iter().position(|one| one.name.as_ref() == Some(&name));
        match index {
            Some(at) if self.shape.indexes[at].unique => {
                self.shape.indexes.remove(at);
                Ok(())
            }
            _ if self.is_key_name(&name) => {
                self.shape.key.clear();
                self.shape.indexes.retain(|one| one.name.as_ref() != Some(&name));
                Ok(())
            }
            _ if if_exists => {
                self.tell_missing("constraint", &name);
                Ok(())
            }
            _ => Err(unknown("constraint", &name).at(ident.span)),
        }
    }

    fn rename_constraint(&mut self, old: &Ident, new: &Ident) -> Result<(), SqlError> {
        let (name, new) = (names::fold(old), names::fold(new));
        self.renamed.push((name.clone(), new.clone()));
        if let Some(check) = self.shape.rules.constraint_name(&name) {
            *check = new;
            return Ok(());
        }
        let index = self.shape.indexes.iter_mut().find(|one| one.name.as_ref() == Some(&name));
        match index {
            Some(index) => index.name = Some(new),
            None => return Err(unknown("constraint", &name).at(old.span)),
        }
        Ok(())
    }

    /// Whether it is the name of the primary key's constraint.
    fn is_key_name(&self, name: &str) -> bool {
        let key = &self.shape.key;
        if key.is_empty() {
            return false;
        }
        let mut indexes = self.shape.indexes.iter().filter(|one| one.name.is_some());
        let index = indexes.find(|one| one.columns == *key && !one.unique);
        match index {
            Some(index) => index.name.as_deref() == Some(name),
            None => name == format!("{}_pkey", self.called),
        }
    }
}

/// Whether a column was of an enum, and is.
fn is_enum(old: &Table, schema: &Schema, name: &str) -> bool {
    let is = |schema: &Schema| {
        let at = schema.position(name);
        at.is_some_and(|at| matches!(schema.columns()[at].data_type, DataType::Enum(_)))
    };
    is(old.schema()) && is(schema)
}

/// The name of an index, and its place.
pub(crate) fn index_name(name: &ObjectName) -> Result<(String, Span), SqlError> {
    // Indexes have the schema of their table.
    names::table_name(name)
}

/// The error for an index or a constraint that does not exist.
pub(crate) fn unknown(what: &str, name: &str) -> SqlError {
    let message = format!("{what} \"{name}\" does not exist");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
}
