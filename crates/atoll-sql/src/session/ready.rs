//! Statements that are bound for the values of their parameters.

use std::sync::Arc;

use atoll::Database;
use sqlparser::ast::Statement;

use super::SqlSession;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::literal::Literal;
use crate::parse;
use crate::prepared::cache::{Known, Shared};
use crate::prepared::lift::Lifted;
use crate::prepared::query::{Binder, declared};
use crate::prepared::{Body, OtherType, Prepared, Reason, Unbound};
use crate::rules::number::DIGITS_MAX;
use crate::scope::Scope;
use crate::short::compile::NotShort;
use crate::short::scalar::{Began, Surroundings};
use crate::system;

/// A statement that is ready to run.
pub(super) struct Ready {
    pub(super) prepared: Arc<Prepared>,
    pub(super) around: Surroundings,
}

impl SqlSession {
    /// A statement without its constants, ready to run; `None` if it has to be bound with them.
    pub(super) fn lifted(&mut self, db: &Database, lifted: &Lifted) -> Option<(Arc<Known>, Ready)> {
        let shared = Shared::of(db);
        let version = self.names_version();
        let (known, is_new) = match shared.find(&lifted.text, version) {
            Some(known) => (known, false),
            None => {
                let tokens = parse::only_tokens(&lifted.text).ok()?;
                let statement = self.resolved(parse::statement(tokens).ok()?).ok()?;
                let known = Known::new(statement, lifted.values.len(), version);
                (Arc::new(known), true)
            }
        };
        let prepared = match known.inferred() {
            Some(prepared) => prepared,
            None => {
                if system::reads_system(&known.statement) {
                    return None;
                }
                let scope = self.scope().ok()?;
                let binder = Binder { scope: &scope, interrupt: &self.interrupt() };
                let prepared = match binder.bind(&known.statement) {
                    Ok(prepared) => prepared,
                    Err(Unbound::NotShort(reason)) => only_on_snapshot(&known, reason).ok()?,
                    Err(Unbound::Error(_)) => return None,
                };
                known.keep_inferred(prepared)
            }
        };
        if is_new {
            shared.keep(&lifted.text, &known);
        }
        if matches!(prepared.body, Body::NotShort(_)) {
            return None;
        }
        let around = prepared.surroundings(&lifted.values, self.began()).ok()?.ok()?;
        let ready = Ready { prepared: Arc::clone(prepared), around };
        Some((known, ready))
    }
}

/// The statement bound for these values, and what its expressions refer to.
///
/// It is bound with the types that the places of its parameters give them, or with those of the
/// values, or with those and the type text for whatever is text.
pub(super) fn ready(
    scope: &dyn Fn() -> Result<Scope, SqlError>,
    known: &Known,
    values: &[Literal],
    began: &Began,
    interrupt: &Interrupt,
) -> Result<Ready, SqlError> {
    // A statement that is bound needs none.
    let bound = |statement: &Statement| Binder { scope: &scope()?, interrupt }.bind(statement);
    if let Some(prepared) = of_system(known, values.len())? {
        return Ok(bare(&prepared, began));
    }
    let (mut failed, mut lacking) = (None, None);
    let bind = || Ok(known.keep_inferred(bound(&known.statement)?));
    match known.inferred().map_or_else(bind, Ok) {
        Ok(prepared) => {
            match &prepared.body {
                // With the types of the values it may be short.
                Body::NotShort(query) if query.has_untyped_parameter(values.len()) => {
                    failed = Some(query.unbound());
                }
                body => {
                    if let Ok(around) = prepared.surroundings(values, began.clone())? {
                        let ready = Ready::new(prepared, around);
                        // With the types of the values its query may be short.
                        if !lacks_type(body) {
                            return Ok(ready);
                        }
                        lacking = Some(ready);
                    }
                }
            }
        }
        Err(Unbound::Error(error)) if values.is_empty() => {
            return not_bound(known, error).map(|prepared| bare(&prepared, began));
        }
        Err(Unbound::NotShort(reason)) if values.is_empty() => {
            let prepared = known.keep_inferred(only_on_snapshot(known, reason)?);
            return Ok(bare(prepared, began));
        }
        Err(unbound) => failed = Some(unbound),
    }
    if let Some(prepared) = known.declared(values)
        && let Ok(around) = prepared.surroundings(values, began.clone())?
    {
        return Ok(Ready::new(&prepared, around));
    }
    for with_text in [false, true] {
        let statement = declared(&known.statement, values, with_text);
        match bound(&statement) {
            Ok(prepared) if !with_text && lacks_type(&prepared.body) => {}
            Ok(prepared) => match prepared.surroundings(values, began.clone())? {
                Ok(around) => {
                    known.keep_declared(values, &prepared);
                    return Ok(Ready::new(&prepared, around));
                }
                Err(OtherType) => continue,
            },
            Err(unbound) => failed = Some(unbound),
        }
    }
    if let Some(ready) = lacking {
        return Ok(ready);
    }
    let is_list = |value: &Literal| matches!(value, Literal::List(_));
    match failed {
        Some(Unbound::NotShort(_))
            if !matches!(known.statement, Statement::Query(_)) && values.iter().any(is_list) =>
        {
            let message = "a parameter that is a list stands where one value is expected";
            let hint = "a list stands behind ANY or ALL, as in id = ANY($1)".to_owned();
            let error = SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::OtherType);
            Err(error.with_hint(Some(hint)))
        }
        Some(Unbound::NotShort(reason)) => {
            only_on_snapshot(known, reason).map(|prepared| bare(&prepared, began))
        }
        Some(Unbound::Error(error)) => not_bound(known, error).map(|one| bare(&one, began)),
        None if values.iter().any(is_too_large) => {
            let at = values.iter().position(is_too_large).map_or(1, |at| at + 1);
            let message = format!("parameter ${at} is out of range for every type of number");
            Err(SqlError::new(SqlErrorKind::Type, message))
        }
        None => {
            let message =
                "the values do not have the types that the statement gives its parameters";
            Err(SqlError::new(SqlErrorKind::Type, message))
        }
    }
}

