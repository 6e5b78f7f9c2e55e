//! Altering tables while the database is in use: other names, other indexes, further columns. Rows
//! stay as they are.
//!
//! An index is added in three steps: it gets into the set, so that transactions keep it up to date;
//! it gets the entries of the rows that are there; and it is shown (`INDEXES-3`). The rows are read
//! by [`Call::fill_index`](crate::worker::Call::fill_index) beside transactions, or by
//! [`Engine::build_index`] while one transaction has the table alone.
//!
//! - `ALTER-3`: no transaction uses the table while its set of indexes is replaced, and the threads
//!   that use tables on their own account keep out of the way as they do of a drop.

use std::sync::Arc;

use atoll_machine::{Latch, Machine, Ordering, Word};
use atoll_storage::ordered::{BuiltTree, EntryRun};
use atoll_storage::{Change, Column, RowId, Schema, StorageError, Table, Value, key};

use crate::bulk::each;
use crate::describe::{self, Description};
use crate::engine::Engine;
use crate::error::OpError;
use crate::index_set::{IndexSet, Ordered};
use crate::row::Row;
use crate::scheme::Scheme;
use crate::tables::{IndexSpec, TableContext};
use crate::worker::Altered;

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// Adds an index that transactions keep up to date from now on, but do not use; returns its
    /// number. The caller has the table alone for the time of the call.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`]; [`StorageError::Schema`] for an index that is none, or when
    /// the table has had too many.
    pub fn add_index(&self, table: &Table<M>, spec: &IndexSpec) -> Result<usize, OpError> {
        let _defining = self.defining.take_patiently();
        let context = self.altered(table)?;
        let (set, number) = context.indexes().with(Ordered::new(table.schema(), spec)?)?;
        self.replace_indexes(context, set);
        Ok(number)
    }

    /// Gives a table a schema with columns behind the others, in each of which all rows have one
    /// value. The caller has the table alone, until the transaction has ended that defines the
    /// columns; one that is rolled back gives the table its schema back ([`Table::rename`]).
    /// `false` if this takes a copy of the table.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`]; [`StorageError::Schema`]; [`StorageError::Memory`].
    pub fn add_columns(
        &self,
        table: &Table<M>,
        schema: &Schema,
        added: &[Value],
    ) -> Result<bool, OpError> {
        let _defining = self.defining.take_patiently();
        let context = self.altered(table)?;
        let columns = schema.columns()[table.schema().columns().len()..].iter().cloned();
        let added: Vec<(Column, Value)> = columns.zip(added.iter().cloned()).collect();
        self.keep_others_away(context, || {
            if !table.add_columns(&added)? {
                return Ok(false);
            }
            let mut member = self.memory().upkeep();
            let mut from = Some(0);
            while let Some(segment) = from {
                let section = member.enter();
                from = table.widen(Change::forward(section.inside()), segment)?;
            }
            drop(member);
            drop(self.exchange_indexes(context, context.indexes().widened(schema)));
            table.rename(table.name(), schema);
            Ok(true)
        })
    }

    /// Drops indexes that are not shown, or that the caller does not want any more. The caller has
    /// the table alone for the time of the call. Does nothing if the table was dropped.
    pub fn drop_indexes(&self, table: &Table<M>, numbers: &[usize]) {
        let _defining = self.defining.take_patiently();
        let Ok(context) = self.altered(table) else { return };
        let set = context
            .indexes()
            .changed(|number, index| (!numbers.contains(&number)).then_some(index));
        self.replace_indexes(context, set);
    }

    /// Lets an index, which is going to be dropped, refuse no row any more. Others may be using the
    /// table.
    pub fn give_up_index(&self, table: &Table<M>, number: usize) {
        let _names = self.names.take(); // TABLES-3
        let context = self.context_of(table);
        if let Some(index) = context.and_then(|context| context.indexes().get(number)) {
            index.give_up();
        }
    }

    /// Lets transactions that begin from now on use an index, which has all entries. The caller has
    /// the table alone for the time of the call.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`]; [`OpError::UnknownIndex`] if it was dropped.
    pub fn show_index(&self, table: &Table<M>, shown: usize) -> Result<(), OpError> {
        let _defining = self.defining.take_patiently();
        let context = self.altered(table)?;
        if context.indexes().get(shown).is_none() {
            let (table, index) = (table.name().to_owned(), format!("number {shown}"));
            return Err(OpError::UnknownIndex { table, index });
        }
        // Transactions that begin from now on are ordered behind all that have committed, under any
        // scheme, as those behind the cut of a snapshot are.
        let cut = self.memory().cut();
        self.memory().release(cut.epoch);
        let since = self.shown.fetch_add(1, Ordering::AcqRel) + 1;
        let set = context.indexes().changed(|number, index| {
            Some(match number == shown {
                true => Ordered { since: Some(since), ..index },
                false => index,
            })
        });
        self.replace_indexes(context, set);
        Ok(())
    }

    /// Gives an index that is not shown the entries of all rows, with `threads` threads. One
    /// transaction has the table alone and has changed nothing in it.
    ///
    /// # Errors
    /// [`OpError::DuplicateIndexKey`]; [`StorageError::IndexKeyTooLong`].
    pub fn build_index(
        &self,
        table: &Table<M>,
        number: usize,
        threads: usize,
    ) -> Result<(), OpError> {
        let context = self.altered(table)?;
        let ordered = &context.indexes()[number];
        let segments = table.segment_count();
        // A thread for a few rows would take longer than the rows.
        let threads = threads.min(segments.div_ceil(8) as usize);
        let next = M::Word::new(0);
        // Long values stay where they are while they are read.
        let _compacting = self.compacting.take_patiently();
        let runs = each(threads, || {
            let (mut run, mut key) = (EntryRun::default(), Vec::new());
            loop {
                let segment = next.fetch_add(1, Ordering::Relaxed);
                if segment >= segments {
                    return Ok::<_, OpError>(run);
                }
                self.gather(context, ordered, segment, (&mut run, &mut key))?;
            }
        })?;
        let tree = ordered.tree_of(runs, threads);
        ordered.index.adopt(tree.map_err(|row| ordered.duplicate(table, row))?);
        Ok(())
    }

    /// Adds the entries of the rows of a segment to a run.
    fn gather(
        &self,
        context: &TableContext<S, M>,
        ordered: &Ordered<S, M>,
        segment: u64,
        (run, key): (&mut EntryRun, &mut Vec<u8>),
    ) -> Result<(), OpError> {
        let table = &*context.table;
        let mut member = self.memory().join();
        let _section = member.as_mut().map(|member| member.enter());
        for row in table.slots_of(segment).filter(|row| table.is_present(*row)) {
            let is_unique = ordered.key_of(&Row::stored(table, table.slot(row)), key);
            ordered.check_key_len(key)?;
            run.add(key, row, !is_unique);
        }
        Ok(())
    }

    /// Gives a table, of which an alteration has begun, its new names and indexes.
    pub(crate) fn alter(&self, table: &Table<M>, altered: &Altered) {
        let Altered { name, schema, indexes, .. } = altered;
        let context = self.context_of(table).expect("a table that is altered exists");
        let set = context.indexes().changed(|number, index| {
            let stays = indexes.iter().find(|(kept, _)| *kept == number);
            match stays {
                Some((_, spec)) => Some(Ordered { name: spec.name.clone(), ..index }),
                // Another definition makes it just now.
                None => index.since.is_none().then_some(index),
            }
        });
        let former = self.exchange_indexes(context, set);
        table.rename(name, schema);
        table.cancel_drop();
        drop(former);
    }

    /// Alters a table as a log describes it. No transaction uses the database, and the indexes are
    /// empty; other threads may be storing rows.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`]; [`StorageError::Schema`] for what does not fit the rows;
    /// [`StorageError::Memory`].
    pub fn alter_restored(&self, table: &Table<M>, described: Description) -> Result<(), OpError> {
        let Description { name, schema, options, .. } = described;
        let _defining = self.defining.take_patiently();
        let context = self.altered(table)?;
        let set = IndexSet::new(&schema, &options)?;
        let encoded = describe::encode_options(&schema, &options);
        let mut member = self.memory().upkeep();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let former = table.redefine(change, (&name, &schema), &encoded)?;
        drop(section);
        drop(member);
        // The drop of a table that begins tells appliers to pass its changes by; this must not.
        let replaced = self.exchange_indexes(context, set);
        table.rename(&name, &schema);
        table.release_definition(former);
        drop(replaced);
        Ok(())
    }

    /// The context of a table that exists.
    pub(crate) fn altered(&self, table: &Table<M>) -> Result<&TableContext<S, M>, OpError> {
        self.context_of(table)
            .ok_or_else(|| StorageError::UnknownTable(table.name().to_owned()).into())
    }

    /// Gives a table other indexes.
    fn replace_indexes(&self, context: &TableContext<S, M>, set: IndexSet<S, M>) {
        drop(self.keep_others_away(context, || self.exchange_indexes(context, set)));
    }

    /// Runs `body` while the threads that use tables on their own account leave the table alone
    /// (`ALTER-3`).
    fn keep_others_away<R>(&self, context: &TableContext<S, M>, body: impl FnOnce() -> R) -> R {
        context.table.begin_drop();
        let compacting = self.compacting.take_patiently();
        self.memory().advance_after(|_| ()); // DROP-2
        let result = body();
        context.table.cancel_drop();
        drop(compacting);
        result
    }

    /// Gives a table, of which a drop or an alteration has begun, other indexes (`ALTER-3`);
    /// returns the former ones.
    #[allow(unsafe_code)]
    pub(crate) fn exchange_indexes(
        &self,
        context: &TableContext<S, M>,
        set: IndexSet<S, M>,
    ) -> Arc<IndexSet<S, M>> {
        let _names = self.names.take(); // TABLES-3
        // SAFETY: no transaction uses the table (ALTER-3); of other threads, each holds the latch
        // of the names, which this thread has, or is inside the gate and leaves the table alone
        // (TABLES-2). So no reference into the former set is left.
        unsafe { context.replace_indexes(set) }
    }
}

impl<S: Scheme<M>, M: Machine> Ordered<S, M> {
    /// The tree of entries that threads have collected; sorts them with `threads` threads.
    ///
    /// # Errors
    /// A row with the key of another one.
    pub(crate) fn tree_of(&self, runs: Vec<EntryRun>, threads: usize) -> Result<BuiltTree, RowId> {
        let runs: Vec<_> = runs.into_iter().map(Latch::<M, _>::new).collect();
        let next = M::Word::new(0);
        let sort = || {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                run.take().sort();
            }
            Ok::<_, RowId>(())
        };
        each(threads, sort)?;
        let runs: Vec<_> = runs.into_iter().map(|mut run| std::mem::take(run.get_mut())).collect();
        self.index.build(&runs).map_err(|(_, row)| row)
    }

    /// The error for a row with the key of another.
    pub(crate) fn duplicate(&self, table: &Table<M>, row: RowId) -> OpError {
        let slot = table.slot(row);
        let values: Vec<_> = self.columns.iter().map(|at| table.value_in(slot, *at)).collect();
        OpError::DuplicateIndexKey {
            table: table.name().to_owned(),
            index: self.name.clone(),
            key: key::display(table.schema(), &self.columns, &values),
        }
    }
}
