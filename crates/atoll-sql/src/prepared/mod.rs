//! Statements that are bound once and run often.
//!
//! A query, or a change of rows, is bound to the tables of a live database: its names are resolved,
//! its expressions get their types, and its plan is compiled for the short executor. What has been
//! bound is kept in [`cache`] for all sessions. `SELECT`s that are not short are not bound here but
//! run on a snapshot.
//!
//! In reading order: [`parameters`], [`query`], [`change`] (binding), [`run`] (changes), [`lift`],
//! [`cache`]; [`written_types`] for clients that ask before a statement runs.

pub(crate) mod cache;
mod catalog_columns;
pub(crate) mod change;
pub(crate) mod lift;
pub(crate) mod parameters;
pub(crate) mod partitions;
pub(crate) mod query;
pub(crate) mod run;
pub(crate) mod wanted;
pub(crate) mod written_types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_schema::{Schema, SchemaRef};
use atoll::{DataType, Table, Value};

use crate::array_text;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::cast;
use crate::short::compile::{Compiler, NotShort};
use crate::short::list::{List, ListSlot};
use crate::short::plan::Node;
use crate::short::scalar::{Began, Slot, Surroundings};

/// Runs of a statement that go to a snapshot after one that has looked at too many rows, or name
/// all partitions after one that has named too few.
const LONG_RUNS: u32 = 32;

/// A statement that is bound.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) body: Body,
    slots: Vec<Slot>,
    lists: Vec<ListSlot>,
    /// Subqueries that refer to nothing outside, in the order in which they run.
    pub(crate) subqueries: Vec<Node>,
    /// The tables that it accesses.
    pub(crate) tables: Vec<Table>,
    /// Of a change: the version of the catalog that it is bound to (`FOREIGN-2`).
    pub(crate) version: Option<u64>,
    /// Runs that still go to a snapshot, see [`Prepared::note_long`].
    on_snapshot: AtomicU32,
    /// Runs that still name all partitions, see [`Prepared::note_elsewhere`].
    on_all_partitions: AtomicU32,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Body {
    Query(query::ShortQuery),
    Change(Box<change::Change>),
    NotShort(OnSnapshot),
}

/// A query that the short executor cannot run.
#[derive(Debug)]
pub(crate) struct OnSnapshot {
    pub(crate) reason: Reason,
    /// Its plan, with what a client may ask about; `None` if it could not be planned.
    pub(crate) plan: Option<Described>,
}

/// Why the short executor cannot run a query.
#[derive(Debug)]
pub(crate) enum Reason {
    /// It would need this.
    NotShort(String),
    /// The query could not be bound.
    NotBound(SqlError),
}

impl OnSnapshot {
    /// The error where the query cannot run on a snapshot.
    pub(crate) fn error(&self) -> SqlError {
        match &self.reason {
            Reason::NotShort(reason) => not_short(reason),
            Reason::NotBound(error) => error.clone(),
        }
    }

    /// Why it was not bound.
    pub(crate) fn unbound(&self) -> Unbound {
        match &self.reason {
            Reason::NotShort(reason) => Unbound::NotShort(NotShort::new(reason)),
            Reason::NotBound(error) => Unbound::Error(error.clone()),
        }
    }

    /// Whether one of so many parameters has no type from its place.
    pub(crate) fn has_untyped_parameter(&self, count: usize) -> bool {
        let typed = self.plan.as_ref().map_or(0, |plan| plan.parameters.iter().flatten().count());
        typed < count
    }
}

/// What a client may ask about a statement before it runs.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// The types that the places of the parameters give them.
    pub(crate) parameters: Vec<Option<DataType>>,
    /// The columns of the result; empty for a statement that returns no rows. `None` if they have
    /// the types of values that are not known yet.
    pub(crate) columns: Option<SchemaRef>,
}

impl Described {
    pub(crate) fn new(parameters: Vec<Option<DataType>>, columns: SchemaRef) -> Self {
        let lacks_type = columns.fields().iter().any(|field| field.data_type().is_null());
        let is_open = lacks_type && parameters.contains(&None);
        Self { parameters, columns: (!is_open).then_some(columns) }
    }
}

