//! Messages of errors in PostgreSQL's words, where programs tell errors by them. Databases that are
//! embedded keep their own words, which name the values too; those are the detail here.

use atoll_sql::{Cause, SqlError, SqlErrorKind};

use super::kind::Words;

/// The message of an error in a statement.
pub(super) fn message_of(error: &SqlError, sql: &str) -> String {
    let own = of_constraint(error).or_else(|| of_name(error, sql)).or_else(|| of_end(error));
    own.unwrap_or_else(|| error.message().into())
}

/// The message about a statement that was ended.
fn of_end(error: &SqlError) -> Option<String> {
    let why = match (error.sqlstate(), error.message()) {
        ("57014", message) if message.contains("statement_timeout") => "statement timeout",
        ("57014", message) if message.contains("was cancelled") => "user request",
        ("55P03", message) if message.contains("lock_timeout") => "lock timeout",
        _ => return None,
    };
    Some(format!("canceling statement due to {why}"))
}

/// The message about a constraint that a row would break.
fn of_constraint(error: &SqlError) -> Option<String> {
    let about = error.about()?;
    let (table, constraint) = (about.table.as_deref(), about.constraint.as_deref());
    Some(match error.cause()? {
        Cause::DuplicateKey => {
            format!("duplicate key value violates unique constraint \"{}\"", constraint?)
        }
        Cause::CheckViolation => format!(
            "new row for relation \"{}\" violates check constraint \"{}\"",
            table?, constraint?
        ),
        Cause::NullValue => format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            about.column.as_deref()?,
            table?
        ),
        _ => return None,
    })
}

/// The message about a relation that is not there, or is there already.
fn of_name(error: &SqlError, sql: &str) -> Option<String> {
    let behind = error.message().strip_prefix("table \"")?;
    // The name may have quotes in it, and nothing follows.
    let says = |end: &str| behind.strip_suffix(end).map(str::to_owned);
    if error.cause() == Some(Cause::TableExists) {
        return says("\" exists already").map(|name| format!("relation \"{name}\" already exists"));
    }
    let drops = || Words(sql).next().is_some_and(|verb| verb.eq_ignore_ascii_case("drop"));
    if error.kind() == SqlErrorKind::UnknownTable && !drops() {
        return says("\" does not exist").map(|name| format!("relation \"{name}\" does not exist"));
    }
    None
}

/// The place in the data of a `COPY` that a message begins with, as PostgreSQL shows it, and the
/// message behind it: `line 3, column "a": no` has `line 3, column a` and `no`.
pub(super) fn place_in_data(message: &str) -> Option<(String, &str)> {
    let behind = message.strip_prefix("line ")?;
    let end = behind.find(|c: char| !c.is_ascii_digit())?;
    let (line, rest) = behind.split_at(end);
    if let Some(rest) = rest.strip_prefix(": ") {
        return Some((format!("line {line}"), rest));
    }
    let (column, rest) = rest.strip_prefix(", column \"")?.split_once("\": ")?;
    Some((format!("line {line}, column {column}"), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_data_are_taken_from_messages() {
        let place =
            |message| place_in_data(message).map(|(place, rest)| format!("{place} | {rest}"));
        for (message, wanted) in [
            ("line 3: no", Some("line 3 | no")),
            ("line 12, column \"a b\": no: x", Some("line 12, column a b | no: x")),
            ("line 3, column \"a\" must not be NULL", None),
            ("the line 3: no", None),
        ] {
            assert_eq!(place(message).as_deref(), wanted);
        }
    }
}
