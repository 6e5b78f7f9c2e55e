//! What a query reads: the tables of a snapshot, or nothing but the system.

use std::sync::Arc;

use atoll::Snapshot;
use datafusion::catalog::CatalogProvider;

use crate::error::SqlError;
use crate::live::LiveCatalog;
use crate::provider::SnapshotCatalog;
use crate::scope::Scope;
use crate::sequence_relation;
use crate::system::{Around, Definitions};
use crate::user_types::UserType;
use crate::view::View;

/// See the module.
pub(crate) enum Source {
    Snapshot(Snapshot),
    /// The system as a transaction sees it (`SYSTEM-1`).
    System(Scope),
}

/// A source, and what is around the session that reads it.
pub(crate) struct Reading<'r> {
    pub(crate) source: Source,
    pub(crate) around: &'r dyn Fn() -> Around,
}

impl Source {
    /// The names of the tables that a query may read.
    pub(super) fn tables(&self) -> Vec<String> {
        match self {
            Self::Snapshot(snapshot) => snapshot.tables(),
            Self::System(_) => Vec::new(),
        }
    }

    /// Whether an object that is no table has this name.
    pub(super) fn has_object(&self, name: &str) -> bool {
        match self {
            Self::Snapshot(snapshot) => snapshot.object(name).is_some(),
            Self::System(scope) => scope.catalog.object(name).is_some(),
        }
    }

    /// The view of a name.
    pub(super) fn view(&self, name: &str) -> Result<Option<View>, SqlError> {
        match self {
            Self::Snapshot(snapshot) => {
                let object = snapshot.object(name);
                object.map_or(Ok(None), |object| sequence_relation::view(object.schema(), name))
            }
            Self::System(scope) => {
                let object = scope.catalog.object(name);
                object.map_or(Ok(None), |object| sequence_relation::view(object.schema(), name))
            }
        }
    }

    /// The type of a name.
    pub(super) fn user_type(&self, name: &str) -> Result<Option<UserType>, SqlError> {
        match self {
            Self::Snapshot(snapshot) => {
                let object = snapshot.object(name);
                object.map_or(Ok(None), |object| UserType::of(name, object.schema()))
            }
            Self::System(scope) => UserType::find(&scope.catalog, name),
        }
    }

    pub(super) fn catalog(&self) -> Arc<dyn CatalogProvider> {
        match self {
            Self::Snapshot(snapshot) => Arc::new(SnapshotCatalog::of(snapshot.clone())),
            Self::System(scope) => Arc::new(LiveCatalog::new(scope.clone(), None)),
        }
    }

    pub(super) fn definitions(&self) -> Result<Definitions, SqlError> {
        match self {
            Self::Snapshot(snapshot) => Definitions::of_snapshot(snapshot),
            Self::System(scope) => Definitions::of_scope(scope),
        }
    }

    /// The snapshot that the bytes of the rows may belong to.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Self::Snapshot(snapshot) => Some(snapshot.clone()),
            Self::System(_) => None,
        }
    }
}
