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

use super::definition::{Definition, unknown};
use super::states::{Sequences, lock};
use crate::coordination::{Member, Together};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, Question};
use crate::isolation::ShownModes;
use crate::names;
use crate::privileges::guard::{SessionRole, on_relation, on_schema};
use crate::rights::{Privileges, denied};
use crate::schemas;
use crate::search_path::SearchPath;
use crate::sequence_names::object_name;
use crate::session_settings::SessionSettings;

/// See the module.
pub(crate) struct Context {
    /// `None` for a session on a snapshot.
    db: Option<Database>,
    pub(super) sequences: Arc<Sequences>,
    pub(super) session: Given,
    /// What functions see of the settings of the session.
    pub(crate) settings: SessionSettings,
    /// The session among the others of its database.
    pub(crate) member: Option<Member>,
    /// The role of the session, if a server has given it one.
    role: Mutex<Option<Arc<SessionRole>>>,
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
    modes: ShownModes,
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

/// Whether this thread is in such a step.
pub(crate) fn is_held() -> bool {
    IS_HELD.get()
}

/// An attempt at the running statement begins (`COORDINATION-2`).
pub(crate) fn begin_attempt() {
    CURRENT.with_borrow(|current| {
        let context = current.upgrade();
        let member = context.as_ref().and_then(|context| context.member.as_ref());
        member.into_iter().for_each(Member::begin_attempt);
    });
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
    pub(crate) fn on_database(
        db: Database,
        sequences: Arc<Sequences>,
        together: Arc<Together>,
    ) -> Arc<Self> {
        let (session, now) = (Given::default(), Mutex::default());
        let (settings, member) = (SessionSettings::default(), Some(Member::new(together)));
        let role = Mutex::default();
        Arc::new(Self { db: Some(db), sequences, session, settings, member, role, now })
    }

    /// For a session on a snapshot.
    pub(crate) fn on_snapshot() -> Arc<Self> {
        let (db, sequences, session) = (None, Arc::default(), Given::default());
        let (settings, now) = (SessionSettings::default(), Mutex::default());
        let (member, role) = (None, Mutex::default());
        Arc::new(Self { db, sequences, session, settings, member, role, now })
    }

    /// The session has ended: what it has among others is released.
    pub(crate) fn leave(&self) {
        if self.db.as_ref().is_some_and(|db| db.check_owner().is_ok()) {
            self.member.iter().for_each(Member::leave);
        }
    }

    /// The open transaction has ended: its advisory locks are released.
    pub(crate) fn end_transaction(&self) {
        // In a forked child they belong to the parent.
        if self.db.as_ref().is_some_and(|db| db.check_owner().is_ok()) {
            self.member.iter().for_each(Member::release_transaction);
        }
    }

    /// A statement begins, or begins again, in a transaction that has this to itself.
    pub(crate) fn begin(
        &self,
        own: Own,
        modes: ShownModes,
        limits: Limits,
        path: Option<Arc<SearchPath>>,
    ) {
        let mut now = lock(&self.now);
        (now.own, now.modes, now.limits) = (own, modes, limits);
        now.path = path;
    }

    /// The running statement has failed: no row holds the numbers that it was given.
    pub(crate) fn forget_pending(&self) {
        lock(&self.now).pending.clear();
    }

    pub(crate) fn set_role(&self, role: Option<Arc<SessionRole>>) {
        *lock(&self.role) = role;
    }

    /// The role of the session.
    pub(crate) fn role(&self) -> Option<Arc<SessionRole>> {
        lock(&self.role).clone()
    }

    /// The tables as the running statement sees them.
    ///
    /// # Errors
    /// The session has no database.
    pub(crate) fn catalog(&self) -> Result<Arc<Catalog>, SqlError> {
        let within = lock(&self.now).own.catalog.clone();
        match (within, &self.db) {
            (Some(catalog), _) => Ok(catalog),
            (None, Some(db)) => Ok(db.catalog()?),
            (None, None) => Err(SqlError::unsupported("a snapshot has no privileges")),
        }
    }

    /// The relation of a name, as a text has it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn relation(&self, name: &str) -> Result<Table, SqlError> {
        self.find(name)
    }

    /// Checks that the role of the session may do one of these with a sequence.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check_sequence(&self, object: &Table, some: Privileges) -> Result<(), SqlError> {
        let Some(role) = self.role() else { return Ok(()) };
        let info = role.info();
        if info.is_superuser {
            return Ok(());
        }
        let catalog = self.catalog()?;
        let name = object.name();
        let (schema, bare) = schemas::split(name, &|name| catalog.get(name).is_some());
        if !on_schema(&catalog, schema, &info.roles)?.has(Privileges::USAGE) {
            return Err(denied(&format!("schema {schema}")));
        }
        // A table asks the sequence of an identity itself for the next number, and for no more.
        let asks_next = some == Privileges::USAGE | Privileges::UPDATE;
        let owner = Definition::of(object)?.owner;
        let owner = owner.filter(|owner| owner.is_identity && asks_next);
        let inserts = match owner {
            Some(owner) => {
                on_relation(&catalog, &owner.table, &info.roles)?.has(Privileges::INSERT)
            }
            None => false,
        };
        match inserts || on_relation(&catalog, name, &info.roles)?.has_any(some) {
            true => Ok(()),
            false => Err(denied(&format!("sequence {bare}"))),
        }
    }

    /// The modes of the session and of its transaction.
    pub(crate) fn modes(&self) -> ShownModes {
        lock(&self.now).modes
    }

    /// Tells whether the running statement is to end.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let Limits { question, deadline, lock: wait } = lock(&self.now).limits.clone();
        Interrupt::new(question, deadline, wait)
    }

    pub(super) fn database(&self) -> Option<&Database> {
        self.db.as_ref()
    }

    /// The database, for a function that changes a sequence.
    pub(super) fn writable(&self, what: &str) -> Result<&Database, SqlError> {
        if is_held() {
            let message = format!("{what} is not supported in this place");
            return Err(SqlError::unsupported(message).with_hint(Some(
                "ask the sequence in a statement of its own, or among the columns of a query"
                    .to_owned(),
            )));
        }
        match &self.db {
            Some(db) if !lock(&self.now).modes.read_only => Ok(db),
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
