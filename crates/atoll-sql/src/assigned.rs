//! Values that are assigned to the columns of a table.

use atoll::{DataType, Schema, Value};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::cast;
use crate::types;

impl Literal {
    /// The value in a column of a table to which a statement assigns it, checked. As in PostgreSQL,
    /// a column of texts takes the text of any value, and a number is rounded to the digits that
    /// its column has (`CAST-1`).
    ///
    /// # Errors
    /// The literal is no value of the column's type, or the column does not hold it.
    pub(crate) fn into_column(self, schema: &Schema, column: usize) -> Result<Value, SqlError> {
        match self.is_rounded(schema.columns()[column].data_type) {
            true => self.checked(schema, column, cast::convert),
            false => self.checked(schema, column, Self::into_value),
        }
    }

    /// Whether the value may lose digits when it is assigned to a column of a type.
    fn is_rounded(&self, to: DataType) -> bool {
        let is_number = matches!(self, Self::Decimal(..) | Self::Float(_) | Self::Real(_));
        match (self, to) {
            (_, DataType::Int16 | DataType::Int32 | DataType::Int64) => is_number,
            (_, DataType::Decimal { .. }) => is_number || matches!(self, Self::Text(_)),
            (Self::Timestamp(_) | Self::Instant(_), DataType::Date) => true,
            (Self::List(items), _) => {
                to.element().is_some_and(|one| items.iter().any(|item| item.is_rounded(one)))
            }
            _ => false,
        }
    }

    /// As [`Literal::into_column`], but no digit may be lost.
    ///
    /// # Errors
    /// As there, and a number with more digits behind the point than the column has.
    pub(crate) fn into_column_exactly(
        self,
        schema: &Schema,
        column: usize,
    ) -> Result<Value, SqlError> {
        self.checked(schema, column, Self::into_value)
    }

    fn checked(
        self,
        schema: &Schema,
        column: usize,
        into_value: fn(Self, DataType) -> Result<Value, String>,
    ) -> Result<Value, SqlError> {
        let definition = &schema.columns()[column];
        let to = definition.data_type;
        let literal = match self {
            Self::Null | Self::Text(_) => self,
            other if types::assigned(to) == DataType::Text => {
                other.to_text().map_or(Self::Null, Self::Text)
            }
            other => other,
        };
        let value = into_value(literal, to).map_err(|reason| {
            let reason = match to {
                DataType::Enum(_) => reason,
                _ => format!("column \"{}\": {reason}", definition.name),
            };
            SqlError::new(SqlErrorKind::Type, reason)
        })?;
        schema.check_value(column, &value)?;
        Ok(value)
    }
}
