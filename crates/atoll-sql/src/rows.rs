//! Values of Rust as parameters of statements, and rows as values of Rust.
//!
//! `ROWS-1`: a value is read as a type that holds all values of its column's type, or as text of
//! the very digits; nothing is rounded or cut off. The exception is an `f64`, which takes the
//! nearest number to a decimal.

use arrow_schema::SchemaRef;
use atoll::{DataType, Value};
use chrono::{NaiveDate, NaiveDateTime, TimeDelta};

use crate::error::{SqlError, SqlErrorKind};
use crate::literal::{self, Literal};
use crate::result::QueryResult;
use crate::short::value;
use crate::types;

/// The values of the parameters of a statement: a tuple, an array or a slice.
///
/// `()` stands for none, `(7, "seven")` for `$1` and `$2`.
pub trait Params {
    /// Lends the values to `run`.
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R;
}

impl Params for () {
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
        run(&[])
    }
}

impl Params for &[Literal] {
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
        run(self)
    }
}

impl Params for &Vec<Literal> {
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
        run(self)
    }
}

impl<const N: usize> Params for &[Literal; N] {
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
        run(self)
    }
}

impl<T: Into<Literal>, const N: usize> Params for [T; N] {
    fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
        run(&self.map(Into::into))
    }
}

/// A value of a row as a type of Rust.
pub trait FromValue: Sized {
    /// The type as an error names it.
    const NAME: &'static str;

    /// The value, which is in a column of type `data_type`; `None` if it is not of this type.
    fn from_value(value: &Value, data_type: DataType) -> Option<Self>;
}

/// A row as a value of Rust: a tuple of values, or a type of the caller.
pub trait FromRow: Sized {
    /// Reads the row.
    ///
    /// # Errors
    /// Another number of columns, or a value of another type.
    fn from_row(row: &Row<'_>) -> Result<Self, SqlError>;
}

/// A row of a result.
#[derive(Clone, Copy)]
pub struct Row<'r> {
    values: &'r [Value],
    types: &'r [DataType],
    schema: &'r SchemaRef,
}

impl Row<'_> {
    /// The value of a column, by its position from 0.
    ///
    /// # Errors
    /// There is no such column, or its value is not of type `T`; NULL is of type `Option<T>` only.
    pub fn get<T: FromValue>(&self, at: usize) -> Result<T, SqlError> {
        let (Some(value), Some(data_type)) = (self.values.get(at), self.types.get(at)) else {
            return Err(self.no_column(at));
        };
        T::from_value(value, *data_type).ok_or_else(|| self.cannot_hold(at, T::NAME))
    }

    /// The text of a column, by its position from 0, without a copy.
    ///
    /// # Errors
    /// There is no such column, or its value is no text.
    pub fn text(&self, at: usize) -> Result<&str, SqlError> {
        match self.values.get(at) {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Int32(code)) if let DataType::Enum(labels) = self.types[at] => {
                labels.label(*code).ok_or_else(|| self.cannot_hold(at, "&str"))
            }
            Some(_) => Err(self.cannot_hold(at, "&str")),
            None => Err(self.no_column(at)),
        }
    }

    fn no_column(&self, at: usize) -> SqlError {
        let message = format!("there is no column {at}: the result has {}", self.values.len());
        SqlError::new(SqlErrorKind::UnknownColumn, message)
    }

    fn cannot_hold(&self, at: usize, rust: &str) -> SqlError {
        let name = self.schema.field(at).name();
        let found = match &self.values[at] {
            Value::Null => "NULL".to_owned(),
            _ => format!("of type {}", self.types[at]),
        };
        let message = format!("column \"{name}\" is {found}, which {rust} cannot hold");
        SqlError::new(SqlErrorKind::Type, message)
    }

    /// The value of a column, by its name.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn named<T: FromValue>(&self, name: &str) -> Result<T, SqlError> {
        match self.schema.index_of(name) {
            Ok(at) => self.get(at),
            Err(_) => {
                let message = format!("the result has no column \"{name}\"");
                Err(SqlError::new(SqlErrorKind::UnknownColumn, message))
            }
        }
    }

    /// How many columns it has.
    pub fn width(&self) -> usize {
        self.values.len()
    }
}

impl QueryResult {
    /// Hands each row to `each`.
    ///
    /// # Errors
    /// Those of `each`, which then gets no further row; a column of a type that only Arrow data can
    /// have, see [`QueryResult::batches`].
    pub fn for_each_row<E: From<SqlError>>(
        &self,
        mut each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let schema = &self.schema();
        if let Some((rows, types)) = self.rows() {
            for values in rows {
                each(&Row { values, types, schema })?;
            }
            return Ok(());
        }
        let only_arrow = |at: usize| {
            let field = schema.field(at);
            let message = format!(
                "column \"{}\" has the type {}, which values of rows do not have",
                field.name(),
                field.data_type()
            );
            SqlError::new(SqlErrorKind::Type, message)
                .with_hint(Some("CAST the column, or read the batches".to_owned()))
        };
        let types = schema.fields().iter().enumerate();
        let types: Vec<DataType> = types
            .map(|(at, field)| types::of_field(field).ok_or_else(|| only_arrow(at)))
            .collect::<Result<_, _>>()?;
        let mut values = Vec::with_capacity(types.len());
        for batch in self.batches() {
            for row in 0..batch.num_rows() {
                values.clear();
                for (at, column) in batch.columns().iter().enumerate() {
                    values.push(value::of_array(column, row).ok_or_else(|| only_arrow(at))?);
                }
                each(&Row { values: &values, types: &types, schema })?;
            }
        }
        Ok(())
    }

