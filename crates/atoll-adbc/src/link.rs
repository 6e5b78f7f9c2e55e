//! The session of a connection, which its statements share.
//!
//! Without autocommit, a statement begins a transaction if none is open. Definitions are not part
//! of transactions in Atoll: before one, a transaction that has changed nothing is ended.
//!
//! - `LINK-1`: statements of a connection take turns. A panic ends the session, and nothing else.
//! - `LINK-2`: a connection that only reads runs each statement on a snapshot; without autocommit,
//!   all statements up to the next commit or rollback on the same one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::CancelHandle;
use adbc_core::error::{Error, Status};
use atoll::machine::fork::Mark;
use atoll::{Attachment, Snapshot};
use atoll_sql::{Description, Literal, Outcome, QueryStream, Question, SqlError, SqlSession};

use crate::errors::{ROLLED_BACK, Result, error, of_database, of_sql, wrong_state};
use crate::registry::Shared;

/// What connections connect to.
#[derive(Clone)]
pub(crate) enum Source {
    /// A database of this process.
    Owned(Shared),
    /// One of another process, of which there are snapshots.
    Attached(Arc<Attachment>),
}

impl Source {
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = match self {
            Self::Owned(db) => db.snapshot(),
            Self::Attached(attachment) => attachment.snapshot(),
        };
        snapshot.map_err(|error| of_database(&error))
    }
}

/// A flag that ends running statements when it is set.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets an earlier request, at the beginning of a statement.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A session, which one thread at a time uses, in one process.
pub(crate) struct Link {
    core: Mutex<Core>,
    /// The process that it belongs to; its latch works only there.
    home: Mark,
    /// Ends what runs on the connection.
    pub(crate) cancel: Cancel,
}

/// The session and its modes.
pub(crate) struct Core {
    // Dropped before the source, `OPEN-2`.
    session: Session,
    source: Source,
    autocommit: bool,
    isolation: Isolation,
}

enum Session {
    Live(Box<SqlSession>),
    /// Of a connection that only reads; the snapshot of its transaction.
    Reading(Option<Snapshot>),
    /// A panic has ended it.
    Ended,
}

/// The isolation levels that a connection can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Link {
    pub(crate) fn new(source: Source, read_only: bool) -> Self {
        let session = Session::of(&source, read_only);
        let isolation = Isolation::ReadCommitted;
        let core = Core { session, source, autocommit: true, isolation };
        Self { core: Mutex::new(core), home: Mark::new(), cancel: Cancel::default() }
    }

    /// Runs `work` on the session (`LINK-1`).
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core) -> Result<R>) -> Result<R> {
        if !self.home.is_here() {
            let message = "the connection belongs to the parent of this forked process; connect \
                           again here";
            return Err(error(Status::InvalidState, "08003", message));
        }
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        match catch_unwind(AssertUnwindSafe(|| work(&mut core))) {
            Ok(done) => done,
            Err(_) => {
                core.session = Session::Ended;
                Err(ended())
            }
        }
    }
}

fn ended() -> Error {
    let message = "a fault in Atoll has ended the connection and rolled back its transaction; \
                   connect again";
    error(Status::Internal, "XX000", message)
}

impl Session {
    fn of(source: &Source, read_only: bool) -> Self {
        match source {
            Source::Owned(db) if !read_only => {
                Self::Live(Box::new(SqlSession::on_database(atoll::Database::clone(db))))
            }
            _ => Self::Reading(None),
        }
    }
}

