//! `GRANT` and `REVOKE` of privileges, and `OWNER TO`.

use std::sync::Arc;

use atoll::{Catalog, Transaction};
use sqlparser::ast::{
    Action, AlterSchemaOperation, AlterTableOperation, Grant, GrantObjects, Grantee, GranteeName,
    GranteesType, ObjectName, Owner, Privileges as Named, Revoke, Statement,
};

use super::{Outcome, SqlSession};
use crate::comments;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::names;
use crate::privileges::guard::{SessionRole, kind, on_schema, rights};
use crate::rights::{PUBLIC, Privileges, Rights, denied, not_owner};
use crate::schemas;
use crate::sequence::definition::Definition;
use crate::sequence::owned::{is_sequence, owned};

/// A change of the rights of some objects.
struct Change {
    adds: bool,
    /// None for all that there are.
    privileges: Option<Vec<Privileges>>,
    roles: Vec<String>,
}

/// Something that privileges are for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    Relation(String),
    Schema(String),
}

impl Change {
    /// Makes the change.
    fn make(&self, rights: &mut Rights, all: Privileges) {
        let privileges = self.privileges.iter().flatten();
        let privileges = match self.privileges {
            None => all,
            Some(_) => privileges.fold(Privileges::NONE, |sum, one| sum | *one),
        };
        for role in &self.roles {
            match self.adds {
                true => rights.grant(role, privileges),
                false => rights.revoke(role, privileges),
            }
        }
    }
}

impl SqlSession {
    /// Carries out `GRANT … ON …`.
    ///
    /// # Errors
    /// Something that does not exist, or is of another kind; the role does not own it.
    pub(super) fn grant(&mut self, grant: &Grant) -> Result<Outcome, SqlError> {
        let is_plain = grant.as_grantor.is_none()
            && grant.granted_by.is_none()
            && grant.current_grants.is_none();
        if grant.with_grant_option || !is_plain {
            let message = "WITH GRANT OPTION and GRANTED BY are not supported";
            let hint = "the owner and superusers grant privileges".to_owned();
            return Err(SqlError::unsupported(message).with_hint(Some(hint)));
        }
        let Grant { privileges, objects, grantees, .. } = grant;
        self.change_rights("GRANT", true, privileges, objects.as_ref(), grantees)
    }

    /// Carries out `REVOKE … ON …`.
    ///
    /// # Errors
    /// As [`SqlSession::grant`].
    pub(super) fn revoke(&mut self, revoke: &Revoke) -> Result<Outcome, SqlError> {
        let Revoke { privileges, objects, grantees, granted_by, .. } = revoke;
        if granted_by.is_some() {
            return Err(SqlError::unsupported("GRANTED BY is not supported"));
        }
        self.change_rights("REVOKE", false, privileges, objects.as_ref(), grantees)
    }

