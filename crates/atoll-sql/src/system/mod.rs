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
//! [`constraints`], [`written`] (texts of definitions), [`tables`], [`rows`] and [`batch`],
//! [`views`], [`lookup`], [`functions`], [`statement`] (what a statement says of the system),
//! [`provider`].

mod batch;
mod constraints;
mod definitions;
mod functions;
mod lookup;
mod oids;
mod provider;
mod rows;
mod statement;
mod tables;
mod types;
mod views;
mod written;

use std::sync::Arc;

use datafusion::catalog::CatalogProvider;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use sqlparser::ast::Statement;

pub(crate) use self::definitions::Definitions;
pub(crate) use self::functions::asks;
pub(crate) use self::provider::WithSystem;
pub(crate) use self::statement::{is_relation, is_used_apart_from_sequences, stands_alone};
pub use self::tables::SYSTEM_TYPE;
use crate::error::SqlError;
use crate::names::CATALOG;
use crate::schemas::PUBLIC;

/// A role, as `pg_roles` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRole {
    /// Its number; 10 is the role that owns the database.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Whether it may do all.
    pub is_superuser: bool,
    /// Whether a client may be it.
    pub can_log_in: bool,
}

/// What is around the database, as a session sees it.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) database: String,
    pub(crate) user: String,
    /// The number of the process, or of the session, as clients cancel it by.
    pub(crate) process: i32,
    /// The schemas of the search path.
    pub(crate) path: Vec<String>,
    pub(crate) roles: Vec<SystemRole>,
    /// The names and values of settings.
    pub(crate) settings: Vec<(String, String)>,
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
            process: 0,
            path: vec![PUBLIC.to_owned()],
            roles: vec![role],
            settings: Vec::new(),
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
