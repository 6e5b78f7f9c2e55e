//! What a server is told when it starts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::log::LogOptions;
use crate::tls::TlsFiles;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The runtime directory in which the database has its name, and named snapshots have theirs;
    /// `None` is that of the user.
    pub runtime_dir: Option<PathBuf>,
    /// The folder of the Unix socket; `None` for no such socket.
    pub socket_folder: Option<PathBuf>,
    /// Addresses to listen on.
    pub addresses: Vec<IpAddr>,
    /// The port, which is also a part of the name of the Unix socket. 0 is any that is free.
    pub port: u16,
    /// The certificate for clients that ask for encryption. With one, those of other machines have
    /// to.
    pub tls: Option<TlsFiles>,
    /// Listens on addresses that other machines reach, without encryption.
    pub allows_plaintext: bool,
    /// Most clients at a time.
    pub connections_max: usize,
    /// Time that a client has to authenticate.
    pub authentication_time: Duration,
    /// Time that a thread waits for the next message of its connection.
    pub linger: Duration,
    /// Time that clients have to end when the server does.
    pub shutdown_time: Duration,
    /// What is logged of statements.
    pub log: LogOptions,
    /// The address at which Prometheus gets metrics; `None` for no such endpoint.
    pub metrics: Option<SocketAddr>,
    /// The address of the web console; `None` for no console. Without TLS it must be one of this
    /// machine.
    pub console: Option<SocketAddr>,
    /// Names under which browsers may reach the console, besides its address.
    pub console_hosts: Vec<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            runtime_dir: None,
            socket_folder: None,
            addresses: Vec::new(),
            port: 5432,
            tls: None,
            allows_plaintext: false,
            connections_max: 1000,
            authentication_time: Duration::from_secs(30),
            linger: Duration::from_millis(5),
            shutdown_time: Duration::from_secs(10),
            log: LogOptions::default(),
            metrics: None,
            console: None,
            console_hosts: Vec::new(),
        }
    }
}
