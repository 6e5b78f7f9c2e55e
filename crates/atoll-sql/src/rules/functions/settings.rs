//! `current_setting` and `set_config`, for the session of the running statement (`CONTEXT-1`).

use std::sync::Arc;

use super::kind::Kind::{Bool, Text};
use super::{Function, Gives, Nulls, Overload, Run, refused, strict};
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::sequence::context::{self, Context};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "current_setting",
        overloads: &[strict(&[Text], Text, current), strict(&[Text, Bool], Text, current)],
    },
    Function {
        name: "set_config",
        overloads: &[Overload {
            takes: &[Text, Text, Bool],
            rest: None,
            gives: Gives::Kind(Text),
            nulls: Nulls::See,
            run: Run::Rows(set),
        }],
    },
];

/// Whether a function is one of these.
pub(super) fn has(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

fn context() -> Result<Arc<Context>, SqlError> {
    context::current().ok_or_else(|| {
        let message = "a setting can be read only by a statement of a session";
        SqlError::new(SqlErrorKind::Unsupported, message)
    })
}

fn current(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let Some(Literal::Text(name)) = arguments.first() else { return Ok(Literal::Null) };
    let missing_ok = matches!(arguments.get(1), Some(Literal::Bool(true)));
    let context = context()?;
    match context.settings.show(name, context.modes()) {
        Ok(shown) => Ok(Literal::Text(shown)),
        Err(_) if missing_ok => Ok(Literal::Null),
        Err(error) => Err(error),
    }
}

fn set(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let [name, value, is_local] = arguments else { return Ok(Literal::Null) };
    let Literal::Text(name) = name else {
        return Err(refused("22004", "SET requires parameter name"));
    };
    let value = match value {
        Literal::Text(value) => Some(value.as_str()),
        _ => None,
    };
    let is_local = matches!(is_local, Literal::Bool(true));
    let context = context()?;
    context.settings.set(name, value, is_local, context.modes()).map(Literal::Text)
}
