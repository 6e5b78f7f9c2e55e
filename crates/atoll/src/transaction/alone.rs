//! Tables that a transaction has alone, and those that it creates, alters and drops.
//!
//! - `ALONE-1`: a definition takes effect in the commit, for snapshots, recovery and names at once;
//!   names of this process follow before others may use the tables.
//! - `ALONE-2`: a name that a transaction gives or takes is its own until it ends, so two of them
//!   do not meet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_log::LogError;
use atoll_storage::{Schema, StorageError};
use atoll_txn::{Define, TableOptions};

use super::Transaction;
use super::altered::Altered;
use crate::catalog::Catalog;
use crate::error::{Error, TxnResult};
use crate::table::Table;

/// The definitions that a transaction had made at some moment.
pub struct DefinitionsMade {
    /// Of each table that it had created, whether it had dropped it again.
    created: Vec<bool>,
    altered: Vec<Altered>,
    dropped: usize,
    built: usize,
    widened: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Alone {
    tables: Vec<Table>,
    names: Vec<String>,
    /// Tables that it has created, also those that it has dropped again.
    created: Vec<Table>,
    /// Tables of others that get another definition when it commits.
    pub(super) altered: Vec<Altered>,
    /// Handles that it has made of them. They stay until it ends, since it knows a handle by its
    /// address.
    pub(super) handles: Vec<Table>,
    /// The indexes that it has made, by their numbers.
    pub(super) built: Vec<(Table, usize)>,
    /// The tables to which it has added columns, each with the schema that rows had before.
    pub(super) widened: Vec<(Table, Schema)>,
    /// Tables of others that are dropped when it commits.
    dropped: Vec<Table>,
    /// What names mean to the transaction, once it has created or dropped a table.
    catalog: Option<Arc<Catalog>>,
    /// The version of the catalog that this was made from.
    base: u64,
}

impl Alone {
    /// Whether a table of others is dropped.
    fn drops(&self, table: &Table) -> bool {
        self.dropped.iter().any(|one| one.is(table))
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.names.is_empty()
    }

    fn defines(&self) -> bool {
        !self.created.is_empty() || !self.altered.is_empty() || !self.dropped.is_empty()
    }

    pub(super) fn has_created(&self, table: &Table) -> bool {
        self.created.iter().any(|one| one.is(table))
    }

    /// A catalog with the definitions.
    fn over(&self, mut catalog: Arc<Catalog>) -> Arc<Catalog> {
        self.apply(Arc::make_mut(&mut catalog));
        catalog
    }

    /// Adds the definitions to a catalog.
    fn apply(&self, catalog: &mut Catalog) {
        // Removals come first, since a table may get a name that another one has had.
        self.dropped.iter().for_each(|table| catalog.remove(table));
        self.altered.iter().for_each(|table| catalog.remove(&table.old));
        let altered = self.altered.iter().filter(|table| !self.drops(&table.new));
        altered.for_each(|table| catalog.add(table.new.clone()));
        let kept = self.created.iter().filter(|table| !table.lock.is_gone());
        kept.for_each(|table| catalog.add(table.clone()));
    }
}

impl Transaction {
    /// Waits until no other transaction uses the table, and keeps others from using it until this
    /// one ends.
    ///
    /// # Errors
    /// As [`Transaction::use_table`].
    pub fn lock_table(&mut self, table: &Table) -> TxnResult<()> {
        self.lock_table_until(table, &mut || false)
    }

