//! Dates, timestamps and the names of types in expressions.
//!
//! `TIME-1`: a timestamp is microseconds since 1970 in 64 bits, from any source, so every
//! date from year 1 to 9999 works in every expression. DataFusion's own default, nanoseconds, ends
//! in 2262.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, PrimitiveArray, new_null_array};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, FieldRef, IntervalUnit, TimeUnit};
use chrono::{Datelike, NaiveDate};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use sqlparser::ast::{DataType as SqlType, ExactNumberInfo};

use super::number::{DIGITS_MAX, Number, Operation};
use super::{lengths, plan_error};
use crate::error::{SqlError, SqlErrorKind};
use crate::json::Form;
use crate::lengths::{NO_LIMIT, as_character};
use crate::query_error::external;
use crate::text::DAY_US;
use crate::{names, types};

/// Timestamps of columns and expressions.
pub(crate) const TIMESTAMP: ArrowType = ArrowType::Timestamp(TimeUnit::Microsecond, None);

/// Times of day.
pub(crate) const TIME: ArrowType = ArrowType::Time64(TimeUnit::Microsecond);

/// Spans of time.
pub(crate) const INTERVAL: ArrowType = ArrowType::Interval(IntervalUnit::MonthDayNano);

/// Instants of columns and expressions.
pub(crate) fn instant() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Microsecond, Some(atoll::UTC.into()))
}

/// The name of [`Now::local`].
pub(crate) const LOCAL: &str = "localtimestamp";

/// Marks the type `numeric` without digits; the value that is cast decides how many it gets.
const NUMERIC: &str = "atoll.numeric";
/// Digits behind the point of a `numeric` where the value does not determine them.
const NUMERIC_SCALE: u8 = 16;

/// The types that SQL's names denote in casts: those of columns.
#[derive(Debug)]
pub(crate) struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, name: &SqlType) -> Result<Option<FieldRef>> {
        let field = |arrow| Field::new("", arrow, true);
        Ok(Some(Arc::new(match name {
            SqlType::Numeric(ExactNumberInfo::None)
            | SqlType::Decimal(ExactNumberInfo::None)
            | SqlType::Dec(ExactNumberInfo::None) => {
                let arrow = ArrowType::Decimal128(DIGITS_MAX, NUMERIC_SCALE.cast_signed());
                let mark = HashMap::from([(NUMERIC.to_owned(), String::new())]);
                field(arrow).with_metadata(mark)
            }
            // A `character(n)` without a limit, as dumps of PostgreSQL compare one with.
            SqlType::Custom(name, modifiers)
                if modifiers.is_empty() && names::last(name) == "bpchar" =>
            {
                as_character(field(ArrowType::Utf8View), NO_LIMIT)
            }
            // What no column can have yet is DataFusion's.
            SqlType::Array(_) | SqlType::Struct(..) | SqlType::Regclass => return Ok(None),
            other => {
                let data_type = types::column_type(other).map_err(external)?;
                let plain = || match Form::of(data_type) {
                    Some(form) => form.mark(field(ArrowType::Utf8View)),
                    None => field(types::to_arrow(data_type)),
                };
                lengths::wanted(data_type).unwrap_or_else(plain)
            }
        })))
    }
}

/// The type of a value after a cast to a field.
pub(crate) fn wanted_type(field: &Field, from: &ArrowType) -> ArrowType {
    match (field.metadata().contains_key(NUMERIC), Number::of(from)) {
        (true, Some(Number::Decimal { .. })) => from.clone(),
        (true, Some(Number::Int16 | Number::Int32 | Number::Int64)) => {
            ArrowType::Decimal128(DIGITS_MAX, 0)
        }
        (true, None) if from.is_null() => ArrowType::Decimal128(DIGITS_MAX, 0),
        _ => field.data_type().clone(),
    }
}

pub(super) fn out_of_range(what: &str) -> ArrowError {
    let error = SqlError::new(SqlErrorKind::Type, format!("{what} is out of range"));
    ArrowError::ExternalError(Box::new(error))
}

fn whole(value: &ColumnarValue, rows: usize, arrow: &ArrowType) -> Result<ArrayRef> {
    let array = value.to_array(rows)?;
    // The optimizer asks what a condition is where columns are NULL, which then have no type.
    Ok(if array.data_type().is_null() { new_null_array(arrow, array.len()) } else { array })
}

/// `date + days` or `date - days`.
pub(crate) fn shift(operation: Operation) -> ScalarUDF {
    ScalarUDF::from(DateShift { operation, signature: Signature::any(2, Volatility::Immutable) })
}