    fn change_rights(
        &mut self,
        tag: &'static str,
        adds: bool,
        privileges: &Named,
        objects: Option<&GrantObjects>,
        grantees: &[Grantee],
    ) -> Result<Outcome, SqlError> {
        self.may_define(tag)?;
        let Some(role) = self.guard.as_ref().map(|guard| Arc::clone(&guard.role)) else {
            let hint = "a program that opens the database may do everything; `atoll serve` has \
                        roles. pg_dump -x leaves privileges away";
            return Err(SqlError::unsupported(format!("{tag} is not supported"))
                .with_hint(Some(hint.to_owned())));
        };
        let roles = grantees.iter().map(|one| grantee(one, &role)).collect::<Result<_, _>>()?;
        let change = Change { adds, privileges: named(privileges)?, roles };
        let catalog = self.scope()?.catalog;
        let objects = match objects {
            Some(objects) => of_statement(&catalog, objects)?,
            None => {
                let message = format!("{tag} of a role stands alone in a statement of a server");
                return Err(SqlError::new(SqlErrorKind::Syntax, message));
            }
        };
        for object in &objects {
            check_kind(&catalog, object, change.privileges.as_deref())?;
            self.check_grants(&catalog, object)?;
        }
        self.define(&mut |transaction| {
            for object in &objects {
                match object {
                    Object::Schema(schema) => {
                        schemas::change_rights(transaction, schema, |rights| {
                            change.make(rights, Privileges::OF_SCHEMAS);
                        })?;
                    }
                    Object::Relation(name) => {
                        let catalog = transaction.catalog();
                        let Some(object) = catalog.get(name) else { continue };
                        transaction.use_table(object)?;
                        let all = all(&catalog, name);
                        comments::change(transaction, name, |beside| {
                            change.make(&mut beside.rights, all);
                        })?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(Outcome::done(tag, 0))
    }

    /// Checks that the role owns what it grants.
    fn check_grants(&mut self, catalog: &Catalog, object: &Object) -> Result<(), SqlError> {
        let Some(guard) = self.restricted() else { return Ok(()) };
        let (rights, what) = match object {
            Object::Schema(schema) => {
                (schemas::rights(catalog, schema)?, format!("schema {schema}"))
            }
            Object::Relation(name) => {
                let bare = schemas::bare(name, &|name| catalog.get(name).is_some());
                (rights(catalog, name)?, format!("{} {bare}", kind(catalog, name)))
            }
        };
        if rights.is_owned_by(&guard.info.roles) { Ok(()) } else { Err(denied(&what)) }
    }

    /// Gives something to another owner: `OWNER TO`. False for a session without roles.
    ///
    /// # Errors
    /// The role does not own it, or is no member of the new owner.
    pub(super) fn give(&mut self, statement: &Statement) -> Result<bool, SqlError> {
        let Some(role) = self.guard.as_ref().map(|guard| Arc::clone(&guard.role)) else {
            return Ok(false);
        };
        let (object, owner) = match statement {
            Statement::AlterTable(alter) => match alter.operations.as_slice() {
                [AlterTableOperation::OwnerTo { new_owner }] => {
                    (Object::Relation(names::table_name(&alter.name)?.0), new_owner)
                }
                _ => return Ok(false),
            },
            Statement::AlterSchema(alter) => match alter.operations.as_slice() {
                [AlterSchemaOperation::OwnerTo { owner }] => {
                    (Object::Schema(names::last(&alter.name)), owner)
                }
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        let owner = match owner {
            Owner::Ident(ident) => names::fold(ident),
            Owner::CurrentRole | Owner::CurrentUser | Owner::SessionUser => role.name.clone(),
        };
        let info = role.roles.role(&owner).ok_or_else(|| unknown_role(&owner))?;
        let scope = self.scope()?;
        if let Object::Relation(name) = &object
            && scope.catalog.get(name).is_none()
        {
            // An index belongs with its table.
            return Ok(true);
        }
        if let Some(guard) = self.restricted() {
            let what = match &object {
                Object::Schema(schema) => format!("schema {schema}"),
                Object::Relation(name) => format!("{} {}", kind(&scope.catalog, name), name),
            };
            let rights = match &object {
                Object::Schema(schema) => schemas::rights(&scope.catalog, schema)?,
                Object::Relation(name) => rights(&scope.catalog, name)?,
            };
            if !rights.is_owned_by(&guard.info.roles) {
                return Err(not_owner(&what));
            }
            if !guard.info.roles.contains(&owner) {
                let message = format!("must be member of role \"{owner}\"");
                return Err(SqlError::new(SqlErrorKind::Schema, message).with_state("42501"));
            }
            if let Object::Relation(name) = &object {
                let (schema, _) = schemas::split(name, &|name| scope.has(name));
                if !on_schema(&scope.catalog, schema, &info.roles)?.has(Privileges::CREATE) {
                    return Err(denied(&format!("schema {schema}")));
                }
            }
        }
        // What belongs to a superuser belongs to all of them.
        let owner = Some(owner).filter(|_| !info.is_superuser);
        self.define(&mut |transaction| match &object {
            Object::Schema(schema) => schemas::change_rights(transaction, schema, |rights| {
                rights.give(owner.as_deref());
            }),
            Object::Relation(name) => give_relation(transaction, name, owner.as_deref()),
        })?;
        Ok(true)
    }
}

/// Gives a relation to another owner, and a table with the sequences of its columns.
fn give_relation(
    transaction: &mut Transaction,
    name: &str,
    owner: Option<&str>,
) -> Result<(), ApplyError> {
    let catalog = transaction.catalog();
    let Some(object) = catalog.get(name) else { return Ok(()) };
    transaction.use_table(object)?;
    if is_sequence(object)
        && let Some(of) = Definition::of(object)?.owner
        && rights(&catalog, name)?.owner.as_deref() != owner
    {
        let has = |name: &str| catalog.get(name).is_some();
        let (name, table) = (schemas::bare(name, &has), schemas::bare(&of.table, &has));
        let detail = format!("Sequence \"{name}\" is linked to table \"{table}\".");
        let message = format!("cannot change owner of sequence \"{name}\"");
        return Err(SqlError::unsupported(message).with_detail(detail).into());
    }
    comments::change(transaction, name, |beside| beside.rights.give(owner))?;
    for (sequence, _) in owned(&catalog, name)? {
        transaction.use_table(&sequence)?;
        comments::change(transaction, sequence.name(), |beside| beside.rights.give(owner))?;
    }
    Ok(())
}

fn unknown_role(name: &str) -> SqlError {
    let message = format!("role \"{name}\" does not exist");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
}

/// The role that a statement names.
fn grantee(grantee: &Grantee, role: &SessionRole) -> Result<String, SqlError> {
    if grantee.grantee_type == GranteesType::Public {
        return Ok(PUBLIC.to_owned());
    }
    let ident = match &grantee.name {
        Some(GranteeName::ObjectName(name)) => match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        },
        _ => None,
    };
    let Some(ident) = ident else {
        let message = format!("{grantee} is not the name of a role");
        return Err(SqlError::new(SqlErrorKind::Syntax, message));
    };
    let name = names::fold(ident);
    if ident.quote_style.is_none() && name == PUBLIC {
        return Ok(name);
    }
    if ident.quote_style.is_none()
        && matches!(name.as_str(), "current_user" | "current_role" | "session_user")
    {
        return Ok(role.name.clone());
    }
    match role.roles.role(&name) {
        Some(_) => Ok(name),
        None => Err(unknown_role(&name)),
    }
}

/// The privileges that a statement names; `None` for all.
fn named(privileges: &Named) -> Result<Option<Vec<Privileges>>, SqlError> {
    let Named::Actions(actions) = privileges else { return Ok(None) };
    let of_columns = |columns: &Option<Vec<_>>| columns.is_some();
    let one = |action: &Action| {
        let has_columns = match action {
            Action::Select { columns }
            | Action::Insert { columns }
            | Action::Update { columns }
            | Action::References { columns } => of_columns(columns),
            _ => false,
        };
        if has_columns {
            let message = "privileges of single columns are not supported";
            return Err(SqlError::unsupported(message));
        }
        let name = action.to_string();
        Privileges::named(&name).ok_or_else(|| {
            let message = format!("unrecognized privilege type \"{}\"", name.to_lowercase());
            SqlError::new(SqlErrorKind::Syntax, message)
        })
    };
    actions.iter().map(one).collect::<Result<Vec<_>, _>>().map(Some)
}

/// The objects that a statement names.
fn of_statement(catalog: &Catalog, objects: &GrantObjects) -> Result<Vec<Object>, SqlError> {
    let relations = |names: &[ObjectName], wanted: Option<&str>| {
        let each = names.iter().map(|name| {
            let (flat, span) = names::table_name(name)?;
            let found = catalog.get(&flat).is_some();
            if !found {
                let message = format!("relation \"{flat}\" does not exist");
                return Err(SqlError::new(SqlErrorKind::UnknownTable, message).at(span));
            }
            if wanted.is_some_and(|wanted| kind(catalog, &flat) != wanted) {
                let message = format!("\"{flat}\" is not a sequence");
                let error = SqlError::new(SqlErrorKind::Schema, message);
                return Err(error.with_cause(Cause::OtherObject).at(span));
            }
            Ok(Object::Relation(flat))
        });
        each.collect::<Result<Vec<_>, _>>()
    };
    let schemas = |names: &[ObjectName]| {
        let each = names.iter().map(|name| {
            let schema = names::last(name);
            match schemas::exists(&schema, &|name| catalog.get(name).is_some()) {
                true => Ok(schema),
                false => Err(schemas::unknown(&schema)),
            }
        });
        each.collect::<Result<Vec<_>, _>>()
    };
    let all_in = |names: &[ObjectName], kinds: &[&str]| {
        let mut all = Vec::new();
        for schema in schemas(names)? {
            let found = schemas::relations(catalog, &schema).into_iter();
            all.extend(found.filter(|name| kinds.contains(&kind(catalog, name))));
        }
        Ok(all.into_iter().map(Object::Relation).collect())
    };
    match objects {
        GrantObjects::Tables(names) | GrantObjects::Views(names) => relations(names, None),
        GrantObjects::Sequences(names) => relations(names, Some("sequence")),
        GrantObjects::Schemas(names) => {
            Ok(schemas(names)?.into_iter().map(Object::Schema).collect())
        }
        GrantObjects::AllTablesInSchema { schemas } => all_in(schemas, &["table", "view"]),
        GrantObjects::AllSequencesInSchema { schemas } => all_in(schemas, &["sequence"]),
        other => Err(SqlError::unsupported(format!("privileges on {other} are not supported"))
            .with_hint(Some("they are for tables, views, sequences and schemas".to_owned()))),
    }
}

fn all(catalog: &Catalog, relation: &str) -> Privileges {
    match kind(catalog, relation) {
        "sequence" => Privileges::OF_SEQUENCES,
        _ => Privileges::OF_TABLES,
    }
}

/// Checks that there are such privileges for an object.
fn check_kind(
    catalog: &Catalog,
    object: &Object,
    privileges: Option<&[Privileges]>,
) -> Result<(), SqlError> {
    let (all, what) = match object {
        Object::Schema(_) => (Privileges::OF_SCHEMAS, "schema"),
        Object::Relation(name) => (all(catalog, name), kind(catalog, name)),
    };
    if what == "type" {
        return Err(SqlError::unsupported("privileges on types are not supported"));
    }
    let wrong = privileges.unwrap_or_default().iter().find(|one| !all.has(**one));
    match wrong {
        None => Ok(()),
        Some(one) => {
            let message = format!("invalid privilege type {} for {what}", one.name());
            Err(SqlError::new(SqlErrorKind::Schema, message).with_state("0LP01"))
        }
    }
}