/// The statement, if it is a query that reads tables of the system: it runs on a snapshot whatever
/// the values are, so it is not bound in order to run.
fn of_system(known: &Known, values: usize) -> Result<Option<Arc<Prepared>>, SqlError> {
    let prepared = match known.inferred() {
        Some(prepared) if matches!(prepared.body, Body::NotShort(_)) => Some(prepared),
        // A client may still ask for the types of its parameters.
        None if values == 0 => None,
        _ => return Ok(None),
    };
    if !system::reads_system(&known.statement) {
        return Ok(None);
    }
    Ok(Some(match prepared {
        Some(prepared) => Arc::clone(prepared),
        None => {
            let reason = NotShort::new("the system catalogs");
            Arc::clone(known.keep_inferred(only_on_snapshot(known, reason)?))
        }
    }))
}

/// Whether a change reads rows by a query that a parameter without a type keeps from being short.
fn lacks_type(body: &Body) -> bool {
    matches!(body, Body::Change(change) if change.lacks_type())
}

/// Whether a value is a number, perhaps in a list, with more digits than any type has.
fn is_too_large(value: &Literal) -> bool {
    match value {
        Literal::List(items) => items.iter().any(is_too_large),
        Literal::Integer(number) => number.unsigned_abs() >= 10u128.pow(DIGITS_MAX.into()),
        _ => false,
    }
}

/// A query that is not short; a change has no other way to run.
fn only_on_snapshot(known: &Known, reason: NotShort) -> Result<Arc<Prepared>, SqlError> {
    match &known.statement {
        Statement::Query(query) if !query.locks.is_empty() => {
            let message = format!("{} is not supported with FOR UPDATE and FOR SHARE", reason.0);
            Err(SqlError::unsupported(message))
        }
        Statement::Query(_) => Ok(Arc::new(Prepared::not_short(Reason::NotShort(reason.0), None))),
        _ => Err(not_in_a_change(&reason)),
    }
}

/// The error for a change that only a query on a snapshot could carry out.
pub(super) fn not_in_a_change(reason: &NotShort) -> SqlError {
    SqlError::unsupported(format!("{} is not supported in a change", reason.0))
}

/// A query that could not be bound runs on a snapshot, where its error, if it is one, shows.
fn not_bound(known: &Known, error: SqlError) -> Result<Arc<Prepared>, SqlError> {
    match &known.statement {
        Statement::Query(query)
            if query.locks.is_empty() && error.kind() != SqlErrorKind::Cancelled =>
        {
            Ok(Arc::new(Prepared::not_short(Reason::NotBound(error), None)))
        }
        _ => Err(error),
    }
}

fn bare(prepared: &Arc<Prepared>, began: &Began) -> Ready {
    let around = Surroundings::of_nothing(began.clone());
    Ready::new(prepared, around)
}

impl Ready {
    fn new(prepared: &Arc<Prepared>, around: Surroundings) -> Self {
        Self { prepared: Arc::clone(prepared), around }
    }
}
