//! A server, and clients that send it bytes: what each message is answered with.

#![allow(clippy::unwrap_used)]

mod abuse;
mod client;
mod copy;
mod extended;
mod logins;
mod logs;
mod metrics;
mod others;
mod privileges;
mod simple;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use atoll::Database;
use atoll_server::{Server, ServerOptions};
use tempfile::TempDir;

use client::Client;

/// A server with its own folder.
pub(crate) struct Served {
    server: Option<Server>,
    folder: TempDir,
    pub(crate) port: u16,
    pub(crate) metrics: Option<SocketAddr>,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ServerOptions {
            socket_folder: Some(folder.path().to_owned()),
            addresses: vec![[127, 0, 0, 1].into()],
            port: 0,
            linger: Duration::from_millis(2),
            ..ServerOptions::default()
        };
        change(&mut options);
        let db = Database::create(atoll_sql::database_options()).unwrap();
        let roles = folder.path().join("roles");
        let server = Server::start(db, "bank", Some(&roles), options).unwrap();
        let (port, metrics) = (server.addresses()[0].port(), server.metrics());
        Self { server: Some(server), folder, port, metrics }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port))
    }

    /// A client of the user of this process, on the Unix socket.
    pub(crate) fn client(&self) -> Client {
        Client::login(&self.socket())
    }

    pub(crate) fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }
}
