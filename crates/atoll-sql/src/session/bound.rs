//! How a session runs statements that are bound: queries and changes of rows.

use std::sync::Arc;

use atoll::{Error, Schema, Value};
use sqlparser::ast::Statement;

use super::alone::Alone;
use super::named_snapshot::reading;
use super::ready::{Ready, ready};
use super::{Outcome, SqlSession, Target};
use crate::coordination::Member;
use crate::depth;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::parquet;
use crate::parse::{self, StatementTokens};
use crate::prepared::cache::{Known, Shared};
use crate::prepared::change::{Change, Delivery, Source, Verb};
use crate::prepared::lift;
use crate::prepared::query::{Binder, ShortQuery};
use crate::prepared::run::Ran;
use crate::prepared::{Body, Prepared, Unbound, check_count, parameters};
use crate::result::QueryResult;
use crate::sequence::context;
use crate::set_config::SetConfig;
use crate::short::explain;
use crate::short::scalar::{Began, Surroundings};
use crate::system;
use crate::txn::{Work, read_only};

/// Rows that a query outside a transaction looks at before it is taken for a long one, which
/// runs faster on a snapshot.
const SHORT_ROWS_MAX: u64 = 16_384;

/// Most times that a statement is bound because a table that it uses was altered meanwhile.
pub(super) const BINDINGS_MAX: u32 = 100;

/// Whether statements of this kind are bound.
pub(super) fn is_bound(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
    )
}

/// Whether it is EXPLAIN without options.
pub(super) fn is_plain_explain(statement: &Statement) -> bool {
    matches!(statement, Statement::Explain { analyze: false, verbose: false, options: None, .. })
}

impl SqlSession {
    /// Runs a statement with values for its parameters.
    pub(super) fn run(&mut self, sql: &str, values: &[Literal]) -> Result<Outcome, SqlError> {
        let Target::Database { db, open } = &self.target else {
            let tokens = parse::only_tokens(sql)?;
            return depth::with_room_for(depth::of(&tokens)?, || {
                let statement = self.resolved(parse::statement(tokens)?)?;
                self.run_parsed(None, statement, values)
            });
        };
        if let Some(known) = Shared::of(db).find(sql, self.names_version()) {
            open.as_ref().map_or(Ok(()), |open| open.check())?;
            if known.is_deep {
                return depth::with_room(|| self.run_known(&known, values));
            }
            return self.run_known(&known, values);
        }
        let tokens = parse::only_tokens(sql)?;
        self.run_tokens(Some(sql), tokens, values)
    }

    /// Runs the statement of these tokens; `text` is what it is kept under.
    pub(super) fn run_tokens(
        &mut self,
        text: Option<&str>,
        tokens: StatementTokens,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        depth::with_room_for(depth::of(&tokens)?, || self.run_shallow(text, tokens, values))
    }

    /// As [`Self::run_tokens`], on a stack that has room for the statement.
    fn run_shallow(
        &mut self,
        text: Option<&str>,
        tokens: StatementTokens,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        if values.is_empty()
            && let Target::Database { db, open } = &self.target
            && let Some(lifted) = lift::lift(&tokens)
        {
            open.as_ref().map_or(Ok(()), |open| open.check())?;
            let db = db.clone();
            if let Some((known, ready)) = self.lifted(&db, &lifted) {
                let done = self.run_ready(&known, ready, &lifted.values);
                if !done.as_ref().is_err_and(is_of_an_older_table) {
                    return done;
                }
            }
        }
        if let Some(done) = self.maintain(&tokens)? {
            return Ok(done);
        }
        if let Some(done) = self.back_up_or_restore(&tokens)? {
            return Ok(done);
        }
        let statement = self.resolved(parse::statement(tokens)?)?;
        self.run_parsed(text, statement, values)
    }

    /// When the open transaction began, or one that would begin now.
    pub(super) fn began(&self) -> Began {
        match &self.target {
            Target::Database { open: Some(open), .. } => Began::at(open.began()),
            _ => Began::default(),
        }
    }

    /// Runs a statement that was parsed; `text` is what it is kept under.
    pub(super) fn run_parsed(
        &mut self,
        text: Option<&str>,
        mut statement: Statement,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        if let Some(call) = SetConfig::of(&statement) {
            return self.set_config(&call);
        }
        let count = parameters::count(&statement)?;
        let db = match &self.target {
            Target::Database { db, .. } if is_bound(&statement) => db.clone(),
            _ => {
                check_count(count, values.len())?;
                self.check_allowed(&statement)?;
                if let Statement::Explain { statement: inner, .. } = &statement
                    && is_plain_explain(&statement)
                    && let Some(shown) = self.explain_with(inner, count, values)?
                {
                    return Ok(Outcome::Rows(shown));
                }
                parameters::replace(&mut statement, |at| values.get(at).map(parameters::written));
                return self.dispatch(statement);
            }
        };
        if let Target::Database { open: Some(open), .. } = &self.target {
            open.check()?;
        }
        let known = Arc::new(Known::new(statement, count, self.names_version()));
        let outcome = self.run_known(&known, values);
        if let Some(text) = text
            && known.inferred().is_some()
        {
            Shared::of(&db).keep(text, &known);
        }
        outcome
    }

