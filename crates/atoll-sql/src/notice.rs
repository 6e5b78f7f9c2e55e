//! What is told of statements that succeed: notices and warnings, as PostgreSQL words them.
//!
//! A statement adds them to its session, which keeps those that `client_min_messages` lets through;
//! the program around it takes them when the statement has ended.

use std::fmt;

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeLevel {
    /// Something that may be of interest.
    Notice,
    /// Something that is likely a mistake.
    Warning,
}

/// Something that is told of a statement that succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    level: NoticeLevel,
    state: &'static str,
    message: String,
    detail: Option<String>,
}

impl Notice {
    /// A notice with its SQLSTATE.
    pub(crate) fn new(state: &'static str, message: impl Into<String>) -> Self {
        let (level, message) = (NoticeLevel::Notice, message.into());
        Self { level, state, message, detail: None }
    }

    /// A warning.
    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { level: NoticeLevel::Warning, ..Self::new("01000", message) }
    }

    /// That something is not there, and need not be.
    pub(crate) fn missing(what: &str, name: &str) -> Self {
        Self::new("00000", format!("{what} \"{name}\" does not exist, skipping"))
    }

    /// That there is something already, and may be.
    pub(crate) fn exists(name: &str) -> Self {
        Self::new("42P07", format!("relation \"{name}\" already exists, skipping"))
    }

    /// What goes with something that is dropped; `None` if nothing does.
    pub(crate) fn cascades(dropped: &[String]) -> Option<Self> {
        let lines = || dropped.iter().map(|one| format!("drop cascades to {one}"));
        match dropped {
            [] => None,
            [_] => Some(Self::new("00000", lines().collect::<String>())),
            _ => {
                let count = dropped.len();
                let detail = Some(lines().collect::<Vec<_>>().join("\n"));
                let message = format!("drop cascades to {count} other objects");
                Some(Self { detail, ..Self::new("00000", message) })
            }
        }
    }

    /// The warning that a statement has no effect outside of a transaction.
    pub(crate) fn no_transaction(what: &str) -> Self {
        let message = format!("{what} can only be used in transaction blocks");
        Self { level: NoticeLevel::Warning, ..Self::new("25P01", message) }
    }

    /// How much it matters.
    pub fn level(&self) -> NoticeLevel {
        self.level
    }

    /// Its SQLSTATE.
    pub fn sqlstate(&self) -> &'static str {
        self.state
    }

    /// What it tells.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// More of it.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.detail.iter().try_for_each(|detail| write!(f, "\n{detail}"))
    }
}

/// The value of `client_min_messages`: the position of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinMessages(usize);

impl MinMessages {
    /// The names of the values, the most talkative first.
    pub(crate) const NAMES: [&str; 9] =
        ["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

    /// The value of a name in lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = match name {
            "debug" => "debug2",
            // PostgreSQL knows it and does not tell it.
            "info" => return Some(Self(INFO)),
            name => name,
        };
        Self::NAMES.iter().position(|one| *one == name).map(Self)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.get(self.0).copied().unwrap_or("info")
    }

    /// Whether what has this level is told.
    pub(crate) fn lets(self, level: NoticeLevel) -> bool {
        let least = match self.name() {
            "error" => return false,
            "warning" => NoticeLevel::Warning,
            _ => NoticeLevel::Notice,
        };
        level >= least
    }
}

const INFO: usize = MinMessages::NAMES.len();

impl Default for MinMessages {
    fn default() -> Self {
        Self(6)
    }
}
