//! A server, and clients that send it bytes: what each message is answered with.

#![allow(clippy::unwrap_used)]

mod abuse;
mod client;
mod console;
mod copy;
mod extended;
mod logins;
mod logs;
mod metrics;
mod others;
mod privileges;
mod simple;
mod statistics;

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
    pub(crate) console: Option<String>,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::named("bank", tempfile::tempdir().unwrap(), change)
    }

    /// One of a database that others attach to.
    pub(crate) fn published(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().to_owned();
        Self::named(name, folder, |options| options.runtime_dir = Some(runtime))
    }

    fn named(name: &str, folder: TempDir, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = ServerOptions {
            socket_folder: Some(folder.path().to_owned()),
            addresses: vec![[127, 0, 0, 1].into()],
            port: 0,
            linger: Duration::from_millis(2),
            ..ServerOptions::default()
        };
        change(&mut options);
        let db = Database::create(atoll_sql::database_options()).unwrap();
        if let Some(runtime) = &options.runtime_dir {
            db.publish(name, Some(runtime)).unwrap();
        }
        let roles = folder.path().join("roles");
        let server = Server::start(db, name, Some(&roles), options).unwrap();
        let (port, metrics) = (server.addresses()[0].port(), server.metrics());
        let console = server.console();
        Self { server: Some(server), folder, port, metrics, console }
    }

    /// The runtime directory of a published one.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port))
    }

    /// A client of the user of this process, on the Unix socket.
    pub(crate) fn client(&self) -> Client {
        Client::login(&self.socket())
    }

    /// The same for a database of another name.
    pub(crate) fn client_of(&self, database: &str) -> Client {
        Client::login_as(&self.socket(), &client::user(), database, &[])
    }

    pub(crate) fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }
}
