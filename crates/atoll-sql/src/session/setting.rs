//! `SET`, `RESET`, `SHOW` and `set_config`, and the data of a `COPY … FROM STDIN`.

use atoll::Durability;
use sqlparser::ast::Ident;

use super::{Outcome, SqlSession, Target};
use crate::error::SqlError;
use crate::input::Input;
use crate::notice::Notice;
use crate::result::QueryResult;
use crate::session_settings;
use crate::set_config::SetConfig;
use crate::settings::{Assignment, Changed, Setting};

impl SqlSession {
    /// Runs a `COPY … FROM STDIN` with its data.
    ///
    /// # Errors
    /// Those of the statement, and of data that the table cannot take.
    pub fn copy_in(&mut self, sql: &str, data: Input) -> Result<Outcome, SqlError> {
        self.given = Some(data);
        let done = self.execute(sql);
        self.given = None;
        done
    }

    /// Sets something, perhaps for the open transaction alone.
    pub(super) fn set(&mut self, assignment: Assignment, tag: &str) -> Result<Outcome, SqlError> {
        let in_transaction = self.in_transaction();
        if assignment.is_local && !in_transaction {
            self.tell(Notice::no_transaction("SET LOCAL"));
            return Ok(Outcome::done(tag, 0));
        }
        self.check_read(&assignment)?;
        if let Changed::OpenModes(modes) = assignment.changed {
            self.set_modes(modes)?;
            return Ok(Outcome::done(tag, 0));
        }
        self.settings.set(assignment, in_transaction);
        if self.settings.now().idle.is_some() {
            self.check_idle_watch()?;
        }
        Ok(Outcome::done(tag, 0))
    }

    /// What the commits of the database survive where nothing else is set.
    pub(super) fn default_durability(&self) -> Option<Durability> {
        match &self.target {
            Target::Database { db, .. } => db.durability(),
            Target::Snapshot(_) => None,
        }
    }

    /// Checks that a setting may be set: that of names also where nothing changes.
    pub(super) fn check_settable(
        &self,
        assignment: &Assignment,
        what: &str,
    ) -> Result<(), SqlError> {
        match (&self.target, &assignment.changed) {
            (
                Target::Snapshot(_),
                Changed::Path(_)
                | Changed::Custom(..)
                | Changed::Messages(_)
                | Changed::Modes(_)
                | Changed::Nothing,
            ) => Ok(()),
            _ => self.database(what).map(drop),
        }
    }

    /// Carries out `SHOW`.
    ///
    /// # Errors
    /// A setting that does not exist.
    pub(super) fn show(&self, variable: &[Ident]) -> Result<Outcome, SqlError> {
        let name: Vec<&str> = variable.iter().map(|part| part.value.as_str()).collect();
        let setting = self.settings.existing(Setting::named(variable), &name.join("."))?;
        let is_of_session = matches!(
            setting,
            Setting::SearchPath | Setting::Custom(_) | Setting::Fixed(_) | Setting::MinMessages
        );
        if !is_of_session {
            self.database("SHOW of what commits survive")?;
        }
        let shown = setting.show(self.settings.now(), self.default_durability());
        Ok(Outcome::Rows(QueryResult::of_text(setting.name(), &shown)))
    }

    /// Carries out `SELECT set_config(…)`.
    ///
    /// # Errors
    /// A setting that there is not, and a value that it cannot have.
    pub(super) fn set_config(&mut self, call: &SetConfig) -> Result<Outcome, SqlError> {
        let SetConfig { name, value, is_local, column } = call;
        let default = self.default_durability();
        let (setting, changed) = session_settings::change(name, value.as_deref(), default)?;
        let assignment = Assignment { changed: changed.clone(), is_local: *is_local };
        self.check_settable(&assignment, "set_config")?;
        // As in PostgreSQL, what holds for one transaction is gone at once where none is open.
        let before = self.settings.clone();
        let is_alone = *is_local && !self.in_transaction();
        match is_alone {
            true => self.settings.set(Assignment { is_local: false, ..assignment }, false),
            false => drop(self.set(assignment, "SET")?),
        }
        let shown = setting.shown_after(&changed, self.settings.now(), default);
        if is_alone {
            self.settings = before;
        }
        Ok(Outcome::Rows(QueryResult::of_text(column, &shown)))
    }

    /// Makes the changes of settings that functions have noted.
    ///
    /// # Errors
    /// Idle transactions cannot be watched.
    pub(super) fn set_noted(&mut self) -> Result<(), SqlError> {
        for assignment in self.context.settings.take_changes() {
            self.set(assignment, "SET")?;
        }
        Ok(())
    }
}
