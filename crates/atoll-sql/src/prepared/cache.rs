//! What the sessions of a database share: bound statements by their text, and idle transactions.
//!
//! `CACHE-1`: a statement is run only as long as the catalog has the version that it was bound to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use atoll::Database;
use sqlparser::ast::{Ident, Statement};

use super::parameters::ParameterType;
use super::{Prepared, parameters};
use crate::coordination::Together;
use crate::depth;
use crate::error::SqlError;
use crate::foreign::references;
use crate::idle::Idle;
use crate::literal::Literal;
use crate::privileges::needed::{self, Needed};
use crate::sequence::states::Sequences;

/// Most statements that are kept.
const STATEMENTS_MAX: usize = 4096;
/// Longest text of one.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most ways in which one statement is bound for values of different types.
const VARIANTS_MAX: usize = 16;
/// Most engine sessions without a user that are kept; each has a worker.
const IDLE_MAX: usize = 8;
/// Most engine sessions that are kept by sessions of SQL, for their next statement.
const KEPT_MAX: usize = 64;

/// What the sessions of a database share.
#[derive(Default)]
pub(crate) struct Shared {
    statements: RwLock<HashMap<Box<str>, Arc<Known>>>,
    idle: Mutex<Vec<atoll::Session>>,
    kept: AtomicUsize,
    /// The numbers that sequences give.
    pub(crate) sequences: Arc<Sequences>,
    /// What sessions have to do with each other.
    pub(crate) together: Arc<Together>,
    /// Which tables refer to which.
    pub(crate) references: references::Kept,
    /// Set when a session has limited the time between two statements.
    watch: OnceLock<Option<Idle>>,
}

/// Types of values, and the statement bound for them.
type Declared = (Vec<Option<ParameterType>>, Arc<Prepared>);

/// A statement that has been parsed.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) statement: Statement,
    pub(crate) parameters: usize,
    /// Whether it is touched only with much room on the stack, see `depth`.
    pub(crate) is_deep: bool,
    /// Of the catalog.
    pub(crate) version: u64,
    /// Used since the last time that statements were dropped.
    is_used: AtomicBool,
    /// Bound for parameters with the types that their places give them.
    inferred: OnceLock<Arc<Prepared>>,
    /// Bound for values of these types.
    declared: Mutex<Vec<Declared>>,
    /// What is needed to run it, once a role was checked that is no superuser.
    needed: OnceLock<Arc<[Needed]>>,
}

impl Shared {
    /// What the sessions of this database share.
    pub(crate) fn of(db: &Database) -> &Self {
        db.companion(Self::default).expect("only this crate keeps something with a database")
    }

    /// The statement of a text, if it is known and its names still mean the same.
    pub(crate) fn find(&self, text: &str, version: u64) -> Option<Arc<Known>> {
        let statements = self.statements.read().unwrap_or_else(PoisonError::into_inner);
        let known = statements.get(text).filter(|known| known.version == version)?;
        if !known.is_used.load(Ordering::Relaxed) {
            known.is_used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(known))
    }

    /// Keeps a statement.
    pub(crate) fn keep(&self, text: &str, known: &Arc<Known>) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut statements = self.statements.write().unwrap_or_else(PoisonError::into_inner);
        if statements.len() >= STATEMENTS_MAX {
            statements.retain(|_, known| known.is_used.swap(false, Ordering::Relaxed));
            // All were in use: half of them go, any half.
            let mut keep = false;
            if statements.len() >= STATEMENTS_MAX {
                statements.retain(|_, _| {
                    keep = !keep;
                    keep
                });
            }
        }
        statements.insert(text.into(), Arc::clone(known));
    }

    /// What ends idle transactions; `None` if its thread could not be started.
    pub(crate) fn idle_watch(&self) -> Option<&Idle> {
        self.watch.get_or_init(|| Idle::new().ok()).as_ref()
    }

    /// Lends a session of the engine to `work`: the one that is kept, or one that is kept from now
    /// on if there are not too many.
    ///
    /// # Errors
    /// Too many transactions are open; those of `work`.
    pub(crate) fn lend<R>(
        db: &Database,
        kept: &mut Option<Kept>,
        work: impl FnOnce(&mut atoll::Session) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        if let Some(Kept { session: Some(session), .. }) = kept {
            return work(session);
        }
        let shared = Self::of(db);
        let idle = shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => db.session()?,
        };
        let done = work(&mut session)?;
        if shared.kept.fetch_add(1, Ordering::Relaxed) < KEPT_MAX {
            *kept = Some(Kept { db: db.clone(), session: Some(session) });
        } else {
            shared.kept.fetch_sub(1, Ordering::Relaxed);
            shared.put_back(session);
        }
        Ok(done)
    }

    fn put_back(&self, session: atoll::Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
    }
}

/// A session of the engine that a session of SQL keeps.
pub(crate) struct Kept {
    db: Database,
    session: Option<atoll::Session>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let shared = Shared::of(&self.db);
        shared.kept.fetch_sub(1, Ordering::Relaxed);
        // In a forked child it belongs to the parent.
        if let Some(session) = self.session.take()
            && self.db.check_owner().is_ok()
        {
            shared.put_back(session);
        }
    }
}

impl Known {
    /// A statement that has not been bound.
    pub(crate) fn new(statement: Statement, parameters: usize, version: u64) -> Self {
        let (inferred, declared) = (OnceLock::new(), Mutex::default());
        let (is_used, is_deep) = (AtomicBool::new(true), depth::is_deep(&statement));
        let needed = OnceLock::new();
        Self { statement, parameters, is_deep, version, is_used, inferred, declared, needed }
    }

    /// The same statement, not bound, for a catalog of this version.
    pub(crate) fn again(&self, version: u64) -> Self {
        Self::new(self.statement.clone(), self.parameters, version)
    }

    /// The statement as it is bound with the types that the places of its parameters give them.
    pub(crate) fn inferred(&self) -> Option<&Arc<Prepared>> {
        self.inferred.get()
    }

    /// The privileges that it needs.
    ///
    /// # Errors
    /// As [`needed::of`].
    pub(crate) fn needed(&self) -> Result<Arc<[Needed]>, SqlError> {
        if let Some(known) = self.needed.get() {
            return Ok(Arc::clone(known));
        }
        let found = needed::of(&self.statement)?;
        Ok(Arc::clone(self.needed.get_or_init(|| found.into())))
    }

    /// Keeps it, and returns the one that is kept.
    pub(crate) fn keep_inferred(&self, prepared: Arc<Prepared>) -> &Arc<Prepared> {
        self.inferred.get_or_init(|| prepared)
    }

    /// The statement as it is bound for values of these types.
    pub(crate) fn declared(&self, values: &[Literal]) -> Option<Arc<Prepared>> {
        let types = values.iter().map(parameters::own_type);
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = declared.iter().find(|(known, _)| types.clone().eq(known.iter().copied()));
        found.map(|(_, prepared)| Arc::clone(prepared))
    }

    /// Keeps it.
    pub(crate) fn keep_declared(&self, values: &[Literal], prepared: &Arc<Prepared>) {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if declared.len() >= VARIANTS_MAX {
            declared.clear();
        }
        let types = values.iter().map(parameters::own_type).collect();
        declared.push((types, Arc::clone(prepared)));
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if self.is_deep {
            let empty = Statement::Deallocate { name: Ident::new(""), prepare: false };
            let statement = std::mem::replace(&mut self.statement, empty);
            let inferred = std::mem::take(&mut self.inferred);
            let declared = std::mem::take(&mut self.declared);
            depth::with_room(|| drop((statement, inferred, declared)));
        }
    }
}
