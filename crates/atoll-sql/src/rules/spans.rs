//! Values that are equal where Arrow sees different ones: intervals of one length (`INTERVAL-1`),
//! and `jsonb` values with numbers (`JSON-1`).
//!
//! Rows are ordered and grouped by what stands for such a value: the length of an interval, the
//! order key of a `jsonb`. A group shows the value of one of its rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::IntervalMonthDayNanoType;
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::FieldRef;
use atoll::Interval;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{Accumulator, Expr, LogicalPlan};

use super::canonical::comparable;
use super::operands;
use super::temporal::INTERVAL;
use super::typed::Typed;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::json::Form;
use crate::query_error::external;

/// What stands for a value as a key of an order or of groups.
///
/// # Errors
/// A `json`, which has no order.
pub(crate) fn key_of(value: Typed) -> Result<Expr> {
    match value.json {
        Some(Form::Json) => {
            let message = "could not identify an ordering operator for type json";
            let error = SqlError::new(SqlErrorKind::Query, message);
            Err(external(error.with_cause(Cause::NoSuchOperator)))
        }
        Some(Form::Jsonb) => operands::order_of_json(value),
        None => Ok(comparable(value.expr, &value.arrow)),
    }
}

/// Whether Arrow's equality is not that of the values.
fn has_key(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let value = Typed::new(expr.clone(), schema)?;
    Ok(value.arrow == INTERVAL || value.json.is_some())
}

/// An aggregation that groups such values by what stands for them.
pub(crate) fn grouped(aggregate: Aggregate) -> Result<LogicalPlan> {
    let input = Arc::clone(aggregate.input.schema());
    let is_other = |expr: &Expr| has_key(expr, &input).unwrap_or(false);
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    let groups = &aggregate.group_expr;
    if !groups.iter().any(is_other) || groups.iter().any(is_set) {
        return LogicalPlan::Aggregate(aggregate).recompute_schema();
    }
    let shown = LogicalPlan::Aggregate(aggregate.clone()).recompute_schema()?;
    let shown = Arc::clone(shown.schema());
    let name = |at: usize| format!("__first_{at}");
    let mut calls = aggregate.aggr_expr;
    let mut keys = Vec::with_capacity(aggregate.group_expr.len());
    let mut firsts = vec![None; aggregate.group_expr.len()];
    for (at, key) in aggregate.group_expr.into_iter().enumerate() {
        if is_other(&key) {
            let plain = key.clone().unalias_nested().data;
            firsts[at] = Some(Expr::from(datafusion::common::Column::new_unqualified(name(at))));
            calls.push(first_value_udaf().call(vec![plain.clone()]).alias(name(at)));
            keys.push(key_of(Typed::new(plain, &input)?)?.alias(format!("__length_{at}")));
        } else {
            keys.push(key);
        }
    }
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, keys, calls)?);
    let made = Arc::clone(plan.schema());
    let columns = shown.iter().enumerate().map(|(at, (qualifier, field))| {
        let first = firsts.get(at).cloned().flatten();
        let column = first.unwrap_or_else(|| Expr::from(made.qualified_field(at)));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = columns.collect::<Vec<_>>();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// The different rows of a plan.
pub(crate) fn distinct(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let is_other =
        |field: &FieldRef| *field.data_type() == INTERVAL || Form::of_field(field).is_some();
    if !schema.fields().iter().any(is_other) {
        return LogicalPlan::Distinct(Distinct::All(input)).recompute_schema();
    }
    let columns = schema.iter().map(Expr::from).collect();
    grouped(Aggregate::try_new(input, columns, Vec::new())?)
}

/// The smallest or the largest interval.
#[derive(Debug)]
pub(crate) struct Extreme {
    is_largest: bool,
    found: Option<IntervalMonthDayNano>,
}

impl Extreme {
    pub(crate) fn new(is_largest: bool) -> Self {
        Self { is_largest, found: None }
    }
}

fn own(value: IntervalMonthDayNano) -> Interval {
    let IntervalMonthDayNano { months, days, nanoseconds: nanos } = value;
    Interval { months, days, nanos }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let is_better = self.found.is_none_or(|found| match self.is_largest {
                true => own(value) > own(found),
                false => own(value) < own(found),
            });
            if is_better {
                self.found = Some(value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.found))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
