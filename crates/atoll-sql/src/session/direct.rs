//! Changes that are not statements: by a function, and of rows as Arrow data.

use atoll::load::LoadOptions;
use atoll::{ArrowRows, Table, Transaction, TransactionOptions, TxnResult};

use super::{SqlSession, Target};
use crate::error::{ChangeError, SqlError, SqlErrorKind};
use crate::txn::read_only;

impl SqlSession {
    /// Makes a change that is not a statement: inside the open transaction, or as a transaction of
    /// its own, which is tried again after an abort. `body` returns the number of rows that it
    /// touched.
    ///
    /// # Errors
    /// [`ChangeError::Database`] with the error of `body` or of the commit, without any change;
    /// [`ChangeError::Session`] for a session on a snapshot and a transaction that takes no further
    /// statement. An open transaction takes none after any of these.
    pub fn change(
        &mut self,
        mut body: impl FnMut(&mut Transaction) -> TxnResult<u64>,
    ) -> Result<u64, ChangeError> {
        self.begin_statement()?;
        self.writable("a change")?;
        let durability = self.settings.now().durability;
        let changed = match &mut self.target {
            Target::Database { open: Some(open), .. } => open.run(body),
            Target::Database { open: None, .. } if self.read_only => Err(read_only().into()),
            Target::Database { db, open: None } => {
                let options = TransactionOptions { durability, ..TransactionOptions::default() };
                let done =
                    db.session()?.transaction_with(&options, |transaction| body(transaction));
                Ok(done?)
            }
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes").into())
            }
        };
        self.rest();
        changed
    }

    /// Adds rows to a table: inside the open transaction, or as a transaction of its own.
    ///
    /// # Errors
    /// As [`SqlSession::change`].
    pub fn insert_arrow(
        &mut self,
        table: &Table,
        batches: &[ArrowRows],
    ) -> Result<u64, ChangeError> {
        self.begin_statement()?;
        self.writable("a change")?;
        let options = LoadOptions { threads: None, durability: self.settings.now().durability };
        let inserted = match &mut self.target {
            Target::Database { open: Some(open), .. } => {
                open.run(|transaction| transaction.insert_arrow(table, batches))
            }
            Target::Database { open: None, .. } if self.read_only => Err(read_only().into()),
            Target::Database { db, open: None } => Ok(db.insert_arrow(table, batches, options)?),
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes").into())
            }
        };
        self.rest();
        inserted
    }
}
