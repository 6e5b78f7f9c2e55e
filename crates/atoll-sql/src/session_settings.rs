//! The settings of a session, as functions in its statements see and change them.
//!
//! 1. Where settings have changed, a statement begins by a copy of them here.
//! 2. `current_setting` reads the copy; `set_config` changes it and notes what the change was.
//! 3. The session makes the same change when the statement has ended, or when the next one begins,
//!    where rows are read later.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sqlparser::ast::{Expr, Ident, Value};

use crate::error::{SqlError, SqlErrorKind};
use crate::isolation::ShownModes;
use crate::mutex::lock;
use crate::search_path::SearchPath;
use crate::settings::{Assignment, Changed, Choice, Setting, Settings};

/// No version of settings: they are copied at the next chance.
const NONE: u64 = u64::MAX;

/// See the module.
pub(crate) struct SessionSettings {
    /// Of the settings that were copied.
    version: AtomicU64,
    has_changes: AtomicBool,
    copy: Mutex<Copied>,
}

#[derive(Default)]
struct Copied {
    settings: Settings,
    /// The durability of the database.
    default: Choice,
    changes: Vec<Assignment>,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let has_changes = AtomicBool::new(false);
        Self { version: AtomicU64::new(NONE), has_changes, copy: Mutex::default() }
    }
}

impl SessionSettings {
    /// A statement begins under these settings.
    pub(crate) fn refresh(&self, settings: &Settings, default: impl FnOnce() -> Choice) {
        if self.version.load(Ordering::Relaxed) == settings.version() {
            return;
        }
        let mut copy = lock(&self.copy);
        (copy.settings, copy.default) = (settings.clone(), default());
        self.version.store(settings.version(), Ordering::Relaxed);
    }

    /// What functions have changed since the last call.
    pub(crate) fn take_changes(&self) -> Vec<Assignment> {
        if !self.has_changes.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        // What held for one statement is gone.
        self.version.store(NONE, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.copy).changes)
    }

    /// What a setting is.
    ///
    /// # Errors
    /// It does not exist.
    pub(crate) fn show(&self, name: &str, modes: ShownModes) -> Result<String, SqlError> {
        let copy = lock(&self.copy);
        if let Some(shown) = modes.show(&name.to_ascii_lowercase()) {
            return Ok(shown.to_owned());
        }
        let setting = copy.settings.existing(Setting::of_text(name), name)?;
        Ok(setting.show(copy.settings.now(), copy.default))
    }

    /// Sets something, and returns what it is then. `None` is its default.
    ///
    /// # Errors
    /// It does not exist, or cannot have the value.
    pub(crate) fn set(
        &self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
        modes: ShownModes,
    ) -> Result<String, SqlError> {
        let mut copy = lock(&self.copy);
        let in_transaction = modes.is_open;
        if modes.is_snapshot {
            let message = "cannot execute set_config() on a snapshot";
            return Err(SqlError::new(SqlErrorKind::ReadOnly, message));
        }
        let (setting, changed) = change(name, value, copy.default)?;
        let assignment = Assignment { changed: changed.clone(), is_local };
        // As in PostgreSQL, what holds for one transaction is gone with this one statement.
        let stays = !is_local || in_transaction;
        copy.settings.set(assignment.clone(), in_transaction);
        if stays {
            copy.changes.push(assignment);
        }
        self.has_changes.store(true, Ordering::Relaxed);
        Ok(setting.shown_after(&changed, copy.settings.now(), copy.default))
    }
}

/// The setting of a name in a text, and what a value changes.
///
/// # Errors
/// There is none, or it cannot have the value.
pub(crate) fn change(
    name: &str,
    value: Option<&str>,
    default: Choice,
) -> Result<(Setting, Changed), SqlError> {
    let setting = Setting::of_text(name).ok_or_else(|| crate::settings::no_setting(name))?;
    let changed = match value {
        Some(path) if setting == Setting::SearchPath => {
            Changed::Path(Some(SearchPath::of_text(path)?.into()))
        }
        Some(text) => {
            setting.read(&Expr::value(Value::SingleQuotedString(text.to_owned())), default)?
        }
        None => setting.read(&Expr::Identifier(Ident::new("default")), default)?,
    };
    Ok((setting, changed))
}
