//! Aggregates of few rows. Counts, sums of whole numbers and decimals, and the smallest and largest
//! values are computed here; the others by DataFusion's accumulators, on one batch for each group.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType as ArrowType, SchemaRef};
use atoll::{DataType, Value};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::run::Rows;
use super::scalar::{Scalar, Surroundings};
use super::value::{self, GroupKey};
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::number::DIGITS_MAX;

/// An aggregation, in groups or of all rows.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub(super) groups: Vec<Scalar>,
    pub(super) calls: Vec<Call>,
}

/// A call of an aggregate function.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(super) function: Function,
    /// Rows for which this does not hold are left out.
    pub(super) filter: Option<Scalar>,
}

#[derive(Debug, Clone)]
pub(super) enum Function {
    /// Rows, or the values of an argument.
    Count(Option<Scalar>),
    CountDistinct(Scalar),
    /// Of whole numbers or decimals, exact.
    Sum {
        argument: Scalar,
        result: DataType,
    },
    Smallest(Scalar),
    Largest(Scalar),
    Arrow(ByArrow),
}

/// A call that DataFusion carries out.
#[derive(Debug, Clone)]
pub(super) struct ByArrow {
    pub(super) function: Arc<AggregateFunctionExpr>,
    /// A column for each of its inputs.
    pub(super) schema: SchemaRef,
    pub(super) inputs: Vec<Scalar>,
}

impl Aggregate {
    /// Number of columns of its rows.
    pub(super) fn width(&self) -> usize {
        self.groups.len() + self.calls.len()
    }

    /// Makes its rows, in the order in which the groups appear.
    ///
    /// # Errors
    /// Those of the expressions and functions.
    pub(super) fn run(&self, rows: &Rows, around: &Surroundings) -> Result<Rows, SqlError> {
        let mut groups: Vec<(Vec<Value>, Vec<usize>)> = Vec::new();
        if self.groups.is_empty() {
            groups.push((Vec::new(), (0..rows.count()).collect()));
        } else {
            let mut known: HashMap<GroupKey, usize> = HashMap::new();
            for (at, row) in rows.iter().enumerate() {
                let key = self.groups.iter().map(|key| Ok(key.eval(row, around)?.into_owned()));
                let key = GroupKey(key.collect::<Result<_, SqlError>>()?);
                let group = *known.entry(key).or_insert_with_key(|key| {
                    groups.push((key.0.clone(), Vec::new()));
                    groups.len() - 1
                });
                groups[group].1.push(at);
            }
        }
        let mut made = Rows::new(self.width());
        for (key, members) in groups {
            let mut row = key;
            for call in &self.calls {
                row.push(call.run(rows, &members, around)?);
            }
            made.push(row);
        }
        Ok(made)
    }
}

impl Call {
    fn run(
        &self,
        rows: &Rows,
        members: &[usize],
        around: &Surroundings,
    ) -> Result<Value, SqlError> {
        let mut kept = Vec::with_capacity(members.len());
        for at in members {
            let holds = match &self.filter {
                Some(filter) => filter.truth(rows.row(*at), around)? == Some(true),
                None => true,
            };
            if holds {
                kept.push(rows.row(*at));
            }
        }
        match &self.function {
            Function::Count(None) => Ok(count(kept.len())),
            Function::Count(Some(argument)) => Ok(count(present(argument, &kept, around)?.len())),
            Function::CountDistinct(argument) => {
                let values = present(argument, &kept, around)?;
                let distinct: std::collections::HashSet<GroupKey> =
                    values.into_iter().map(|value| GroupKey(vec![value])).collect();
                Ok(count(distinct.len()))
            }
            Function::Sum { argument, result } => sum(&present(argument, &kept, around)?, *result),
            Function::Smallest(argument) => {
                let values = present(argument, &kept, around)?;
                Ok(values.into_iter().min_by(value::compare).unwrap_or(Value::Null))
            }
            Function::Largest(argument) => {
                let values = present(argument, &kept, around)?;
                Ok(values.into_iter().max_by(value::compare).unwrap_or(Value::Null))
            }
            Function::Arrow(by_arrow) => by_arrow.run(&kept, around),
        }
    }
}

fn count(rows: usize) -> Value {
    Value::Int64(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// The values of an argument that are not NULL.
fn present(
    argument: &Scalar,
    rows: &[&[Value]],
    around: &Surroundings,
) -> Result<Vec<Value>, SqlError> {
    let mut values = Vec::with_capacity(rows.len());
    for row in rows {
        match argument.eval(row, around)?.into_owned() {
            Value::Null => {}
            value => values.push(value),
        }
    }
    Ok(values)
}

fn sum(values: &[Value], result: DataType) -> Result<Value, SqlError> {
    if values.is_empty() {
        return Ok(Value::Null);
    }
    let digits = |value: &Value| match value {
        Value::Int16(v) => i128::from(*v),
        Value::Int32(v) => i128::from(*v),
        Value::Int64(v) => i128::from(*v),
        Value::Decimal(v) => *v,
        _ => 0,
    };
    let total = values.iter().try_fold(0i128, |total, value| total.checked_add(digits(value)));
    let out_of_range = || {
        let message = format!("sum has more than the {DIGITS_MAX} digits of numeric");
        SqlError::new(SqlErrorKind::Type, message)
    };
    let total = total.ok_or_else(out_of_range)?;
    let literal = match result {
        DataType::Decimal { scale, .. } => Literal::Decimal(total, scale),
        _ => Literal::Integer(total),
    };
    literal.into_value(result).map_err(|_| out_of_range())
}

impl ByArrow {
    fn run(&self, rows: &[&[Value]], around: &Surroundings) -> Result<Value, SqlError> {
        let wrong = || SqlError::new(SqlErrorKind::Query, "the aggregate has no such argument");
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.inputs.len());
        for (input, field) in self.inputs.iter().zip(self.schema.fields()) {
            let values = rows.iter().map(|row| Ok(input.eval(row, around)?.into_owned()));
            let values = values.collect::<Result<Vec<_>, SqlError>>()?;
            columns.push(value::to_array(values.iter(), field.data_type()).ok_or_else(wrong)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|_| wrong())?;
        let mut arguments = Vec::new();
        for argument in self.function.expressions() {
            arguments.push(argument.evaluate(&batch)?.into_array(rows.len())?);
        }
        let mut accumulator = self.function.create_accumulator()?;
        accumulator.update_batch(&arguments)?;
        value::of_scalar(&accumulator.evaluate()?).ok_or_else(wrong)
    }
}

/// Whether a sum of values of this type is computed here.
pub(super) fn sums_exactly(argument: &ArrowType) -> bool {
    matches!(
        argument,
        ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 | ArrowType::Decimal128(..)
    )
}
