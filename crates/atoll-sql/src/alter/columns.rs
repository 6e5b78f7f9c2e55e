//! Parts of `ALTER TABLE` about one column.

use atoll::{DataType, Table};
use sqlparser::ast::{AlterColumnOperation, GeneratedAs, Ident};

use super::Alteration;
use super::errors::{is_identity, needed_by_generated, not_by_itself};
use super::values::{assigned, cast};
use crate::declared::domain::Domain;
use crate::domain_type;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::prepared::query::Binder;
use crate::sequence::definition::{Definition, Owner};
use crate::sequence::owned::{Changed, owned};
use crate::table_shape::TableShape;
use crate::{names, types};

impl Alteration {
    /// The place of a column.
    ///
    /// # Errors
    /// There is none of the name.
    pub(super) fn position(&mut self, ident: &Ident) -> Result<usize, SqlError> {
        self.shape.column(ident, &self.name)?;
        let name = names::fold(ident);
        let found = self.shape.columns.iter().position(|one| one.column.name == name);
        Ok(found.unwrap_or_default())
    }

    pub(super) fn drop_column(&mut self, ident: &Ident, if_exists: bool) -> Result<(), SqlError> {
        let at = match self.position(ident) {
            Ok(at) => at,
            Err(_) if if_exists => {
                self.tell_missing("column", &names::fold(ident));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let name = self.shape.columns[at].column.name.clone();
        let generated = self.shape.rules.generated_from(&name);
        if !generated.is_empty() && !self.cascades {
            return Err(needed_by_generated(&name, &generated, &self.name).at(ident.span));
        }
        for other in generated {
            self.drop_column(&Ident::with_quote('"', other), false)?;
        }
        self.shape.columns.retain(|one| one.column.name != name);
        self.shape.indexes.retain(|index| !index.columns.contains(&name));
        self.shape.rules.drop_column(&name);
        if self.shape.key.contains(&name) {
            self.shape.key.clear();
        }
        Ok(())
    }

    pub(super) fn rename_column(&mut self, old: &Ident, new: &Ident) -> Result<(), SqlError> {
        let at = self.position(old)?;
        let (old, name) = (names::fold(old), names::fold(new));
        if self.shape.columns.iter().any(|one| one.column.name == name) {
            let message = format!("column \"{name}\" of table \"{}\" exists already", self.name);
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::ColumnExists)
                .at(new.span));
        }
        let renamed = self.shape.indexes.iter_mut().map(|index| &mut index.columns);
        for columns in renamed.chain([&mut self.shape.key]) {
            columns.iter_mut().filter(|one| **one == old).for_each(|one| one.clone_from(&name));
        }
        self.shape.rules.rename_column(&old, &name);
        self.shape.columns[at].column.name = name;
        Ok(())
    }

