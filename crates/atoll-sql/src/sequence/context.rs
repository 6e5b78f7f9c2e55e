//! The session that sequences give numbers to: that of the statement that runs on this thread.
//!
//! `CONTEXT-1`: each statement of a session sets the context of its thread, and a query that runs
//! on a snapshot takes it along to other threads. Bound statements, which sessions share, have none
//! of their own. A thread does not keep a database open.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use atoll::{Catalog, Database, Table, Transaction, TxnResult};

use super::definition::unknown;
use super::states::{Sequences, lock};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, Question};
use crate::names;
use crate::schemas;
use crate::search_path::SearchPath;
use crate::sequence_names::object_name;

/// See the module.
pub(crate) struct Context {
    /// `None` for a session on a snapshot.
    db: Option<Database>,
    pub(super) sequences: Arc<Sequences>,
    pub(super) session: Given,
    now: Mutex<Now>,
}

/// What the open transaction has to itself.
#[derive(Clone, Default)]
pub(crate) struct Own {
    /// Its catalog, if it has definitions.
    catalog: Option<Arc<Catalog>>,
    /// The serial numbers of the objects that no other transaction uses before it ends.
    objects: Vec<u64>,
}

impl Own {
    pub(crate) fn of(transaction: &Transaction) -> Self {
        let catalog = transaction.has_definitions().then(|| transaction.catalog());
        let own = transaction.own_tables().filter(|table| table.schema().object().is_some());
        Self { catalog, objects: own.map(Table::serial).collect() }
    }
}

/// What is so for the running statement.
#[derive(Default)]
struct Now {
    own: Own,
    is_read_only: bool,
    limits: Limits,
    /// The search path, if it is not the usual one.
    path: Option<Arc<SearchPath>>,
    /// Sequences of which the open transaction has to write the rows (`SEQUENCE-2`).
    pending: Vec<Table>,
}

/// What ends the running statement while it waits.
#[derive(Clone, Default)]
pub(crate) struct Limits {
    pub(crate) question: Option<Arc<Question>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) lock: Option<Duration>,
}

/// The numbers that a session was given.
#[derive(Default)]
pub(super) struct Given(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    of: HashMap<u64, i64>,
    last: Option<u64>,
}

impl Given {
    pub(super) fn note(&self, serial: u64, value: i64) {
        let mut numbers = lock(&self.0);
        numbers.of.insert(serial, value);
        numbers.last = Some(serial);
    }

    pub(super) fn set(&self, serial: u64, value: i64) {
        lock(&self.0).of.insert(serial, value);
    }

    pub(super) fn current(&self, serial: u64) -> Option<i64> {
        lock(&self.0).of.get(&serial).copied()
    }

    pub(super) fn last(&self) -> Option<i64> {
        let numbers = lock(&self.0);
        numbers.of.get(&numbers.last?).copied()
    }
}

