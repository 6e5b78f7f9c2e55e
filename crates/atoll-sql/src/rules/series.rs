//! `generate_series` of moments: every so often from one to another.
//!
//! DataFusion's own function of the name counts whole numbers, and moments in nanoseconds. Here a
//! moment is microseconds (`TIME-1`), months and days are those of the session's time zone, and a
//! date counts as an instant, as PostgreSQL chooses among its three functions.

use std::cmp::Ordering;
use std::iter;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use atoll::{DataType, Interval, Value};
use chrono::DateTime;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::functions_table::generate_series::GenerateSeriesFunc;
use datafusion::logical_expr::{Expr, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use sqlparser::ast;

use super::temporal::{TIMESTAMP, instant, out_of_range};
use super::{cast, moments, plan_error};
use crate::arrow_value;
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::query_error::external;
use crate::types;
use crate::zone::{self, Zone};

/// Rows that are made together.
const BATCH_ROWS: usize = 8192;

/// The function; for other types it is that of DataFusion.
#[derive(Debug)]
pub(crate) struct Series;

/// The three arguments of a series of moments: its first and last one, and the step.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    first: i64,
    last: i64,
    step: Interval,
}

/// A series as a table of one column.
#[derive(Debug)]
struct Moments {
    schema: SchemaRef,
    /// `None` if an argument is NULL: then it is empty.
    bounds: Option<Bounds>,
    /// The zone of its months and days; timestamps have none.
    zone: Zone,
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let types = args.exprs().iter().map(type_of).collect::<Result<Vec<ArrowType>>>()?;
        let is_of_moments = types.iter().any(|arrow| {
            matches!(arrow, ArrowType::Timestamp(..) | ArrowType::Date32 | ArrowType::Interval(_))
        });
        if !is_of_moments {
            let whole: Vec<Expr> = args.exprs().iter().map(whole).collect();
            return GenerateSeriesFunc {}
                .call_with_args(TableFunctionArgs::new(&whole, args.session()));
        }
        let [first, last, step] = args.exprs() else {
            let message = "generate_series of dates or timestamps takes three arguments: the first \
                           one, the last one, and the interval between two of them";
            return Err(plan_error(SqlErrorKind::Query, message));
        };
        let with_zone = |arrow: &ArrowType| matches!(arrow, ArrowType::Timestamp(_, Some(_)));
        let without = |arrow: &ArrowType| matches!(arrow, ArrowType::Timestamp(_, None));
        let moments = &types[..2];
        let is_local = moments.iter().any(without) && !moments.iter().any(with_zone);
        let (arrow, data_type, zone) = match is_local {
            true => (TIMESTAMP, DataType::Timestamp, Zone::default()),
            false => (instant(), DataType::TimestampTz, zone::current()),
        };
        let bounds = match [(first, data_type), (last, data_type), (step, DataType::Interval)]
            .map(|(expr, data_type)| value_of(expr, data_type))
        {
            [Ok(first), Ok(last), Ok(step)] => match (first, last, step) {
                (Value::Timestamp(first), Value::Timestamp(last), Value::Interval(step)) => {
                    Some(Bounds { first, last, step })
                }
                _ => None,
            },
            [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => return Err(error),
        };
        if bounds.is_some_and(|bounds| bounds.direction() == Ordering::Equal) {
            let error = SqlError::new(SqlErrorKind::Type, "step size cannot equal zero");
            return Err(external(error.with_state("22023")));
        }
        let schema = Arc::new(Schema::new(vec![Field::new("value", arrow, false)]));
        let series = Arc::new(Moments { schema: Arc::clone(&schema), bounds, zone });
        Ok(Arc::new(StreamingTable::try_new(schema, vec![series])?))
    }
}

/// A whole number as DataFusion's function takes it, which knows no types of numbers.
fn whole(expr: &Expr) -> Expr {
    let Expr::Literal(value, _) = expr else { return expr.clone() };
    match value {
        ScalarValue::Int16(Some(number)) => lit(i64::from(*number)),
        ScalarValue::Int32(Some(number)) => lit(i64::from(*number)),
        ScalarValue::Int16(None) | ScalarValue::Int32(None) | ScalarValue::Int64(None) => {
            lit(ScalarValue::Null)
        }
        _ => expr.clone(),
    }
}

