//! Foreign keys that are checked when the transaction commits.
//!
//! A check is about the rows as they are when it is carried out, so it may be made more than once,
//! and one that others have made superfluous does no harm.

use std::collections::HashMap;
use std::sync::Arc;

use atoll::{Transaction, Value};

use super::find::{Constraint, Hold};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign_key::{ForeignKey, Timing};
use crate::interrupt::Interrupt;
use crate::short::run::Stop;

/// A check that is still to be made.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// Of the row with this primary key: it has a parent.
    Child { constraint: Arc<Constraint>, key: Vec<Value> },
    /// Of the values of a row that has gone: no row refers to them, or another row has them.
    Parent { constraint: Arc<Constraint>, values: Vec<Value> },
}

impl Check {
    /// Makes the check.
    ///
    /// # Errors
    /// [`Cause::ForeignKeyViolation`]; the transaction was aborted.
    pub(crate) fn make(&self, transaction: &mut Transaction, hold: Hold) -> Result<(), Stop> {
        match self {
            Self::Child { constraint, key } => {
                let child = &constraint.child;
                let row = transaction.read(&child.table, key)?;
                let referring = row.map(|row| constraint.referring(&row)).transpose()?;
                let Some(values) = referring.flatten() else { return Ok(()) };
                let wanted = std::slice::from_ref(&values);
                match constraint.have_parents(transaction, wanted, hold)?[..] {
                    [true] => Ok(()),
                    _ => Err(constraint.no_parent(&values).into()),
                }
            }
            Self::Parent { constraint, values } => {
                let Some(of_child) = constraint.of_child(values) else { return Ok(()) };
                if constraint.children(transaction, &of_child, true)?.is_empty()
                    || constraint.has_parent(transaction, values)?
                {
                    return Ok(());
                }
                Err(constraint.has_children(values).into())
            }
        }
    }

    fn constraint(&self) -> &Constraint {
        match self {
            Self::Child { constraint, .. } | Self::Parent { constraint, .. } => constraint,
        }
    }
}

/// What `SET CONSTRAINTS` has said in a transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modes {
    /// Whether all are deferred, if that was said.
    all: Option<bool>,
    /// What was said of single ones since then.
    named: HashMap<String, bool>,
}

/// The checks of a transaction that are still to be made.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    checks: Vec<Check>,
    pub(crate) modes: Modes,
}

impl Modes {
    /// Whether a foreign key is checked only at the end.
    pub(crate) fn defers(&self, key: &ForeignKey) -> bool {
        match key.timing {
            Timing::Immediate => false,
            timing => {
                let said = self.named.get(&key.name).copied().or(self.all);
                said.unwrap_or(timing == Timing::Deferred)
            }
        }
    }

    /// `SET CONSTRAINTS`; `None` are all.
    pub(crate) fn set(&mut self, names: Option<&[String]>, deferred: bool) {
        match names {
            Some(names) => self.named.extend(names.iter().map(|name| (name.clone(), deferred))),
            None => {
                self.all = Some(deferred);
                self.named.clear();
            }
        }
    }
}

impl Deferred {
    /// Number of checks to make.
    pub(crate) fn len(&self) -> usize {
        self.checks.len()
    }

    /// Forgets the checks behind the first `len`: what they are about was undone.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.checks.truncate(len);
    }

    /// Adds checks.
    pub(crate) fn extend(&mut self, checks: Vec<Check>) {
        self.checks.extend(checks);
    }

    /// Whether a check of a table is still to be made.
    pub(crate) fn concerns(&self, table: &str) -> bool {
        self.checks.iter().any(|check| {
            let Constraint { child, parent, .. } = check.constraint();
            child.table.name() == table || parent.table.name() == table
        })
    }

    /// Makes the checks of foreign keys that are not deferred any more, or all of them at the end
    /// of the transaction. With `keeps` they stay, since a rollback to a savepoint may make them
    /// necessary again.
    ///
    /// # Errors
    /// As [`Check::make`].
    pub(crate) fn make(
        &mut self,
        transaction: &mut Transaction,
        interrupt: &Interrupt,
        (hold, keeps, is_end): (Hold, bool, bool),
    ) -> Result<(), Stop> {
        let checks = std::mem::take(&mut self.checks);
        let is_due = |check: &Check| is_end || !self.modes.defers(&check.constraint().key);
        for check in checks.iter().filter(|check| is_due(check)) {
            interrupt.check_row()?;
            check.make(transaction, hold)?;
        }
        self.checks = checks.into_iter().filter(|check| keeps || !is_due(check)).collect();
        Ok(())
    }
}

/// Checks the names of `SET CONSTRAINTS`.
///
/// # Errors
/// No foreign key has a name, or it cannot be deferred.
pub(crate) fn check_names<'k>(
    names: &[String],
    keys: impl Iterator<Item = &'k ForeignKey> + Clone,
) -> Result<(), SqlError> {
    for name in names {
        let mut named = keys.clone().filter(|key| key.name == *name).peekable();
        let (message, cause) = if named.peek().is_none() {
            (format!("constraint \"{name}\" does not exist"), Cause::UnknownObject)
        } else if named.any(|key| !key.timing.is_deferrable()) {
            (format!("constraint \"{name}\" is not deferrable"), Cause::OtherObject)
        } else {
            continue;
        };
        return Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(cause));
    }
    Ok(())
}
