//! The checks for the role of a session.
//!
//! What a role may do with a relation is looked up once for each version of the catalog and of the
//! roles.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use atoll::{Catalog, Table};

use super::needed::Needed;
use crate::comments::Comments;
use crate::error::SqlError;
use crate::mutex::lock;
use crate::rights::{Privileges, Rights, denied};
use crate::schemas;
use crate::sequence_names::is_sequence;
use crate::view::View;

/// What a server knows of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleInfo {
    /// It passes all checks.
    pub is_superuser: bool,
    /// The roles of which it is a member, directly or not, and itself.
    pub roles: BTreeSet<String>,
}

/// The roles of a server.
pub trait Roles: Send + Sync {
    /// Raised by each change of a role.
    fn version(&self) -> u64;
    /// The role of a name.
    fn role(&self, name: &str) -> Option<RoleInfo>;
}

/// The role of a session, and what is known of it.
pub(crate) struct SessionRole {
    pub(crate) roles: Arc<dyn Roles>,
    pub(crate) name: String,
    /// With the version of the roles.
    known: Mutex<(u64, Arc<RoleInfo>)>,
}

impl SessionRole {
    pub(crate) fn new(roles: Arc<dyn Roles>, name: &str) -> Self {
        let known = (roles.version(), Arc::new(roles.role(name).unwrap_or_default()));
        Self { roles, name: name.to_owned(), known: Mutex::new(known) }
    }

    /// What the role is now.
    pub(crate) fn info(&self) -> Arc<RoleInfo> {
        let mut known = lock(&self.known);
        let version = self.roles.version();
        if known.0 != version {
            *known = (version, Arc::new(self.roles.role(&self.name).unwrap_or_default()));
        }
        Arc::clone(&known.1)
    }
}

/// What a session has looked up for its role.
pub(crate) struct Guard {
    pub(crate) role: Arc<SessionRole>,
    pub(crate) info: Arc<RoleInfo>,
    /// The version of the roles that `info` is of.
    version: u64,
    /// What names meant when the rest was looked up.
    names: u64,
    relations: HashMap<String, Privileges>,
}

impl Guard {
    pub(crate) fn new(role: Arc<SessionRole>) -> Self {
        let (version, info) = (role.roles.version(), role.info());
        Self { role, info, version, names: 0, relations: HashMap::new() }
    }

    /// Whether the role passes all checks.
    pub(crate) fn is_superuser(&mut self) -> bool {
        let version = self.role.roles.version();
        if version != self.version {
            (self.version, self.info) = (version, self.role.info());
            self.relations.clear();
        }
        self.info.is_superuser
    }

    /// Checks what a statement needs.
    ///
    /// # Errors
    /// The role may not do it.
    pub(crate) fn check(
        &mut self,
        needed: &[Needed],
        names: u64,
        catalog: &dyn Fn() -> Result<Arc<Catalog>, SqlError>,
    ) -> Result<(), SqlError> {
        if names != self.names {
            self.relations.clear();
            self.names = names;
        }
        for Needed { relation, privileges } in needed {
            let known = self.relations.get(relation).copied();
            let has = match known {
                Some(known) => known,
                None => {
                    let has = allowed(&*catalog()?, relation, &self.info.roles, &*self.role.roles)?;
                    self.relations.insert(relation.clone(), has);
                    has
                }
            };
            if !has.has(*privileges) {
                return Err(reason(&*catalog()?, relation, *privileges, self)?);
            }
        }
        Ok(())
    }
}

/// The error for a relation, or for the schema or the source of a view that is the reason.
fn reason(
    catalog: &Catalog,
    relation: &str,
    wanted: Privileges,
    guard: &Guard,
) -> Result<SqlError, SqlError> {
    let has = |name: &str| catalog.get(name).is_some();
    let (schema, bare) = schemas::split(relation, &has);
    if !on_schema(catalog, schema, &guard.info.roles)?.has(Privileges::USAGE) {
        return Ok(denied(&format!("schema {schema}")));
    }
    let own = on_relation(catalog, relation, &guard.info.roles)?;
    if own.has(wanted)
        && let Some(source) = refused_source(catalog, relation, &*guard.role.roles, 0)?
    {
        let bare = schemas::bare(&source, &has);
        return Ok(denied(&format!("{} {bare}", kind(catalog, &source))));
    }
    Ok(denied(&format!("{} {bare}", kind(catalog, relation))))
}

