//! Settings of a session: the durability of its commits, and limits of time.
//!
//! ```text
//! SET [SESSION] durability = 'strict' | 'group' | 'group 5ms' | 'none' | DEFAULT
//! SET lock_timeout = 500 | '2s' | …          a wait for another transaction; 0 is no limit
//! SET statement_timeout = …                  a statement
//! SET idle_in_transaction_session_timeout = …  between two statements of a transaction
//! SET LOCAL …                                for the transaction that is open
//! RESET durability | ALL                     what the database was opened with; no limits
//! SET TIME ZONE 'Europe/Berlin'             in which local times are read and instants written
//! SET search_path TO a, public               where names without a schema are looked up
//! SET application_name = '…'                 what the client calls itself
//! SET client_min_messages = 'warning'       what is told besides errors
//! SET default_transaction_isolation = '…'    modes of transactions (`isolation`)
//! SET app.user = 'ann'                       a name with a point: what the program likes
//! SHOW durability
//! ```
//!
//! As in PostgreSQL, a `SET` inside a transaction stays after its commit and is gone after its
//! rollback, and a time without a unit is in milliseconds. PostgreSQL's `synchronous_commit` is
//! another name of the durability: its values that wait for a log are strict here, and `off` is
//! group.

use std::sync::Arc;

use atoll::Durability;
use sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, Spanned, UnaryOperator, Value,
    ValueWithSpan,
};

use crate::custom_settings;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::fixed_settings::Fixed;
use crate::isolation::{Isolation, Modes};
use crate::names;
use crate::notice::MinMessages;
use crate::search_path::SearchPath;
use crate::setting_time;
pub(crate) use crate::setting_values::{Assignment, Changed, Choice, Limit, Values};
use crate::setting_values::{on_or_off, truth};
use crate::zone::Zone;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Durability,
    SynchronousCommit,
    TimeZone,
    SearchPath,
    ApplicationName,
    /// What is told of statements that succeed.
    MinMessages,
    /// The modes of the transactions that follow.
    DefaultIsolation,
    DefaultReadOnly,
    /// Those of the open one.
    Isolation,
    ReadOnly,
    Limit(Limit),
    Fixed(Fixed),
    /// One of the program's own, by its name in lower case.
    Custom(Arc<str>),
}

