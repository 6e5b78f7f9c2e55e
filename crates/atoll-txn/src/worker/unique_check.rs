//! Checking that no two rows have one key in a unique index that has been filled.
//!
//! While an index is filled ([`super::index_fill`]), a transaction does not find the entry of a row
//! that comes later, so two rows may get one key (`FILL-3`). All neighbours in the index are
//! compared when the transactions have ended that may not have found all entries.

use std::ops::Bound;

use atoll_machine::Machine;
use atoll_storage::ordered::{Batch, KeyRange};
use atoll_storage::{RowId, Table};

use super::call::Call;
use super::index_fill::{Impatience, Looked, Task};
use crate::error::OpError;
use crate::scheme::Scheme;

impl<S: Scheme<M>, M: Machine> Call<'_, S, M> {
    /// Checks that no two rows have the same key in a unique index that has been filled. Every
    /// transaction that uses the table has begun to do so since; the caller uses it, too.
    ///
    /// # Errors
    /// [`OpError::DuplicateIndexKey`]; [`OpError::Abort`] if `gives_up` says so.
    pub fn check_unique(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        self.as_upkeep(|call| call.check_neighbours(table, number, gives_up))
    }

    /// Compares all neighbours (`FILL-3`).
    fn check_neighbours(
        &mut self,
        table: &Table<M>,
        number: usize,
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, descending: false };
        let (mut batch, mut key, mut buffer) = (Batch::default(), Vec::new(), Vec::new());
        // Of the rows of the last entries, which have the same key: the first, unless it was looked
        // at, and those that have the key and share it with none.
        let (mut first, mut rows) = (None, Vec::new());
        loop {
            self.ask(gives_up)?;
            let context = self.engine.altered(table)?;
            let ordered = &context.indexes()[number];
            let section = self.thread.member.enter();
            let more = ordered.index.batch(&range, &mut |_| (), &mut batch);
            drop(section);
            for found in batch.iter() {
                if key != found.key {
                    key.clear();
                    key.extend_from_slice(found.key);
                    (first, rows) = (Some(found.row), Vec::new());
                    continue;
                }
                for row in first.take().into_iter().chain([found.row]) {
                    if !self.has_unique(table, number, (row, &mut buffer), gives_up)? {
                        continue;
                    }
                    for other in &rows {
                        self.check_pair(table, number, (*other, row), gives_up)?;
                    }
                    rows.push(row);
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Whether a row has a key that no other may have; waits for a transaction that is writing it.
    fn has_unique(
        &mut self,
        table: &Table<M>,
        number: usize,
        (row, key): (RowId, &mut Vec<u8>),
        gives_up: Impatience<'_>,
    ) -> Result<bool, OpError> {
        loop {
            match self.look(table, number, row, Task::Read, key)? {
                Looked::Busy => self.pause_for(gives_up)?,
                Looked::Present { unique } => return Ok(unique),
                Looked::Absent => return Ok(false),
            }
        }
    }

    /// Checks that two rows do not both have the key that an entry of each has.
    fn check_pair(
        &mut self,
        table: &Table<M>,
        number: usize,
        (one, other): (RowId, RowId),
        gives_up: Impatience<'_>,
    ) -> Result<(), OpError> {
        let (mut key, mut keys) = (Vec::new(), Vec::new());
        // The first again, so that both have been there at the same time.
        for row in [one, other, one] {
            if !self.has_unique(table, number, (row, &mut key), gives_up)? {
                return Ok(());
            }
            keys.push(std::mem::take(&mut key));
        }
        if keys[0] != keys[1] || keys[0] != keys[2] {
            return Ok(());
        }
        let ordered = &self.engine.altered(table)?.indexes()[number];
        let _section = self.thread.member.enter();
        Err(ordered.duplicate(table, other))
    }
}
