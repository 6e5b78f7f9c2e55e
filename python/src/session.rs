//! Sessions on databases of this process: one for each thread that uses a database, and further
//! ones.
//!
//! - `SESSION-1`: a session holds its database open until it, or the database, is closed; closing
//!   the database rolls back open transactions of its sessions. A running statement ends first.
//! - `SESSION-2`: no thread waits for a latch while it holds Python's lock. A statement waits for
//!   that lock while it holds its session's latch, to let a handler of signals run. If that handler
//!   uses the session, it is refused, because the statement would wait for itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::ThreadId;

use atoll::machine::fork::Mark;
use atoll_adbc::registry::Shared;
use atoll_adbc::rows::IncomingRows;
use atoll_sql::{ChangeError, Literal, Question, SqlSession};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert;
use crate::errors::{Fault, Outcome};
use crate::query_stream::Stream;
use crate::result::QueryResult;
use crate::{interrupt, parameters};

const CLOSED: Fault = Fault::Closed("the session is closed, or its database is");

const IN_HANDLER: &str = "the session runs a statement, and a handler of signals that \
                          interrupts it cannot use it: make another, with db.session()";

/// A session and its database.
pub(crate) struct Core {
    // Dropped before the handle of the database, `OPEN-2`.
    session: SqlSession,
    db: Shared,
}

/// The session until it is closed.
pub(crate) struct Slot {
    core: Mutex<Option<Core>>,
    is_closed: AtomicBool,
    /// The thread that is using it.
    thread: Mutex<Option<ThreadId>>,
    /// The process that it belongs to; its latch works only there.
    home: Mark,
    pid: u32,
}

/// The time that a thread runs a statement, which a panic may end.
struct Inside<'s>(&'s Slot);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.0.thread() = None;
    }
}

impl Slot {
    fn new(db: Shared) -> Self {
        let session = SqlSession::on_database(atoll::Database::clone(&db));
        let core = Core { session, db };
        let (home, pid) = (Mark::new(), std::process::id());
        let (core, thread) = (Mutex::new(Some(core)), Mutex::default());
        Self { core, is_closed: AtomicBool::new(false), thread, home, pid }
    }

    fn check_home(&self) -> Outcome<()> {
        let remedy = "make a session of a database that this process owns";
        let forked = || atoll::Error::ForkedChild { what: "the session", pid: self.pid, remedy };
        if self.home.is_here() { Ok(()) } else { Err(forked().into()) }
    }

    /// Runs `work` on the session; callers take turns.
    fn with<R>(&self, work: impl FnOnce(&mut Core) -> Outcome<R>) -> Outcome<R> {
        self.check_home()?;
        let me = Some(std::thread::current().id());
        if *self.thread() == me {
            return Err(Fault::Value(IN_HANDLER.to_owned()));
        }
        let done = {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            *self.thread() = me;
            let _inside = Inside(self);
            let open = core.as_mut().filter(|_| !self.is_closed.load(Ordering::SeqCst));
            open.ok_or(CLOSED).and_then(work)
        };
        // A thread that closed it meanwhile has left the rest to this one.
        if self.is_closed.load(Ordering::SeqCst) {
            drop(self.take());
        }
        done
    }