impl Setting {
    /// The names of all settings.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let own = [
            "durability",
            "synchronous_commit",
            "TimeZone",
            "search_path",
            "application_name",
            "client_min_messages",
            "default_transaction_isolation",
            "default_transaction_read_only",
            "transaction_isolation",
            "transaction_read_only",
            "lock_timeout",
            "statement_timeout",
            "idle_in_transaction_session_timeout",
        ];
        own.into_iter().chain(Fixed::names())
    }

    /// The setting of a name, if there is one.
    pub(crate) fn named(name: &[Ident]) -> Option<Self> {
        match name {
            [only] => match names::fold(only).as_str() {
                "durability" => Some(Self::Durability),
                "synchronous_commit" => Some(Self::SynchronousCommit),
                "timezone" => Some(Self::TimeZone),
                "search_path" => Some(Self::SearchPath),
                "application_name" => Some(Self::ApplicationName),
                "client_min_messages" => Some(Self::MinMessages),
                "default_transaction_isolation" => Some(Self::DefaultIsolation),
                "default_transaction_read_only" => Some(Self::DefaultReadOnly),
                "transaction_isolation" => Some(Self::Isolation),
                "transaction_read_only" => Some(Self::ReadOnly),
                "lock_timeout" => Some(Self::Limit(Limit::Lock)),
                "statement_timeout" => Some(Self::Limit(Limit::Statement)),
                "idle_in_transaction_session_timeout" => Some(Self::Limit(Limit::Idle)),
                name => Fixed::named(name).map(Self::Fixed),
            },
            [time, zone] if names::fold(time) == "time" && names::fold(zone) == "zone" => {
                Some(Self::TimeZone)
            }
            [] => None,
            parts => Some(Self::Custom(custom_settings::joined(parts))),
        }
    }

    /// The setting of a name in a text, if there is one.
    pub(crate) fn of_text(name: &str) -> Option<Self> {
        let parts: Vec<Ident> = name.to_ascii_lowercase().split('.').map(Ident::new).collect();
        Self::named(&parts)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Durability => "durability",
            Self::SynchronousCommit => "synchronous_commit",
            // As PostgreSQL writes it.
            Self::TimeZone => "TimeZone",
            Self::SearchPath => "search_path",
            Self::ApplicationName => "application_name",
            Self::MinMessages => "client_min_messages",
            Self::DefaultIsolation => "default_transaction_isolation",
            Self::DefaultReadOnly => "default_transaction_read_only",
            Self::Isolation => "transaction_isolation",
            Self::ReadOnly => "transaction_read_only",
            Self::Fixed(fixed) => fixed.name,
            Self::Limit(Limit::Lock) => "lock_timeout",
            Self::Limit(Limit::Statement) => "statement_timeout",
            Self::Limit(Limit::Idle) => "idle_in_transaction_session_timeout",
            Self::Custom(name) => name,
        }
    }

    /// As it is shown, of a database that has no logs if there is no `default` durability.
    pub(crate) fn show(&self, values: &Values, default: Choice) -> String {
        let durability = values.durability.or(default).unwrap_or(Durability::None);
        match (self, durability) {
            (Self::Durability, durability) => durability.to_string(),
            (Self::SynchronousCommit, Durability::Strict) => "on".to_owned(),
            (Self::SynchronousCommit, _) => "off".to_owned(),
            (Self::TimeZone, _) => values.zone.to_string(),
            (Self::Fixed(fixed), _) => fixed.shown.to_owned(),
            (Self::SearchPath, _) => values.search_path().text().to_owned(),
            (Self::ApplicationName, _) => values.application.as_deref().unwrap_or("").to_owned(),
            (Self::MinMessages, _) => values.messages.name().to_owned(),
            // What a scheme gives and what is open, `ShownModes` tells.
            (Self::DefaultIsolation | Self::Isolation, _) => values.isolation.name().to_owned(),
            (Self::DefaultReadOnly | Self::ReadOnly, _) => on_or_off(values.read_only).to_owned(),
            (Self::Limit(limit), _) => setting_time::show(*values.clone().limit(*limit)),
            (Self::Custom(name), _) => values.customs.get(name).unwrap_or("").to_owned(),
        }
    }

    /// What a value sets; `default` is the durability of the database.
    pub(crate) fn read(&self, value: &Expr, default: Choice) -> Result<Changed, SqlError> {
        let (text, is_word) = text(value)?;
        if is_word && text == "default" {
            return Ok(self.reset());
        }
        let wrong = |message: String| SqlError::new(SqlErrorKind::Type, message);
        let wanted = match self {
            Self::TimeZone if is_word && text == "local" => return Ok(self.reset()),
            Self::TimeZone => {
                return Zone::specified(&text).map(Changed::Zone).ok_or_else(|| {
                    wrong(format!(
                        "\"{text}\" is no value of TimeZone; name one such as Europe/Berlin"
                    ))
                    .with_cause(Cause::InvalidParameter)
                });
            }
            Self::Fixed(fixed) => return fixed.check(&text).map(|()| Changed::Nothing),
            Self::ApplicationName => {
                let name = as_written(value).unwrap_or(text);
                return Ok(Changed::Application(Some(printable(&name).into())));
            }
            Self::SearchPath => {
                let path = SearchPath::of_values(std::slice::from_ref(value))?;
                return Ok(Changed::Path(Some(Arc::new(path))));
            }
            Self::MinMessages => {
                let messages = MinMessages::named(&text);
                return messages
                    .map(Changed::Messages)
                    .ok_or_else(|| invalid(self.name(), value, &text, &MinMessages::NAMES));
            }
            Self::DefaultIsolation | Self::Isolation => {
                let level = Isolation::named(&text)
                    .ok_or_else(|| invalid(self.name(), value, &text, &Isolation::NAMES))?;
                let modes = Modes { isolation: Some(level), read_only: None };
                return Ok(self.modes(modes));
            }
            Self::DefaultReadOnly | Self::ReadOnly => {
                let read_only = truth(&text).ok_or_else(|| {
                    let name = self.name();
                    wrong(format!("parameter \"{name}\" requires a Boolean value"))
                        .with_cause(Cause::InvalidParameter)
                })?;
                return Ok(self.modes(Modes { isolation: None, read_only: Some(read_only) }));
            }
            Self::Custom(name) => {
                custom_settings::check(name)?;
                let value = as_written(value).unwrap_or(text);
                return Ok(Changed::Custom(Arc::clone(name), Some(value.into())));
            }
            Self::Limit(limit) => {
                let time = setting_time::read(self.name(), &text)?;
                return Ok(Changed::Limit(*limit, time));
            }
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
        Ok(Changed::Durability(Some(wanted)))
    }

    /// What modes change that this setting is given.
    fn modes(&self, modes: Modes) -> Changed {
        match self {
            Self::Isolation | Self::ReadOnly => Changed::OpenModes(modes),
            _ => Changed::Modes(modes),
        }
    }

    /// As it is shown when something has been changed.
    pub(crate) fn shown_after(
        &self,
        changed: &Changed,
        values: &Values,
        default: Choice,
    ) -> String {
        let said = match changed {
            Changed::OpenModes(modes) => match self {
                Self::Isolation => modes.isolation.map(Isolation::name),
                _ => modes.read_only.map(on_or_off),
            },
            _ => None,
        };
        said.map_or_else(|| self.show(values, default), str::to_owned)
    }

    fn reset(&self) -> Changed {
        match self {
            Self::MinMessages => Changed::Messages(MinMessages::default()),
            Self::DefaultIsolation => {
                let isolation = Some(Isolation::default());
                Changed::Modes(Modes { isolation, read_only: None })
            }
            Self::DefaultReadOnly => {
                Changed::Modes(Modes { isolation: None, read_only: Some(false) })
            }
            Self::Isolation | Self::ReadOnly => Changed::OpenModes(Modes::default()),
            Self::Limit(limit) => Changed::Limit(*limit, None),
            Self::Custom(name) => Changed::Custom(Arc::clone(name), None),
            Self::TimeZone => Changed::Zone(Zone::default()),
            Self::SearchPath => Changed::Path(None),
            Self::ApplicationName => Changed::Application(None),
            Self::Fixed(_) => Changed::Nothing,
            _ => Changed::Durability(None),
        }
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
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            text(expr).map(|(number, _)| (format!("-{number}"), false))
        }
        other => Err(no_value(&other.to_string())),
    }
}

