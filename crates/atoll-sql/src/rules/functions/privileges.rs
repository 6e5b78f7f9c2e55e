//! The functions that tell what a role may do, for the session of the running statement
//! (`CONTEXT-1`). A session without roles may do everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kind::Kind::{Bool, Text};
use super::{Function, refused, strict};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::privileges::RoleInfo;
use crate::privileges::guard::{on_relation, on_schema};
use crate::rights::Privileges;
use crate::schemas;
use crate::sequence::context::{self, Context};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "has_table_privilege",
        overloads: &[strict(&[Text, Text], Bool, table), strict(&[Text, Text, Text], Bool, table)],
    },
    Function {
        name: "has_sequence_privilege",
        overloads: &[strict(&[Text, Text], Bool, table), strict(&[Text, Text, Text], Bool, table)],
    },
    Function {
        name: "has_schema_privilege",
        overloads: &[
            strict(&[Text, Text], Bool, schema),
            strict(&[Text, Text, Text], Bool, schema),
        ],
    },
    Function {
        name: "pg_has_role",
        overloads: &[
            strict(&[Text, Text], Bool, member),
            strict(&[Text, Text, Text], Bool, member),
        ],
    },
];

/// Whether a function is one of these.
pub(super) fn has(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

fn context() -> Result<Arc<Context>, SqlError> {
    let message = "privileges are those of a session";
    context::current().ok_or_else(|| SqlError::new(SqlErrorKind::Unsupported, message))
}

/// The arguments as texts.
fn texts(arguments: &[Literal]) -> Vec<&str> {
    let each = arguments.iter().map(|one| match one {
        Literal::Text(text) => text.as_str(),
        _ => "",
    });
    each.collect()
}

/// What is known of a role: of the session's if none is named. `None` where there are no roles.
fn role(context: &Context, name: Option<&str>) -> Result<Option<RoleInfo>, SqlError> {
    let Some(own) = context.role() else { return Ok(None) };
    match name {
        None => Ok(Some((*own.info()).clone())),
        Some(name) => own.roles.role(name).map(Some).ok_or_else(|| {
            let message = format!("role \"{name}\" does not exist");
            SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
        }),
    }
}

/// The privileges of a list: whether one is had, by what an owner has and what the role has.
fn has_one(list: &str, has: Privileges, is_owner: bool) -> Result<bool, SqlError> {
    let mut found = false;
    for item in list.split(',') {
        let item = item.trim().to_ascii_uppercase();
        let (name, with_option) = match item.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name, true),
            None => (item.as_str(), false),
        };
        let Some(privilege) = Privileges::named(name) else {
            let message = format!("unrecognized privilege type: \"{item}\"");
            return Err(refused("22023", message));
        };
        found |= has.has(privilege) && (is_owner || !with_option);
    }
    Ok(found)
}

fn split<'a>(arguments: &[&'a str]) -> (Option<&'a str>, &'a str, &'a str) {
    match arguments {
        [user, object, privileges] => (Some(*user), *object, *privileges),
        [object, privileges] => (None, *object, *privileges),
        _ => (None, "", ""),
    }
}

fn table(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let context = context()?;
    let arguments = texts(arguments);
    let (user, name, privileges) = split(&arguments);
    let object = context.relation(name)?;
    let info = role(&context, user)?;
    let all = Privileges::OF_TABLES | Privileges::OF_SEQUENCES;
    let (has, is_owner) = match info.filter(|info| !info.is_superuser) {
        None => (all, true),
        Some(info) => {
            let catalog = context.catalog()?;
            let has = on_relation(&catalog, object.name(), &info.roles)?;
            (has, is_owner(&info.roles, &context, object.name())?)
        }
    };
    has_one(privileges, has, is_owner).map(Literal::Bool)
}

fn is_owner(roles: &BTreeSet<String>, context: &Context, name: &str) -> Result<bool, SqlError> {
    let catalog = context.catalog()?;
    Ok(crate::privileges::guard::rights(&catalog, name)?.is_owned_by(roles))
}

fn schema(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let context = context()?;
    let arguments = texts(arguments);
    let (user, name, privileges) = split(&arguments);
    let catalog = context.catalog()?;
    if !schemas::exists(name, &|name| catalog.get(name).is_some()) {
        return Err(schemas::unknown(name));
    }
    let info = role(&context, user)?;
    let (has, is_owner) = match info.filter(|info| !info.is_superuser) {
        None => (Privileges::OF_SCHEMAS, true),
        Some(info) => {
            let rights = schemas::rights(&catalog, name)?;
            (on_schema(&catalog, name, &info.roles)?, rights.is_owned_by(&info.roles))
        }
    };
    has_one(privileges, has, is_owner).map(Literal::Bool)
}

/// Whether a role is a member of another: at once a member and with its privileges.
fn member(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let context = context()?;
    let arguments = texts(arguments);
    let (user, group, what) = split(&arguments);
    if !matches!(what.to_ascii_uppercase().as_str(), "MEMBER" | "USAGE" | "SET") {
        let message = format!("unrecognized privilege type: \"{what}\"");
        return Err(refused("22023", message));
    }
    // That there is such a role.
    role(&context, Some(group))?;
    let info = role(&context, user)?;
    let is_member = info.is_none_or(|info| info.is_superuser || info.roles.contains(group));
    Ok(Literal::Bool(is_member))
}
