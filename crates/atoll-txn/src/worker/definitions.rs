//! Definitions of a transaction: tables that it creates, alters or drops.
//!
//! A table is made when the transaction asks for it, but no snapshot shows it, and it has no name.
//! A table to be altered or dropped stays as it is. All of this takes effect in the section of the
//! gate in which the transaction commits, and the log has it as pieces of the transaction. So a
//! snapshot and a recovery show all of its definitions and changes of rows, or nothing.
//!
//! - `DEFINE-1`: definitions are carried out, and taken back, in one section. What is taken back
//!   needs no memory, since a section copies a frozen node once.
//! - `DEFINE-2`: definitions have the order of their commits in the log of tablespace 0, because a
//!   commit with definitions holds `defining`.

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_memory::Inside;
use atoll_storage::{StorageError, Table};

use super::call::Call;
use super::defined::{Altered, Define, Defined, Done};
use super::txn::TxnState;
use crate::engine::Engine;
use crate::error::OpError;
use crate::index_set::check_indexes;
use crate::scheme::Scheme;
use crate::tables::Dropped;

impl<S: Scheme<M>, M: Machine> TxnState<S, M> {
    /// Carries out the definitions, all or none.
    ///
    /// # Errors
    /// [`StorageError::Memory`].
    pub(super) fn carry_out(&mut self, inside: Inside) -> Result<(), StorageError> {
        for at in 0..self.definitions.len() {
            if let Err(error) = self.definitions[at].carry_out(inside) {
                let done = &mut self.definitions[..at];
                done.iter_mut().rev().for_each(|definition| definition.take_back(inside));
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Makes a definition part of the transaction. The caller guarantees that no other transaction
    /// uses the table from now on, until this one has ended.
    ///
    /// # Errors
    /// [`OpError::Abort`] if no transaction is open; [`StorageError::UnknownTable`].
    pub fn define(&mut self, what: Define<M>) -> Result<(), OpError> {
        self.check_open()?;
        let table = what.table();
        self.engine.check_table(table)?;
        if let Define::Alter(_, Altered { name, schema, indexes, .. }) = &what {
            table.check_alteration(name, schema)?;
            check_indexes(schema, indexes.iter().map(|(_, spec)| spec))?;
        }
        let options = self.engine.table_options(table);
        self.txn.definitions.push(Defined::new(what, options));
        Ok(())
    }

    /// Lets the transaction use an index that was made for it ([`Engine::build_index`]) since it
    /// began, although the index knows nothing of what happened before: no other transaction has
    /// used the table.
    pub fn own_index(&mut self, table: &Table<M>, number: usize) {
        self.txn.own_indexes.push((table.id(), number));
    }

    /// Commits a transaction with definitions.
    pub(super) fn commit_with_definitions(&mut self) -> Result<(), OpError> {
        let engine: &Engine<S, M> = self.engine;
        let _defining = engine.defining.take_patiently();
        let definitions = self.txn.definitions.iter().map(|definition| &definition.what);
        let old = definitions.filter(|what| what.is_of_old());
        let old: Vec<_> = old.map(|what| Arc::clone(what.table())).collect();
        let _compacting = (!old.is_empty()).then(|| {
            old.iter().for_each(|table| table.begin_drop());
            let compacting = engine.compacting.take_patiently();
            engine.memory().advance_after(|_| ()); // DROP-2
            compacting
        });
        let done = self.commit_rows();
        let definitions = std::mem::take(&mut self.txn.definitions);
        if done.is_err() {
            old.iter().for_each(|table| table.cancel_drop());
            return done;
        }
        let (gsn, _) = self.txn.log.gsns();
        for Defined { what, done, .. } in definitions {
            match (what, done) {
                (Define::Create(table), _) => engine.name_table(&table, gsn),
                (Define::Drop(table), Done::Dropped(remains)) => {
                    let context = engine.take_context(&table);
                    engine.dropped.take().push(Dropped { context, remains });
                }
                (Define::Alter(table, altered), Done::Altered(former)) => {
                    engine.alter(&table, &altered);
                    table.release_definition(former);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// Gives a table its name: the transaction that made it has committed with this GSN.
    fn name_table(&self, table: &Table<M>, gsn: u64) {
        let mut hidden = self.hidden.take();
        let at = hidden.iter().position(|context| std::ptr::eq(&*context.table, table));
        let context = hidden.swap_remove(at.expect("it was hidden until now"));
        drop(hidden);
        // Transactions that use the table get a greater GSN.
        context.raise_gone(gsn);
        self.names.take().push(context);
    }
}
