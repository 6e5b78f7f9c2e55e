//! A definition of a transaction, see [`super::definitions`].

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::image::Plain;
use atoll_storage::{Change, Column, Former, Remains, Schema, Shown, StorageError, Table};

use crate::describe;
#[cfg(doc)]
use crate::engine::Engine;
use crate::journal::Definition;
use crate::tables::{IndexSpec, TableOptions};

/// A definition, see [`Call::define`](super::Call::define).
#[derive(Clone)]
pub enum Define<M: Machine> {
    /// A table of [`Engine::create_hidden`] is shown and has its name.
    Create(Arc<Table<M>>),
    /// A table is dropped, as by [`Engine::drop_table`].
    Drop(Arc<Table<M>>),
    /// The transaction has made a table with [`Engine::create_hidden`] and drops it again. Only the
    /// log learns of it, since the log may have its rows.
    Pass(Arc<Table<M>>),
    /// A table with rows as before gets other names, or other indexes.
    Alter(Arc<Table<M>>, Altered),
}

/// What a table becomes.
#[derive(Debug, Clone)]
pub struct Altered {
    /// Its name.
    pub name: String,
    /// Its schema, which fits the rows ([`Table::check_alteration`]).
    pub schema: Schema,
    /// How many columns it had before; those behind them were added
    /// ([`Engine::add_columns`]).
    pub columns_before: usize,
    /// Its indexes, with their numbers: shown ones, which are dropped if they are not here.
    pub indexes: Vec<(usize, IndexSpec)>,
}

/// A definition of a transaction that has not ended.
pub(super) struct Defined<M: Machine> {
    pub(super) what: Define<M>,
    /// The description of a table that is created or altered.
    pub(super) description: Vec<u8>,
    /// Its options, as the directory has them.
    pub(super) options: Vec<u8>,
    pub(super) done: Done,
}

/// What a definition that was carried out has left.
#[derive(Default)]
pub(super) enum Done {
    #[default]
    Nothing,
    Dropped(Remains),
    Altered(Former),
}

impl<M: Machine> Define<M> {
    /// The table.
    pub(super) fn table(&self) -> &Arc<Table<M>> {
        let (Self::Create(table) | Self::Drop(table) | Self::Pass(table) | Self::Alter(table, _)) =
            self;
        table
    }

    /// Whether the table was there before, so that other threads may be using it.
    pub(super) fn is_of_old(&self) -> bool {
        matches!(self, Self::Drop(_) | Self::Alter(..))
    }
}

impl<M: Machine> Defined<M> {
    /// A definition; `options` are those of the table now.
    pub(super) fn new(what: Define<M>, mut options: TableOptions) -> Self {
        let table = what.table();
        let describe = |name: &str, schema: &Schema, options: &TableOptions| {
            let encoded = describe::encode_options(schema, options);
            (describe::encode(table.serial(), name, schema, options), encoded)
        };
        let (description, options) = match &what {
            Define::Drop(_) => Default::default(),
            Define::Create(_) | Define::Pass(_) => describe(table.name(), table.schema(), &options),
            Define::Alter(_, Altered { name, schema, indexes, .. }) => {
                options.indexes = indexes.iter().map(|(_, spec)| spec.clone()).collect();
                describe(name, schema, &options)
            }
        };
        Self { what, description, options, done: Done::Nothing }
    }

    /// As the log has it.
    pub(super) fn records(&self) -> impl Iterator<Item = Definition<'_>> {
        let (described, dropped) = match &self.what {
            Define::Create(_) => (Some(Definition::Create(&self.description)), None),
            Define::Drop(table) => (None, Some(table.serial())),
            Define::Pass(table) => {
                (Some(Definition::Create(&self.description)), Some(table.serial()))
            }
            Define::Alter(..) => (Some(Definition::Alter(&self.description)), None),
        };
        described.into_iter().chain(dropped.map(Definition::Drop))
    }

    /// The columns that a table has got, with their positions and their values in all rows.
    pub(super) fn added_columns(&self) -> impl Iterator<Item = (usize, &Column, Plain<'_>)> {
        let added = match &self.what {
            Define::Alter(table, altered) => {
                let (from, to) = (altered.columns_before, altered.schema.columns().len());
                Some((from..to).zip(table.columns_from(from)))
            }
            _ => None,
        };
        added.into_iter().flatten().map(|(at, (column, plain))| (at, column, plain))
    }

    pub(super) fn carry_out(&mut self, inside: Inside) -> Result<(), StorageError> {
        // The headroom is for this: the commit has been decided.
        let change = Change::rollback(inside);
        match &self.what {
            Define::Create(table) => table.show(change, Shown::Yes)?,
            Define::Drop(table) => self.done = Done::Dropped(table.remove(change)?),
            Define::Pass(_) => {}
            Define::Alter(table, Altered { name, schema, .. }) => {
                let former = table.redefine(change, (name, schema), &self.options)?;
                self.done = Done::Altered(former);
            }
        }
        Ok(())
    }

    pub(super) fn take_back(&mut self, inside: Inside) {
        let change = Change::rollback(inside);
        match (&self.what, std::mem::take(&mut self.done)) {
            (Define::Create(table), _) => {
                table.show(change, Shown::No).expect("DEFINE-1");
            }
            (Define::Drop(table), Done::Dropped(remains)) => table.put_back(change, remains),
            (Define::Alter(table, _), Done::Altered(former)) => {
                table.put_definition_back(change, former);
            }
            _ => {}
        }
    }
}
