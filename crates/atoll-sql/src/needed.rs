//! The error of something that cannot be dropped because other objects depend on it.

use crate::error::{Cause, SqlError, SqlErrorKind};

/// The error for an object, or for several without a common name, because of what these lines tell.
pub(crate) fn cannot_drop(object: Option<&str>, lines: &[String]) -> SqlError {
    let message = match object {
        Some(object) => format!("cannot drop {object} because other objects depend on it"),
        None => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    SqlError::new(SqlErrorKind::Schema, message)
        .with_cause(Cause::Needed)
        .with_detail(lines.join("\n"))
        .with_hint(Some("Use DROP ... CASCADE to drop the dependent objects too.".to_owned()))
}