    pub(super) fn run_known(
        &mut self,
        known: &Known,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        check_count(known.parameters, values.len())?;
        let mut again: Known;
        let mut known = known;
        for _ in 1..BINDINGS_MAX {
            let done = self.run_once(known, values);
            if !done.as_ref().is_err_and(is_of_an_older_table) {
                return done;
            }
            self.interrupt().check_now()?;
            self.begin_numbers();
            self.context.member.iter().for_each(Member::begin_again);
            again = known.again(self.names_version());
            known = &again;
        }
        self.run_once(known, values)
    }

    /// Binds a statement, unless it is bound, and runs it.
    fn run_once(&mut self, known: &Known, values: &[Literal]) -> Result<Outcome, SqlError> {
        let (began, interrupt) = (self.began(), self.interrupt());
        let ready = ready(&|| self.scope(), known, values, &began, &interrupt)?;
        self.run_ready(known, ready, values)
    }

    fn run_ready(
        &mut self,
        known: &Known,
        ready: Ready,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        self.check_known(known)?;
        let interrupt = self.interrupt();
        if self.reads_snapshot().is_some() {
            return match &ready.prepared.body {
                Body::Change(_) => Err(reading("a change")),
                Body::Query(query) if query.lock.is_some() => Err(reading("a lock of rows")),
                Body::Query(_) | Body::NotShort(_) => self.on_snapshot_of(known, values),
            };
        }
        let kept = &mut self.kept;
        let Target::Database { db, open } = &mut self.target else {
            return Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"));
        };
        let (Ready { prepared, around }, db) = (ready, db.clone());
        let inside = open.as_mut().filter(|open| !open.lets_queries_out());
        match &prepared.body {
            Body::NotShort(query)
                if inside.is_some() && !system::reads_no_table(&known.statement) =>
            {
                Err(query.error())
            }
            Body::NotShort(_) => self.on_snapshot_of(known, values),
            Body::Query(query) if query.lock.is_some() => {
                let bound = (&*prepared, &around);
                let ran = match open {
                    Some(open) => open.run_bound(&db, bound, &interrupt, Work::WRITES)?,
                    None if self.settings.now().read_only => return Err(read_only()),
                    None => {
                        let mut alone = Alone { db: &db, kept, durability: None, read_only: false };
                        alone.run(&prepared, &around, &interrupt, None)?
                    }
                };
                Ok(Outcome::Rows(rows(ran, query)))
            }
            Body::Query(query) => {
                if let Some(open) = inside {
                    let bound = (&*prepared, &around);
                    let ran = open.run_bound(&db, bound, &interrupt, Work::READS)?;
                    return Ok(Outcome::Rows(rows(ran, query)));
                }
                if prepared.goes_to_snapshot() || query.scans_a_large_table() {
                    return self.on_snapshot_of(known, values);
                }
                let mut alone = Alone { db: &db, kept, durability: None, read_only: true };
                match alone.run_up_to(SHORT_ROWS_MAX, &prepared, &around, &interrupt)? {
                    Some(ran) => Ok(Outcome::Rows(rows(ran, query))),
                    None => self.on_snapshot_of(known, values),
                }
            }
            Body::Change(change) => self
                .run_change(change, &prepared, around, values)
                .map_err(|error| error.in_table(&change.table)),
        }
    }

    fn run_change(
        &mut self,
        change: &Change,
        prepared: &Prepared,
        around: Surroundings,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        let (interrupt, durability) = (self.interrupt(), self.settings.now().durability);
        let Target::Database { db, open } = &mut self.target else {
            return Err(SqlError::new(SqlErrorKind::ReadOnly, "a snapshot never changes"));
        };
        let db = db.clone();
        let ran = if open.is_some() {
            let rows = match &change.verb {
                Verb::Insert { rows: Source::Query(delivery), .. }
                    if delivery.short.is_err()
                        && system::reads_no_table(&Statement::Query(delivery.query.clone())) =>
                {
                    Some(self.delivered(change, delivery, values)?)
                }
                _ => None,
            };
            let work = rows.as_deref().map_or(Work::WRITES, Work::inserts);
            let Target::Database { open: Some(open), .. } = &mut self.target else {
                return Err(SqlError::new(SqlErrorKind::ReadOnly, "the transaction has ended"));
            };
            open.run_bound(&db, (prepared, &around), &interrupt, work)?
        } else if self.settings.now().read_only {
            return Err(read_only());
        } else {
            match &change.verb {
                Verb::Insert { rows: Source::Query(delivery), .. } => {
                    let is_long = prepared.goes_to_snapshot() || delivery.short.is_err();
                    let ran = match is_long {
                        true => None,
                        false => Alone::writer(&db, &mut self.kept, durability).run_up_to(
                            SHORT_ROWS_MAX,
                            prepared,
                            &around,
                            &interrupt,
                        )?,
                    };
                    match ran {
                        Some(ran) => ran,
                        None => {
                            let rows = self.delivered(change, delivery, values)?;
                            Alone::writer(&db, &mut self.kept, durability).run(
                                prepared,
                                &around,
                                &interrupt,
                                Some(&rows),
                            )?
                        }
                    }
                }
                _ => Alone::writer(&db, &mut self.kept, durability)
                    .run(prepared, &around, &interrupt, None)?,
            }
        };
        let tag = match change.verb {
            Verb::Insert { .. } => format!("INSERT 0 {}", ran.changed),
            Verb::Update(_) => format!("UPDATE {}", ran.changed),
            Verb::Delete { .. } => format!("DELETE {}", ran.changed),
            Verb::Copy(_) => format!("COPY {}", ran.changed),
        };
        Ok(match (ran.rows, &change.returning) {
            (Some(rows), Some(returning)) => Outcome::Rows(
                QueryResult::of_rows(rows, &returning.columns).of_change(tag, ran.changed),
            ),
            _ => Outcome::done(tag, ran.changed),
        })
    }