    /// All rows as values of Rust.
    ///
    /// # Errors
    /// Those of [`QueryResult::for_each_row`] and [`FromRow::from_row`].
    pub fn typed<T: FromRow>(&self) -> Result<Vec<T>, SqlError> {
        let mut rows = Vec::with_capacity(self.row_count());
        self.for_each_row(|row| {
            rows.push(T::from_row(row)?);
            Ok::<_, SqlError>(())
        })?;
        Ok(rows)
    }
}

macro_rules! from_value {
    ($($rust:ty: $($variant:ident)|+),* $(,)?) => {$(
        impl FromValue for $rust {
            const NAME: &'static str = stringify!($rust);

            fn from_value(value: &Value, data_type: DataType) -> Option<Self> {
                match value {
                    _ if matches!(data_type, DataType::Enum(_)) => None,
                    $(Value::$variant(value) => Some(value.clone().into()),)+
                    _ => None,
                }
            }
        }
    )*};
}
from_value!(
    bool: Bool, i16: Int16, i32: Int16 | Int32, i64: Int16 | Int32 | Int64, f32: Float32 | Int16,
    Vec<u8>: Binary,
);

impl FromValue for f64 {
    const NAME: &'static str = "f64";

    fn from_value(value: &Value, data_type: DataType) -> Option<Self> {
        Some(match (value, data_type) {
            (Value::Float64(value), _) => *value,
            (Value::Float32(value), _) => f64::from(*value),
            (Value::Int16(value), _) => f64::from(*value),
            (Value::Int32(_), DataType::Enum(_)) => return None,
            (Value::Int32(value), _) => f64::from(*value),
            (Value::Decimal(digits), DataType::Decimal { scale, .. }) => {
                literal::decimal_to_float(*digits, scale)
            }
            _ => return None,
        })
    }
}

impl FromValue for String {
    const NAME: &'static str = "String";

    fn from_value(value: &Value, data_type: DataType) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Decimal(_) => Literal::of(value.clone(), data_type).to_text(),
            Value::Int32(code) if let DataType::Enum(labels) = data_type => {
                labels.label(*code).map(str::to_owned)
            }
            _ => None,
        }
    }
}

impl FromValue for Literal {
    const NAME: &'static str = "Literal";

    fn from_value(value: &Value, data_type: DataType) -> Option<Self> {
        Some(Self::of(value.clone(), data_type))
    }
}

impl FromValue for NaiveDate {
    const NAME: &'static str = "NaiveDate";

    fn from_value(value: &Value, _: DataType) -> Option<Self> {
        let Value::Date(days) = value else { return None };
        Self::default().checked_add_signed(TimeDelta::try_days((*days).into())?)
    }
}

impl FromValue for NaiveDateTime {
    const NAME: &'static str = "NaiveDateTime";

    fn from_value(value: &Value, _: DataType) -> Option<Self> {
        let Value::Timestamp(micros) = value else { return None };
        Self::default().checked_add_signed(TimeDelta::microseconds(*micros))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_value(value: &Value, data_type: DataType) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value, data_type).map(Some),
        }
    }
}

impl From<NaiveDate> for Literal {
    /// Days that an `i32` cannot count do not exist in the calendar of [`NaiveDate`].
    fn from(date: NaiveDate) -> Self {
        Self::Date((date - NaiveDate::default()).num_days() as i32)
    }
}

impl From<NaiveDateTime> for Literal {
    /// What is finer than a microsecond is a text, which a column refuses.
    fn from(moment: NaiveDateTime) -> Self {
        let since = moment - NaiveDateTime::default();
        match since.num_microseconds() {
            Some(micros) if since == TimeDelta::microseconds(micros) => Self::Timestamp(micros),
            _ => Self::Text(moment.format("%Y-%m-%d %H:%M:%S%.f").to_string()),
        }
    }
}

macro_rules! tuples {
    ($($count:literal: $($name:ident $at:tt)+;)*) => {$(
        impl<$($name: Into<Literal>),+> Params for ($($name,)+) {
            fn lend<R>(self, run: impl FnOnce(&[Literal]) -> R) -> R {
                run(&[$(self.$at.into()),+])
            }
        }

        impl<$($name: FromValue),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row<'_>) -> Result<Self, SqlError> {
                if row.width() != $count {
                    let message = format!(
                        "the result has {} columns, and {} are read", row.width(), $count
                    );
                    return Err(SqlError::new(SqlErrorKind::Type, message));
                }
                Ok(($(row.get::<$name>($at)?,)+))
            }
        }
    )*};
}
tuples!(
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    9: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    10: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    11: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    12: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
    13: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12;
    14: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13;
    15: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14;
    16: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15;
);