/// What kind of relation it is.
pub(crate) fn kind(catalog: &Catalog, relation: &str) -> &'static str {
    match catalog.get(relation) {
        Some(object) if is_sequence(object) => "sequence",
        Some(object) if matches!(View::of(object.schema()), Ok(Some(_))) => "view",
        Some(object) if object.schema().object().is_some() => "type",
        _ => "table",
    }
}

/// All privileges that an owner has.
fn all(object: &Table) -> Privileges {
    if is_sequence(object) { Privileges::OF_SEQUENCES } else { Privileges::OF_TABLES }
}

/// What members of these roles may do with a schema.
pub(crate) fn on_schema(
    catalog: &Catalog,
    schema: &str,
    roles: &BTreeSet<String>,
) -> Result<Privileges, SqlError> {
    Ok(schemas::rights(catalog, schema)?.of(roles, Privileges::OF_SCHEMAS))
}

/// What members of these roles may do with a relation, whatever its schema.
pub(crate) fn on_relation(
    catalog: &Catalog,
    relation: &str,
    roles: &BTreeSet<String>,
) -> Result<Privileges, SqlError> {
    let all = catalog.get(relation).map_or(Privileges::OF_TABLES, all);
    Ok(rights(catalog, relation)?.of(roles, all))
}

/// The rights of a relation.
pub(crate) fn rights(catalog: &Catalog, relation: &str) -> Result<Rights, SqlError> {
    Ok(Comments::in_catalog(catalog, relation)?.rights)
}

/// What members of these roles may do with a relation.
fn allowed(
    catalog: &Catalog,
    relation: &str,
    roles: &BTreeSet<String>,
    book: &dyn Roles,
) -> Result<Privileges, SqlError> {
    let has = |name: &str| catalog.get(name).is_some();
    if !has(relation) {
        // One of the system, which all may read; of one that does not exist the statement tells.
        return Ok(Privileges::OF_TABLES | Privileges::OF_SEQUENCES);
    }
    let (schema, _) = schemas::split(relation, &has);
    if !on_schema(catalog, schema, roles)?.has(Privileges::USAGE) {
        return Ok(Privileges::NONE);
    }
    let privileges = on_relation(catalog, relation, roles)?;
    match privileges.has(Privileges::SELECT)
        && refused_source(catalog, relation, book, 0)?.is_some()
    {
        true => Ok(privileges.without(Privileges::SELECT)),
        false => Ok(privileges),
    }
}

/// A relation that the owner of a view may not read, although the view does (`PRIVILEGE-3`).
fn refused_source(
    catalog: &Catalog,
    relation: &str,
    book: &dyn Roles,
    depth: u32,
) -> Result<Option<String>, SqlError> {
    // A view reads nothing that reads it, and others are few.
    const DEPTH_MAX: u32 = 100;
    let Some(view) = View::find(catalog, relation)? else { return Ok(None) };
    let owner = rights(catalog, relation)?.owner;
    let owner = owner.map(|name| book.role(&name).unwrap_or_default());
    for source in view.relations() {
        if let Some(owner) = owner.as_ref().filter(|owner| !owner.is_superuser) {
            let own = on_relation(catalog, source, &owner.roles)?;
            if !own.has(Privileges::SELECT) {
                return Ok(Some(source.to_owned()));
            }
        }
        if depth < DEPTH_MAX
            && let Some(refused) = refused_source(catalog, source, book, depth + 1)?
        {
            return Ok(Some(refused));
        }
    }
    Ok(None)
}