/// Why a statement could not be bound.
pub(crate) enum Unbound {
    NotShort(NotShort),
    Error(SqlError),
}

impl From<NotShort> for Unbound {
    fn from(reason: NotShort) -> Self {
        Self::NotShort(reason)
    }
}

impl From<SqlError> for Unbound {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<datafusion::common::DataFusionError> for Unbound {
    fn from(error: datafusion::common::DataFusionError) -> Self {
        Self::Error(error.into())
    }
}

/// A parameter has no value of the type that its place has, but one of another type.
pub(crate) struct OtherType;

impl Prepared {
    /// A statement with the parts that the compiler has collected.
    pub(crate) fn new(body: Body, compiler: Compiler) -> Self {
        let Compiler { slots, lists, subqueries, mut tables, .. } = compiler;
        if let Body::Change(change) = &body {
            tables.push(change.table.clone());
        }
        tables.sort_by(|one, other| one.name().cmp(other.name()));
        tables.dedup_by(|one, other| one.name() == other.name());
        let (on_snapshot, on_all_partitions) = (AtomicU32::new(0), AtomicU32::new(0));
        let version = None;
        Self { body, slots, lists, subqueries, tables, version, on_snapshot, on_all_partitions }
    }

    /// A query that only a snapshot can answer.
    pub(crate) fn not_short(reason: Reason, plan: Option<Described>) -> Self {
        Self::new(Body::NotShort(OnSnapshot { reason, plan }), Compiler::default())
    }

    /// The conditions for the rows that it stores.
    pub(crate) fn checks(&self) -> Option<&change::Checks> {
        match &self.body {
            Body::Change(change) => change.checks.as_ref(),
            Body::Query(_) | Body::NotShort(_) => None,
        }
    }

    /// The columns that are computed for the rows that it stores.
    pub(crate) fn generated(&self) -> Option<&change::Generated> {
        match &self.body {
            Body::Change(change) => change.generated.as_ref(),
            Body::Query(_) | Body::NotShort(_) => None,
        }
    }

    /// The foreign keys that it has to keep.
    pub(crate) fn foreign(&self) -> Option<&change::Foreign> {
        match &self.body {
            Body::Change(change) => change.foreign.as_ref(),
            Body::Query(_) | Body::NotShort(_) => None,
        }
    }

    /// What a client may ask, of a statement with so many parameters; `None` if that depends on the
    /// values.
    pub(crate) fn describe(&self, count: usize) -> Option<Described> {
        let columns = match &self.body {
            Body::NotShort(query) => return query.plan.clone(),
            Body::Query(query) => Arc::clone(&query.columns.schema),
            Body::Change(change) => match &change.returning {
                Some(returning) => Arc::clone(&returning.columns.schema),
                None => Arc::new(Schema::empty()),
            },
        };
        let mut parameters = vec![None; count];
        for slot in &self.slots {
            parameters[slot.number] = Some(slot.data_type);
        }
        for slot in &self.lists {
            parameters[slot.number] = slot.data_type.array();
        }
        Some(Described::new(parameters, columns))
    }

    /// Notes that it has looked at too many rows outside a transaction. The next runs go to a
    /// snapshot at once; later ones may have other values.
    pub(crate) fn note_long(&self) {
        self.on_snapshot.store(LONG_RUNS, Ordering::Relaxed);
    }

    /// Whether this run goes to a snapshot.
    pub(crate) fn goes_to_snapshot(&self) -> bool {
        is_one_of(&self.on_snapshot)
    }

    /// Notes that it has accessed a partition that its keys do not name. The next runs name all at
    /// once; later ones may have other values.
    pub(crate) fn note_elsewhere(&self) {
        self.on_all_partitions.store(LONG_RUNS, Ordering::Relaxed);
    }

    /// Whether this run names all partitions.
    pub(crate) fn goes_everywhere(&self) -> bool {
        is_one_of(&self.on_all_partitions)
    }