/// The text of a string, as it was written.
fn as_written(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Some(text.clone())
        }
        _ => None,
    }
}

/// The error for a value that is none of a list.
fn invalid(name: &str, value: &Expr, text: &str, all: &[&str]) -> SqlError {
    let text = as_written(value).unwrap_or_else(|| text.to_owned());
    let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
    SqlError::new(SqlErrorKind::Type, message)
        .with_cause(Cause::InvalidParameter)
        .with_hint(Some(format!("Available values: {}.", all.join(", "))))
}

/// A name of 63 bytes at most in printable ASCII, as PostgreSQL keeps it.
fn printable(name: &str) -> String {
    let kept = name.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' });
    kept.take(63).collect()
}

fn no_value(text: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Syntax, format!("{text} is no value of a setting; quote a text"))
}

/// Parses a `SET`.
///
/// # Errors
/// Anything but one setting that there is, and a value that it cannot have.
pub(crate) fn assignment(set: &Set, default: Choice) -> Result<Assignment, SqlError> {
    if let Set::SetTimeZone { local, value } = set {
        let changed = Setting::TimeZone.read(value, default);
        let changed = changed.map_err(|error| error.at(value.span()))?;
        return Ok(Assignment { changed, is_local: *local });
    }
    let Set::SingleAssignment { scope, hivevar: false, variable, values } = set else {
        return Err(unknown(&set.to_string()));
    };
    let is_local = match scope {
        None | Some(ContextModifier::Session) => false,
        Some(ContextModifier::Local) => true,
        Some(ContextModifier::Global) => return Err(unknown("SET GLOBAL")),
    };
    let setting = of_name(variable).ok_or_else(|| no_setting(&variable.to_string()))?;
    if setting == Setting::SearchPath && values.len() > 1 {
        let path = SearchPath::of_values(values)?;
        return Ok(Assignment { changed: Changed::Path(Some(Arc::new(path))), is_local });
    }
    let [value] = values.as_slice() else {
        let message = format!("{} has one value", setting.name());
        return Err(SqlError::new(SqlErrorKind::Syntax, message));
    };
    let changed = setting.read(value, default).map_err(|error| error.at(value.span()))?;
    Ok(Assignment { changed, is_local })
}