impl Core {
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn autocommit(&self) -> bool {
        self.autocommit
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.session, Session::Reading(_))
    }

    /// Whether a transaction is open.
    fn in_transaction(&self) -> bool {
        match &self.session {
            Session::Live(session) => session.in_transaction(),
            Session::Reading(snapshot) => snapshot.is_some(),
            Session::Ended => false,
        }
    }

    /// Turns autocommit on, which commits, or off.
    pub(crate) fn set_autocommit(&mut self, autocommit: bool) -> Result<()> {
        if autocommit && !self.autocommit {
            self.end("COMMIT")?;
        }
        self.autocommit = autocommit;
        Ok(())
    }

    pub(crate) fn set_read_only(&mut self, read_only: bool) -> Result<()> {
        self.check_no_transaction("readonly")?;
        if !read_only && matches!(self.source, Source::Attached(_)) {
            let message = "a database of another process can only be read";
            return Err(error(Status::NotImplemented, "25006", message));
        }
        if read_only != self.is_read_only() {
            self.session = Session::of(&self.source, read_only);
            self.set_isolation(self.isolation)?;
        }
        Ok(())
    }

    pub(crate) fn set_isolation(&mut self, isolation: Isolation) -> Result<()> {
        self.check_no_transaction("isolation_level")?;
        if let Session::Live(session) = &mut self.session {
            let level = match isolation {
                Isolation::ReadCommitted => "READ COMMITTED",
                Isolation::RepeatableRead => "REPEATABLE READ",
                Isolation::Serializable => "SERIALIZABLE",
            };
            let text =
                format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}");
            session.execute(&text).map_err(|error| of_sql(&error, &text))?;
        }
        self.isolation = isolation;
        Ok(())
    }

    fn check_no_transaction(&self, option: &str) -> Result<()> {
        if self.in_transaction() {
            let message =
                format!("{option} is set between transactions; commit or roll back first");
            return Err(error(Status::InvalidState, "25001", message));
        }
        Ok(())
    }

    /// Commits or rolls back, as the client asks.
    pub(crate) fn end_transaction(&mut self, how: &str) -> Result<()> {
        if self.autocommit {
            let message = "autocommit is on, so each statement is a transaction by itself";
            return Err(error(Status::InvalidState, "25P01", message));
        }
        self.end(how)
    }

    fn end(&mut self, how: &str) -> Result<()> {
        match &mut self.session {
            Session::Live(session) if session.in_transaction() => {
                let ended = session.execute(how).map_err(|error| of_sql(&error, how))?;
                match ended {
                    Outcome::Done { tag, .. } => check_end(how, &tag),
                    _ => Ok(()),
                }
            }
            Session::Live(_) => Ok(()),
            Session::Reading(snapshot) => {
                *snapshot = None;
                Ok(())
            }
            Session::Ended => Err(ended()),
        }
    }

    /// Runs one statement with values for its parameters.
    pub(crate) fn run(
        &mut self,
        text: &str,
        values: &[Literal],
        question: &Arc<Question>,
    ) -> Result<Outcome> {
        let run = |session: &mut SqlSession| session.execute_with(text, values);
        let outcome = self.with_session(text, question, run)?;
        if let Outcome::Done { tag, .. } = &outcome {
            check_end(&first_word(text), tag)?;
        }
        Ok(outcome)
    }

    /// Runs one statement; the rows of a query come as they are read.
    pub(crate) fn stream(&mut self, text: &str, question: &Arc<Question>) -> Result<QueryStream> {
        let stream = self.with_session(text, question, |session| session.stream(text, ()))?;
        if let Some((tag, _)) = stream.change() {
            check_end(&first_word(text), tag)?;
        }
        Ok(stream)
    }

    /// Lends the session to a statement with this text.
    fn with_session<R>(
        &mut self,
        text: &str,
        question: &Arc<Question>,
        run: impl FnOnce(&mut SqlSession) -> std::result::Result<R, SqlError>,
    ) -> Result<R> {
        self.enter(&first_word(text))?;
        let done = match &mut self.session {
            Session::Live(session) => {
                session.set_interrupt(Some(Arc::clone(question)));
                run(session)
            }
            Session::Reading(held) => {
                let snapshot = match held.take() {
                    Some(snapshot) => snapshot,
                    None => self.source.snapshot()?,
                };
                if !self.autocommit {
                    *held = Some(snapshot.clone());
                }
                let mut session = SqlSession::on_snapshot(snapshot);
                session.set_interrupt(Some(Arc::clone(question)));
                run(&mut session)
            }
            Session::Ended => return Err(ended()),
        };
        done.map_err(|error| of_sql(&error, text))
    }

    /// Begins a transaction, or ends one, before a statement that begins with this word.
    fn enter(&mut self, word: &str) -> Result<()> {
        let Session::Live(session) = &mut self.session else { return Ok(()) };
        let defines = matches!(word, "CREATE" | "DROP" | "ALTER");
        let is_idle = session.in_transaction() && !session.has_work();
        if self.autocommit {
            return Ok(());
        }
        if defines && is_idle {
            return self.end("COMMIT");
        }
        let stands_alone = matches!(
            word,
            "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SHOW" | "RESET"
        );
        if !defines && !stands_alone && !session.in_transaction() {
            session.execute("BEGIN").map_err(|error| of_sql(&error, "BEGIN"))?;
        }
        Ok(())
    }

    /// Makes several changes of one kind as one transaction, or in the open one. After a conflict
    /// in a transaction of its own, all of them are made again.
    pub(crate) fn together<R>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let alone = self.autocommit && !self.in_transaction();
        if !alone || self.is_read_only() {
            return work(self);
        }
        for attempt in 1.. {
            self.live()?.execute("BEGIN").map_err(|error| of_sql(&error, "BEGIN"))?;
            let done = work(self).and_then(|done| self.end("COMMIT").map(|()| done));
            if self.in_transaction() {
                self.end("ROLLBACK")?;
            }
            match done {
                Err(error) if is_conflict(&error) && attempt < ATTEMPTS_MAX => {}
                done => return done,
            }
        }
        Err(wrong_state("the changes were not made"))
    }

    /// The session on the live database, for a change that is not a statement. Without autocommit,
    /// a transaction is open then.
    ///
    /// # Errors
    /// The connection only reads.
    pub(crate) fn begin_change(&mut self) -> Result<&mut SqlSession> {
        self.live()?;
        self.enter("INSERT")?;
        self.live()
    }

    /// The session, in no transaction, for a definition.
    ///
    /// # Errors
    /// The open transaction has changed something; it goes on. The connection only reads.
    pub(crate) fn begin_definition(&mut self) -> Result<&mut SqlSession> {
        self.live()?;
        self.enter("CREATE")?;
        if self.in_transaction() {
            let message = "a table cannot be created inside a transaction that has changed \
                           something; commit or roll back first";
            return Err(error(Status::NotImplemented, "25001", message));
        }
        self.live()
    }

    /// Checks that the connection does not only read.
    ///
    /// # Errors
    /// It does.
    pub(crate) fn check_may_change(&mut self) -> Result<()> {
        self.live().map(drop)
    }

    fn live(&mut self) -> Result<&mut SqlSession> {
        match &mut self.session {
            Session::Live(session) => Ok(session),
            Session::Reading(_) => {
                let message = "a change is refused: this connection only reads";
                Err(error(Status::NotImplemented, "25006", message))
            }
            Session::Ended => Err(ended()),
        }
    }

    /// What a statement takes and returns.
    pub(crate) fn describe(&mut self, text: &str) -> Result<Description> {
        let described = match &mut self.session {
            Session::Live(session) => session.describe(text),
            Session::Reading(held) => {
                let snapshot = held.clone().map_or_else(|| self.source.snapshot(), Ok)?;
                SqlSession::on_snapshot(snapshot).describe(text)
            }
            Session::Ended => return Err(ended()),
        };
        described.map_err(|error| of_sql(&error, text))
    }
}

