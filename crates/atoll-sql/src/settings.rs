//! Settings of a session: the durability of its commits.
//!
//! ```text
//! SET [SESSION] durability = 'strict' | 'group' | 'group 5ms' | 'none' | DEFAULT
//! SET LOCAL durability = …         for the transaction that is open
//! RESET durability                 what the database was opened with
//! SHOW durability
//! ```
//!
//! As in PostgreSQL, a `SET` inside a transaction stays after its commit and is gone after its
//! rollback. PostgreSQL's `synchronous_commit` is another name: its values that wait for a log are
//! strict here, and `off` is group.

use atoll::Durability;
use sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, Spanned, Value, ValueWithSpan,
};

use crate::error::{SqlError, SqlErrorKind};
use crate::names;

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Durability,
    SynchronousCommit,
}

/// A durability that is chosen; `None` is the database's.
pub(crate) type Choice = Option<Durability>;

/// A parsed `SET` or `RESET`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) choice: Choice,
    /// For the transaction that is open.
    pub(crate) is_local: bool,
}

impl Setting {
    /// The setting of a name, if there is one.
    pub(crate) fn named(name: &[Ident]) -> Option<Self> {
        match name {
            [only] => match names::fold(only).as_str() {
                "durability" => Some(Self::Durability),
                "synchronous_commit" => Some(Self::SynchronousCommit),
                _ => None,
            },
            _ => None,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Durability => "durability",
            Self::SynchronousCommit => "synchronous_commit",
        }
    }

    /// As it is shown, of a database that has no logs if there is no durability.
    pub(crate) fn show(self, durability: Choice) -> String {
        match (self, durability.unwrap_or(Durability::None)) {
            (Self::Durability, durability) => durability.to_string(),
            (Self::SynchronousCommit, Durability::Strict) => "on".to_owned(),
            (Self::SynchronousCommit, _) => "off".to_owned(),
        }
    }

    /// The meaning of a value; `default` is that of the database.
    fn read(self, value: &Expr, default: Choice) -> Result<Choice, SqlError> {
        let (text, is_word) = text(value)?;
        if is_word && text == "default" {
            return Ok(None);
        }
        let wrong = |message: String| SqlError::new(SqlErrorKind::Type, message);
        let wanted = match self {
            Self::Durability => {
                text.parse::<Durability>().map_err(|error| wrong(error.to_string()))?
            }
            Self::SynchronousCommit => match text.as_str() {
                "on" | "true" | "yes" | "1" | "local" | "remote_write" | "remote_apply" => {
                    Durability::Strict
                }
                // Where there is no log, nothing is lost by not waiting for it.
                "off" | "false" | "no" | "0" if default.is_none() => Durability::None,
                "off" | "false" | "no" | "0" => Durability::GROUP,
                _ => {
                    return Err(wrong(format!(
                        "\"{text}\" is no value of synchronous_commit; use on or off, or set \
                         durability to strict, group or none"
                    )));
                }
            },
        };
        if default.is_none() && wanted != Durability::None {
            let message = format!(
                "nothing can be {wanted} here: the database is in memory only and gone when its \
                 process ends"
            );
            return Err(SqlError::unsupported(message)
                .with_hint(Some("keep it in a folder: atoll sql NAME --data DIR".to_owned())));
        }
        Ok(Some(wanted))
    }
}

/// A value in lower case, and whether it was a word without quotes.
fn text(value: &Expr) -> Result<(String, bool), SqlError> {
    match value {
        Expr::Identifier(ident) => Ok((names::fold(ident), ident.quote_style.is_none())),
        Expr::Value(ValueWithSpan { value, .. }) => match value {
            Value::SingleQuotedString(text) => Ok((text.trim().to_lowercase(), false)),
            Value::Number(number, _) => Ok((number.clone(), false)),
            Value::Boolean(is_on) => Ok((is_on.to_string(), false)),
            other => Err(no_value(&other.to_string())),
        },
        other => Err(no_value(&other.to_string())),
    }
}

fn no_value(text: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Syntax, format!("{text} is no value of a setting; quote a text"))
}

/// Parses a `SET`.
///
/// # Errors
/// Anything but one setting that there is, and a value that it cannot have.
pub(crate) fn assignment(set: &Set, default: Choice) -> Result<Assignment, SqlError> {
    let Set::SingleAssignment { scope, hivevar: false, variable, values } = set else {
        return Err(unknown(&set.to_string()));
    };
    let is_local = match scope {
        None | Some(ContextModifier::Session) => false,
        Some(ContextModifier::Local) => true,
        Some(ContextModifier::Global) => return Err(unknown("SET GLOBAL")),
    };
    let setting = of_name(variable).ok_or_else(|| unknown(&format!("SET {variable}")))?;
    let [value] = values.as_slice() else {
        let message = format!("{} has one value", setting.name());
        return Err(SqlError::new(SqlErrorKind::Syntax, message));
    };
    let choice = setting.read(value, default).map_err(|error| error.at(value.span()))?;
    Ok(Assignment { choice, is_local })
}

/// Parses a `RESET`.
///
/// # Errors
/// A setting that there is not.
pub(crate) fn reset(reset: &Reset) -> Result<Assignment, SqlError> {
    match reset {
        Reset::ALL => {}
        Reset::ConfigurationParameter(name) if of_name(name).is_some() => {}
        Reset::ConfigurationParameter(name) => return Err(unknown(&format!("RESET {name}"))),
    }
    Ok(Assignment { choice: None, is_local: false })
}