/// Parses a `RESET`.
///
/// # Errors
/// A setting that there is not.
pub(crate) fn reset(reset: &Reset) -> Result<Assignment, SqlError> {
    let changed = match reset {
        Reset::ALL => Changed::All,
        Reset::ConfigurationParameter(name) => match of_name(name) {
            Some(setting) => setting.reset(),
            None => return Err(no_setting(&name.to_string())),
        },
    };
    Ok(Assignment { changed, is_local: false })
}

fn of_name(name: &ObjectName) -> Option<Setting> {
    let name: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
    Setting::named(&name?)
}

fn unknown(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} is not supported")).with_hint(Some(hint()))
}

/// The error for a setting that does not exist.
pub(crate) fn no_setting(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{}\"", name.to_lowercase());
    SqlError::unsupported(message).with_state("42704").with_hint(Some(hint()))
}

fn hint() -> String {
    "the settings are durability, synchronous_commit, TimeZone, search_path, application_name, \
     client_min_messages, default_transaction_isolation, default_transaction_read_only, \
     lock_timeout, statement_timeout and idle_in_transaction_session_timeout; a name with a point, \
     such as app.user, is the program's own"
        .to_owned()
}

/// The settings of a session, through its transactions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    session: Values,
    /// Inside the open transaction: the session's, once that has committed.
    pending: Option<Values>,
    /// For the open transaction.
    local: Option<Values>,
    /// Something may have changed since [`Settings::take_changed`] was called.
    has_changed: bool,
    /// How often something may have changed.
    version: u64,
}

impl Settings {
    /// The current values.
    pub(crate) fn now(&self) -> &Values {
        self.local.as_ref().or(self.pending.as_ref()).unwrap_or(&self.session)
    }

