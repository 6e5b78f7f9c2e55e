//! A definition of a transaction, see [`super::definitions`].

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{Change, Remains, Shown, StorageError, Table};

#[cfg(doc)]
use crate::engine::Engine;
use crate::journal::Definition;

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
}

/// A definition of a transaction that has not ended.
pub(super) struct Defined<M: Machine> {
    pub(super) what: Define<M>,
    /// The description of a table that is created.
    pub(super) description: Vec<u8>,
    /// What is left of one that was dropped.
    pub(super) remains: Option<Remains>,
}

impl<M: Machine> Defined<M> {
    /// As the log has it.
    pub(super) fn records(&self) -> impl Iterator<Item = Definition<'_>> {
        let (created, dropped) = match &self.what {
            Define::Create(_) => (true, None),
            Define::Drop(table) => (false, Some(table.serial())),
            Define::Pass(table) => (true, Some(table.serial())),
        };
        let create = created.then_some(Definition::Create(&self.description));
        create.into_iter().chain(dropped.map(Definition::Drop))
    }

    pub(super) fn carry_out(&mut self, inside: Inside) -> Result<(), StorageError> {
        // The headroom is for this: the commit has been decided.
        let change = Change::rollback(inside);
        match &self.what {
            Define::Create(table) => table.show(change, Shown::Yes),
            Define::Drop(table) => {
                self.remains = Some(table.remove(change)?);
                Ok(())
            }
            Define::Pass(_) => Ok(()),
        }
    }

    pub(super) fn take_back(&mut self, inside: Inside) {
        let change = Change::rollback(inside);
        match (&self.what, self.remains.take()) {
            (Define::Create(table), _) => {
                table.show(change, Shown::No).expect("DEFINE-1");
            }
            (Define::Drop(table), Some(remains)) => table.put_back(change, remains),
            (Define::Drop(_), None) | (Define::Pass(_), _) => {}
        }
    }
}