    /// The values of the slots. `Ok(Err(OtherType))` if the statement has to be bound for the types
    /// of these values.
    ///
    /// # Errors
    /// A text that is no value of the type.
    pub(crate) fn surroundings(
        &self,
        values: &[Literal],
        began: Began,
    ) -> Result<Result<Surroundings, OtherType>, SqlError> {
        let mut params = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            match one(&values[slot.number], slot.data_type, slot.number)? {
                Ok(value) => params.push(value),
                Err(OtherType) => return Ok(Err(OtherType)),
            }
        }
        let mut lists = Vec::with_capacity(self.lists.len());
        for slot in &self.lists {
            match list(slot, &values[slot.number])? {
                Ok(list) => lists.push(list.map(Arc::new)),
                Err(OtherType) => return Ok(Err(OtherType)),
            }
        }
        let subqueries = Vec::with_capacity(self.subqueries.len());
        Ok(Ok(Surroundings { params, lists, subqueries, began }))
    }
}

/// The value of a parameter, or of an element of one, as one of a type.
fn one(
    value: &Literal,
    data_type: DataType,
    number: usize,
) -> Result<Result<Value, OtherType>, SqlError> {
    if !parameters::is_of(value, data_type) {
        return Ok(Err(OtherType));
    }
    match value.clone().into_value(data_type) {
        Ok(value) => Ok(Ok(value)),
        Err(reason) if matches!(value, Literal::Text(_)) => Err(wrong_value(number, &reason)),
        Err(_) => Ok(Err(OtherType)),
    }
}

/// The list that a parameter is; a text may stand for it.
fn list(slot: &ListSlot, value: &Literal) -> Result<Result<Option<List>, OtherType>, SqlError> {
    let wrong = |reason: String| wrong_value(slot.number, &reason);
    let read: Vec<Literal>;
    let items = match value {
        Literal::Null => return Ok(Ok(None)),
        Literal::List(items) => items,
        Literal::Text(text) => {
            let items = array_text::parse(text).map_err(wrong)?;
            read = items.into_iter().map(Literal::from).collect();
            &read
        }
        _ => return Ok(Err(OtherType)),
    };
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let Ok(value) = one(item, slot.data_type, slot.number)? else {
            return Ok(Err(OtherType));
        };
        values.push(match slot.compared == slot.data_type {
            true => value,
            false => {
                cast::convert(Literal::of(value, slot.data_type), slot.compared).map_err(wrong)?
            }
        });
    }
    Ok(Ok(Some(values.into_iter().collect())))
}

fn wrong_value(number: usize, reason: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Type, format!("parameter ${}: {reason}", number + 1))
}

/// Whether runs are left; then there is one less.
fn is_one_of(runs: &AtomicU32) -> bool {
    let left = runs.load(Ordering::Relaxed);
    if left > 0 {
        runs.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}

/// The error for a statement in a transaction that only a query on a snapshot could carry out.
pub(crate) fn not_short(reason: &str) -> SqlError {
    SqlError::unsupported(format!(
        "inside BEGIN … COMMIT this statement is not supported: it needs {reason}"
    ))
    .with_hint(Some(
        "COMMIT or ROLLBACK first; a query outside a transaction runs on a snapshot, which has all \
         of SQL"
            .to_owned(),
    ))
}

/// Checks the number of values.
///
/// # Errors
/// Too many or too few.
pub(crate) fn check_count(parameters: usize, values: usize) -> Result<(), SqlError> {
    let cause = if values == 0 { Cause::UnknownParameter } else { Cause::ParameterCount };
    wrong_count(parameters, values).map_or(Ok(()), |error| Err(error.with_cause(cause)))
}

/// The error for a wrong number of values.
pub(crate) fn wrong_count(parameters: usize, values: usize) -> Option<SqlError> {
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let given = match values {
        1 => "1 value is".to_owned(),
        values => format!("{values} values are"),
    };
    (parameters != values).then(|| {
        let parameters = plural(parameters, "parameter");
        let message = format!("the statement has {parameters}, and {given} given");
        SqlError::new(SqlErrorKind::Syntax, message)
    })
}