    /// Whether something may have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Raised by each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn note_change(&mut self) {
        self.has_changed = true;
        self.version += 1;
    }

    /// The setting of a name, if it exists: one of a program's own once it has been set.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn existing(
        &self,
        setting: Option<Setting>,
        name: &str,
    ) -> Result<Setting, SqlError> {
        match setting {
            Some(Setting::Custom(custom)) if !self.now().customs.knows(&custom) => {
                Err(no_setting(name))
            }
            setting => setting.ok_or_else(|| no_setting(name)),
        }
    }

    /// Something is set; an open transaction may be rolled back.
    pub(crate) fn set(&mut self, assignment: Assignment, in_transaction: bool) {
        let Assignment { changed, is_local } = assignment;
        self.note_change();
        if let Changed::Custom(name, _) = &changed {
            // It is known from now on, also where the transaction is rolled back.
            for values in [Some(&mut self.session), self.pending.as_mut(), self.local.as_mut()] {
                values.into_iter().for_each(|values| values.customs.know(name));
            }
        }
        match (in_transaction, is_local) {
            (true, true) => {
                let now = self.now().clone();
                self.local.get_or_insert(now).change(changed);
            }
            (true, false) => {
                let session = self.session.clone();
                self.pending.get_or_insert(session).change(changed.clone());
                if let Some(local) = &mut self.local {
                    local.change(changed);
                }
            }
            (false, _) => self.session.change(changed),
        }
    }

    /// The open transaction has ended.
    pub(crate) fn end(&mut self, committed: bool) {
        if self.local.is_some() || self.pending.is_some() {
            self.note_change();
        }
        self.local = None;
        if let Some(values) = self.pending.take().filter(|_| committed) {
            self.session = values;
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
                    let changed = Changed::Durability(wanted);
                    assert_eq!(of(&sql), Ok(Assignment { changed, is_local }), "{sql}");
                }
            }
        }
        let changed = |sql: &str| of(sql).unwrap().changed;
        assert_eq!(changed("SET durability = group"), Changed::Durability(group(10)));
        for sql in ["RESET durability", "RESET synchronous_commit"] {
            assert_eq!(changed(sql), Changed::Durability(None), "{sql}");
        }
        assert_eq!(changed("RESET ALL"), Changed::All);
    }

    #[test]
    fn the_name_that_postgresql_has_is_understood() {
        for (values, wanted) in [
            ("on true 'on' 1 local remote_apply", Durability::Strict),
            ("off false 'off' 0", Durability::GROUP),
        ] {
            for value in values.split(' ') {
                let sql = format!("SET synchronous_commit = {value}");
                let wanted = Changed::Durability(Some(wanted));
                assert_eq!(of(&sql).unwrap().changed, wanted, "{sql}");
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
        for sql in ["SET work_mem = 1", "SET Fsync = off", "RESET work_mem"] {
            let error = of(sql).unwrap_err();
            assert_eq!((error.sqlstate(), error.position()), ("42704", None), "{sql}");
        }
        let error = of("SET Fsync = off").unwrap_err();
        assert_eq!(error.message(), "unrecognized configuration parameter \"fsync\"");
        let changed = Changed::Custom("app.user".into(), Some("Ann".into()));
        assert_eq!(of("SET App.User = 'Ann'").unwrap().changed, changed);
        assert_eq!(of("SET a.\"1\" = 1").unwrap_err().sqlstate(), "42602");
    }

    #[test]
    fn times_are_read_and_shown_with_their_units() {
        for (value, millis, shown) in [
            ("0", 0, "0"),
            ("250", 250, "250ms"),
            ("'250'", 250, "250ms"),
            ("'2s'", 2000, "2s"),
            ("' 2 S '", 2000, "2s"),
            ("'1.5s'", 1500, "1500ms"),
            ("'90s'", 90_000, "90s"),
            ("'5min'", 300_000, "5min"),
            ("'24h'", 86_400_000, "1d"),
            ("'1500us'", 2, "2ms"),
            ("DEFAULT", 0, "0"),
        ] {
            let time = Some(Duration::from_millis(millis)).filter(|time| !time.is_zero());
            for (name, limit) in [
                ("lock_timeout", Limit::Lock),
                ("statement_timeout", Limit::Statement),
                ("idle_in_transaction_session_timeout", Limit::Idle),
            ] {
                let sql = format!("SET {name} = {value}");
                assert_eq!(of(&sql).unwrap().changed, Changed::Limit(limit, time), "{sql}");
            }
            assert_eq!(setting_time::show(time), shown);
        }
        for value in ["'soon'", "'2 fortnights'", "-1", "'1e9d'", "'99999d'", "''"] {
            let error = of(&format!("SET lock_timeout = {value}")).unwrap_err();
            assert!(error.position().is_some() || value == "-1", "{value}: {error}");
        }
    }

    #[test]
    fn what_is_set_in_a_transaction_stays_if_that_commits() {
        let said = |choice, is_local| Assignment { changed: Changed::Durability(choice), is_local };
        let (strict, none) = (Some(Durability::Strict), Some(Durability::None));
        let second = Some(Duration::from_secs(1));
        for committed in [true, false] {
            let mut settings = Settings::default();
            settings.set(said(strict, false), false);
            settings.set(said(none, true), true);
            assert_eq!(settings.now().durability, none);
            settings.end(committed);
            assert_eq!(settings.now().durability, strict);
            settings.set(said(none, true), true);
            let changed = Changed::Limit(Limit::Lock, second);
            settings.set(Assignment { changed, is_local: false }, true);
            let wanted = Values { durability: none, lock: second, ..settings.now().clone() };
            assert_eq!(settings.now(), &wanted);
            // The later one counts.
            settings.set(said(None, false), true);
            assert_eq!(settings.now().durability, None);
            settings.end(committed);
            let wanted = if committed { (None, second) } else { (strict, None) };
            assert_eq!((settings.now().durability, settings.now().lock), wanted);
        }
    }
}
