//! The identity of a client.
//!
//! On the Unix socket the system says which user has connected: that user is the role of the same
//! name, and the user of the server itself may be any role. On TCP a role proves that it knows its
//! password (`scram`).

mod roles;
pub(crate) mod scram;
mod users;

pub use roles::{ROLES_FILE, RolesError, restore_roles};
pub(crate) use roles::{Role, RoleChange, Roles};
pub(crate) use scram::{Verifier, is_password};
pub(crate) use users::{name_of, own_user};
