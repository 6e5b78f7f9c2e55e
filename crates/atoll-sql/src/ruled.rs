//! Rows that are loaded, under the rules of their table: defaults for the columns that a file does
//! not have, conditions, and foreign keys. A load may take some of the rows only, those for which
//! its own condition is true.
//!
//! `RULED-1`: every way to load rows passes through here if the table has rules; one that hands on
//! whole batches only does so if no rule concerns them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use atoll::{Schema, Table, Transaction, Value};

use crate::declared::Declared;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::parse;
use crate::prepared::change::{Cell, Condition, Source, Verb};
use crate::prepared::query::Binder;
use crate::prepared::run::{Loading, Part, check, compute, holds, value_of};
use crate::prepared::{Body, Prepared, Unbound, not_short};
use crate::quoted::quoted_if_needed;
use crate::short::run::Stop;
use crate::short::scalar::{Began, Surroundings};
use crate::sink::Sink;

/// The rules of a table, bound.
pub(crate) struct Rules {
    /// `INSERT INTO … DEFAULT VALUES`, with `ON CONFLICT` if rows may be replaced.
    insert: Arc<Prepared>,
    /// Which rows are taken.
    condition: Option<Condition>,
    interrupt: Interrupt,
}

impl Rules {
    /// The rules of a table, if it has some. A row that is replaced may have others that refer to
    /// it. The `condition` is that of the load.
    ///
    /// # Errors
    /// They cannot be bound.
    pub(crate) fn of(
        table: &Table,
        replaces: bool,
        condition: Option<&str>,
        binder: &Binder<'_>,
    ) -> Result<Option<Self>, SqlError> {
        if table.schema().declared().is_empty() && !replaces && condition.is_none() {
            return Ok(None);
        }
        let condition = condition.map(|text| binder.load_condition(table, text)).transpose()?;
        let name = quoted_if_needed(table.name());
        let conflict = if replaces { replacing(table.schema())? } else { String::new() };
        let insert = parse::one(&format!("INSERT INTO {name} DEFAULT VALUES{conflict}"))?;
        let insert = binder.bind(&insert).map_err(|unbound| match unbound {
            Unbound::Error(error) => error,
            Unbound::NotShort(reason) => not_short(&reason.0),
        })?;
        Ok(Some(Self { insert, condition, interrupt: binder.interrupt.clone() }))
    }

    /// Whether a row may refer to others, or others to it.
    pub(crate) fn has_foreign_keys(&self) -> bool {
        self.insert.foreign().is_some()
    }

    /// What keeps the foreign keys of a load, if there are some.
    ///
    /// # Errors
    /// A table was altered since the rules were bound.
    pub(crate) fn loading<'l>(
        &'l self,
        transaction: &mut Transaction,
        part: Part<'l>,
    ) -> Result<Option<Loading<'l>>, ApplyError> {
        Loading::new(&self.insert, transaction, &self.interrupt, part).map_err(stopped)
    }

    /// Ends a load.
    ///
    /// # Errors
    /// A foreign key is violated; those of the changes that actions make.
    pub(crate) fn finish(
        &self,
        loading: Loading<'_>,
        transaction: &mut Transaction,
    ) -> Result<(), ApplyError> {
        loading.finish(transaction, &self.around()?, &self.interrupt).map_err(stopped)
    }

    fn around(&self) -> Result<Surroundings, SqlError> {
        let around = self.insert.surroundings(&[], Began::default())?;
        Ok(around.unwrap_or_else(|_| Surroundings::of_nothing(Began::default())))
    }

    /// The defaults of all columns.
    fn defaults(&self) -> &[Cell] {
        match &self.insert.body {
            Body::Change(change) => match &change.verb {
                Verb::Insert { rows: Source::Written(rows), .. } => {
                    rows.first().map_or(&[], |row| row)
                }
                _ => &[],
            },
            _ => &[],
        }
    }
}

