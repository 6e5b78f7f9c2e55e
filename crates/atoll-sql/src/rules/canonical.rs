//! A canonical form for equal floating-point numbers.
//!
//! `COMPARE-1`: as in PostgreSQL, `-0.0` equals `0.0`, and all NaN are equal and above every
//! number. Arrow compares and groups zeros that way, but it sorts by bits, and a NaN with its sign
//! bit set (which a processor makes of `0 / 0`) below everything. So sort keys, and operands of
//! comparisons that a function computed, go through [`Canonical`]. Intervals are compared by their
//! length (`INTERVAL-1`), a number of nanoseconds, which [`Length`] computes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::DataType as ArrowType;
use atoll::Interval;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::of_one;
use super::temporal::INTERVAL;

/// The expression in canonical form if its type has several forms of one value.
pub(crate) fn canonical(expr: Expr, data_type: &ArrowType) -> Expr {
    match data_type {
        ArrowType::Float32 | ArrowType::Float64 => {
            ScalarUDF::from(Canonical::new()).call(vec![expr])
        }
        _ => expr,
    }
}

/// The expression as one that Arrow compares and orders as PostgreSQL does: in canonical form, or
/// as a number that stands for it.
pub(crate) fn comparable(expr: Expr, data_type: &ArrowType) -> Expr {
    match *data_type == INTERVAL {
        true => {
            let signature = Signature::any(1, Volatility::Immutable);
            ScalarUDF::from(Length { signature }).call(vec![expr])
        }
        false => canonical(expr, data_type),
    }
}

/// The lengths of intervals in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Length {
    signature: Signature,
}

/// The type of a length.
const LENGTH: ArrowType = ArrowType::Decimal128(38, 0);

fn lengths(array: &ArrayRef) -> Result<ArrayRef> {
    if array.data_type().is_null() {
        return Ok(arrow_array::new_null_array(&LENGTH, array.len()));
    }
    let length = |value: IntervalMonthDayNano| {
        let IntervalMonthDayNano { months, days, nanoseconds: nanos } = value;
        Interval { months, days, nanos }.span()
    };
    let lengths = array.as_primitive::<IntervalMonthDayNanoType>();
    let lengths = lengths.unary::<_, Decimal128Type>(length);
    Ok(Arc::new(lengths.with_precision_and_scale(38, 0)?))
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "length_of_interval"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(LENGTH)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, lengths)
    }
}

/// Floating-point numbers with one zero and one NaN.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Canonical {
    signature: Signature,
}

impl Canonical {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

/// An array of whatever type as one that is compared.
pub(crate) fn array(array: ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        ArrowType::Float32 | ArrowType::Float64 => of(&array),
        ArrowType::Interval(_) => lengths(&array),
        _ => Ok(array),
    }
}

fn of(array: &ArrayRef) -> Result<ArrayRef> {
    // Adding zero makes -0.0 the positive zero and leaves every other number as it is.
    Ok(match array.data_type() {
        ArrowType::Float32 => Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        ArrowType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        other => return internal_err!("{other} has one form for each value"),
    })
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        "canonical"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, of)
    }
}
