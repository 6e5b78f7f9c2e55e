//! A session: sequential statements on a live database or on one snapshot.

mod about;
mod added;
mod alone;
mod alter;
mod asking;
mod backups;
mod bound;
mod comments;
mod constraints;
mod coordination;
mod copying;
mod definitions;
mod describe;
mod direct;
mod domains;
mod dropping;
mod explained;
mod grants;
mod idle;
mod locks;
mod maintenance;
mod named_snapshot;
mod notices;
mod outcome;
mod over_rows;
mod passed_over;
mod plans;
mod prepare;
mod privileges;
mod ready;
mod schemas;
mod scope;
mod sequences;
mod served;
mod setting;
mod surroundings;
mod tables;
mod tables_as;
mod transactions;
mod user_types;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use atoll::{Database, Snapshot};
use sqlparser::ast::{Set, Statement};

use crate::error::{SqlError, SqlErrorKind};
use crate::foreign_syntax::SetConstraints;
use crate::idle::Slot;
use crate::input::Input;
use crate::interrupt::{Interrupt, Question};
use crate::isolation;
use crate::load::Source;
use crate::notice::Notice;
use crate::parse::{self, StatementTokens};
use crate::prepared::cache::Kept;
use crate::privileges::guard::Guard;
use crate::query::Reading;
use crate::result::QueryResult;
use crate::rows::Params;
use crate::sequence::context::Context;
use crate::settings::{self, Assignment, Changed, Settings};
use crate::stream::QueryStream;
use crate::txn::{OpenTransaction, read_only};
use crate::{copy, names, query, zone};

use self::coordination::Leaving;
pub use self::copying::{CopyEnd, CopyFormat, CopyIn, CopyOut};
pub use self::describe::Description;
pub use self::outcome::Outcome;
use self::prepare::Given;
pub use self::prepare::{AsStatement, PreparedStatement};
pub use self::served::TransactionStatus;
pub use self::surroundings::Surroundings;

/// The target of a session.
enum Target {
    Database { db: Database, open: Option<OpenTransaction> },
    Snapshot(Snapshot),
}

/// A session. It may move between threads; it runs one statement at a time.
///
/// In a forked child a session on a snapshot continues to work, and one on a database is refused
/// ([`SqlErrorKind::ForkedChild`]).
pub struct SqlSession {
    target: Target,
    settings: Settings,
    /// Tells whether the running statement is to end.
    question: Option<Arc<Question>>,
    /// When the running statement is to end.
    deadline: Option<Instant>,
    /// The open transaction, between two statements and if there is a limit of that time.
    resting: Option<Slot<OpenTransaction>>,
    /// A session of the engine, for statements that are transactions by themselves.
    kept: Option<Kept>,
    /// Whether the running statement may return rows as they are read.
    streams: bool,
    /// The numbers that it has got of sequences.
    context: Arc<Context>,
    /// The statements of `PREPARE`.
    named: HashMap<String, Arc<PreparedStatement>>,
    /// The data of a `COPY … FROM STDIN`.
    given: Option<Input>,
    /// What is to be told of statements that have been carried out.
    notices: Vec<Notice>,
    /// What the program around it knows of it.
    surroundings: Option<Arc<Surroundings>>,
    /// Of the role that a server has given it.
    guard: Option<Box<Guard>>,
    _leaving: Leaving,
}

impl SqlSession {
    /// A session on a live database. Each `SELECT` runs on a snapshot taken for it.
    pub fn on_database(db: Database) -> Self {
        Self::on(Target::Database { db, open: None })
    }

    /// A session that queries one snapshot; changes are refused.
    pub fn on_snapshot(snapshot: Snapshot) -> Self {
        Self::on(Target::Snapshot(snapshot))
    }

    fn on(target: Target) -> Self {
        let context = sequences::context_of(&target);
        Self {
            _leaving: Leaving(Arc::clone(&context)),
            context,
            target,
            settings: Settings::default(),
            question: None,
            deadline: None,
            resting: None,
            kept: None,
            streams: false,
            named: HashMap::new(),
            given: None,
            notices: Vec::new(),
            surroundings: None,
            guard: None,
        }
    }

