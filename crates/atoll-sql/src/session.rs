//! A session: sequential statements on a live database or on one snapshot.

use std::sync::Arc;

use atoll::load::LoadOptions;
use atoll::{
    ArrowRows, Database, Durability, Snapshot, Table, Transaction, TransactionOptions, TxnResult,
    Value,
};
use sqlparser::ast::{Insert, ObjectType, Statement};

use crate::dml::{self, Change};
use crate::error::{ApplyError, ChangeError, SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, Question};
use crate::parse::{self, StatementTokens};
use crate::query::QueryResult;
use crate::settings::{self, Assignment, Chosen, Setting};
use crate::txn::{self, OpenTransaction};
use crate::{copy, ddl, engines, parquet};

/// The outcome of a statement.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// A query returned rows.
    Rows(QueryResult),
    /// Any other statement was carried out.
    Done {
        /// The command tag, as in PostgreSQL: `CREATE TABLE`, `INSERT 0 3`, `UPDATE 1`.
        tag: String,
        /// Rows that it touched.
        rows: u64,
    },
}

impl Outcome {
    fn done(tag: impl Into<String>, rows: u64) -> Self {
        Self::Done { tag: tag.into(), rows }
    }

    /// Rows returned, or rows touched.
    pub fn row_count(&self) -> u64 {
        match self {
            Self::Rows(result) => result.row_count() as u64,
            Self::Done { rows, .. } => *rows,
        }
    }
}

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
    /// The durability of its commits.
    chosen: Chosen,
    /// Tells whether the running statement is to end.
    question: Option<Arc<Question>>,
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
        Self { target, chosen: Chosen::default(), question: None }
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
        matches!(self.target, Target::Database { open: Some(_), .. })
    }

    /// Runs exactly one statement, with or without a semicolon at its end.
    ///
    /// # Errors
    /// Those of the statement, which has then changed nothing.
    pub fn execute(&mut self, sql: &str) -> Result<Outcome, SqlError> {
        let parsed = parse::one(sql);
        self.carry_out(parsed)
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
            let outcome = self.carry_out(parse::statement(tokens));
            let failed = outcome.is_err();
            outcomes.push(outcome);
            if failed {
                break;
            }
        }
        outcomes
    }

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
        self.check_owner()?;
        self.writable("a change")?;
        let durability = self.chosen.now();
        match &mut self.target {
            Target::Database { open: Some(open), .. } => open.run(body),
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
        self.check_owner()?;
        self.writable("a change")?;
        let options = LoadOptions { threads: None, durability: self.chosen.now() };
        match &mut self.target {
            Target::Database { open: Some(open), .. } => {
                open.run(|transaction| transaction.insert_arrow(table, batches))
            }
            Target::Database { db, open: None } => Ok(db.insert_arrow(table, batches, options)?),
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes").into())
            }
        }
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

    fn carry_out(&mut self, parsed: Result<Statement, SqlError>) -> Result<Outcome, SqlError> {
        self.check_owner()?;
        let outcome = parsed.and_then(|statement| self.dispatch(statement));
        if outcome.is_err()
            && let Target::Database { open: Some(open), .. } = &mut self.target
        {
            open.fail();
        }
        outcome
    }

    fn dispatch(&mut self, statement: Statement) -> Result<Outcome, SqlError> {
        match statement {
            Statement::ShowVariable { ref variable } => match Setting::named(variable) {
                Some(setting) => self.show(setting),
                None => self.query(statement),
            },
            Statement::Query(_)
            | Statement::ExplainTable { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowColumns { .. } => self.query(statement),
            Statement::Explain { statement: ref inner, .. } => {
                if matches!(inner.as_ref(), Statement::Query(_)) {
                    return self.query(statement);
                }
                Err(SqlError::unsupported("EXPLAIN works on queries only"))
            }
            Statement::CreateTable(create) => {
                let db = self.outside_transaction("CREATE TABLE")?;
                ddl::create_table(db, &create)?;
                // It survives what the database's commits do, and no less than this session's.
                if self.chosen.now().is_some_and(|wanted| wanted != Durability::None) {
                    db.flush()?;
                }
                Ok(Outcome::done("CREATE TABLE", 0))
            }
            Statement::Insert(insert) => self.insert(&insert),
            Statement::Update(update) => {
                let db = self.writable("UPDATE")?;
                let (name, span) = dml::update_table(&update)?;
                let change = dml::update_change(copy::find_table(db, &name, span)?, &update)?;
                self.apply(change).map(|rows| Outcome::done(format!("UPDATE {rows}"), rows))
            }
            Statement::Delete(delete) => {
                let db = self.writable("DELETE")?;
                let (name, span) = dml::delete_table(&delete)?;
                let change = dml::delete_change(copy::find_table(db, &name, span)?, &delete)?;
                self.apply(change).map(|rows| Outcome::done(format!("DELETE {rows}"), rows))
            }
            Statement::Copy { source, to, target, options, legacy_options, .. } => {
                let db = self.writable("COPY")?;
                let source = copy::source(db, &source, to, &target, (&options, &legacy_options))?;
                let tally = source.tally.clone();
                self.apply(Change::Copy(source)).map(|rows| Outcome::done(tally.tag(rows), rows))
            }
            Statement::StartTransaction { modes, statements, .. } => {
                if !modes.is_empty() || !statements.is_empty() {
                    return Err(SqlError::unsupported("BEGIN takes no options"));
                }
                self.begin()
            }
            Statement::Set(set) => {
                let db = self.writable("SET")?;
                let assignment = settings::assignment(&set, db.durability())?;
                self.set(assignment, "SET")
            }
            Statement::Reset(statement) => {
                self.writable("RESET")?;
                self.set(settings::reset(&statement.reset)?, "RESET")
            }
            Statement::Commit { chain: false, .. } => self.commit(),
            Statement::Rollback { chain: false, savepoint: None } => self.rollback(),
            other => Err(unsupported(&other)),
        }
    }

    /// The database, for a statement that changes it.
    fn writable(&self, what: &str) -> Result<&Database, SqlError> {
        match &self.target {
            Target::Database { db, open } => {
                open.as_ref().map_or(Ok(()), OpenTransaction::check)?;
                Ok(db)
            }
            Target::Snapshot(_) => Err(SqlError::new(
                SqlErrorKind::ReadOnly,
                format!("{what} is refused: this session reads a snapshot, which never changes"),
            )
            .with_hint(Some("change the database in the process that owns it".to_owned()))),
        }
    }

    fn set(&mut self, assignment: Assignment, tag: &str) -> Result<Outcome, SqlError> {
        let in_transaction = self.in_transaction();
        if assignment.is_local && !in_transaction {
            let message = "SET LOCAL holds for one transaction, and none is open";
            return Err(SqlError::new(SqlErrorKind::Syntax, message)
                .with_hint(Some("BEGIN first, or SET it for the session".to_owned())));
        }
        self.chosen.set(assignment, in_transaction);
        Ok(Outcome::done(tag, 0))
    }

    fn show(&self, setting: Setting) -> Result<Outcome, SqlError> {
        let db = self.writable("SHOW of what commits survive")?;
        let shown = setting.show(self.chosen.now().or(db.durability()));
        Ok(Outcome::Rows(QueryResult::of_text(setting.name(), &shown)))
    }

    /// The database, for a statement that cannot be part of a transaction.
    fn outside_transaction(&self, what: &str) -> Result<&Database, SqlError> {
        let db = self.writable(what)?;
        if self.in_transaction() {
            return Err(SqlError::unsupported(format!(
                "{what} is not supported inside a transaction; COMMIT or ROLLBACK first"
            )));
        }
        Ok(db)
    }

    /// Applies a change, in the open transaction or in one of its own.
    fn apply(&mut self, change: Change) -> Result<u64, SqlError> {
        let (durability, interrupt) = (self.chosen.now(), self.interrupt());
        match &mut self.target {
            Target::Database { open: Some(open), .. } => {
                open.apply(|t| change.apply(t, &interrupt))
            }
            Target::Database { db, open: None } => match &change {
                Change::Copy(source) => source.load_alone(db, durability, &interrupt, &mut |_| {}),
                _ => txn::run(db, durability, |t| change.apply(t, &interrupt)),
            },
            Target::Snapshot(_) => {
                Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"))
            }
        }
    }

    fn insert(&mut self, insert: &Insert) -> Result<Outcome, SqlError> {
        let db = self.writable("INSERT")?;
        let (name, span) = dml::insert_table(insert)?;
        let table = copy::find_table(db, &name, span)?;
        let change = match dml::insert_values(insert)? {
            Some(values) => dml::insert(table, insert, values)?,
            None => {
                self.outside_transaction("INSERT … SELECT")?;
                self.insert_query(table, insert)?
            }
        };
        self.apply(change).map(|rows| Outcome::done(format!("INSERT 0 {rows}"), rows))
    }

    /// The rows that a query delivers, as a change.
    fn insert_query(&mut self, table: atoll::Table, insert: &Insert) -> Result<Change, SqlError> {
        let targets = dml::insert_columns(&table, insert)?;
        let source = insert
            .source
            .clone()
            .ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, "INSERT needs VALUES or a query"))?;
        let result = self.rows(Statement::Query(source))?;
        if result.schema().fields().len() != targets.len() {
            return Err(SqlError::new(
                SqlErrorKind::Syntax,
                format!(
                    "the query returns {} columns for {} columns of the table",
                    result.schema().fields().len(),
                    targets.len()
                ),
            ));
        }
        let (memory, interrupt) = (result.memory(), self.interrupt());
        let mut rows = Vec::new();
        for batch in result.batches() {
            let mut bytes = 0;
            let before = rows.len() as u64;
            let filled =
                parquet::for_each_row(table.schema(), &targets, batch, before, |row, _| {
                    interrupt.check_row()?;
                    bytes += row_bytes(row);
                    rows.push(row.to_vec());
                    Ok(())
                });
            if let Some(memory) = &memory {
                memory.grow(bytes)?;
            }
            match filled {
                Ok(()) => {}
                Err(ApplyError::Error(error)) => return Err(error),
                Err(ApplyError::Abort(reason)) => {
                    return Err(SqlError::new(SqlErrorKind::Aborted, reason));
                }
            }
        }
        Ok(Change::Insert { table, rows })
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::new(self.question.clone())
    }

    fn query(&mut self, statement: Statement) -> Result<Outcome, SqlError> {
        self.rows(statement).map(Outcome::Rows)
    }

    fn rows(&mut self, statement: Statement) -> Result<QueryResult, SqlError> {
        let snapshot = match &self.target {
            Target::Snapshot(snapshot) => snapshot.clone(),
            Target::Database { open: Some(open), .. } => {
                open.check()?;
                return Err(SqlError::unsupported(
                    "a query inside BEGIN … COMMIT is not supported: it would not see the \
                     transaction's own changes",
                )
                .with_hint(Some("COMMIT or ROLLBACK first".to_owned())));
            }
            Target::Database { db, open: None } => db.snapshot()?,
        };
        snapshot.check()?;
        let interrupt = self.interrupt();
        engines::lend(|engine| engine.run(&snapshot, statement, &interrupt))
    }

    fn begin(&mut self) -> Result<Outcome, SqlError> {
        self.writable("BEGIN")?;
        let Target::Database { db, open } = &mut self.target else {
            return Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"));
        };
        if open.is_some() {
            return Err(SqlError::new(SqlErrorKind::Syntax, "a transaction is open already"));
        }
        *open = Some(OpenTransaction::begin(db)?);
        Ok(Outcome::done("BEGIN", 0))
    }

    fn take_open(&mut self) -> Result<OpenTransaction, SqlError> {
        match &mut self.target {
            Target::Database { open, .. } => open.take(),
            Target::Snapshot(_) => None,
        }
        .ok_or_else(|| {
            SqlError::new(SqlErrorKind::Syntax, "no transaction is open")
                .with_hint(Some("each statement outside BEGIN … COMMIT is one by itself".into()))
        })
    }

    fn commit(&mut self) -> Result<Outcome, SqlError> {
        let committed = self.take_open()?.commit(self.chosen.now());
        self.chosen.end(matches!(committed, Ok(true)));
        Ok(Outcome::done(if committed? { "COMMIT" } else { "ROLLBACK" }, 0))
    }

    fn rollback(&mut self) -> Result<Outcome, SqlError> {
        drop(self.take_open()?);
        self.chosen.end(false);
        Ok(Outcome::done("ROLLBACK", 0))
    }
}

