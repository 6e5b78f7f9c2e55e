//! Rows that are loaded, under the rules of their table: defaults for the columns that a file does
//! not have, and conditions.
//!
//! `RULED-1`: every way to load rows passes through here if the table has rules; one that hands on
//! whole batches only does so if no rule concerns them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use atoll::{Table, Value};

use crate::error::{ApplyError, SqlError};
use crate::interrupt::Interrupt;
use crate::prepared::change::{Cell, Source, Verb};
use crate::prepared::query::Binder;
use crate::prepared::run::{check, value_of};
use crate::prepared::{Body, Prepared, Unbound, not_short};
use crate::short::run::Stop;
use crate::short::scalar::{Began, Surroundings};
use crate::sink::Sink;
use crate::{names, parse};

/// The rules of a table, bound.
pub(crate) struct Rules {
    /// `INSERT INTO … DEFAULT VALUES`.
    insert: Arc<Prepared>,
    interrupt: Interrupt,
}

impl Rules {
    /// The rules of a table, if it has some.
    ///
    /// # Errors
    /// They cannot be bound.
    pub(crate) fn of(table: &Table, binder: &Binder<'_>) -> Result<Option<Self>, SqlError> {
        if table.schema().declared().is_empty() {
            return Ok(None);
        }
        let name = names::quoted_if_needed(table.name());
        let insert = parse::one(&format!("INSERT INTO {name} DEFAULT VALUES"))?;
        let insert = binder.bind(&insert).map_err(|unbound| match unbound {
            Unbound::Error(error) => error,
            Unbound::NotShort(reason) => not_short(&reason.0),
        })?;
        Ok(Some(Self { insert, interrupt: binder.interrupt.clone() }))
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
        let around = rules.insert.surroundings(&[], Began::default())?;
        let around = around.unwrap_or_else(|_| Surroundings::of_nothing(Began::default()));
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
        let Rules { insert, interrupt } = self.rules;
        let around = &self.around;
        let within = |stop: Stop| match stop {
            Stop::Error(error) => ApplyError::Error(error.within(&place())),
            Stop::Transaction(end) => end.into(),
            Stop::TooManyRows | Stop::Passed => ApplyError::Error(not_short("such a rule")),
        };
        self.row.clear();
        self.row.extend_from_slice(row);
        for at in &self.missing {
            let cell = &self.rules.defaults()[*at];
            self.row[*at] = value_of(cell, self.table, *at, around).map_err(within)?;
        }
        let checks = insert.checks();
        check(checks, self.table, &self.row, around, interrupt).map_err(within)?;
        self.sink.row(&self.row, place)
    }

    fn batch(&mut self, columns: &[usize], batch: &RecordBatch) -> Result<bool, ApplyError> {
        let is_concerned = !self.missing.is_empty() || self.rules.insert.checks().is_some();
        if is_concerned { Ok(false) } else { self.sink.batch(columns, batch) }
    }
}
