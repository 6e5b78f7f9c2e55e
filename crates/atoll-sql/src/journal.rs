//! The way back to a savepoint: for each change of a row, and each definition, since then, what
//! undoes it.
//!
//! The journal is kept only while a savepoint is set, so other transactions pay nothing for it. A
//! rollback to a savepoint makes the inverse changes, the newest first, in the same transaction.
//! They touch rows that the transaction has changed before, so it holds them.
//!
//! `JOURNAL-1`: a change is noted before or together with its effect; one that is noted and has no
//! effect is harmless, because its inverse then finds the row as it should be, or no row.

use atoll::{DefinitionsMade, Table, Transaction, TxnResult, Value};

/// The inverse of a change.
enum Inverse {
    /// Of an insert.
    Delete { table: Table, key: Vec<Value> },
    /// Of an update: the old values of columns.
    Update { table: Table, key: Vec<Value>, old: Vec<(usize, Value)> },
    /// Of a delete.
    Insert { table: Table, row: Vec<Value> },
    /// Of definitions: those before them.
    Definitions(DefinitionsMade),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Journal {
    inverses: Vec<Inverse>,
}

impl Journal {
    /// Number of changes noted.
    pub(crate) fn len(&self) -> usize {
        self.inverses.len()
    }

    /// Notes an insert.
    pub(crate) fn inserted(&mut self, table: &Table, key: Vec<Value>) {
        self.inverses.push(Inverse::Delete { table: table.clone(), key });
    }

    /// Notes an update with the old values of the columns.
    pub(crate) fn updated(&mut self, table: &Table, key: &[Value], old: Vec<(usize, Value)>) {
        let (table, key) = (table.clone(), key.to_vec());
        self.inverses.push(Inverse::Update { table, key, old });
    }

    /// Notes a delete of a row.
    pub(crate) fn deleted(&mut self, table: &Table, row: Vec<Value>) {
        self.inverses.push(Inverse::Insert { table: table.clone(), row });
    }

    /// Notes that definitions follow.
    pub(crate) fn defining(&mut self, made: DefinitionsMade) {
        self.inverses.push(Inverse::Definitions(made));
    }

    /// Undoes all changes behind the first `len`.
    ///
    /// # Errors
    /// The transaction was aborted.
    pub(crate) fn undo(&mut self, transaction: &mut Transaction, len: usize) -> TxnResult<()> {
        while self.inverses.len() > len
            && let Some(inverse) = self.inverses.pop()
        {
            match inverse {
                Inverse::Delete { table, key } => drop(transaction.delete(&table, &key)?),
                Inverse::Update { table, key, old } => {
                    transaction.update(&table, &key, &old)?;
                }
                Inverse::Insert { table, row } => transaction.insert(&table, &row)?,
                Inverse::Definitions(made) => transaction.undo_definitions(&made)?,
            }
        }
        Ok(())
    }
}