    /// The plan of a statement that the short executor would run; `None` for one that would run on
    /// a snapshot.
    pub(super) fn explain(&self, statement: &Statement) -> Result<Option<QueryResult>, SqlError> {
        let Target::Database { .. } = &self.target else { return Ok(None) };
        if !is_bound(statement) {
            return Ok(None);
        }
        let scope = self.scope()?;
        let binder = Binder { scope: &scope, interrupt: &self.interrupt() };
        let prepared = match binder.bind(statement) {
            Ok(prepared) => prepared,
            Err(Unbound::Error(error)) if !matches!(statement, Statement::Query(_)) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        Ok(self.shown(&prepared))
    }

    /// The same for a statement with values for its parameters, of which there are so many.
    pub(super) fn explain_with(
        &self,
        statement: &Statement,
        count: usize,
        values: &[Literal],
    ) -> Result<Option<QueryResult>, SqlError> {
        let Target::Database { open, .. } = &self.target else { return Ok(None) };
        if count == 0 || !is_bound(statement) {
            return Ok(None);
        }
        open.as_ref().map_or(Ok(()), |open| open.check())?;
        let known = Known::new(statement.clone(), count, self.names_version());
        let ready = ready(&|| self.scope(), &known, values, &self.began(), &self.interrupt())?;
        Ok(self.shown(&ready.prepared))
    }

    /// The plan of a statement, if the short executor would run it.
    fn shown(&self, prepared: &Prepared) -> Option<QueryResult> {
        let Target::Database { open, .. } = &self.target else { return None };
        if self.reads_snapshot().is_some() {
            return None;
        }
        let mut lines = match &prepared.body {
            Body::Query(query) if open.is_none() && query.scans_a_large_table() => return None,
            Body::Query(query) => explain::lines(&query.node),
            Body::Change(change) => change.explain(),
            Body::NotShort(_) => return None,
        };
        for (number, subquery) in prepared.subqueries.iter().enumerate() {
            lines.push(format!("Subquery {}:", number + 1));
            lines.extend(explain::lines(subquery).into_iter().map(|line| format!("   {line}")));
        }
        Some(QueryResult::of_lines("QUERY PLAN", &lines))
    }

    /// Runs a query on a snapshot, with the values of its parameters written into it.
    fn on_snapshot_of(&mut self, known: &Known, values: &[Literal]) -> Result<Outcome, SqlError> {
        let mut statement = known.statement.clone();
        parameters::replace(&mut statement, |at| values.get(at).map(parameters::written));
        context::begin_attempt();
        self.run_long(statement)
    }

    /// The rows that the query of an `INSERT` delivers on a snapshot.
    fn delivered(
        &mut self,
        change: &Change,
        delivery: &Delivery,
        values: &[Literal],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut statement = Statement::Query(delivery.query.clone());
        parameters::replace(&mut statement, |at| values.get(at).map(parameters::written));
        let result = self.rows(statement)?;
        self.context.member.iter().for_each(Member::end_part);
        self.values_of(&result, change.table.schema(), &delivery.columns)
    }

    /// The rows of a result as values of these columns of a table.
    pub(super) fn values_of(
        &self,
        result: &QueryResult,
        schema: &Schema,
        columns: &[usize],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let (memory, interrupt) = (result.memory(), self.interrupt());
        let mut rows = Vec::new();
        for batch in result.batches() {
            let mut bytes = 0;
            let before = rows.len() as u64;
            let filled = parquet::for_each_row(schema, columns, batch, before, |row, _| {
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
                    return Err(SqlError::from(Error::Aborted(reason)));
                }
            }
        }
        Ok(rows)
    }
}

/// Whether a statement has done nothing, because a table has changed since it was bound.
pub(super) fn is_of_an_older_table(error: &SqlError) -> bool {
    error.cause() == Some(Cause::TableChanged)
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

fn rows(ran: Ran, query: &ShortQuery) -> QueryResult {
    QueryResult::of_rows(ran.rows.unwrap_or_default(), &query.columns)
}
