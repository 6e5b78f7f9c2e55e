//! The relations that a `GRANT` or a `REVOKE` names.

use sqlparser::ast::{Grant, GrantObjects, ObjectName, Revoke, Statement};

/// Their names; none for a statement about schemas, and for any other.
pub(crate) fn relations_mut(statement: &mut Statement) -> &mut [ObjectName] {
    let objects = match statement {
        Statement::Grant(Grant { objects, .. }) | Statement::Revoke(Revoke { objects, .. }) => {
            objects.as_mut()
        }
        _ => None,
    };
    match objects {
        Some(
            GrantObjects::Tables(names)
            | GrantObjects::Views(names)
            | GrantObjects::Sequences(names),
        ) => names,
        _ => &mut [],
    }
}
