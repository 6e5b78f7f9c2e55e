//! The functions that ask sequences. They are for the session of the running statement
//! (`CONTEXT-1`), and give another value for each row.

use std::sync::Arc;

use super::kind::Kind::{Bool, Int64, Text};
use super::{Function, Gives, Nulls, Overload, Run, strict};
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::sequence::context::{self, Context};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "nextval", overloads: &[strict(&[Text], Int64, next)] },
    Function { name: "currval", overloads: &[strict(&[Text], Int64, current)] },
    Function {
        name: "setval",
        overloads: &[strict(&[Text, Int64], Int64, set), strict(&[Text, Int64, Bool], Int64, set)],
    },
    Function {
        name: "lastval",
        overloads: &[Overload {
            takes: &[],
            rest: None,
            gives: Gives::Kind(Int64),
            nulls: Nulls::See,
            run: Run::Rows(last),
        }],
    },
    // What a sequence is as a relation.
    Function { name: "pg_sequence_state_value", overloads: &[strict(&[Text], Int64, state_value)] },
    Function {
        name: "pg_sequence_state_called",
        overloads: &[strict(&[Text], Bool, state_called)],
    },
];

/// Whether a function is one of these.
pub(super) fn has(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

fn context() -> Result<Arc<Context>, SqlError> {
    context::current().ok_or_else(|| {
        let message = "a sequence can be asked only by a statement of a session";
        SqlError::new(SqlErrorKind::Unsupported, message)
    })
}

fn name(arguments: &[Literal]) -> Result<&str, SqlError> {
    match arguments.first() {
        Some(Literal::Text(name)) => Ok(name),
        _ => Err(SqlError::new(SqlErrorKind::Type, "the name of a sequence is a text")),
    }
}

fn next(arguments: &[Literal]) -> Result<Literal, SqlError> {
    context()?.next_value(name(arguments)?).map(|value| Literal::Integer(value.into()))
}

fn current(arguments: &[Literal]) -> Result<Literal, SqlError> {
    context()?.current_value(name(arguments)?).map(|value| Literal::Integer(value.into()))
}

fn last(_: &[Literal]) -> Result<Literal, SqlError> {
    context()?.last_value().map(|value| Literal::Integer(value.into()))
}

fn state_value(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let (value, _) = context()?.state(name(arguments)?)?;
    Ok(Literal::Integer(value.into()))
}

fn state_called(arguments: &[Literal]) -> Result<Literal, SqlError> {
    context()?.state(name(arguments)?).map(|(_, called)| Literal::Bool(called))
}

fn set(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let value = match arguments.get(1) {
        Some(Literal::Integer(value)) => i64::try_from(*value).ok(),
        _ => None,
    };
    let value = value
        .ok_or_else(|| SqlError::new(SqlErrorKind::Type, "the value of a sequence is a bigint"))?;
    let called = !matches!(arguments.get(2), Some(Literal::Bool(false)));
    context()?.set_value(name(arguments)?, value, called)?;
    Ok(Literal::Integer(value.into()))
}
