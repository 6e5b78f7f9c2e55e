//! What the role of a session may do.
//!
//! - `PRIVILEGE-1`: privileges are checked for sessions of a server with a role that is no
//!   superuser, when a statement is about to run. A session without a role, or with one that is a
//!   superuser, passes all checks, and pays for none.
//! - `PRIVILEGE-2`: the rights of a relation are kept with its comments, and those of a schema with
//!   its name, so they are part of transactions and follow a relation that gets another name
//!   (`COMMENT-1`).
//! - `PRIVILEGE-3`: what a view reads is checked for the owner of the view, and the view for the
//!   role that reads it. What has no owner was made by a superuser, or by a program.
//!
//! In reading order: `rights` (what is kept), [`needed`] (what a statement needs), [`guard`] (the
//! checks).

pub(crate) mod guard;
pub(crate) mod needed;

pub use guard::{RoleInfo, Roles};
