//! Dropping tables, outside any transaction.
//!
//! The caller guarantees that no open transaction has used the table since the drop began, and that
//! none uses it later. The threads that use tables on their own account take part in this:
//!
//! | thread | how it keeps out of the way |
//! |---|---|
//! | a worker that collects garbage | `TABLES-2` |
//! | one that compacts heap blocks | holds `compacting`, which a drop takes, too |
//! | one that describes or measures a table | `TABLES-3` |
//! | one that takes a snapshot | reads undo entries, which need no table |
//! | one that reads through a handle | `DROP-3` in `atoll_storage` |
//!
//! - `TABLES-1`: a transaction uses contexts of tables that cannot be dropped meanwhile.
//! - `TABLES-2`: a collector finds the context of a table inside the gate, and leaves the table
//!   alone if the serial number is not that of its item, or if a drop has begun. A drop drains the
//!   gate before it removes the table (`DROP-2`), and again before it frees the context.
//! - `TABLES-3`: any other thread holds the latch of the names while it uses a context, or has a
//!   reference from there. A drop removes the context under the latch.
//! - `TABLES-4`: what threads keep by the number of a table they keep with its serial number, too:
//!   garbage items and fillings. So the slot of a dropped table can be used again at once.

use std::sync::Arc;

use atoll_machine::Machine;
use atoll_storage::{Change, StorageError, Table};

use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::{Definition, Recorder};
use crate::scheme::Scheme;
use crate::tables::{Dropped, TableContext};

impl<S: Scheme<M>, M: Machine> Engine<S, M> {
    /// Drops a table, outside any transaction: no later snapshot shows it, and its name and number
    /// are free. Handles of it remain; they show no rows. The memory is freed by
    /// [`Engine::free_dropped`].
    ///
    /// The caller guarantees that no open transaction and no load has used the table since this
    /// call began, and that none uses it later. If one did, it would read and write the memory of
    /// other tables.
    ///
    /// # Errors
    /// [`StorageError::UnknownTable`] if the table was dropped before or belongs to another
    /// database, [`StorageError::Memory`], [`OpError::Journal`].
    pub fn drop_table(&self, table: &Table<M>) -> Result<(), OpError> {
        self.remove_table(table, self.recorder())
    }

    /// Drops a table of a transaction that was rolled back; the log does not know it.
    ///
    /// # Errors
    /// As [`Engine::drop_table`].
    pub fn drop_hidden(&self, table: &Table<M>) -> Result<(), OpError> {
        self.remove_table(table, None)
    }

    fn remove_table(
        &self,
        table: &Table<M>,
        mut recorder: Option<Box<dyn Recorder>>,
    ) -> Result<(), OpError> {
        let _defining = self.defining.take_patiently();
        if self.context_of(table).is_none() {
            return Err(StorageError::UnknownTable(table.name().to_owned()).into());
        }
        let definition = Definition::Drop(table.serial());
        if let Some(recorder) = &mut recorder {
            recorder.admit_definition(definition)?;
        }
        table.begin_drop();
        let _compacting = self.compacting.take_patiently();
        self.memory().advance_after(|_| ()); // DROP-2
        let mut member = self.memory().upkeep();
        let section = member.enter();
        // The headroom is for this, too: a drop frees memory.
        let removed = table.remove(Change::rollback(section.inside()));
        let remains = match removed {
            Ok(remains) => remains,
            Err(error) => {
                table.cancel_drop();
                if let Some(recorder) = &mut recorder {
                    recorder.withdraw();
                }
                return Err(error.into());
            }
        };
        if let Some(recorder) = &mut recorder {
            // In the same section, so that a cut comes before both or after both.
            recorder.record_definition(definition, section.inside().epoch);
        }
        drop(section);
        drop(member);
        let context = self.take_context(table);
        self.dropped.take().push(Dropped { context, remains });
        Ok(())
    }

    /// Takes the context of a table that was removed out of all lists.
    #[allow(unsafe_code)]
    pub(crate) fn take_context(&self, table: &Table<M>) -> Arc<TableContext<S, M>> {
        let mut names = self.names.take(); // TABLES-3
        let is_other = |context: &Arc<TableContext<S, M>>| !std::ptr::eq(&*context.table, table);
        names.retain(is_other);
        self.hidden.take().retain(is_other);
        // SAFETY: the context is kept until the gate was drained, and no transaction uses it
        // (TABLES-1); of other threads, each holds the latch of the names, which this thread has,
        // or is inside the gate (TABLES-2, TABLES-3).
        let context = unsafe { self.tables.take(table.id()) };
        context.expect("a table that exists has a context")
    }

    /// Frees the memory of dropped tables, as far as no snapshot shows it; waits for another thread
    /// that is doing so. A thread that is inside the gate must not call this.
    pub fn free_dropped(&self) {
        let _freeing = self.freeing.take_patiently();
        let dropped = std::mem::take(&mut *self.dropped.take());
        if dropped.is_empty() {
            return;
        }
        self.memory().advance_after(|_| ()); // TABLES-2
        for Dropped { context, remains } in dropped {
            context.table.release(remains);
        }
    }
}