fn of_name(name: &ObjectName) -> Option<Setting> {
    let name: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
    Setting::named(&name?)
}

fn unknown(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} is not supported"))
        .with_hint(Some("the settings are durability and synchronous_commit".to_owned()))
}

/// The choices of a session.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    session: Choice,
    /// Inside the open transaction: the session's, once that has committed.
    pending: Option<Choice>,
    /// For the open transaction.
    local: Option<Choice>,
}

impl Chosen {
    /// The current choice.
    pub(crate) fn now(&self) -> Choice {
        self.local.or(self.pending).unwrap_or(self.session)
    }

    /// Something is set; an open transaction may be rolled back.
    pub(crate) fn set(&mut self, assignment: Assignment, in_transaction: bool) {
        let Assignment { choice, is_local } = assignment;
        match (in_transaction, is_local) {
            (true, true) => self.local = Some(choice),
            (true, false) => (self.pending, self.local) = (Some(choice), None),
            (false, _) => self.session = choice,
        }
    }

    /// The open transaction has ended.
    pub(crate) fn end(&mut self, committed: bool) {
        self.local = None;
        if let Some(choice) = self.pending.take().filter(|_| committed) {
            self.session = choice;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use sqlparser::ast::Statement;

    use super::*;

    fn of(sql: &str) -> Result<Assignment, SqlError> {
        match crate::parse::one(sql)? {
            Statement::Set(set) => assignment(&set, Some(Durability::Strict)),
            Statement::Reset(statement) => reset(&statement.reset),
            other => panic!("{other} sets nothing"),
        }
    }

    #[test]
    fn durabilities_are_read_however_they_are_written() {
        let group = |millis| Some(Durability::Group(Duration::from_millis(millis)));
        for (value, wanted) in [
            ("'strict'", Some(Durability::Strict)),
            ("strict", Some(Durability::Strict)),
            ("' Strict '", Some(Durability::Strict)),
            ("none", Some(Durability::None)),
            ("'group 5ms'", group(5)),
            ("'group:5'", group(5)),
            ("'GROUP 5MS'", group(5)),
            ("DEFAULT", None),
        ] {
            for (what, is_local) in [("", false), ("SESSION ", false), ("LOCAL ", true)] {
                for sign in ["=", "TO"] {
                    let sql = format!("SET {what}Durability {sign} {value}");
                    let wanted = Assignment { choice: wanted, is_local };
                    assert_eq!(of(&sql), Ok(wanted), "{sql}");
                }
            }
        }
        assert_eq!(of("SET durability = group").unwrap().choice, group(10));
        for sql in ["RESET durability", "RESET ALL", "RESET synchronous_commit"] {
            assert_eq!(of(sql), Ok(Assignment { choice: None, is_local: false }), "{sql}");
        }
    }

    #[test]
    fn the_name_that_postgresql_has_is_understood() {
        for (values, wanted) in [
            ("on true 'on' 1 local remote_apply", Durability::Strict),
            ("off false 'off' 0", Durability::GROUP),
        ] {
            for value in values.split(' ') {
                let sql = format!("SET synchronous_commit = {value}");
                assert_eq!(of(&sql).unwrap().choice, Some(wanted), "{sql}");
            }
        }
        let error = of("SET synchronous_commit = sometimes").unwrap_err();
        assert!(error.message().contains("use on or off"), "{error}");
    }

    #[test]
    fn what_is_no_durability_is_answered_with_those_that_there_are() {
        let error = of("SET durability = 'sometimes'").unwrap_err();
        assert_eq!((error.kind(), error.position()), (SqlErrorKind::Type, Some((1, 18))));
        for word in ["\"sometimes\"", "strict", "group:N", "none"] {
            assert!(error.message().contains(word), "{error}");
        }
        // Quoted, it is a word of no meaning.
        assert_eq!(of("SET durability = 'default'").unwrap_err().kind(), SqlErrorKind::Type);
        for sql in ["SET durability = 'none', 'strict'", "SET durability = 1 + 1"] {
            assert_eq!(of(sql).unwrap_err().kind(), SqlErrorKind::Syntax, "{sql}");
        }
        for sql in ["SET work_mem = 1", "SET TIME ZONE 'UTC'", "RESET work_mem", "SET a.b = 1"] {
            assert_eq!(of(sql).unwrap_err().kind(), SqlErrorKind::Unsupported, "{sql}");
        }
    }

    #[test]
    fn what_is_set_in_a_transaction_stays_if_that_commits() {
        let said = |choice, is_local| Assignment { choice: Some(choice), is_local };
        let (strict, none) = (Durability::Strict, Durability::None);
        for committed in [true, false] {
            let mut chosen = Chosen::default();
            chosen.set(said(strict, false), false);
            chosen.set(said(none, true), true);
            assert_eq!(chosen.now(), Some(none));
            chosen.end(committed);
            assert_eq!(chosen.now(), Some(strict));
            chosen.set(said(none, true), true);
            // The later one counts.
            chosen.set(Assignment { choice: None, is_local: false }, true);
            assert_eq!(chosen.now(), None);
            chosen.end(committed);
            assert_eq!(chosen.now(), if committed { None } else { Some(strict) });
        }
    }
}
