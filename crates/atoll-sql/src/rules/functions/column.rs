//! The results of a function for the rows of a batch.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::DataType as ArrowType;
use atoll::{DataType, Value};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::cast;
use crate::types;

/// The values as an array of an Arrow type.
///
/// # Errors
/// A value that the type does not hold.
pub(super) fn of(values: Vec<Literal>, arrow: &ArrowType) -> Result<ArrayRef, SqlError> {
    let Some(data_type) = types::of_arrow(arrow) else {
        let message = format!("a function cannot return {arrow}");
        return Err(SqlError::new(SqlErrorKind::Database, message));
    };
    let refuse = |reason: String| {
        let state = if reason.contains("digits") { "22003" } else { "22P02" };
        let error = SqlError::new(SqlErrorKind::Type, reason);
        if error.sqlstate() == "22P02" { error.with_state(state) } else { error }
    };
    let values = values
        .into_iter()
        .map(|value| match (value, data_type) {
            // The value is one of the type, as a rule.
            (Literal::Decimal(digits, own), DataType::Decimal { precision, scale })
                if own == scale && digits.unsigned_abs() < 10u128.pow(precision.into()) =>
            {
                Ok(Value::Decimal(digits))
            }
            (value, _) => cast::convert(value, data_type).map_err(refuse),
        })
        .collect::<Result<Vec<Value>, SqlError>>()?;
    Ok(match arrow {
        ArrowType::Boolean => Arc::new(
            values
                .iter()
                .map(|value| if let Value::Bool(v) = value { Some(*v) } else { None })
                .collect::<BooleanArray>(),
        ),
        ArrowType::Int32 => primitive::<Int32Type>(&values, |value| match value {
            Value::Int32(v) => Some(*v),
            _ => None,
        }),
        ArrowType::Int64 => primitive::<Int64Type>(&values, |value| match value {
            Value::Int64(v) => Some(*v),
            _ => None,
        }),
        ArrowType::Float64 => primitive::<Float64Type>(&values, |value| match value {
            Value::Float64(v) => Some(*v),
            _ => None,
        }),
        ArrowType::Date32 => primitive::<Date32Type>(&values, |value| match value {
            Value::Date(v) => Some(*v),
            _ => None,
        }),
        ArrowType::Timestamp(..) => {
            primitive::<TimestampMicrosecondType>(&values, |value| match value {
                Value::Timestamp(v) => Some(*v),
                _ => None,
            })
        }
        ArrowType::Decimal128(precision, scale) => {
            let digits = values.iter().map(|value| match value {
                Value::Decimal(v) => Some(*v),
                _ => None,
            });
            let digits: PrimitiveArray<Decimal128Type> = digits.collect();
            let array = digits.with_precision_and_scale(*precision, *scale);
            Arc::new(array.map_err(|error| refuse(error.to_string()))?)
        }
        ArrowType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    Value::Binary(bytes) => Some(bytes),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringViewBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    Value::Text(text) => Some(text),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[Value],
    take: impl Fn(&Value) -> Option<T::Native>,
) -> ArrayRef {
    Arc::new(values.iter().map(take).collect::<PrimitiveArray<T>>())
}