/// Attempts of changes in a transaction of their own.
const ATTEMPTS_MAX: u32 = 100;

fn is_conflict(error: &Error) -> bool {
    [*b"40001", *b"40P01"].contains(&error.sqlstate.map(|one| one as u8))
}

/// Checks that a transaction that was to be committed was committed.
fn check_end(word: &str, tag: &str) -> Result<()> {
    if tag == "ROLLBACK" && matches!(word, "COMMIT" | "END") {
        let message = "the transaction was rolled back, because a statement of it had failed";
        return Err(error(Status::IO, ROLLED_BACK, message));
    }
    Ok(())
}

/// The first word of a statement, in capitals.
pub(crate) fn first_word(text: &str) -> String {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let end = match rest.as_bytes() {
            [b'-', b'-', ..] => rest.find('\n'),
            [b'/', b'*', ..] => rest.find("*/").map(|at| at + 1),
            _ => {
                let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                return rest[..end].to_ascii_uppercase();
            }
        };
        match end {
            Some(end) => rest = &rest[end + 1..],
            None => return String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use atoll::{Database, DatabaseOptions};

    use super::*;
    use crate::registry;

    #[test]
    fn the_first_word_comes_behind_comments() {
        assert_eq!(first_word("-- a\n /* b */ ((select 1))"), "SELECT");
        assert_eq!(first_word("Commit;"), "COMMIT");
        assert_eq!(first_word("-- only"), "");
        assert_eq!(first_word("/* only"), "");
    }

    #[test]
    fn a_panic_ends_the_connection_and_nothing_else() {
        let db = registry::share(Database::create(DatabaseOptions::default()).unwrap());
        let link = Link::new(Source::Owned(db.clone()), false);
        let never: Arc<Question> = Arc::new(|| false);
        let create = "CREATE TABLE t (id int PRIMARY KEY)";
        link.with(|core| core.run(create, &[], &never)).unwrap();
        link.with(|core| core.run("BEGIN", &[], &never)).unwrap();
        link.with(|core| core.run("INSERT INTO t VALUES (1)", &[], &never)).unwrap();
        let fault = link.with(|_| -> Result<()> { panic!("on purpose") }).unwrap_err();
        assert_eq!(fault.status, Status::Internal);
        let again = link.with(|core| core.run("SELECT 1", &[], &never)).unwrap_err();
        assert_eq!(again.status, Status::Internal);
        let other = Link::new(Source::Owned(db), false);
        let found = other.with(|core| core.run("SELECT * FROM t", &[], &never)).unwrap();
        assert_eq!(found.row_count(), 0);
    }
}