    /// Locked only briefly.
    fn thread(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes it: at once, or when the running statement has ended.
    fn take(&self) -> Option<Core> {
        if !self.home.is_here() {
            return None;
        }
        self.is_closed.store(true, Ordering::SeqCst);
        match self.core.try_lock() {
            Ok(mut core) => core.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The sessions of a database, to be closed with it.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Weak<Slot>>>);

impl Sessions {
    /// Locked while this thread holds the GIL, and without waiting, so that a fork finds it
    /// unlocked (`SESSION-2`).
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session on a database.
    pub(crate) fn open(&self, db: Shared) -> Session {
        let slot = Arc::new(Slot::new(db));
        let mut known = self.lock();
        known.retain(|slot| slot.strong_count() > 0);
        known.push(Arc::downgrade(&slot));
        Session(slot)
    }

    /// Closes all of them; the caller drops the returned value without Python's lock.
    pub(crate) fn close_all(&self) -> Vec<Core> {
        let known = std::mem::take(&mut *self.lock());
        known.iter().filter_map(Weak::upgrade).filter_map(|slot| slot.take()).collect()
    }
}

/// A session on a database of this process: sequential statements, with at most one open
/// transaction at a time. Threads may share one; they take turns.
#[pyclass(frozen, module = "atolldb", name = "Session")]
pub(crate) struct Session(Arc<Slot>);

impl Session {
    /// Runs a statement with values for its parameters; `question` decides whether it is to be
    /// interrupted.
    pub(crate) fn execute(
        &self,
        statement: &str,
        values: &[Literal],
        question: Option<Arc<Question>>,
    ) -> Outcome<QueryResult> {
        self.0.with(|core| {
            core.session.set_interrupt(question);
            let outcome = core.session.execute_with(statement, values);
            QueryResult::new(outcome.map_err(|error| Fault::sql(error, statement))?)
        })
    }

    /// Begins a statement that returns its rows as they are read.
    pub(crate) fn begin_stream(
        &self,
        statement: &str,
        values: &[Literal],
        question: Option<Arc<Question>>,
    ) -> Outcome<Stream> {
        self.0.with(|core| {
            core.session.set_interrupt(question);
            Stream::new(core.session.stream(statement, values), statement)
        })
    }

    /// Inserts rows into a table.
    pub(crate) fn insert_rows(&self, name: &str, rows: IncomingRows) -> Outcome<u64> {
        // Reading the rows may run Python code that uses this session, so it comes first.
        let table = self.0.with(|core| Ok(core.db.table(name)?))?;
        let rows = rows.fit(table.schema())?;
        self.0.with(|core| core.session.insert_arrow(&table, &rows).map_err(fault))
    }

    /// Creates a table and inserts rows into it.
    pub(crate) fn create_with_rows(
        &self,
        name: &str,
        rows: IncomingRows,
        key: &[String],
    ) -> Outcome<u64> {
        let schema = rows.schema(key)?;
        let rows = rows.fit(&schema)?;
        // A table cannot be dropped, so this comes before it is created.
        if let Some(key) = atoll::load::duplicate_key(&schema, &rows)? {
            return Err(atoll::Error::DuplicateKey { table: name.to_owned(), key }.into());
        }
        self.0.with(|core| {
            let outside = core.session.check_no_transaction("create_table");
            outside.map_err(|error| Fault::sql(error, ""))?;
            let table = core.db.create_table(name, schema)?;
            core.session.insert_arrow(&table, &rows).map_err(fault)
        })
    }
}

fn fault(error: ChangeError) -> Fault {
    match error {
        ChangeError::Session(error) => Fault::sql(error, ""),
        ChangeError::Database(error) => error.into(),
    }
}

#[pymethods]
impl Session {
    /// Whether a transaction is open, between `BEGIN` and `COMMIT` or `ROLLBACK`.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> Outcome<bool> {
        py.detach(|| self.0.with(|core| Ok(core.session.in_transaction())))
    }

    /// Runs one SQL statement, with values for its parameters, which are written `?`, or `$1`,
    /// `$2`.
    #[pyo3(signature = (statement, parameters = None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<QueryResult> {
        let values = parameters::of(parameters)?;
        interrupt::run(py, |question| self.execute(statement, &values, question))
    }

    /// Runs one query and returns its rows as they are read; the session is free meanwhile.
    #[pyo3(signature = (statement, parameters = None))]
    fn stream(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<Stream> {
        let values = parameters::of(parameters)?;
        interrupt::run(py, |question| self.begin_stream(statement, &values, question))
    }

    /// Runs a statement once for each list of values, all of them or none; returns the number of
    /// rows that they changed. Part of the transaction that is open in this session, or a
    /// transaction of its own.
    pub(crate) fn executemany(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> Outcome<u64> {
        let lists = parameters.try_iter().map_err(Fault::Python)?;
        let values = |list: PyResult<_>| parameters::of(Some(&list.map_err(Fault::Python)?));
        let lists = lists.map(values).collect::<Outcome<Vec<_>>>()?;
        interrupt::run(py, |question| {
            self.0.with(|core| {
                core.session.set_interrupt(question);
                let done = core.session.execute_many(statement, &lists);
                done.map_err(|error| Fault::sql(error, statement))
            })
        })
    }

    /// Inserts `data` into a table, columns matched by name; returns the number of rows. Part of
    /// the transaction that is open in this session, or a transaction of its own.
    fn insert(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.0.check_home()?;
        let reader = convert::reader(data)?;
        let insert = || self.insert_rows(name, IncomingRows::read(reader)?);
        Ok(py.detach(insert)?)
    }

    /// Closes the session. An open transaction is rolled back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.take()));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let closed = if self.0.is_closed.load(Ordering::SeqCst) { ", closed" } else { "" };
        format!("<atolldb.Session{closed}>")
    }
}
