//! Tables that get another definition while they are used.
//!
//! The rows stay as they are: names change, what the layers above have put into the definition,
//! and columns come behind the others (`widened`).
//!
//! - `ALTER-1`: the columns that two schemas of a table have in common, from the first on, have the
//!   same types, can be NULL or not alike, and the same of them are the primary key. So a thread
//!   that stores or reads values of its schema does not care whether there is a later one.
//! - `ALTER-2`: the names of earlier definitions stay until the table is freed, since handles lend
//!   them.

use atoll_machine::{Machine, Ordering, Word};

use super::Table;
use crate::directory::{Change, OldDefinition};
use crate::error::StorageError;
use crate::schema_codec;
use crate::types::{DataType, Schema};

/// The names of a table and of its columns.
pub(super) struct Names {
    table: String,
    schema: Schema,
}

/// What is left of a definition that was replaced.
#[derive(Debug)]
#[must_use = "its memory has to be released"]
pub struct Former {
    definition: OldDefinition,
    /// The epoch in which it was replaced.
    died: u64,
}

fn other_shape(table: &str) -> StorageError {
    StorageError::Schema(format!("table \"{table}\" has rows of another shape"))
}

impl<M: Machine> Table<M> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.names().map_or(&self.name, |names| &names.table)
    }

    /// Its columns and primary key.
    #[inline]
    pub fn schema(&self) -> &Schema {
        self.names().map_or(&self.schema, |names| &names.schema)
    }

    /// The names of the latest alteration.
    #[inline]
    fn names(&self) -> Option<&Names> {
        match self.alterations.load(Ordering::Acquire) {
            0 => None,
            alterations => self.names.get(alterations - 1),
        }
    }

    /// Checks that a schema fits the rows (`ALTER-1`).
    ///
    /// # Errors
    /// [`StorageError::Schema`].
    pub fn check_alteration(&self, name: &str, schema: &Schema) -> Result<(), StorageError> {
        crate::types::check_name("table", name)?;
        let (first, all) = (self.first_columns(), self.columns().len());
        if !self.fits(schema) || !(first..=all).contains(&schema.columns().len()) {
            return Err(other_shape(name));
        }
        Ok(())
    }

    /// As [`Table::check_alteration`], for a schema from a log, which may have columns that the
    /// table gets later.
    ///
    /// # Errors
    /// As there.
    pub fn check_restored(&self, name: &str, schema: &Schema) -> Result<(), StorageError> {
        match self.fits(schema) && schema.columns().len() >= self.first_columns() {
            true => Ok(()),
            false => Err(other_shape(name)),
        }
    }

    /// Makes later snapshots show another definition, which fits the rows; `options` is for the
    /// layer above. Names change with [`Table::rename`].
    ///
    /// # Errors
    /// [`StorageError::Memory`]; the table is unchanged.
    pub fn redefine(
        &self,
        change: Change,
        (name, schema): (&str, &Schema),
        options: &[u8],
    ) -> Result<Former, StorageError> {
        let encoded = schema_codec::encode(name, schema);
        let directory = self.barrier.directory();
        let definition = directory.redefine_table(change, self.id(), (&encoded, options))?;
        Ok(Former { definition, died: change.inside.epoch })
    }

    /// Takes back [`Table::redefine`], in the same section.
    pub fn put_definition_back(&self, change: Change, former: Former) {
        let directory = self.barrier.directory();
        directory.put_definition_back(change, self.id(), former.definition);
    }

    /// Frees what [`Table::redefine`] has replaced, as far as no snapshot shows it.
    pub fn release_definition(&self, former: Former) {
        self.memory().retire(former.definition.retired(), former.died);
    }

    /// Gives the table and its columns the names of a definition. One thread at a time calls this.
    pub fn rename(&self, name: &str, schema: &Schema) {
        debug_assert!(self.fits(schema), "ALTER-1");
        if name == self.name() && schema == self.schema() {
            return;
        }
        let alterations = self.alterations.load(Ordering::Relaxed);
        let names = || Names { table: name.to_owned(), schema: schema.clone() };
        self.names.get_or_init(alterations, names);
        self.alterations.store(alterations + 1, Ordering::Release);
    }
}

/// Whether a column has the values that it had as one of another type.
pub(super) fn has_values_of(data_type: DataType, before: DataType) -> bool {
    match (data_type, before) {
        (DataType::Enum(labels), DataType::Enum(before)) => labels.continues(before),
        _ => data_type == before,
    }
}
