//! `abs` of whole numbers: that of the smallest one is out of range, as any other result that its
//! type does not hold (`ARITH-1`). A CASE would say the same, and repeat its argument.

use std::sync::Arc;

use arrow_array::ArrowPrimitiveType;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::{ArrowError, DataType as ArrowType};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::of_one;
use crate::error::{SqlError, SqlErrorKind};
use crate::types;

/// The absolute value of a whole number.
pub(crate) fn absolute(value: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Absolute { signature }).call(vec![value])
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Absolute {
    signature: Signature,
}

fn each<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    absolute: impl Fn(T::Native) -> Option<T::Native>,
) -> Result<ArrayRef>
where
    T::Native: std::fmt::Display,
{
    let out_of_range = |value: T::Native| {
        let data_type = types::of_arrow(&T::DATA_TYPE).map_or(String::new(), |t| t.to_string());
        let reason = format!("{data_type} out of range: abs({value})");
        ArrowError::ExternalError(Box::new(SqlError::new(SqlErrorKind::Type, reason)))
    };
    let one = |value| absolute(value).ok_or_else(|| out_of_range(value));
    let done: PrimitiveArray<T> = values.as_primitive::<T>().try_unary(one)?;
    Ok(Arc::new(done))
}

impl ScalarUDFImpl for Absolute {
    fn name(&self) -> &str {
        "abs"
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, |values| match values.data_type() {
            ArrowType::Int16 => each::<Int16Type>(values, i16::checked_abs),
            ArrowType::Int32 => each::<Int32Type>(values, i32::checked_abs),
            ArrowType::Int64 => each::<Int64Type>(values, i64::checked_abs),
            other => internal_err!("{other} is no whole number"),
        })
    }
}
