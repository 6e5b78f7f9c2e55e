//! Errors of statements as reports to a client.

use atoll_sql::SqlError;

use super::words::{message_of, place_in_data};
use crate::wire::out::Report;

/// A report of the server itself.
pub(crate) fn report(state: &'static str, message: impl Into<String>) -> Report {
    Report { state, message: message.into(), ..Report::default() }
}

/// The report of an error in a statement, which begins behind so many characters of what was sent.
pub(crate) fn of_error(error: &SqlError, sql: &str, before: usize) -> Report {
    Report {
        state: error.sqlstate(),
        message: message_of(error, sql),
        detail: error.detail().map(Into::into),
        hint: error.hint().map(str::to_owned),
        context: None,
        position: error.position().map(|(line, column)| before + character(sql, line, column)),
        about: error.about().cloned().map(Box::new),
    }
}

/// The report of an error in the data of a `COPY` into a table.
pub(super) fn of_copy_error(error: &SqlError, table: &str, sql: &str, before: usize) -> Report {
    let report = of_error(error, sql, before);
    let Some((place, message)) = place_in_data(error.message()) else { return report };
    // Of what has a message of PostgreSQL's own the place is no part.
    let is_own = report.message == error.message();
    let message = if is_own { message.to_owned() } else { report.message };
    Report { message, context: Some(format!("COPY {table}, {place}").into()), ..report }
}

/// The number of the character at a line and a column, all from 1.
fn character(sql: &str, line: u64, column: u64) -> usize {
    let lines = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    let before: usize =
        sql.split_inclusive('\n').take(lines).map(|line| line.chars().count()).sum();
    before + usize::try_from(column).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_the_start() {
        assert_eq!(character("sélect\n ä, b", 2, 2), 9);
        assert_eq!(character("x", 1, 1), 1);
    }
}
