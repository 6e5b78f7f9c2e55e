//! The SQLSTATE of each error: five characters that PostgreSQL's clients know.

use crate::error::{Cause, SqlError, SqlErrorKind};

impl SqlError {
    /// Its SQLSTATE, as PostgreSQL has it (appendix A of its manual) where it has the same error.
    pub fn sqlstate(&self) -> &'static str {
        if let Some(state) = self.state() {
            return state;
        }
        if let Some(state) = self.cause().and_then(of_cause) {
            return state;
        }
        match self.kind() {
            SqlErrorKind::Syntax => "42601",
            SqlErrorKind::UnknownTable => "42P01",
            SqlErrorKind::UnknownColumn => "42703",
            SqlErrorKind::UnknownTablespace => "42704",
            // What computes values has its messages from two lists (`text`, `rules::scalar`).
            SqlErrorKind::Type if let Some(state) = of_moment(self.message()) => state,
            SqlErrorKind::Type if self.message().contains("out of range") => "22003",
            SqlErrorKind::Type if self.message().contains("invalid hexadecimal") => "22023",
            SqlErrorKind::Type if self.message().contains("more digits than") => "22003",
            SqlErrorKind::Type if self.message().contains("value too long for type") => "22001",
            SqlErrorKind::Type => "22P02",
            SqlErrorKind::Constraint => "23000",
            SqlErrorKind::Schema => "42P16",
            SqlErrorKind::ReadOnly => "25006",
            SqlErrorKind::Unsupported => "0A000",
            SqlErrorKind::Aborted => "40001",
            SqlErrorKind::Expired => "72000",
            SqlErrorKind::ForkedChild => "55000",
            SqlErrorKind::Input => "58030",
            SqlErrorKind::Query => "42000",
            SqlErrorKind::OutOfMemory => "53200",
            SqlErrorKind::Cancelled => "57014",
            SqlErrorKind::Database => "58000",
        }
    }
}

/// The state of a text that is no date or time: it has another form, or fields out of range.
fn of_moment(message: &str) -> Option<&'static str> {
    const OUT_OF_RANGE: &str = "22008";
    if ["out of range for a time", "the timestamp is out of range", "the date is out of range"]
        .iter()
        .any(|said| message.contains(said))
    {
        return Some(OUT_OF_RANGE);
    }
    if message.contains("invalid input syntax for type interval") {
        return Some("22007");
    }
    if message.contains("interval field value out of range") {
        return Some("22015");
    }
    if message.contains("interval out of range") {
        return Some(OUT_OF_RANGE);
    }
    if message.contains("unsupported Unicode escape sequence") {
        return Some("22P05");
    }
    if message.contains("value overflows numeric format") {
        return Some("22003");
    }
    if message.contains("has a time zone that is not known") {
        return Some("22023");
    }
    let at = ["\" is not a date", "\" is not a time"].iter().find_map(|said| message.find(said))?;
    let text = message[..at].rsplit('"').next()?.trim();
    let is_date =
        text.bytes().take(5).map(|byte| byte.is_ascii_digit()).eq([true, true, true, true, false]);
    Some(if is_date { OUT_OF_RANGE } else { "22007" })
}

fn of_cause(cause: Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::DuplicateKey => "23505",
        Cause::NullValue => "23502",
        Cause::TableExists => "42P07",
        Cause::ConstraintExists => "42710",
        Cause::ColumnExists => "42701",
        Cause::Needed => "2BP01",
        Cause::UnknownObject => "42704",
        Cause::Grouping => "42803",
        Cause::CheckViolation => "23514",
        Cause::ForeignKeyViolation => "23503",
        Cause::InvalidForeignKey => "42830",
        Cause::OtherObject => "42809",
        Cause::GeneratedColumn => "428C9",
        Cause::InvalidDefinition => "42P17",
        Cause::InvalidReference => "42P10",
        Cause::PendingChecks => "55006",
        Cause::TableChanged => "55000",
        Cause::DivisionByZero => "22012",
        Cause::SecondRow => "21000",
        Cause::Deadlock => "40P01",
        Cause::LockNotAvailable => "55P03",
        Cause::IdleTimeout => "25P03",
        Cause::FailedTransaction => "25P02",
        Cause::NoTransaction => "25P01",
        Cause::OpenTransaction => "25001",
        Cause::UnknownSavepoint => "3B001",
        Cause::UnknownPrepared => "26000",
        Cause::PreparedExists => "42P05",
        Cause::TooComplex => "54001",
        Cause::NoSuchOperator => "42883",
        Cause::OtherType => "42804",
        Cause::InvalidName => "42602",
        Cause::LongName => "42622",
        Cause::ParameterCount => "08P01",
        Cause::UnknownParameter => "42P02",
        Cause::InvalidParameter => "22023",
        Cause::FineTimestamp => return None,
    })
}