    /// Sets the question that tells whether a running statement is to end. The thread that runs the
    /// statement asks it some fifty times a second. If the answer is yes, the statement fails with
    /// [`SqlErrorKind::Cancelled`]. A commit does not end early, nor the work on a file before its
    /// first row. `None` removes the question.
    pub fn set_interrupt(&mut self, question: Option<Arc<Question>>) {
        self.question = question;
    }

    /// Whether a transaction is open, between `BEGIN` and `COMMIT` or `ROLLBACK`.
    pub fn in_transaction(&self) -> bool {
        self.resting.is_some() || matches!(self.target, Target::Database { open: Some(_), .. })
    }

    /// Whether the end of the open transaction would be noticed: it has changed or locked
    /// something, has failed, has a savepoint, or has other modes than READ COMMITTED.
    pub fn has_work(&self) -> bool {
        let has_work =
            |open: &Option<OpenTransaction>| open.as_ref().map(OpenTransaction::has_work);
        match (&self.target, &self.resting) {
            // One that was ended meanwhile says so to the next statement.
            (_, Some(slot)) => has_work(&crate::idle::lock(slot)).unwrap_or(true),
            (Target::Database { open, .. }, None) => has_work(open).unwrap_or(false),
            (Target::Snapshot(_), None) => false,
        }
    }

    /// Runs exactly one statement, with or without a semicolon at its end.
    ///
    /// # Errors
    /// Those of the statement, which has then changed nothing.
    pub fn execute(&mut self, sql: &str) -> Result<Outcome, SqlError> {
        self.execute_with(sql, ())
    }