    /// As [`Transaction::lock_table`]; also `gives_up` is asked whether to give up.
    pub(super) fn lock_table_until(
        &mut self,
        table: &Table,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> TxnResult<()> {
        self.check_defines()?;
        let uses = Arc::clone(self.in_use.uses());
        let core = Arc::clone(&self.core);
        let mut asked = self.asked();
        let mut ask = |is_first| gives_up() || asked(is_first);
        let alone = core.table_locks.define(&uses, &table.lock, &mut ask);
        drop(asked);
        alone.map_err(|refused| self.refuse(refused))?;
        self.alone.tables.push(table.clone());
        self.use_table(table)?;
        // Rows that it has changed have entries in them.
        if !self.change(|txn| txn.has_changes())? {
            self.core.unfinished.forget(&self.core.engine, table);
        }
        Ok(())
    }

    /// Creates a table, or an object that is none, when the transaction commits; until then only
    /// the transaction uses it.
    ///
    /// # Errors
    /// [`Error::Storage`] for a name that exists or is invalid; [`Error::Memory`]; [`Error::Log`]
    /// with [`LogError::NoTablespace`]; as [`Transaction::lock_table`], if another transaction
    /// creates or drops a table of the name.
    pub fn create_table(
        &mut self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> TxnResult<Table> {
        self.check_defines()?;
        let core = Arc::clone(&self.core);
        self.check_tablespace(options)?;
        self.reserve(name)?;
        if self.catalog().get(name).is_some() {
            return Err(Error::from(StorageError::TableExists(name.to_owned())).into());
        }
        let created = core.engine.create_hidden(name, schema, options).map_err(Error::of_op);
        let table = Table::new(created?, &core.engine);
        self.alone.created.push(table.clone());
        self.note();
        Ok(table)
    }

    /// Drops a table when the transaction commits; from now on it does not find the table.
    ///
    /// # Errors
    /// As [`Transaction::lock_table`].
    pub fn drop_table(&mut self, table: &Table) -> TxnResult<()> {
        self.lock_table(table)?;
        self.reserve(table.name())?;
        if self.catalog().get(table.name()).is_none_or(|now| !now.is(table)) {
            return Err(Error::from(StorageError::UnknownTable(table.name().to_owned())).into());
        }
        if self.alone.has_created(table) {
            table.lock.set_gone();
        } else {
            self.alone.dropped.push(table.clone());
        }
        self.note();
        Ok(())
    }

    /// Creates a table at once; this one has not begun, and needs no part of the scheme.
    pub(crate) fn create_at_once(
        &mut self,
        name: &str,
        schema: Schema,
        options: &TableOptions,
    ) -> TxnResult<Table> {
        self.check_owner()?;
        self.check_tablespace(options)?;
        self.reserve(name)?;
        let core = Arc::clone(&self.core);
        let created = core.engine.create_table(name, schema, options).map_err(Error::of_op);
        let table = created.map(|created| Table::new(created, &core.engine))?;
        core.change_catalog(|catalog| catalog.add(table.clone()));
        self.end_alone();
        Ok(table)
    }

    /// Drops a table at once, as [`Transaction::create_at_once`].
    pub(crate) fn drop_at_once(&mut self, table: &Table) -> TxnResult<()> {
        self.check_owner()?;
        let uses = Arc::clone(self.in_use.uses());
        let core = Arc::clone(&self.core);
        let alone = core.table_locks.define(&uses, &table.lock, &mut self.asked());
        alone.map_err(|refused| self.refuse(refused))?;
        self.alone.tables.push(table.clone());
        if table.lock.version() != table.version {
            self.end_alone();
            return Err(Error::TableChanged(table.name().to_owned()).into());
        }
        core.engine.drop_table(&table.core).map_err(Error::of_op)?;
        table.lock.set_gone();
        core.change_catalog(|catalog| catalog.remove(table));
        core.errands.reclaim();
        self.end_alone();
        Ok(())
    }

    fn check_tablespace(&self, options: &TableOptions) -> TxnResult<()> {
        let count = self.core.tablespaces();
        // The log checks this too, but a database in memory has no log.
        match options.tablespace.filter(|wanted| *wanted as usize >= count) {
            Some(wanted) => Err(Error::from(LogError::NoTablespace(wanted, count)).into()),
            None => Ok(()),
        }
    }

    /// The definitions that it has made so far, for [`Transaction::undo_definitions`].
    pub fn definitions_made(&self) -> DefinitionsMade {
        DefinitionsMade {
            created: self.alone.created.iter().map(|table| table.lock.is_gone()).collect(),
            altered: self.alone.altered.clone(),
            dropped: self.alone.dropped.len(),
            built: self.alone.built.len(),
            widened: self.alone.widened.len(),
        }
    }

    /// Undoes the definitions that it has made since. Changes of rows that it has made between them
    /// have been undone, those behind a definition before it; the tables remain its own.
    ///
    /// # Errors
    /// The transaction has ended.
    pub fn undo_definitions(&mut self, made: &DefinitionsMade) -> TxnResult<()> {
        self.check_defines()?;
        let was_gone = made.created.iter().map(Some).chain(std::iter::repeat(None));
        for (table, was_gone) in self.alone.created.iter().zip(was_gone) {
            match was_gone {
                // It was made since; the log may have rows of it.
                None => table.lock.set_gone(),
                Some(false) => table.lock.set_version(table.version),
                Some(true) => {}
            }
        }
        // Changes of rows have left entries in them, so they go when the transaction has ended.
        for (table, number) in &self.alone.built[made.built..] {
            self.core.engine.give_up_index(&table.core, *number);
        }
        narrow(self.alone.widened.split_off(made.widened));
        self.alone.altered.clone_from(&made.altered);
        self.alone.dropped.truncate(made.dropped);
        self.note();
        Ok(())
    }

    /// The tables that no other transaction uses before this one ends: those that it has alone, and
    /// those that it has created.
    pub fn own_tables(&self) -> impl Iterator<Item = &Table> {
        let created = self.alone.created.iter().filter(|table| !table.lock.is_gone());
        self.alone.tables.iter().chain(created)
    }

    /// Whether it has created or dropped tables: names may mean something else to it.
    pub fn has_definitions(&self) -> bool {
        self.alone.defines()
    }

    /// The version of the database's catalog. Once the transaction uses a table, a definition of
    /// another transaction that had the table alone has raised it.
    pub fn committed_catalog_version(&self) -> u64 {
        self.core.catalog_version.load(Ordering::Acquire)
    }

    /// The tables as the transaction sees them: with those that it has created, and without those
    /// that it has dropped.
    pub fn catalog(&self) -> Arc<Catalog> {
        let now = self.core.catalog();
        match &self.alone.catalog {
            None => now,
            Some(catalog) if self.alone.base == now.version() => Arc::clone(catalog),
            Some(_) => self.alone.over(now),
        }
    }

    /// A definition has been added.
    pub(super) fn note(&mut self) {
        let now = self.core.catalog();
        self.alone.base = now.version();
        self.alone.catalog = Some(self.alone.over(now));
    }

    pub(super) fn check_defines(&self) -> TxnResult<()> {
        self.check_owner()?;
        match self.is_open() {
            true => Ok(()),
            false => Err(Error::Aborted(atoll_txn::AbortReason::Finished).into()),
        }
    }

    /// Keeps other transactions from giving or taking a name.
    pub(super) fn reserve(&mut self, name: &str) -> TxnResult<()> {
        let uses = Arc::clone(self.in_use.uses());
        let core = Arc::clone(&self.core);
        let reserved = core.table_locks.reserve(&uses, name, &mut self.asked());
        reserved.map_err(|refused| self.refuse(refused))?;
        self.alone.names.push(name.to_owned());
        Ok(())
    }

    /// Makes the definitions part of the commit.
    pub(super) fn define_all(&mut self) -> TxnResult<()> {
        if !self.alone.defines() {
            return Ok(());
        }
        let altered = self.alone.altered.iter().filter(|one| !self.alone.drops(&one.new));
        let altered = altered.map(Altered::define);
        // In their order, so that of two tables of one name the first is gone before the second.
        let created = self.alone.created.iter().map(|table| match table.lock.is_gone() {
            true => Define::Pass(Arc::clone(&table.core)),
            false => Define::Create(Arc::clone(&table.core)),
        });
        let dropped = self.alone.dropped.iter();
        let dropped = dropped.map(|table| Define::Drop(Arc::clone(&table.core)));
        // A table takes the name of one that is dropped.
        let definitions: Vec<_> = dropped.chain(altered).chain(created).collect();
        definitions.into_iter().try_for_each(|one| self.change(|txn| txn.define(one)))
    }

    /// Names follow the definitions: the transaction has committed.
    pub(super) fn name_all(&mut self) {
        if !self.alone.defines() {
            return;
        }
        self.core.change_catalog(|catalog| self.alone.apply(catalog));
        self.alone.created.retain(|table| table.lock.is_gone());
        self.alone.widened.clear();
        for Altered { new, .. } in self.alone.altered.drain(..) {
            new.lock.set_version(new.version);
            // Those that it has dropped again have gone with its commit.
            self.alone.built.retain(|(table, _)| !table.is(&new));
        }
        self.alone.dropped.iter().for_each(|table| table.lock.set_gone());
        self.core.errands.reclaim();
    }

    /// The transaction has ended: others may use the tables, and those that it has not created
    /// after all go.
    #[inline]
    pub(super) fn end_alone(&mut self) {
        if !self.alone.is_empty() {
            self.end_definitions();
        }
    }

    #[cold]
    fn end_definitions(&mut self) {
        let Alone { tables, names, created, built, widened, .. } = std::mem::take(&mut *self.alone);
        narrow(widened);
        for of_table in built.chunk_by(|(one, _), (other, _)| one.is(other)) {
            let numbers: Vec<usize> = of_table.iter().map(|(_, number)| *number).collect();
            self.core.engine.drop_indexes(&of_table[0].0.core, &numbers);
        }
        for table in created {
            table.lock.set_gone();
            // What cannot be dropped for lack of memory stays hidden.
            let _ = self.core.engine.drop_hidden(&table.core);
            self.core.errands.reclaim();
        }
        let locks = tables.iter().map(|table| &*table.lock);
        self.core.table_locks.release(self.in_use.uses(), locks, &names);
    }
}

/// Gives tables that are alone their schemas back, the latest first.
fn narrow(widened: Vec<(Table, Schema)>) {
    for (table, before) in widened.into_iter().rev() {
        table.core.rename(table.core.name(), &before);
    }
}