fn type_of(expr: &Expr) -> Result<ArrowType> {
    constant(expr).map(ScalarValue::data_type)
}

fn constant(expr: &Expr) -> Result<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Ok(value),
        _ => {
            let message = "generate_series takes constants, not columns or parameters";
            Err(plan_error(SqlErrorKind::Unsupported, message))
        }
    }
}

/// Writes a moment among the arguments so that DataFusion, which computes them, reads it as
/// PostgreSQL does: `'2024-03-30 12:00'::timestamptz` is a local time of the session.
///
/// # Errors
/// No moment, or one out of range.
pub(super) fn plain_moment(argument: &mut ast::Expr) -> std::result::Result<(), SqlError> {
    let (written, name) = match argument {
        ast::Expr::Nested(inner) => return plain_moment(inner),
        ast::Expr::Cast { expr, data_type, .. } => match expr.as_mut() {
            ast::Expr::Value(value) => (value, data_type),
            _ => return Ok(()),
        },
        ast::Expr::TypedString(ast::TypedString { value, data_type, .. }) => (value, data_type),
        _ => return Ok(()),
    };
    let Ok(data_type @ (DataType::Timestamp | DataType::TimestampTz)) = types::column_type(name)
    else {
        return Ok(());
    };
    let ast::Value::SingleQuotedString(text) = &mut written.value else { return Ok(()) };
    let read = cast::convert(Literal::Text(text.clone()), data_type);
    let read = read.map_err(|reason| SqlError::new(SqlErrorKind::Type, reason).at(written.span))?;
    if let Value::Timestamp(micros) = read
        && let Some(moment) = DateTime::from_timestamp_micros(micros)
    {
        let zone = if data_type == DataType::TimestampTz { "+00:00" } else { "" };
        *text = format!("{}{zone}", moment.format("%Y-%m-%d %H:%M:%S%.6f"));
    }
    Ok(())
}

/// The value of an argument, as the type that the function takes.
fn value_of(expr: &Expr, data_type: DataType) -> Result<Value> {
    let fault = |reason: String| plan_error(SqlErrorKind::Type, reason);
    let literal = read(constant(expr)?)?;
    // A date is midnight in the zone of the session, as in any other cast.
    cast::convert(literal, data_type).map_err(fault)
}

fn read(value: &ScalarValue) -> Result<Literal> {
    let array = arrow_value::plain(&value.to_array()?);
    let array = array.map_err(|reason| plan_error(SqlErrorKind::Type, reason))?;
    arrow_value::at(array.as_ref(), 0).map_err(|reason| plan_error(SqlErrorKind::Type, reason))
}

impl Bounds {
    /// Whether the series rises (`Greater`) or falls (`Less`).
    fn direction(&self) -> Ordering {
        self.step.cmp(&Interval { months: 0, days: 0, nanos: 0 })
    }
}

impl Moments {
    /// The values, up to one that is out of range.
    fn values(&self) -> impl Iterator<Item = Result<i64>> + use<> {
        let (zone, bounds) = (self.zone, self.bounds);
        let mut next = bounds.map(|bounds| Ok(bounds.first));
        iter::from_fn(move || {
            let (bounds, value) = (bounds?, next.take()?);
            let Ok(value) = value else { return Some(value) };
            if value.cmp(&bounds.last) == bounds.direction() {
                return None;
            }
            let step = moments::arrow(bounds.step);
            let following = moments::shifted(zone, value, step, false);
            next = Some(following.ok_or_else(|| out_of_range("the timestamp").into()));
            Some(Ok(value))
        })
    }
}

impl PartitionStream for Moments {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, mut values) = (Arc::clone(&self.schema), self.values());
        let is_local = self.schema.field(0).data_type() == &TIMESTAMP;
        let batches = iter::from_fn(move || {
            let batch: Result<Vec<i64>> = values.by_ref().take(BATCH_ROWS).collect();
            let batch = match batch {
                Ok(batch) if batch.is_empty() => return None,
                batch => batch,
            };
            Some(batch.and_then(|batch| {
                let array = TimestampMicrosecondArray::from(batch);
                let array: ArrayRef = match is_local {
                    true => Arc::new(array),
                    false => Arc::new(array.with_timezone(atoll::UTC)),
                };
                Ok(RecordBatch::try_new(Arc::clone(&schema), vec![array])?)
            }))
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }
}
