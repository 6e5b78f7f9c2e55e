//! The parent of foreign keys gets another shape: they follow its new names, or keep what they
//! depend on from being dropped.

use atoll::{DataType, Table};
use sqlparser::tokenizer::Span;

use crate::declared::Declared;
use crate::error::SqlError;
use crate::foreign::find::are_comparable;
use crate::foreign::references::{self, DependsOn};
use crate::foreign_key::ForeignKey;
use crate::names;
use crate::scope::Scope;
use crate::table_shape::TableShape;

/// The other tables that refer to one which becomes `shape` and gets the name `to`, with their
/// foreign keys as they are then. With `cascades`, those go that depend on what is dropped. Foreign
/// keys of the table itself follow at once.
///
/// # Errors
/// A foreign key depends on what is dropped, or does not go with a new type.
pub(crate) fn follow(
    scope: &Scope,
    old: &Table,
    (to, cascades): (&str, bool),
    shape: &mut TableShape,
) -> Result<Vec<(Table, Vec<ForeignKey>)>, SqlError> {
    let mut others: Vec<(Table, Vec<ForeignKey>)> = Vec::new();
    let references = references::of_catalog(&scope.catalog)?;
    let mut needed = Vec::new();
    let own = std::mem::take(shape.rules.foreign_keys());
    let own = Follower { scope, old, to, shape }.keys(old, own, (cascades, &mut needed))?;
    for (child, _) in references.get(old.name()).into_iter().flatten() {
        if child == old.name() || others.iter().any(|(other, _)| other.name() == child) {
            continue;
        }
        let child = names::find_table(scope, child, Span::empty())?;
        let before = Declared::of(child.schema())?.foreign_keys;
        let follower = Follower { scope, old, to, shape };
        let keys = follower.keys(&child, before.clone(), (cascades, &mut needed))?;
        if keys != before {
            others.push((child, keys));
        }
    }
    *shape.rules.foreign_keys() = own;
    match needed.is_empty() {
        true => Ok(others),
        false => Err(references::needed(old.name(), &needed)),
    }
}

/// A table on its way to another shape.
struct Follower<'f> {
    scope: &'f Scope,
    old: &'f Table,
    to: &'f str,
    shape: &'f TableShape,
}

impl Follower<'_> {
    /// The foreign keys of a table as they are then.
    fn keys(
        &self,
        child: &Table,
        keys: Vec<ForeignKey>,
        (cascades, needed): (bool, &mut Vec<DependsOn>),
    ) -> Result<Vec<ForeignKey>, SqlError> {
        let mut kept = Vec::with_capacity(keys.len());
        for key in keys {
            if key.table != self.old.name() {
                kept.push(key);
                continue;
            }
            match self.followed(child, &key)? {
                Ok(followed) => kept.push(followed),
                Err(_) if cascades => {}
                Err(what) => {
                    let (constraint, child) = (key.name, child.name().to_owned());
                    needed.push(DependsOn { constraint, child, what });
                }
            }
        }
        Ok(kept)
    }

    /// A foreign key as it is then, or what it depends on and is dropped.
    fn followed(
        &self,
        child: &Table,
        key: &ForeignKey,
    ) -> Result<Result<ForeignKey, String>, SqlError> {
        let mut referenced = Vec::with_capacity(key.referenced.len());
        for (name, column) in key.referenced.iter().zip(&key.columns) {
            let mut columns = self.shape.columns.iter();
            let Some(one) = columns.find(|one| one.origin.as_ref() == Some(name)) else {
                return Ok(Err(format!("column {name} of table {}", self.old.name())));
            };
            let is_changed = one.using.is_some()
                || self
                    .type_of(child, column)
                    .is_some_and(|of_child| !are_comparable(of_child, one.column.data_type));
            if is_changed {
                let message = format!(
                    "the type of column \"{name}\" cannot be altered: foreign key constraint \
                     \"{}\" on table \"{}\" refers to it",
                    key.name,
                    child.name()
                );
                return Err(SqlError::unsupported(message)
                    .with_hint(Some("drop the constraint first, and add it again".to_owned())));
            }
            referenced.push(one.column.name.clone());
        }
        let is_same = |columns: &[String]| {
            columns.len() == referenced.len() && columns.iter().all(|one| referenced.contains(one))
        };
        let mut unique = self.shape.indexes.iter().filter(|index| index.unique);
        if !is_same(&self.shape.key) && !unique.any(|index| is_same(&index.columns)) {
            return Ok(Err(format!("index {}", self.unique_of(&key.referenced))));
        }
        Ok(Ok(ForeignKey { table: self.to.to_owned(), referenced, ..key.clone() }))
    }

    /// The type of a column that refers to the table.
    fn type_of(&self, child: &Table, column: &str) -> Option<DataType> {
        if child.name() == self.old.name() {
            let mut columns = self.shape.columns.iter().map(|one| &one.column);
            return columns.find(|one| one.name == *column).map(|one| one.data_type);
        }
        let mut columns = child.schema().columns().iter();
        columns.find(|one| one.name == *column).map(|one| one.data_type)
    }

    /// The name of the index that made columns unique.
    fn unique_of(&self, columns: &[String]) -> String {
        let is_same = |of: &[String]| {
            of.len() == columns.len() && columns.iter().all(|column| of.contains(column))
        };
        let indexes = self.old.indexes();
        let found = indexes.iter().find(|index| index.unique && is_same(&index.columns));
        let of_key = || format!("{}_pkey", self.scope.bare(self.old.name()));
        found.map_or_else(of_key, |index| index.name.clone())
    }
}
