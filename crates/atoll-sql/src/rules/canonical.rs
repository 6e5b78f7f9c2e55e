//! A canonical form for equal floating-point numbers.
//!
//! `COMPARE-1`: as in PostgreSQL, `-0.0` equals `0.0`, and all NaN are equal and above every
//! number. Arrow compares and groups zeros that way, but it sorts by bits, and a NaN with its sign
//! bit set (which a processor makes of `0 / 0`) below everything. So sort keys, and operands of
//! comparisons that a function computed, go through [`Canonical`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The expression in canonical form if its type has several forms of one value.
pub(crate) fn canonical(expr: Expr, data_type: &ArrowType) -> Expr {
    match data_type {
        ArrowType::Float32 | ArrowType::Float64 => {
            ScalarUDF::from(Canonical::new()).call(vec![expr])
        }
        _ => expr,
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

/// An array in canonical form, of whatever type.
pub(crate) fn array(array: ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        ArrowType::Float32 | ArrowType::Float64 => of(&array),
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
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => of(values).map(ColumnarValue::Array),
            [ColumnarValue::Scalar(value)] => {
                ScalarValue::try_from_array(&of(&value.to_array()?)?, 0).map(ColumnarValue::Scalar)
            }
            _ => internal_err!("canonical has one argument"),
        }
    }
}
