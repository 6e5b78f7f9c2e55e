//! Isolation levels.
//!
//! ```text
//! BEGIN [ISOLATION LEVEL …] [READ ONLY | READ WRITE] [[NOT] DEFERRABLE]
//! SET TRANSACTION …                           for the open transaction, before its first statement
//! SET SESSION CHARACTERISTICS AS TRANSACTION …       for those that follow
//! SET default_transaction_isolation = '…'     also default_transaction_read_only
//! SET transaction_isolation = '…'             as SET TRANSACTION; also transaction_read_only
//! SHOW transaction_isolation
//! ```
//!
//! READ COMMITTED needs a scheme in which writers wait for each other and a transaction can let go
//! of what it has read. Under any other scheme every transaction is serializable, and
//! `SHOW` says so. REPEATABLE READ is serializable too, and READ UNCOMMITTED reads what is
//! committed, as in PostgreSQL. `[NOT] DEFERRABLE` changes nothing.

use std::time::Duration;

use atoll::{DatabaseOptions, SchemeKind};
use sqlparser::ast::{TransactionAccessMode, TransactionIsolationLevel, TransactionMode};

use crate::error::SqlError;

/// The scheme of databases that are used through SQL, unless another one is chosen: the first that
/// gives READ COMMITTED, which clients expect. Their writers should wait for each other without a
/// limit ([`DatabaseOptions::lock_timeout`]).
pub fn default_scheme() -> atoll::SchemeKind {
    let mut schemes = atoll::SchemeKind::ALL.iter().copied();
    schemes.find(|scheme| scheme.releases_reads()).unwrap_or_default()
}

/// How long writers of a database that is used through SQL wait for each other under a scheme: as
/// long as it takes where deadlocks are found, elsewhere as in any database.
pub fn lock_timeout(scheme: SchemeKind) -> Duration {
    match scheme.releases_reads() {
        true => Duration::MAX,
        false => DatabaseOptions::default().lock_timeout,
    }
}

/// The options of a database in memory that is used through SQL: the [`default_scheme`], and
/// writers wait for each other as long as it takes, for deadlocks are found.
pub fn database_options() -> DatabaseOptions {
    let scheme = default_scheme();
    let lock_timeout = lock_timeout(scheme);
    DatabaseOptions { scheme, lock_timeout, ..DatabaseOptions::default() }
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Shown under the name that was asked for; it is READ COMMITTED.
    ReadUncommitted,
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// Shown under the name that was asked for; it is serializable.
    RepeatableRead,
    Serializable,
}

/// The modes of a transaction, where they are said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) read_only: Option<bool>,
}

/// The modes of a session and of its transaction, as they are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownModes {
    /// Whether a transaction is open.
    pub(crate) is_open: bool,
    /// Whether the session reads a snapshot.
    pub(crate) is_snapshot: bool,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) default_isolation: Isolation,
    pub(crate) default_read_only: bool,
}

impl Default for ShownModes {
    fn default() -> Self {
        let (isolation, default_isolation) = (Isolation::Serializable, Isolation::Serializable);
        Self {
            is_open: false,
            is_snapshot: false,
            isolation,
            read_only: false,
            default_isolation,
            default_read_only: false,
        }
    }
}

impl ShownModes {
    /// The mode of a name in lower case; `None` if that is none of a mode.
    pub(crate) fn show(&self, name: &str) -> Option<&'static str> {
        let on_or_off = |is_on| if is_on { "on" } else { "off" };
        Some(match name {
            "transaction_isolation" => self.isolation.name(),
            "default_transaction_isolation" => self.default_isolation.name(),
            "transaction_read_only" => on_or_off(self.read_only),
            "default_transaction_read_only" => on_or_off(self.default_read_only),
            _ => return None,
        })
    }
}

impl Isolation {
    /// The level that a scheme gives where this one is asked for.
    pub(crate) fn under(self, scheme: atoll::SchemeKind) -> Self {
        match self {
            level if level.reads_committed() && !scheme.releases_reads() => Self::Serializable,
            level => level,
        }
    }

    /// Whether each statement sees what was committed when it began.
    pub(crate) fn reads_committed(self) -> bool {
        matches!(self, Self::ReadUncommitted | Self::ReadCommitted)
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// The names of all levels.
    pub(crate) const NAMES: [&str; 4] =
        ["serializable", "repeatable read", "read committed", "read uncommitted"];

    /// The level of a name, in lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        use Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
        let levels = [Serializable, RepeatableRead, ReadCommitted, ReadUncommitted];
        levels.into_iter().find(|level| level.name() == name)
    }
}

/// The modes that a statement says.
///
/// # Errors
/// A level that PostgreSQL does not have.
pub(crate) fn modes(said: &[TransactionMode]) -> Result<Modes, SqlError> {
    use TransactionIsolationLevel as Level;
    let mut modes = Modes::default();
    for mode in said {
        match mode {
            TransactionMode::AccessMode(access) => {
                modes.read_only = Some(*access == TransactionAccessMode::ReadOnly);
            }
            TransactionMode::IsolationLevel(level) => {
                modes.isolation = Some(match level {
                    Level::ReadUncommitted => Isolation::ReadUncommitted,
                    Level::ReadCommitted => Isolation::ReadCommitted,
                    Level::RepeatableRead => Isolation::RepeatableRead,
                    Level::Serializable => Isolation::Serializable,
                    Level::Snapshot => {
                        let message = "ISOLATION LEVEL SNAPSHOT is not supported";
                        let hint = "SERIALIZABLE gives it and more".to_owned();
                        return Err(SqlError::unsupported(message).with_hint(Some(hint)));
                    }
                });
            }
        }
    }
    Ok(modes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_scheme_that_cannot_read_committed_is_serializable() {
        for asked in ["read uncommitted", "read committed"] {
            let asked = Isolation::named(asked).unwrap();
            let level = |scheme: &str| asked.under(scheme.parse().unwrap());
            assert_eq!(level("dl_detect"), asked);
            for scheme in ["no_wait", "mvcc", "silo", "hstore"] {
                assert_eq!(level(scheme), Isolation::Serializable, "{scheme}");
            }
        }
        assert_eq!(Isolation::named("none"), None);
        assert!(Isolation::NAMES.iter().all(|name| Isolation::named(name).is_some()));
    }
}
