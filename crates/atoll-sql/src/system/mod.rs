//! The system catalogs: what a database has, as the tables of `pg_catalog` and the views of
//! `information_schema` that clients of PostgreSQL read.
//!
//! The tables have the columns of PostgreSQL 15. Their rows are made of the definitions when a
//! query reads them; tables of what Atoll does not have are empty. The views are queries over the
//! tables.
//!
//! - `SYSTEM-1`: a query sees the definitions of its snapshot. One that reads nothing but the
//!   system sees those of its transaction, and runs in any.
//! - `SYSTEM-2`: no plan that is kept has definitions or values of a session in it.
//!
//! In reading order: [`definitions`] and [`oids`] (what there is, and its numbers), [`types`],
//! [`constraints`], [`written`] (texts of definitions), [`serving`] (what a server tells),
//! [`tables`], [`rows`] and [`batch`], [`views`], [`lookup`], [`functions`] and
//! [`functions_of_server`], [`statement`] (what a statement says of the system), [`expanded`],
//! [`provider`].

mod batch;
mod constraints;
mod definitions;
mod expanded;
mod function;
mod functions;
mod functions_of_server;
mod lookup;
mod oids;
mod provider;
mod rows;
mod serving;
mod statement;
mod tables;
mod types;
mod views;
mod written;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use atoll::Database;
use datafusion::catalog::CatalogProvider;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use sqlparser::ast::Statement;

pub(crate) use self::definitions::Definitions;
pub(crate) use self::functions::asks;
pub use self::functions::function_name;
pub(crate) use self::oids::number_of;
pub(crate) use self::provider::WithSystem;
pub use self::serving::{
    ClientState, NamedSnapshot, Serving, SystemClient, SystemRole, SystemStatement,
};
pub(crate) use self::statement::{
    is_relation, is_used_apart_from_sequences, reads_no_table, reads_system,
};
pub use self::tables::SYSTEM_TYPE;
pub(crate) use self::tables::columns_of;
use crate::coordination::Together;
use crate::error::SqlError;
use crate::names::CATALOG;
use crate::schemas::PUBLIC;

/// What is around the database, as a session sees it.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) database: String,
    pub(crate) user: String,
    /// The roles that the user is, besides its own; all of them if it is a superuser.
    pub(crate) is: UserIs,
    /// The number of the process, or of the session, as clients cancel it by.
    pub(crate) process: i32,
    /// The schemas of the search path.
    pub(crate) path: Vec<String>,
    pub(crate) roles: Vec<SystemRole>,
    /// The names and values of settings.
    pub(crate) settings: Vec<(String, String)>,
    /// The database, unless the session is on a snapshot.
    pub(crate) db: Option<Database>,
    /// The sessions of the database, unless the session is on a snapshot.
    pub(crate) together: Option<Arc<Together>>,
    /// The server of the session, if it is one of a server.
    pub(crate) serving: Option<Arc<dyn Serving>>,
}

/// The roles that a user is.
#[derive(Debug, Clone)]
pub(crate) enum UserIs {
    Superuser,
    Roles(BTreeSet<String>),
}

impl Around {
    pub(crate) fn is_superuser(&self) -> bool {
        matches!(self.is, UserIs::Superuser)
    }

    /// Whether the user may see and end what another role does.
    pub(crate) fn is_also(&self, role: &str) -> bool {
        match &self.is {
            UserIs::Superuser => true,
            UserIs::Roles(roles) => roles.contains(role) || role == self.user,
        }
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, user, process, .. } = self;
        f.debug_tuple("Around").field(database).field(user).field(process).finish()
    }
}

impl Default for Around {
    fn default() -> Self {
        let role = SystemRole {
            number: oids::OWNER,
            name: CATALOG.to_owned(),
            is_superuser: true,
            can_log_in: true,
        };
        Self {
            database: CATALOG.to_owned(),
            user: CATALOG.to_owned(),
            is: UserIs::Superuser,
            process: 0,
            path: vec![PUBLIC.to_owned()],
            roles: vec![role],
            settings: Vec::new(),
            db: None,
            together: None,
            serving: None,
        }
    }
}

/// All that a query sees of the system.
#[derive(Debug, Default)]
pub(crate) struct System {
    pub(crate) definitions: Definitions,
    pub(crate) around: Around,
}

impl System {
    /// Readies a statement that names the system.
    ///
    /// # Errors
    /// A relation that the system does not have.
    pub(crate) fn rewrite(statement: &mut Statement) -> Result<(), SqlError> {
        statement::rewrite(statement)
    }

    /// The functions of a query that runs.
    pub(crate) fn functions(self: &Arc<Self>) -> Vec<ScalarUDF> {
        functions::functions(self, Volatility::Stable)
    }

    /// The functions of a query that is bound (`SYSTEM-2`).
    pub(crate) fn functions_to_bind(self: &Arc<Self>) -> Vec<ScalarUDF> {
        functions::functions(self, Volatility::Volatile)
    }

    /// A catalog with the system in it.
    pub(crate) fn beside(self: &Arc<Self>, inner: Arc<dyn CatalogProvider>) -> WithSystem {
        WithSystem { inner, system: Arc::clone(self) }
    }
}