    pub(super) fn alter_column(
        &mut self,
        ident: &Ident,
        op: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        let at = self.position(ident)?;
        let name = names::fold(ident);
        let is_in_key = self.shape.key.contains(&name);
        let one = &mut self.shape.columns[at];
        match op {
            AlterColumnOperation::SetNotNull => one.column.nullable = false,
            AlterColumnOperation::DropNotNull if is_in_key => {
                let message = format!("column \"{name}\" is in a primary key");
                return Err(SqlError::new(SqlErrorKind::Schema, message).at(ident.span));
            }
            AlterColumnOperation::DropNotNull if self.shape.rules.is_numbered(&name) => {
                return Err(is_identity(&name, &self.name).at(ident.span));
            }
            AlterColumnOperation::DropNotNull => one.column.nullable = true,
            AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
                if self.shape.rules.is_numbered(&name) =>
            {
                return Err(is_identity(&name, &self.name).at(ident.span));
            }
            AlterColumnOperation::SetDefault { value } => {
                self.shape.rules.drop_default(&name);
                self.shape.rules.add_default(&name, value)?;
            }
            AlterColumnOperation::DropDefault => self.shape.rules.drop_default(&name),
            AlterColumnOperation::SetDataType { .. }
                if !self.shape.rules.generated_from(&name).is_empty() =>
            {
                let message = "cannot alter type of a column used by a generated column";
                return Err(SqlError::unsupported(message).at(ident.span));
            }
            AlterColumnOperation::SetDataType { using: Some(_), .. }
                if self.shape.rules.is_generated(&name) =>
            {
                let message = "cannot specify USING when altering type of generated column";
                return Err(SqlError::new(SqlErrorKind::Schema, message)
                    .with_state("42611")
                    .at(ident.span));
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let domain = domain_type::of_marked(data_type).map(|(domain, _)| domain);
                let data_type =
                    types::column_type(data_type).map_err(|error| error.at(ident.span))?;
                if using.is_none() && !types::is_assignable(one.column.data_type, data_type) {
                    return Err(not_by_itself(&one.column, data_type).at(ident.span));
                }
                let old = std::mem::replace(&mut one.column.data_type, data_type);
                one.using = match (using.clone(), one.using.take()) {
                    (None, before) => before.map(|value| assigned(value, old, data_type)),
                    (Some(value), _) => Some(cast(value, data_type)),
                };
                self.adds_check |= domain.as_ref().is_some_and(Domain::has_rules);
                self.shape.rules.set_domain(&name, domain);
                self.retype_default(ident, old, data_type)?;
            }
            AlterColumnOperation::AddGenerated {
                generated_as: Some(generated_as @ (GeneratedAs::Always | GeneratedAs::ByDefault)),
                sequence_options,
            } => {
                let always = *generated_as == GeneratedAs::Always;
                let options = sequence_options.as_deref().unwrap_or_default();
                self.shape.number(ident, always, options, &self.name)?;
            }
            other @ AlterColumnOperation::AddGenerated { .. } => {
                let message = format!("ALTER COLUMN … {other} is not supported");
                return Err(SqlError::unsupported(message).at(ident.span));
            }
        }
        Ok(())
    }

    /// Makes the default of a column fit its new type.
    fn retype_default(
        &mut self,
        ident: &Ident,
        old: DataType,
        data_type: DataType,
    ) -> Result<(), SqlError> {
        let name = names::fold(ident);
        let Some(default) = self.shape.rules.default_of(&name).cloned() else { return Ok(()) };
        if !types::is_assignable(old, data_type) {
            let message = format!("the default {default} of column \"{name}\" is no {data_type}");
            return Err(SqlError::new(SqlErrorKind::Type, message)
                .with_cause(Cause::OtherType)
                .at(ident.span)
                .with_hint(Some("DROP DEFAULT first".to_owned())));
        }
        self.shape.rules.drop_default(&name);
        self.shape.rules.add_default(&name, &assigned(default, old, data_type))
    }
}

/// The sequences of columns that are gone, or have another name, as those of their table may have.
pub(super) fn changed_sequences(
    binder: &Binder<'_>,
    old: &Table,
    name: &str,
    shape: &TableShape,
) -> Result<Vec<Changed>, SqlError> {
    let mut changed = Vec::new();
    for (object, mut definition) in owned(&binder.scope.catalog, old.name())? {
        let Some(owner) = definition.owner.take() else { continue };
        let mut columns = shape.columns.iter();
        let now = columns.find(|one| one.origin.as_ref() == Some(&owner.column));
        let new = now.map(|now| Owner {
            table: name.to_owned(),
            column: now.column.name.clone(),
            is_identity: owner.is_identity,
        });
        if new.as_ref() == Some(&owner) {
            continue;
        }
        let new = new.map(|owner| {
            let definition = Definition { owner: Some(owner), ..definition };
            (object.name().to_owned(), definition)
        });
        changed.push(Changed { object, new });
    }
    Ok(changed)
}
