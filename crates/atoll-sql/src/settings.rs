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
//! SHOW durability
//! ```
//!
//! As in PostgreSQL, a `SET` inside a transaction stays after its commit and is gone after its
//! rollback, and a time without a unit is in milliseconds. PostgreSQL's `synchronous_commit` is
//! another name of the durability: its values that wait for a log are strict here, and `off` is
//! group.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use atoll::Durability;
use sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, Spanned, UnaryOperator, Value,
    ValueWithSpan,
};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::fixed_settings::Fixed;
use crate::names;
use crate::search_path::SearchPath;
use crate::zone::Zone;

/// Units of time, the longest first, with their microseconds.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// Longest limit, as in PostgreSQL.
const MILLIS_MAX: u64 = i32::MAX as u64;

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Durability,
    SynchronousCommit,
    TimeZone,
    SearchPath,
    ApplicationName,
    Limit(Limit),
    Fixed(Fixed),
}

/// Limits of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Lock,
    Statement,
    Idle,
}

/// A durability that is chosen; `None` is the database's.
pub(crate) type Choice = Option<Durability>;

/// What the settings of a session are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) durability: Choice,
    /// In which local times are read and instants written.
    pub(crate) zone: Zone,
    /// Where names are looked up; `None` for the usual path.
    pub(crate) path: Option<Arc<SearchPath>>,
    /// The name that the client gives itself.
    pub(crate) application: Option<Arc<str>>,
    /// Of a wait for another transaction.
    pub(crate) lock: Option<Duration>,
    /// Of a statement.
    pub(crate) statement: Option<Duration>,
    /// Between two statements of a transaction.
    pub(crate) idle: Option<Duration>,
}

/// What a `SET` or `RESET` changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Changed {
    Durability(Choice),
    Zone(Zone),
    Path(Option<Arc<SearchPath>>),
    Application(Option<Arc<str>>),
    Limit(Limit, Option<Duration>),
    /// The setting has one value.
    Nothing,
    /// Everything has its default again.
    All,
}

/// A parsed `SET` or `RESET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) changed: Changed,
    /// For the transaction that is open.
    pub(crate) is_local: bool,
}

impl Values {
    /// Where names are looked up.
    pub(crate) fn search_path(&self) -> &SearchPath {
        static USUAL: LazyLock<SearchPath> = LazyLock::new(SearchPath::default);
        self.path.as_deref().unwrap_or(&USUAL)
    }

    fn limit(&mut self, limit: Limit) -> &mut Option<Duration> {
        match limit {
            Limit::Lock => &mut self.lock,
            Limit::Statement => &mut self.statement,
            Limit::Idle => &mut self.idle,
        }
    }

    fn change(&mut self, changed: Changed) {
        match changed {
            Changed::Durability(choice) => self.durability = choice,
            Changed::Zone(zone) => self.zone = zone,
            Changed::Path(path) => self.path = path,
            Changed::Application(name) => self.application = name,
            Changed::Nothing => {}
            Changed::Limit(limit, time) => *self.limit(limit) = time,
            Changed::All => *self = Self::default(),
        }
    }
}

