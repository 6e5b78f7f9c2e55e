//! The numbers of sequences: `nextval` and its kin.

use atoll::{
    Database, Durability, SnapshotTable, Table, Transaction, TransactionOptions, TxnError,
    TxnResult, Value,
};

use super::context::Context;
use super::definition::{CALLED, Definition, KEY, LAST, unknown};
use super::states::{Sequence, State, lock};
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::rights::Privileges;

/// Numbers that the row of a sequence is ahead at first, as in PostgreSQL; the more are asked for,
/// the more it is.
const BLOCK_MIN: u64 = 32;
const BLOCK_MAX: u64 = 1024;
/// Attempts to write the row.
const ATTEMPTS_MAX: u32 = 1000;
/// Times that a name is looked up, if sequences are altered meanwhile.
const LOOKUPS_MAX: u32 = 100;
impl Context {
    /// The next number of a sequence.
    ///
    /// # Errors
    /// There is no such sequence, or it has no more numbers; the session only reads.
    pub(crate) fn next_value(&self, name: &str) -> Result<i64, SqlError> {
        let db = self.writable("nextval()")?;
        let (serial, value) = self.found(name, |object| {
            let sequence = self.sequences.of(object)?;
            self.check_sequence(object, Privileges::USAGE | Privileges::UPDATE)?;
            let given = match self.is_private(db, object) {
                true => Some(self.give_private(db, object, &sequence)?),
                false => give_from_stock(&sequence)?,
            };
            let value = match given {
                Some(value) => value,
                None => self.stored_by(db, object, &sequence, |state, transaction| {
                    give_ahead(&sequence, object, state, transaction)
                })?,
            };
            Ok((object.serial(), value))
        })?;
        self.session.note(serial, value);
        Ok(value)
    }

    /// Sets the last number of a sequence; unless it was `called`, it is the next one.
    ///
    /// # Errors
    /// There is no such sequence, or it has no such number; the session only reads.
    pub(crate) fn set_value(&self, name: &str, value: i64, called: bool) -> Result<(), SqlError> {
        let db = self.writable("setval()")?;
        let serial = self.found(name, |object| {
            let sequence = self.sequences.of(object)?;
            self.check_sequence(object, Privileges::UPDATE)?;
            let Definition { min, max, .. } = sequence.definition;
            if !(min..=max).contains(&value) {
                let name = object.name();
                let message = format!(
                    "setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})"
                );
                return Err(SqlError::new(SqlErrorKind::Type, message).with_state("22003"));
            }
            if self.is_private(db, object) {
                let mut state = lock(&sequence.state);
                read(&sequence, &mut state, db, object)?;
                self.note_pending(object);
                (state.last, state.called, state.stock) = (value, called, 0);
            } else {
                self.stored_by(db, object, &sequence, |state, transaction| {
                    write(transaction, object, (value, called))?;
                    (state.last, state.called, state.stock) = (value, called, 0);
                    Ok(())
                })?;
            }
            Ok(object.serial())
        })?;
        if called {
            self.session.set(serial, value);
        }
        Ok(())
    }