thread_local! {
    static CURRENT: RefCell<Weak<Context>> = const { RefCell::new(Weak::new()) };
    /// Inside a step that must not wait for anything.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

/// The context of this thread.
pub(crate) fn current() -> Option<Arc<Context>> {
    CURRENT.with_borrow(Weak::upgrade)
}

/// Sets the context of this thread.
pub(crate) fn set(context: Option<&Arc<Context>>) {
    CURRENT.set(context.map_or_else(Weak::new, Arc::downgrade));
}

/// Runs a step with a context on this thread.
pub(crate) fn with<R>(context: &Arc<Context>, run: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(Arc::downgrade(context));
    let done = run();
    CURRENT.set(before);
    done
}

/// Runs a step in which no sequence can be asked, because it must not wait.
pub(crate) fn held<R>(run: impl FnOnce() -> R) -> R {
    let before = IS_HELD.replace(true);
    let done = run();
    IS_HELD.set(before);
    done
}

/// Runs a step of a definition, to which names of sequences mean what they do to its transaction.
pub(crate) fn within<R>(own: Own, run: impl FnOnce() -> R) -> R {
    let Some(context) = current() else { return run() };
    let before = std::mem::replace(&mut lock(&context.now).own, own);
    let done = run();
    lock(&context.now).own = before;
    done
}

/// Writes the rows of sequences that are pending, as part of a transaction (`SEQUENCE-2`).
///
/// # Errors
/// The transaction was aborted.
pub(crate) fn write_pending(transaction: &mut Transaction) -> TxnResult<()> {
    match current() {
        Some(context) if context.has_pending() => context.write_pending(transaction),
        _ => Ok(()),
    }
}

impl Context {
    /// For a session on a database.
    pub(crate) fn on_database(db: Database, sequences: Arc<Sequences>) -> Arc<Self> {
        let (session, now) = (Given::default(), Mutex::default());
        Arc::new(Self { db: Some(db), sequences, session, now })
    }

    /// For a session on a snapshot.
    pub(crate) fn on_snapshot() -> Arc<Self> {
        let (db, sequences) = (None, Arc::default());
        Arc::new(Self { db, sequences, session: Given::default(), now: Mutex::default() })
    }

    /// A statement begins, or begins again, in a transaction that has this to itself.
    pub(crate) fn begin(
        &self,
        own: Own,
        is_read_only: bool,
        limits: Limits,
        path: Option<Arc<SearchPath>>,
    ) {
        let mut now = lock(&self.now);
        (now.own, now.is_read_only, now.limits) = (own, is_read_only, limits);
        now.path = path;
    }

    /// The running statement has failed: no row holds the numbers that it was given.
    pub(crate) fn forget_pending(&self) {
        lock(&self.now).pending.clear();
    }

    /// Tells whether the running statement is to end.
    pub(super) fn interrupt(&self) -> Interrupt {
        let Limits { question, deadline, lock: wait } = lock(&self.now).limits.clone();
        Interrupt::new(question, deadline, wait)
    }

    pub(super) fn database(&self) -> Option<&Database> {
        self.db.as_ref()
    }

    /// The database, for a function that changes a sequence.
    pub(super) fn writable(&self, what: &str) -> Result<&Database, SqlError> {
        if IS_HELD.get() {
            let message = format!("{what} is not supported in this place");
            return Err(SqlError::unsupported(message).with_hint(Some(
                "ask the sequence in a statement of its own, or among the columns of a query"
                    .to_owned(),
            )));
        }
        match &self.db {
            Some(db) if !lock(&self.now).is_read_only => Ok(db),
            _ => {
                let message = format!("cannot execute {what} in a read-only transaction");
                Err(SqlError::new(SqlErrorKind::ReadOnly, message))
            }
        }
    }

    /// The object of a name, as a text has it: folded unless it is in quotes.
    pub(super) fn find(&self, name: &str) -> Result<Table, SqlError> {
        let name = object_name(name)?;
        let is_bare = name.0.len() == 1;
        let (name, _) = names::table_name(&name)?;
        let within = lock(&self.now).own.catalog.clone();
        let catalog = match (within, &self.db) {
            (Some(catalog), _) => catalog,
            (None, Some(db)) => db.catalog()?,
            (None, None) => return Err(unknown(&name)),
        };
        let path = lock(&self.now).path.clone().filter(|path| is_bare && !path.is_usual());
        let Some(path) = path else {
            return catalog.get(&name).cloned().ok_or_else(|| unknown(&name));
        };
        let exists = |schema: &str| schemas::exists(schema, &|name| catalog.get(name).is_some());
        let mut schemas = path.schemas(&exists).into_iter();
        let found = schemas.find_map(|schema| catalog.get(&schemas::flat(schema, &name)));
        found.cloned().ok_or_else(|| unknown(&name))
    }

    /// Whether the running transaction has to write the row of a sequence itself (`SEQUENCE-2`).
    pub(super) fn is_private(&self, db: &Database, object: &Table) -> bool {
        db.scheme().is_partitioned() || lock(&self.now).own.objects.contains(&object.serial())
    }

    pub(super) fn note_pending(&self, object: &Table) {
        let mut now = lock(&self.now);
        if !now.pending.iter().any(|one| one.serial() == object.serial()) {
            now.pending.push(object.clone());
        }
    }

    pub(super) fn pending(&self) -> Vec<Table> {
        std::mem::take(&mut lock(&self.now).pending)
    }

    /// Whether rows of sequences are to be written.
    pub(crate) fn has_pending(&self) -> bool {
        !lock(&self.now).pending.is_empty()
    }
}

/// The flat name in a text that has been resolved.
///
/// # Errors
/// The text is no name.
pub(crate) fn named(text: &str) -> Result<String, SqlError> {
    names::table_name(&object_name(text)?).map(|(name, _)| name)
}

/// The text that names a sequence.
pub(crate) fn as_text(name: &str) -> String {
    schemas::as_path(name).replace('\'', "''")
}
