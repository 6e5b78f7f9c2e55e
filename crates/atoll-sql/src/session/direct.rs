//! Changes that are not statements: by a function, and of rows as Arrow data.

use atoll::load::LoadOptions;
use atoll::{ArrowRows, Table, Transaction, TransactionOptions, TxnResult, Value};

use super::{SqlSession, Target};
use crate::arrow_value;
use crate::declared::Declared;
use crate::error::{ApplyError, ChangeError, SqlError, SqlErrorKind};
use crate::prepared::change::not_generated;
use crate::prepared::query::Binder;
use crate::prepared::run::{Loading, Part};
use crate::ruled::{Ruled, Rules, stopped};
use crate::sequence::context;
use crate::sink::Sink;
use crate::txn::{self, read_only};

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
        body: impl FnMut(&mut Transaction) -> TxnResult<u64>,
    ) -> Result<u64, ChangeError> {
        self.begin_statement()?;
        let changed = self.change_now(body);
        self.rest();
        changed
    }

    fn change_now(
        &mut self,
        mut body: impl FnMut(&mut Transaction) -> TxnResult<u64>,
    ) -> Result<u64, ChangeError> {
        self.writable("a change")?;
        let durability = self.settings.now().durability;
        match &mut self.target {
            Target::Database { open: Some(open), .. } => open.run(body),
            Target::Database { open: None, .. } if self.settings.now().read_only => {
                Err(read_only().into())
            }
            Target::Database { db, open: None } => {
                let options = TransactionOptions { durability, ..TransactionOptions::default() };
                let done =
                    db.session()?.transaction_with(&options, |transaction| body(transaction));
                Ok(done?)
            }
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes").into())
            }
        }
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
        let inserted = self.insert_arrow_now(table, batches);
        self.rest();
        inserted
    }

    fn insert_arrow_now(
        &mut self,
        table: &Table,
        batches: &[ArrowRows],
    ) -> Result<u64, ChangeError> {
        self.writable("a change")?;
        let durability = self.settings.now().durability;
        let options = LoadOptions { threads: None, durability };
        let rules = match &self.target {
            Target::Database { .. } => {
                let (scope, interrupt) = (self.scope()?, self.interrupt());
                Rules::of(table, false, None, &Binder { scope: &scope, interrupt: &interrupt })?
            }
            Target::Snapshot(_) => None,
        };
        match &mut self.target {
            Target::Database { open: Some(open), .. } if rules.is_some() => {
                Ok(open.apply(|transaction, part| {
                    insert(transaction, part, table, batches, rules.as_ref())
                })?)
            }
            Target::Database { db, open: None }
                if rules.is_some() && !self.settings.now().read_only =>
            {
                Ok(txn::run(db, durability, |transaction| {
                    insert(transaction, Part::whole(), table, batches, rules.as_ref())
                })?)
            }
            Target::Database { open: Some(open), .. } => {
                open.run(|transaction| transaction.insert_arrow(table, batches))
            }
            Target::Database { open: None, .. } if self.settings.now().read_only => {
                Err(read_only().into())
            }
            Target::Database { db, open: None } => Ok(db.insert_arrow(table, batches, options)?),
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes").into())
            }
        }
    }
}

/// Rows on their way into a table.
struct Inserter<'i> {
    transaction: &'i mut Transaction,
    table: &'i Table,
    loading: Option<Loading<'i>>,
    rows: u64,
}

impl Sink for Inserter<'_> {
    fn row(&mut self, row: &[Value], _: &dyn Fn() -> String) -> Result<(), ApplyError> {
        if let Some(loading) = &mut self.loading {
            loading.store(self.transaction, row, None).map_err(stopped)?;
        }
        self.transaction.insert(self.table, row)?;
        self.rows += 1;
        Ok(())
    }
}

/// Inserts rows one by one, under the rules of their table (`RULED-1`).
fn insert(
    transaction: &mut Transaction,
    part: Part<'_>,
    table: &Table,
    batches: &[ArrowRows],
    rules: Option<&Rules>,
) -> Result<u64, ApplyError> {
    let schema = table.schema();
    let declared = Declared::of(schema)?;
    let loading = match rules {
        Some(rules) => rules.loading(transaction, part)?,
        None => None,
    };
    let mut inserter = Inserter { transaction, table, loading, rows: 0 };
    for ArrowRows { rows, columns } in batches {
        let mut ruled = rules.map(|rules| Ruled::new(rules, table, &mut inserter)).transpose()?;
        let Some(sink) = &mut ruled else { continue };
        let given = columns.iter().enumerate().filter(|(_, array)| array.is_some());
        let given: Vec<usize> = given.map(|(at, _)| at).collect();
        given.iter().try_for_each(|at| not_generated(&declared, schema, *at))?;
        sink.columns(&given);
        let mut row = vec![Value::Null; columns.len()];
        for index in 0..*rows {
            for (at, array) in columns.iter().enumerate() {
                let Some(array) = array else { continue };
                let value = arrow_value::at(array, index);
                let value = value.map_err(|why| SqlError::new(SqlErrorKind::Type, why))?;
                row[at] = value.into_column_exactly(schema, at)?;
            }
            sink.row(&row, &|| format!("row {}", index + 1))?;
        }
    }
    let Inserter { transaction, loading, rows, .. } = inserter;
    if let (Some(rules), Some(loading)) = (rules, loading) {
        rules.finish(loading, transaction)?;
    }
    context::write_pending(transaction)?;
    Ok(rows)
}
