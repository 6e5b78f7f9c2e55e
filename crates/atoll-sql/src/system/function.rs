//! What a function of the system is: its name, the type of its values, and what it does.

use arrow_schema::DataType as ArrowType;
use atoll::DataType;

use super::System;
use crate::error::SqlError;
use crate::literal::Literal;

pub(super) type Run = fn(&System, &[Literal]) -> std::result::Result<Literal, SqlError>;

/// The type of a value.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    Text,
    Number,
    Flag,
    Numbers,
    Instant,
}

impl Gives {
    pub(super) fn arrow(self) -> ArrowType {
        atoll::arrow_type(match self {
            Self::Text => DataType::Text,
            Self::Number => DataType::Int64,
            Self::Flag => DataType::Bool,
            Self::Instant => DataType::TimestampTz,
            Self::Numbers => DataType::Int64.array().unwrap_or(DataType::Int64),
        })
    }
}

/// A function: its name, the type of its values, and what it does.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) gives: Gives,
    pub(super) run: Run,
    /// Its value is not NULL where an argument is.
    pub(super) sees_null: bool,
    /// It does something: it runs once for each row, and only where the query runs.
    pub(super) acts: bool,
}

impl Definition {
    pub(super) const fn new(name: &'static str, gives: Gives, run: Run) -> Self {
        Self { name, gives, run, sees_null: false, acts: false }
    }

    /// One that does something.
    pub(super) const fn that_acts(self) -> Self {
        Self { acts: true, ..self }
    }

    /// One that has a value other than NULL where an argument is.
    pub(super) const fn that_sees_null(self) -> Self {
        Self { sees_null: true, ..self }
    }
}

/// A number among the arguments.
pub(super) fn whole(values: &[Literal], at: usize) -> Option<i64> {
    match values.get(at) {
        Some(Literal::Integer(value)) => i64::try_from(*value).ok(),
        Some(Literal::Text(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn oid(values: &[Literal], at: usize) -> Option<u32> {
    whole(values, at).and_then(|value| u32::try_from(value).ok())
}