    /// Runs exactly one statement, a text or one that has been prepared, with values for its
    /// parameters, which are written `$1`, `$2`, … or `?`. A parameter takes the type of what it
    /// stands beside, as a quoted literal does.
    ///
    /// A statement that has been run before, by any session, is not parsed or planned again.
    ///
    /// # Errors
    /// Those of the statement, which has then changed nothing; another number of values than of
    /// parameters, and values that do not have the types of their parameters.
    pub fn execute_with(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<Outcome, SqlError> {
        self.statement(|session| session.run_given(statement, params))
    }

    fn run_given(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<Outcome, SqlError> {
        params.lend(|values| match statement.given() {
            Given::Text(sql) => self.run(sql, values),
            Given::Prepared(prepared) => self.run_prepared(prepared, values),
        })
    }

    /// As [`Self::execute_with`], but a query that runs on a snapshot returns its rows as they are
    /// read. The session may run other statements meanwhile.
    ///
    /// # Errors
    /// Those of [`Self::execute_with`]; one that a row causes comes with the rows.
    pub fn stream(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<QueryStream, SqlError> {
        let outcome = self.statement(|session| {
            session.streams = true;
            session.run_given(statement, params)
        });
        Ok(match outcome? {
            Outcome::Rows(rows) => QueryStream::of_result(rows),
            Outcome::Done { tag, rows } => QueryStream::of_change(tag, rows),
            Outcome::Stream(stream) => stream,
        })
    }

    /// Runs the statements of a script in order and stops behind the first that fails, so an error
    /// can only be the last of the outcomes. Positions count from the start of the script.
    pub fn execute_script(&mut self, sql: &str) -> Vec<Result<Outcome, SqlError>> {
        let statements: Vec<StatementTokens> = match parse::split(sql) {
            Ok(statements) => statements,
            Err(error) => return vec![Err(error)],
        };
        let mut outcomes = Vec::with_capacity(statements.len());
        for tokens in statements {
            let outcome = self.carry_out(tokens);
            let failed = outcome.is_err();
            outcomes.push(outcome);
            if failed {
                break;
            }
        }
        outcomes
    }

    /// Checks that no transaction is open, for an operation that cannot be part of one and is not a
    /// statement.
    ///
    /// # Errors
    /// A transaction is open, or the session reads a snapshot, or [`SqlErrorKind::ForkedChild`].
    pub fn check_no_transaction(&self, what: &str) -> Result<(), SqlError> {
        self.check_owner()?;
        self.outside_transaction(what).map(drop)
    }

    /// Checks that the database belongs to this process: the thread of an open transaction does not
    /// exist in a forked child.
    fn check_owner(&self) -> Result<(), SqlError> {
        match &self.target {
            Target::Database { db, .. } => Ok(db.check_owner()?),
            Target::Snapshot(_) => Ok(()),
        }
    }

    fn carry_out(&mut self, tokens: StatementTokens) -> Result<Outcome, SqlError> {
        self.statement(|session| session.run_tokens(None, tokens, &[]))
    }

    /// Carries out a statement, and fails the open transaction with it.
    fn statement<R>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        self.begin_statement()?;
        let done = run(self).and_then(|done| self.keep_numbers().map(|()| done));
        let done = done.and_then(|done| self.set_noted().map(|()| done));
        self.settle(done.is_ok());
        let done = done.map_err(|error| about::completed(error, || Ok(self.scope()?.catalog)));
        if done.is_err() {
            self.context.forget_pending();
            drop(self.context.settings.take_changes());
            self.fail();
        }
        self.rest();
        done
    }

    fn begin_statement(&mut self) -> Result<(), SqlError> {
        self.streams = false;
        self.check_owner()?;
        self.wake()?;
        self.set_noted()?;
        self.begin_among_others();
        zone::set(self.settings.now().zone);
        self.deadline = self.settings.now().statement.map(|limit| Instant::now() + limit);
        self.begin_numbers();
        Ok(())
    }

    /// Notes that a statement of the open transaction has failed.
    fn fail(&mut self) {
        if let Target::Database { open: Some(open), .. } = &mut self.target {
            open.fail();
        }
    }

    fn dispatch(&mut self, statement: Statement) -> Result<Outcome, SqlError> {
        match statement {
            Statement::ShowVariable { ref variable } => {
                if let Some(shown) = self.show_mode(variable) {
                    return Ok(Outcome::Rows(shown));
                }
                self.show(variable)
            }
            Statement::Query(_)
            | Statement::ExplainTable { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowColumns { .. } => self.run_long(statement),
            Statement::Explain { statement: ref inner, analyze, verbose, ref options, .. } => {
                if options.is_some() {
                    return self.explain_with_options(statement);
                }
                let is_plain = !analyze && !verbose;
                if is_plain && let Some(shown) = self.explain(inner)? {
                    return Ok(Outcome::Rows(shown));
                }
                if matches!(inner.as_ref(), Statement::Query(_)) {
                    return self.run_long(statement);
                }
                Err(SqlError::unsupported("EXPLAIN shows the plans of queries and of changes"))
            }
            Statement::Insert(_) => self.writable("INSERT").and_then(never),
            Statement::Update(_) => self.writable("UPDATE").and_then(never),
            Statement::Delete(_) => self.writable("DELETE").and_then(never),
            Statement::Copy { source, to, target, options, legacy_options, .. } => {
                self.writable("COPY")?;
                let source = copy::source(
                    &self.scope()?,
                    &source,
                    to,
                    &target,
                    ((&options, &legacy_options), self.given.as_ref()),
                    &self.interrupt(),
                )?;
                let tally = source.tally.clone();
                self.copy(&source).map(|rows| Outcome::done(tally.tag(rows), rows))
            }
            Statement::StartTransaction { modes, statements, .. } => {
                if !statements.is_empty() {
                    return Err(SqlError::unsupported("BEGIN takes no statements"));
                }
                self.begin(isolation::modes(&modes)?)
            }
            Statement::Set(Set::SetTransaction { modes, snapshot: None, session }) => {
                let modes = isolation::modes(&modes)?;
                if !session && !self.in_transaction() {
                    self.tell(Notice::no_transaction("SET TRANSACTION"));
                }
                let changed =
                    if session { Changed::Modes(modes) } else { Changed::OpenModes(modes) };
                self.set(Assignment { changed, is_local: false }, "SET")
            }
            Statement::Savepoint { name } => {
                let mark = self.mark();
                self.open("SAVEPOINT")?.savepoint(names::fold(&name), mark)?;
                Ok(Outcome::done("SAVEPOINT", 0))
            }
            Statement::ReleaseSavepoint { name } => {
                self.open("RELEASE SAVEPOINT")?.release(&names::fold(&name))?;
                Ok(Outcome::done("RELEASE", 0))
            }
            Statement::Rollback { chain: false, savepoint: Some(name) } => {
                let open = self.open("ROLLBACK TO SAVEPOINT")?;
                let mark = open.roll_back_to(&names::fold(&name))?;
                self.roll_back_to(mark);
                Ok(Outcome::done("ROLLBACK", 0))
            }
            Statement::LISTEN { channel } => self.listen(&channel),
            Statement::UNLISTEN { channel } => self.unlisten(&channel),
            Statement::NOTIFY { channel, payload } => self.notify(&channel, payload.as_deref()),
            Statement::Lock(lock) => self.lock_tables(&lock),
            Statement::Prepare { name, data_types, statement } => {
                self.prepare_named(&name, &data_types, *statement)
            }
            Statement::Execute { name, parameters, .. } => {
                self.execute_named(name.as_ref(), &parameters)
            }
            Statement::Deallocate { name, .. } => self.deallocate(&name),
            Statement::Set(set) => {
                if let Some(said) = SetConstraints::of(&set) {
                    return self.set_constraints(&said);
                }
                let assignment = settings::assignment(&set, self.default_durability())?;
                self.check_settable(&assignment, "SET")?;
                self.set(assignment, "SET")
            }
            Statement::Reset(statement) => {
                let assignment = settings::reset(&statement.reset)?;
                self.check_settable(&assignment, "RESET")?;
                self.set(assignment, "RESET")
            }
            Statement::Commit { chain: false, .. } => self.commit(),
            Statement::Rollback { chain: false, savepoint: None } => self.rollback(),
            other => self.define_object(other),
        }
    }

    /// Loads a file, in the open transaction or in one of its own.
    fn copy(&mut self, source: &Source) -> Result<u64, SqlError> {
        let (durability, interrupt) = (self.settings.now().durability, self.interrupt());
        match &mut self.target {
            Target::Database { open: Some(open), .. } => {
                open.apply(|t, part| source.load(t, part, &interrupt, &mut |_| {}))
            }
            Target::Database { open: None, .. } if self.settings.now().read_only => {
                Err(read_only())
            }
            Target::Database { db, open: None } => {
                source.load_alone(db, durability, &interrupt, &mut |_| {})
            }
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"))
            }
        }
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::new(self.question.clone(), self.deadline, self.settings.now().lock)
    }

    fn run_long(&mut self, statement: Statement) -> Result<Outcome, SqlError> {
        if !self.streams {
            return self.rows(statement).map(Outcome::Rows);
        }
        let (source, interrupt) = (self.source(&statement)?, self.interrupt());
        let reading = Reading { source, around: &|| self.around() };
        query::start(&reading, statement, &interrupt).map(Outcome::Stream)
    }

    fn rows(&mut self, statement: Statement) -> Result<QueryResult, SqlError> {
        let (source, interrupt) = (self.source(&statement)?, self.interrupt());
        let reading = Reading { source, around: &|| self.around() };
        query::run(&reading, statement, &interrupt)
    }

    /// The snapshot for a query.
    fn snapshot(&self) -> Result<Snapshot, SqlError> {
        let snapshot = match &self.target {
            Target::Snapshot(snapshot) => snapshot.clone(),
            Target::Database { db, open } => {
                let open = open.as_ref();
                open.map_or(Ok(()), OpenTransaction::check)?;
                if let Some(name) = self.reads_snapshot() {
                    return self.named_snapshot(name);
                }
                if open.is_some_and(|open| !open.lets_queries_out()) {
                    return Err(SqlError::unsupported(
                        "a query inside BEGIN … COMMIT is not supported: it would not see the \
                         transaction's own changes",
                    )
                    .with_hint(Some("COMMIT or ROLLBACK first".to_owned())));
                }
                db.shared_snapshot()?
            }
        };
        snapshot.check()?;
        Ok(snapshot)
    }
}

/// A change of rows on a session that can make it is bound and does not come here.
fn never(_: &Database) -> Result<Outcome, SqlError> {
    Err(SqlError::unsupported("a change of rows is not supported here"))
}