impl Setting {
    /// The names of all settings.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let own = [
            Self::Durability,
            Self::SynchronousCommit,
            Self::TimeZone,
            Self::SearchPath,
            Self::ApplicationName,
            Self::Limit(Limit::Lock),
            Self::Limit(Limit::Statement),
            Self::Limit(Limit::Idle),
        ];
        own.into_iter().map(Self::name).chain(Fixed::names())
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
                "lock_timeout" => Some(Self::Limit(Limit::Lock)),
                "statement_timeout" => Some(Self::Limit(Limit::Statement)),
                "idle_in_transaction_session_timeout" => Some(Self::Limit(Limit::Idle)),
                name => Fixed::named(name).map(Self::Fixed),
            },
            [time, zone] if names::fold(time) == "time" && names::fold(zone) == "zone" => {
                Some(Self::TimeZone)
            }
            _ => None,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Durability => "durability",
            Self::SynchronousCommit => "synchronous_commit",
            // As PostgreSQL writes it.
            Self::TimeZone => "TimeZone",
            Self::SearchPath => "search_path",
            Self::ApplicationName => "application_name",
            Self::Fixed(fixed) => fixed.name,
            Self::Limit(Limit::Lock) => "lock_timeout",
            Self::Limit(Limit::Statement) => "statement_timeout",
            Self::Limit(Limit::Idle) => "idle_in_transaction_session_timeout",
        }
    }

    /// As it is shown, of a database that has no logs if there is no `default` durability.
    pub(crate) fn show(self, values: &Values, default: Choice) -> String {
        let durability = values.durability.or(default).unwrap_or(Durability::None);
        match (self, durability) {
            (Self::Durability, durability) => durability.to_string(),
            (Self::SynchronousCommit, Durability::Strict) => "on".to_owned(),
            (Self::SynchronousCommit, _) => "off".to_owned(),
            (Self::TimeZone, _) => values.zone.to_string(),
            (Self::Fixed(fixed), _) => fixed.shown.to_owned(),
            (Self::SearchPath, _) => values.search_path().text().to_owned(),
            (Self::ApplicationName, _) => values.application.as_deref().unwrap_or("").to_owned(),
            (Self::Limit(limit), _) => show_time(*values.clone().limit(limit)),
        }
    }

    /// What a value sets; `default` is the durability of the database.
    fn read(self, value: &Expr, default: Choice) -> Result<Changed, SqlError> {
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
            Self::Limit(limit) => return Ok(Changed::Limit(limit, self.time(&text)?)),
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

    fn reset(self) -> Changed {
        match self {
            Self::Limit(limit) => Changed::Limit(limit, None),
            Self::TimeZone => Changed::Zone(Zone::default()),
            Self::SearchPath => Changed::Path(None),
            Self::ApplicationName => Changed::Application(None),
            Self::Fixed(_) => Changed::Nothing,
            _ => Changed::Durability(None),
        }
    }

    /// The time that a text says; `None` for 0.
    fn time(self, text: &str) -> Result<Option<Duration>, SqlError> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let unit = match unit {
            "" => Some(1000),
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, micros)| *micros),
        };
        let (Ok(number), Some(unit)) = (number.parse::<f64>(), unit) else {
            let message = format!(
                "\"{text}\" is no time for {}; write a number of milliseconds, or one with a unit \
                 such as '2s' or '5min'",
                self.name()
            );
            return Err(SqlError::new(SqlErrorKind::Type, message));
        };
        let millis = (number * unit as f64 / 1000.0).round();
        if millis > MILLIS_MAX as f64 {
            let message = format!("{text} is out of range for {}", self.name());
            return Err(SqlError::new(SqlErrorKind::Type, message));
        }
        Ok(Some(Duration::from_millis(millis as u64)).filter(|time| !time.is_zero()))
    }
}

/// A time in its longest unit.
fn show_time(time: Option<Duration>) -> String {
    let micros = time.map_or(0, |time| time.as_micros() as u64);
    let whole = UNITS.iter().find(|(_, unit)| micros > 0 && micros.is_multiple_of(*unit));
    whole.map_or("0".to_owned(), |(name, unit)| format!("{}{name}", micros / unit))
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
    let setting = of_name(variable).ok_or_else(|| unknown(&format!("SET {variable}")))?;
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
            None => return Err(unknown(&format!("RESET {name}"))),
        },
    };
    Ok(Assignment { changed, is_local: false })
}

fn of_name(name: &ObjectName) -> Option<Setting> {
    let name: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
    Setting::named(&name?)
}

fn unknown(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} is not supported")).with_hint(Some(
        "the settings are durability, synchronous_commit, TimeZone, search_path, \
             application_name, lock_timeout, statement_timeout and \
             idle_in_transaction_session_timeout"
            .to_owned(),
    ))
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

    /// Something is set; an open transaction may be rolled back.
    pub(crate) fn set(&mut self, assignment: Assignment, in_transaction: bool) {
        let Assignment { changed, is_local } = assignment;
        self.has_changed = true;
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
        self.has_changed |= self.local.is_some() || self.pending.is_some();
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
        for sql in ["SET work_mem = 1", "SET fsync = off", "RESET work_mem", "SET a.b = 1"] {
            assert_eq!(of(sql).unwrap_err().kind(), SqlErrorKind::Unsupported, "{sql}");
        }
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
            assert_eq!(show_time(time), shown);
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
