//! The results of a function for the rows of a batch.

use arrow_array::ArrayRef;
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
pub(crate) fn of(values: Vec<Literal>, arrow: &ArrowType) -> Result<ArrayRef, SqlError> {
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
            (Literal::Json(text), DataType::Text) => Ok(Value::Text(text)),
            (value, _) => cast::convert(value, data_type).map_err(refuse),
        })
        .collect::<Result<Vec<Value>, SqlError>>()?;
    let array = atoll::value_array(data_type, &values);
    array.map_err(|error| refuse(error.to_string()))
}