    /// The number that this session has got last of a sequence.
    ///
    /// # Errors
    /// There is no such sequence; the session has got none.
    pub(crate) fn current_value(&self, name: &str) -> Result<i64, SqlError> {
        let serial = self.found(name, |object| {
            Definition::of(object)?;
            self.check_sequence(object, Privileges::USAGE | Privileges::SELECT)?;
            Ok(object.serial())
        })?;
        self.session.current(serial).ok_or_else(|| {
            let message =
                format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlErrorKind::Query, message).with_state("55000")
        })
    }

    /// The last number of a sequence, and whether it was given.
    ///
    /// # Errors
    /// There is no such sequence, and those of reading the database.
    pub(crate) fn state(&self, name: &str) -> Result<(i64, bool), SqlError> {
        let Some(db) = self.database() else { return Err(unknown(name)) };
        self.found(name, |object| {
            let sequence = self.sequences.of(object)?;
            self.check_sequence(object, Privileges::SELECT)?;
            let mut state = lock(&sequence.state);
            read(&sequence, &mut state, db, object)?;
            Ok((state.last, state.called))
        })
    }

    /// The number that this session has got last.
    ///
    /// # Errors
    /// It has got none.
    pub(crate) fn last_value(&self) -> Result<i64, SqlError> {
        self.session.last().ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlErrorKind::Query, message).with_state("55000")
        })
    }

    /// The state of a sequence as it is now. What the row is ahead is given up, so that the next
    /// number waits for the end of the transaction that alters the sequence, which has it alone.
    ///
    /// # Errors
    /// Those of reading the database.
    pub(crate) fn state_of(&self, object: &Table) -> Result<(i64, bool), SqlError> {
        let db = self.writable("ALTER SEQUENCE")?;
        let sequence = self.sequences.of(object)?;
        let mut state = lock(&sequence.state);
        read(&sequence, &mut state, db, object)?;
        state.stock = 0;
        Ok((state.last, state.called))
    }

    /// The next number of a sequence that the open transaction has to itself.
    fn give_private(
        &self,
        db: &Database,
        object: &Table,
        sequence: &Sequence,
    ) -> Result<i64, SqlError> {
        let mut state = lock(&sequence.state);
        read(sequence, &mut state, db, object)?;
        let value = sequence.definition.next(object.name(), (state.last, state.called))?;
        self.note_pending(object);
        (state.last, state.called, state.stock) = (value, true, 0);
        Ok(value)
    }

    /// Changes the state of a sequence with its row, by a transaction of its own, which is durable
    /// then.
    ///
    /// # Errors
    /// Those of `change`; the sequence was altered; the statement is to end.
    fn stored_by<R>(
        &self,
        db: &Database,
        object: &Table,
        sequence: &Sequence,
        mut change: impl FnMut(&mut State, &mut Transaction) -> Result<R, ApplyError>,
    ) -> Result<R, SqlError> {
        let interrupt = self.interrupt();
        let durability = db.durability().map(|_| Durability::Strict);
        let options = TransactionOptions { durability, ..TransactionOptions::default() };
        for _ in 0..ATTEMPTS_MAX {
            let mut transaction = db.begin_with(&options)?;
            transaction.set_patience(interrupt.patience()).map_err(atoll::Error::from)?;
            let mut attempt = |mut transaction: Transaction| {
                // Before the state: one that has the sequence alone asks for the state.
                transaction.use_table(object)?;
                let mut state = lock(&sequence.state);
                read(sequence, &mut state, db, object)?;
                let mut changed = state.clone();
                let result = change(&mut changed, &mut transaction)?;
                transaction.commit()?;
                *state = changed;
                Ok(result)
            };
            match attempt(transaction) {
                Ok(result) => return Ok(result),
                Err(ApplyError::Abort(reason)) if reason.is_conflict() => {
                    interrupt.check_now()?;
                }
                Err(ApplyError::Abort(reason)) => return Err(atoll::Error::Aborted(reason).into()),
                Err(ApplyError::Error(error)) => return Err(error),
            }
        }
        let message = format!("a sequence could not be written in {ATTEMPTS_MAX} attempts");
        Err(SqlError::new(SqlErrorKind::Aborted, message))
    }

    /// Does something with the sequence of a name, and again if that was altered meanwhile.
    fn found<R>(
        &self,
        name: &str,
        mut work: impl FnMut(&Table) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        for _ in 1..LOOKUPS_MAX {
            let done = work(&self.find(name)?);
            if !done.as_ref().is_err_and(|error| error.cause() == Some(Cause::TableChanged)) {
                return done;
            }
        }
        work(&self.find(name)?)
    }

    /// Writes what is pending, as part of a transaction (`SEQUENCE-2`).
    ///
    /// # Errors
    /// The transaction was aborted.
    pub(crate) fn write_pending(&self, transaction: &mut Transaction) -> Result<(), TxnError> {
        let Some(db) = self.database() else { return Ok(()) };
        for object in self.pending() {
            let Ok(sequence) = self.sequences.of(&object) else { continue };
            match write_current(transaction, db, &object, &sequence) {
                // It was dropped since, and its numbers with it.
                Err(TxnError::Error(atoll::Error::TableChanged(_))) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Writes what a query has left pending, by a transaction of its own.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn store_pending(&self) -> Result<(), SqlError> {
        let Some(db) = self.database() else { return Ok(()) };
        for object in self.pending() {
            let sequence = self.sequences.of(&object)?;
            self.stored_by(db, &object, &sequence, |state, transaction| {
                write(transaction, &object, (state.last, state.called))?;
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The next number, if the row is ahead of it.
fn give_from_stock(sequence: &Sequence) -> Result<Option<i64>, SqlError> {
    let mut state = lock(&sequence.state);
    if !state.is_known || state.stock == 0 || !state.called {
        return Ok(None);
    }
    let value = sequence.definition.next(sequence.name(), (state.last, true))?;
    (state.last, state.stock) = (value, state.stock - 1);
    Ok(Some(value))
}

/// The next number, with a row that is ahead of further ones.
fn give_ahead(
    sequence: &Sequence,
    object: &Table,
    state: &mut State,
    transaction: &mut Transaction,
) -> Result<i64, ApplyError> {
    let definition = &sequence.definition;
    let value = definition.next(object.name(), (state.last, state.called))?;
    if state.stock > 0 && state.called {
        state.stock -= 1; // Another thread has stored numbers meanwhile.
    } else {
        let most = BLOCK_MAX.max(definition.cache.unsigned_abs().min(1 << 20));
        let least = BLOCK_MIN.max(definition.cache.unsigned_abs().min(most));
        let block = state.block.clamp(least, most);
        let (covered, stock) = definition.ahead(value, block);
        write(transaction, object, (covered, true))?;
        (state.stock, state.block) = (stock, block * 2);
    }
    (state.last, state.called) = (value, true);
    Ok(value)
}

/// Reads the state, once.
fn read(
    Sequence { definition, .. }: &Sequence,
    state: &mut State,
    db: &Database,
    object: &Table,
) -> Result<(), SqlError> {
    if !state.is_known {
        let stored = stored(db, object)?;
        (state.last, state.called) = stored.unwrap_or((definition.last, definition.called));
        state.is_known = true;
    }
    Ok(())
}

/// The row of a sequence, if it has one that is committed: of a snapshot, for which nothing waits.
fn stored(db: &Database, object: &Table) -> Result<Option<(i64, bool)>, SqlError> {
    let snapshot = db.snapshot()?;
    let Some(found) = snapshot.object(object.name()) else { return Ok(None) };
    if found.serial_number() != object.serial() {
        return Ok(None);
    }
    stored_in(&found)
}

/// The row of a sequence of a snapshot, if it has one.
///
/// # Errors
/// The snapshot has expired, or is damaged.
pub(crate) fn stored_in(found: &SnapshotTable) -> Result<Option<(i64, bool)>, SqlError> {
    for at in 0..found.segment_count() {
        let segment = found.segment(at)?;
        for (first, length) in segment.runs() {
            if length > 0 {
                let value = |column: usize| -> Result<Value, SqlError> {
                    let data_type = found.schema().columns()[column].data_type;
                    let array = segment.array(column)?;
                    Ok(atoll::load::value(array.as_ref(), data_type, first))
                };
                if let (Value::Int64(last), Value::Bool(called)) = (value(LAST)?, value(CALLED)?) {
                    return Ok(Some((last, called)));
                }
            }
        }
    }
    Ok(None)
}

fn write(transaction: &mut Transaction, object: &Table, state: (i64, bool)) -> TxnResult<()> {
    let (last, called) = (Value::Int64(state.0), Value::Bool(state.1));
    let set = [(LAST, last.clone()), (CALLED, called.clone())];
    if !transaction.update(object, &[KEY.into()], &set)? {
        transaction.insert(object, &[KEY.into(), last, called])?;
    }
    Ok(())
}

/// Writes the row as the state is when the transaction holds the row. Nothing waits for the row
/// with the state in its hands, since a transaction that holds the row asks for the state.
fn write_current(
    transaction: &mut Transaction,
    db: &Database,
    object: &Table,
    sequence: &Sequence,
) -> TxnResult<()> {
    if read(sequence, &mut lock(&sequence.state), db, object).is_err() {
        return Ok(()); // No number of it was given.
    }
    let state = || {
        let state = lock(&sequence.state);
        (state.last, state.called)
    };
    let before = state();
    write(transaction, object, before)?;
    match state() {
        now if now == before => Ok(()),
        now => write(transaction, object, now),
    }
}