/// Bytes that a row takes while it waits to be inserted.
fn row_bytes(row: &[Value]) -> usize {
    let beside = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Vec<Value>>() + size_of_val(row) + row.iter().map(beside).sum::<usize>()
}

/// The error for a statement that is not carried out.
fn unsupported(statement: &Statement) -> SqlError {
    let of_index = match statement {
        Statement::CreateIndex(_) => Some("CREATE"),
        Statement::Drop { object_type: ObjectType::Index, .. } => Some("DROP"),
        Statement::AlterIndex { .. } => Some("ALTER"),
        _ => None,
    };
    if let Some(verb) = of_index {
        let message =
            format!("{verb} INDEX is not supported: a table has the indexes that it was made with");
        return SqlError::unsupported(message).with_hint(Some(
            "write UNIQUE (a, b) or INDEX name (a, b) among the columns of CREATE TABLE; INSERT \
             INTO … SELECT brings the rows of an older table"
                .to_owned(),
        ));
    }
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .take(2)
        .collect();
    let what = if words.is_empty() { "this statement".to_owned() } else { words.join(" ") };
    SqlError::unsupported(format!("{what} is not supported")).with_hint(Some(
        "the statements are CREATE TABLE, INSERT, UPDATE, DELETE, COPY, BEGIN, COMMIT, ROLLBACK, \
         SELECT, EXPLAIN, SHOW, SET and RESET"
            .to_owned(),
    ))
}