/// Days between two dates.
pub(crate) fn difference() -> ScalarUDF {
    ScalarUDF::from(DateDifference { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateShift {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for DateShift {
    fn name(&self) -> &str {
        self.operation.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Date32)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let dates = whole(&args.args[0], args.number_rows, &ArrowType::Date32)?;
        let days = whole(&args.args[1], args.number_rows, &ArrowType::Int64)?;
        let (dates, days) = (dates.as_primitive::<Date32Type>(), days.as_primitive::<Int64Type>());
        let shifted: PrimitiveArray<Date32Type> =
            arrow_array_try_binary(dates, days, |date, days| {
                match self.operation {
                    Operation::Subtract => i64::from(date).checked_sub(days),
                    _ => i64::from(date).checked_add(days),
                }
                .and_then(|day| i32::try_from(day).ok())
                .ok_or_else(|| out_of_range("the date"))
            })?;
        Ok(ColumnarValue::Array(Arc::new(shifted)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateDifference {
    signature: Signature,
}

impl ScalarUDFImpl for DateDifference {
    fn name(&self) -> &str {
        "-"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Int32)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let date = |at: usize| whole(&args.args[at], args.number_rows, &ArrowType::Date32);
        let [left, right] = [date(0)?, date(1)?];
        let (left, right) = (left.as_primitive::<Date32Type>(), right.as_primitive::<Date32Type>());
        let days: PrimitiveArray<arrow_array::types::Int32Type> =
            arrow_array_try_binary(left, right, |a, b| {
                a.checked_sub(b).ok_or_else(|| out_of_range("the number of days"))
            })?;
        Ok(ColumnarValue::Array(Arc::new(days)))
    }
}

/// Applies a step to the rows that have both values.
fn arrow_array_try_binary<A, B, O>(
    a: &PrimitiveArray<A>,
    b: &PrimitiveArray<B>,
    step: impl Fn(A::Native, B::Native) -> std::result::Result<O::Native, ArrowError>,
) -> std::result::Result<PrimitiveArray<O>, ArrowError>
where
    A: arrow_array::ArrowPrimitiveType,
    B: arrow_array::ArrowPrimitiveType,
    O: arrow_array::ArrowPrimitiveType,
{
    a.iter()
        .zip(b.iter())
        .map(|pair| match pair {
            (Some(a), Some(b)) => step(a, b).map(Some),
            _ => Ok(None),
        })
        .collect()
}

/// The units to which a timestamp can be truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// So many microseconds.
    Micros(i64),
    Week,
    /// So many months, from January of year 1 on.
    Months(i32),
}

impl Unit {
    fn of(name: &str) -> Option<Self> {
        Some(match name.trim().to_lowercase().trim_end_matches('s') {
            "microsecond" => Self::Micros(1),
            "millisecond" => Self::Micros(1000),
            "second" => Self::Micros(1_000_000),
            "minute" => Self::Micros(60_000_000),
            "hour" => Self::Micros(3_600_000_000),
            "day" => Self::Micros(DAY_US),
            "week" => Self::Week,
            "month" => Self::Months(1),
            "quarter" => Self::Months(3),
            "year" => Self::Months(12),
            "decade" => Self::Months(120),
            "century" | "centurie" => Self::Months(1200),
            "millennium" | "millennia" => Self::Months(12_000),
            _ => return None,
        })
    }

    fn cut(self, micros: i64) -> Option<i64> {
        let day = micros.div_euclid(DAY_US);
        match self {
            Self::Micros(unit) => micros.checked_sub(micros.rem_euclid(unit)),
            // 1970-01-01 was a Thursday, and weeks begin on Mondays.
            Self::Week => day.checked_sub((day + 3).rem_euclid(7))?.checked_mul(DAY_US),
            Self::Months(months) => {
                let date = NaiveDate::from_epoch_days(i32::try_from(day).ok()?)?;
                // Decades begin in years that end with 0, centuries in those that end with 1.
                let first = if months > 120 { 1 } else { 0 };
                let month = (date.year() - first) * 12 + date.month0().cast_signed();
                let month = month.div_euclid(months) * months + first * 12;
                let first = NaiveDate::from_ymd_opt(
                    month.div_euclid(12),
                    month.rem_euclid(12).cast_unsigned() + 1,
                    1,
                )?;
                i64::from(first.to_epoch_days()).checked_mul(DAY_US)
            }
        }
    }
}

/// `date_trunc(unit, timestamp)`.
pub(crate) fn date_trunc() -> ScalarUDF {
    ScalarUDF::from(DateTrunc { signature: Signature::any(2, Volatility::Immutable) })
}

/// `date_trunc` while a statement is planned; the analyzer replaces it by that of the type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyTrunc {
    signature: Signature,
}

impl AnyTrunc {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AnyTrunc {
    fn name(&self) -> &str {
        "date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let is_own = |one: &&ArrowType| {
            **one == INTERVAL || matches!(one, ArrowType::Timestamp(TimeUnit::Microsecond, _))
        };
        Ok(arguments.get(1).filter(is_own).cloned().unwrap_or(TIMESTAMP))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("date_trunc is replaced before it could be called")
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    signature: Signature,
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        "date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(TIMESTAMP)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match &args.args[0] {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten().map(str::to_owned),
            ColumnarValue::Array(_) => {
                return Err(plan_error(
                    SqlErrorKind::Unsupported,
                    "the unit of date_trunc must be a constant",
                ));
            }
        };
        let Some(name) = name else {
            return ScalarValue::try_from(&TIMESTAMP).map(ColumnarValue::Scalar);
        };
        let unit = Unit::of(&name).ok_or_else(|| {
            let message = format!(
                "\"{name}\" is no unit of date_trunc; use microseconds, milliseconds, second, \
                     minute, hour, day, week, month, quarter, year, decade, century or millennium"
            );
            external(SqlError::new(SqlErrorKind::Type, message).with_state("22023"))
        })?;
        let moments = whole(&args.args[1], args.number_rows, &TIMESTAMP)?;
        let cut = moments
            .as_primitive::<TimestampMicrosecondType>()
            .try_unary::<_, TimestampMicrosecondType, _>(|micros| {
                unit.cut(micros).ok_or_else(|| out_of_range("the timestamp"))
            })?;
        Ok(ColumnarValue::Array(Arc::new(cut)))
    }
}

/// `now()`: the instant at which the query began; `localtimestamp` is the same as a timestamp.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Now {
    name: &'static str,
    signature: Signature,
    aliases: Vec<String>,
}

impl Now {
    pub(crate) fn new() -> Self {
        let aliases = ["current_timestamp", "transaction_timestamp", "statement_timestamp"];
        Self {
            name: "now",
            signature: Signature::nullary(Volatility::Stable),
            aliases: aliases.map(str::to_owned).to_vec(),
        }
    }

    pub(crate) fn local() -> Self {
        Self { name: LOCAL, aliases: Vec::new(), ..Self::new() }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(if self.name == LOCAL { TIMESTAMP } else { instant() })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("now() is replaced by a constant before it could be called")
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match info.query_execution_start_time() {
            None => ExprSimplifyResult::Original(args),
            Some(start) => {
                let micros = start.timestamp_micros();
                let now = ScalarValue::TimestampMicrosecond(Some(micros), Some(atoll::UTC.into()));
                ExprSimplifyResult::Simplified(lit(now))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::show;
    use crate::text;

    #[test]
    fn timestamps_of_all_years_are_cut_to_any_unit() {
        for (unit, from, wanted) in [
            ("hour", "9999-12-31 23:59:59.999999", "9999-12-31 23:00:00"),
            ("day", "0001-01-01 12:00:00", "0001-01-01 00:00:00"),
            ("week", "2024-01-07 01:00:00", "2024-01-01 00:00:00"),
            ("week", "1969-12-31 01:00:00", "1969-12-29 00:00:00"),
            ("Quarter", "2300-05-17 00:00:00", "2300-04-01 00:00:00"),
            ("year", "2300-05-17 00:00:00", "2300-01-01 00:00:00"),
            ("decade", "1999-05-17 00:00:00", "1990-01-01 00:00:00"),
            ("century", "2000-05-17 00:00:00", "1901-01-01 00:00:00"),
            ("millennium", "2001-05-17 00:00:00", "2001-01-01 00:00:00"),
            ("milliseconds", "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999"),
        ] {
            let micros = text::timestamp(from).unwrap();
            let cut = Unit::of(unit).unwrap().cut(micros).unwrap();
            assert_eq!(show::timestamp(cut), wanted, "{unit} of {from}");
        }
        assert_eq!(Unit::of("fortnight"), None);
        assert_eq!(Unit::Micros(DAY_US).cut(i64::MIN), None);
    }
}
