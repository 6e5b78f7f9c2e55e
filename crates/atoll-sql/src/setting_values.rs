//! What the settings of a session are, and what changes them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use atoll::Durability;

use crate::custom_settings::Customs;
use crate::isolation::{Isolation, Modes};
use crate::notice::MinMessages;
use crate::search_path::SearchPath;
use crate::zone::Zone;

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
    /// What is told of statements that succeed.
    pub(crate) messages: MinMessages,
    /// The modes of transactions that do not say others.
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// The settings that programs have for themselves.
    pub(crate) customs: Customs,
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
    Messages(MinMessages),
    /// The modes of transactions that do not say others.
    Modes(Modes),
    /// Those of the open transaction.
    OpenModes(Modes),
    Custom(Arc<str>, Option<Arc<str>>),
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

    pub(crate) fn limit(&mut self, limit: Limit) -> &mut Option<Duration> {
        match limit {
            Limit::Lock => &mut self.lock,
            Limit::Statement => &mut self.statement,
            Limit::Idle => &mut self.idle,
        }
    }

    pub(crate) fn change(&mut self, changed: Changed) {
        match changed {
            Changed::Durability(choice) => self.durability = choice,
            Changed::Zone(zone) => self.zone = zone,
            Changed::Path(path) => self.path = path,
            Changed::Application(name) => self.application = name,
            Changed::Custom(name, value) => self.customs.set(&name, value),
            Changed::Messages(messages) => self.messages = messages,
            Changed::Modes(modes) => {
                self.isolation = modes.isolation.unwrap_or(self.isolation);
                self.read_only = modes.read_only.unwrap_or(self.read_only);
            }
            Changed::Nothing | Changed::OpenModes(_) => {}
            Changed::Limit(limit, time) => *self.limit(limit) = time,
            Changed::All => {
                *self = Self { customs: self.customs.emptied(), ..Self::default() };
            }
        }
    }
}

/// A switch as it is shown.
pub(crate) fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// What a text says for a switch.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "t" | "yes" | "y" | "1" => Some(true),
        "off" | "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}