/// `ON CONFLICT` for rows that replace others.
fn replacing(schema: &Schema) -> Result<String, SqlError> {
    let name = |at: usize| quoted_if_needed(&schema.columns()[at].name);
    let key: Vec<_> = schema.primary_key().iter().map(|at| name(*at)).collect();
    if schema.is_keyless() {
        let message = "ON_CONFLICT replace needs a primary key, and the table has none";
        return Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject));
    }
    let declared = Declared::of(schema)?;
    let others = (0..schema.columns().len()).filter(|at| {
        let name = &schema.columns()[*at].name;
        !schema.is_in_key(*at) && !declared.generated.contains_key(name)
    });
    let set: Vec<String> = others.map(|at| format!("{0} = excluded.{0}", name(at))).collect();
    Ok(match set.as_slice() {
        [] => String::new(),
        set => format!(" ON CONFLICT ({}) DO UPDATE SET {}", key.join(", "), set.join(", ")),
    })
}

/// Why a load ends where a statement would stop.
pub(crate) fn stopped(stop: Stop) -> ApplyError {
    match stop {
        Stop::Error(error) => ApplyError::Error(error),
        Stop::Transaction(end) => end.into(),
        Stop::TooManyRows | Stop::Passed => ApplyError::Error(not_short("such a rule")),
    }
}

/// See the module.
pub(crate) struct Ruled<'s> {
    rules: &'s Rules,
    around: Surroundings,
    table: &'s Table,
    sink: &'s mut dyn Sink,
    /// The columns that take their defaults.
    missing: Vec<usize>,
    /// A row with them.
    row: Vec<Value>,
}

impl<'s> Ruled<'s> {
    /// Passes rows on to a sink.
    ///
    /// # Errors
    /// None that rules without parameters have.
    pub(crate) fn new(
        rules: &'s Rules,
        table: &'s Table,
        sink: &'s mut dyn Sink,
    ) -> Result<Self, SqlError> {
        let around = rules.around()?;
        Ok(Self { rules, around, table, sink, missing: Vec::new(), row: Vec::new() })
    }
}

impl Sink for Ruled<'_> {
    fn columns(&mut self, columns: &[usize]) {
        let cells = self.rules.defaults().iter().enumerate();
        let has_default = |(at, cell): &(usize, &Cell)| {
            !columns.contains(at) && !matches!(cell, Cell::Value(Value::Null))
        };
        self.missing = cells.filter(has_default).map(|(at, _)| at).collect();
        self.sink.columns(columns);
    }

    fn row(&mut self, row: &[Value], place: &dyn Fn() -> String) -> Result<(), ApplyError> {
        let Rules { insert, condition, interrupt } = self.rules;
        let around = &self.around;
        let within = |stop: Stop| match stopped(stop) {
            ApplyError::Error(error) => ApplyError::Error(error.within(&place())),
            abort => abort,
        };
        self.row.clear();
        self.row.extend_from_slice(row);
        for at in &self.missing {
            let cell = &self.rules.defaults()[*at];
            self.row[*at] = value_of(cell, self.table, *at, around).map_err(within)?;
        }
        // As in PostgreSQL, it does not see what is computed.
        if let Some(condition) = condition
            && !holds(condition, &self.row, around, interrupt).map_err(within)?
        {
            return Ok(());
        }
        compute(insert.generated(), self.table, &mut self.row, around, interrupt)
            .map_err(within)?;
        let checks = insert.checks();
        check(checks, self.table, &self.row, around, interrupt).map_err(within)?;
        self.sink.row(&self.row, place)
    }

    fn batch(&mut self, columns: &[usize], batch: &RecordBatch) -> Result<bool, ApplyError> {
        let rules = &self.rules.insert;
        let is_concerned = !self.missing.is_empty()
            || self.rules.condition.is_some()
            || rules.checks().is_some()
            || rules.generated().is_some();
        if is_concerned { Ok(false) } else { self.sink.batch(columns, batch) }
    }
}
