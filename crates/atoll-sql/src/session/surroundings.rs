//! What the program around a session knows of it, and what queries of the system see of that.

use std::fmt;
use std::sync::Arc;

use sqlparser::ast::Statement;

use super::{SqlSession, Target};
use crate::error::SqlError;
use crate::query::Source;
use crate::resolve::Sight;
use crate::schemas;
use crate::settings::Setting;
use crate::system::{self, Around, Serving, UserIs};

/// Of a session of a server: its role, and where it is.
#[non_exhaustive]
pub struct Surroundings {
    /// The name of the database (`current_database()`).
    pub database: String,
    /// The role that the client is (`current_user`).
    pub user: String,
    /// What clients cancel its statements by (`pg_backend_pid()`).
    pub process: i32,
    server: Arc<dyn Serving>,
}

impl Surroundings {
    /// Those of a session of a server, which is asked when a query reads of it.
    pub fn new(
        (database, user): (impl Into<String>, impl Into<String>),
        process: i32,
        server: Arc<dyn Serving>,
    ) -> Self {
        let (database, user) = (database.into(), user.into());
        Self { database, user, process, server }
    }
}

impl Surroundings {
    pub(super) fn server(&self) -> &dyn Serving {
        &*self.server
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, user, process, .. } = self;
        f.debug_tuple("Surroundings").field(database).field(user).field(process).finish()
    }
}

impl SqlSession {
    /// Says what is around the session. One that is told nothing is that of a role `atoll` in a
    /// database `atoll`.
    pub fn set_surroundings(&mut self, surroundings: Surroundings) {
        self.surroundings = Some(Arc::new(surroundings));
    }

    /// What a query of the system sees around the database.
    pub(super) fn around(&self) -> Around {
        let path = self.settings.now().search_path();
        let schemas = |sight: &Sight<'_>| -> Vec<String> {
            let has = |name: &str| sight.has(name);
            let found = path.schemas(&|schema| schemas::exists(schema, &has));
            found.into_iter().map(str::to_owned).collect()
        };
        let path = match &self.target {
            Target::Snapshot(snapshot) => schemas(&Sight::Snapshot(snapshot)),
            Target::Database { .. } => {
                self.scope().map(|scope| schemas(&Sight::Database(&scope))).unwrap_or_default()
            }
        };
        let value = |name: &str| Some((name.to_owned(), self.setting(name)?));
        let settings = Setting::names().filter_map(value).collect();
        let db = match &self.target {
            Target::Database { db, .. } => Some(db.clone()),
            Target::Snapshot(_) => None,
        };
        let together = self.context.member.as_ref().map(|member| Arc::clone(member.together()));
        let around = Around { path, settings, db, together, ..Around::default() };
        let is = self.guard.as_ref().map(|guard| guard.role.info());
        let is = is.filter(|info| !info.is_superuser);
        match &self.surroundings {
            Some(one) => Around {
                database: one.database.clone(),
                user: one.user.clone(),
                is: is.map_or(UserIs::Superuser, |info| UserIs::Roles(info.roles.clone())),
                process: one.process,
                roles: one.server.roles(),
                serving: Some(Arc::clone(&one.server)),
                ..around
            },
            None => around,
        }
    }

    /// What a query reads.
    pub(super) fn source(&self, statement: &Statement) -> Result<Source, SqlError> {
        match &self.target {
            Target::Database { open, .. } if system::reads_no_table(statement) => {
                open.as_ref().map_or(Ok(()), |open| open.check())?;
                Ok(Source::System(self.scope()?))
            }
            _ => self.snapshot().map(Source::Snapshot),
        }
    }
}
