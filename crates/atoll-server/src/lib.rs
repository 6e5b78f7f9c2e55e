//! A server for clients of PostgreSQL.
//!
//! A [`Server`] listens on a Unix socket and on TCP and speaks PostgreSQL's protocol 3.0 and 3.2
//! (`wire`). Each connection is a session of `atoll-sql` (`connection`); what a session cannot know
//! is here: the identity of the client (`auth`), portals, the formats of values (`values`), `COPY`
//! through the connection, cancellation (`clients`).
//!
//! - `SERVER-1`: a connection has a thread while messages come, and none while it is idle. The
//!   thread waits for the next message for a moment ([`ServerOptions::linger`]); then the
//!   connection goes back to the reactor, with its session and without buffers.
//! - `SERVER-2`: there are as many threads as connections are permitted, so that one that waits for
//!   another never keeps that one from running.
//! - `SERVER-3`: what one client does ends at most its own connection. Before it is known, a client
//!   has a limited time, and few bytes of memory.

#![forbid(unsafe_code)]

mod activity;
mod ask;
mod auth;
mod clients;
mod connection;
mod console;
mod link;
mod listen;
mod log;
mod metrics;
mod options;
mod pool;
mod prometheus;
mod reactor;
mod server;
mod shared;
mod snapshots;
mod socket;
mod startup;
mod statements;
mod tls;
mod values;
mod wire;

pub use ask::{AskError, ask};
pub use auth::{ROLES_FILE, RolesError, restore_roles};
pub use log::LogOptions;
pub use options::ServerOptions;
pub use server::{Server, ServerError};
pub use tls::{TlsError, TlsFiles};
