//! A server from its start to its end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use atoll::Database;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::auth::{Roles, RolesError};
use crate::connection::{self, Connection};
use crate::console::Console;
use crate::listen::{ListenError, Listener};
use crate::options::ServerOptions;
use crate::prometheus::Endpoint;
use crate::reactor::{Happened, Reactor, pause};
use crate::shared::Shared;
use crate::tls::{Tls, TlsError};

/// Time between two looks whether all connections have ended.
const END_PERIOD: Duration = Duration::from_millis(10);

/// Open files beside those of connections.
const SPARE_FILES: u64 = 512;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The file of its roles.
    #[error(transparent)]
    Roles(#[from] RolesError),
    /// Its certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Other machines would send and get everything in the clear.
    #[error("{0} is reached by other machines, and there is no certificate to encrypt with")]
    Plaintext(IpAddr),
    /// The process may not have so many descriptors.
    #[error("{wanted} connections need more open files than the {limit} of this process")]
    Files {
        /// Connections that are permitted.
        wanted: usize,
        /// The limit of open files.
        limit: u64,
    },
    /// The address of the metrics is taken, or is none of this machine.
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The address of the console is taken, or is none of this machine.
    #[error("cannot listen on {address} for the console: {source}")]
    Console {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Passwords and data would pass between machines in the clear.
    #[error("a console at {0} is reached by other machines, and there is no certificate")]
    ConsolePlaintext(SocketAddr),
    /// The system refuses a thread or a descriptor.
    #[error("the server cannot start: {0}")]
    System(#[from] io::Error),
}

impl ServerError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen(error) => error.hint(),
            Self::Roles(error) => Some(error.hint()),
            Self::Tls(error) => error.hint(),
            Self::Plaintext(_) => {
                Some("give --tls-cert and --tls-key, or say --allow-plaintext".to_owned())
            }
            Self::Files { .. } => {
                Some("raise the limit (ulimit -n), or lower --max-connections".to_owned())
            }
            Self::Metrics { .. } => Some(
                "--metrics takes a free address of this machine, such as 127.0.0.1:9187".into(),
            ),
            Self::Console { .. } => Some(
                "--console takes a free address of this machine, such as 127.0.0.1:8432".into(),
            ),
            Self::ConsolePlaintext(_) => Some(
                "give --tls-cert and --tls-key, or an address such as 127.0.0.1:8432".to_owned(),
            ),
            Self::System(_) => None,
        }
    }
}

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    reactor: Arc<Reactor<Connection>>,
    listeners: Arc<Vec<Listener>>,
    thread: Option<JoinHandle<()>>,
    endpoint: Option<Endpoint>,
    console: Option<Console>,
}

impl Server {
    /// Listens, for clients of a database that is known under a name. Roles are read from a file,
    /// or have no file and end with the server.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(
        db: Database,
        name: &str,
        roles: Option<&Path>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let tls = options.tls.as_ref().map(Tls::open).transpose()?;
        if tls.is_none()
            && !options.allows_plaintext
            && let Some(open) = options.addresses.iter().find(|address| !address.is_loopback())
        {
            return Err(ServerError::Plaintext(*open));
        }
        if let Some(address) = options.console.filter(|address| !address.ip().is_loopback())
            && tls.is_none()
        {
            return Err(ServerError::ConsolePlaintext(address));
        }
        raise_files(options.connections_max)?;
        let roles = Roles::open(roles)?;
        let listeners = Arc::new(Listener::all(&options)?);
        let reactor = Reactor::new(&listeners)?;
        let endpoint = options.metrics.map(|address| {
            Endpoint::listen(address).map_err(|source| ServerError::Metrics { address, source })
        });
        let endpoint = endpoint.transpose()?;
        let console = options.console.map(|address| {
            Console::listen(address).map_err(|source| ServerError::Console { address, source })
        });
        let console = console.transpose()?;
        let shared = Arc::new(Shared::new(db, name.to_owned(), options, (roles, tls)));
        let thread = {
            let (shared, reactor) = (Arc::clone(&shared), Arc::clone(&reactor));
            let listeners = Arc::clone(&listeners);
            let work = move || serve(&shared, &reactor, &listeners);
            Builder::new().name("atoll-server".into()).spawn(work)?
        };
        let mut server = Self {
            shared,
            reactor,
            listeners,
            thread: Some(thread),
            endpoint: None,
            console: None,
        };
        if let Some(listener) = endpoint {
            server.endpoint = Some(Endpoint::start(listener, &server.shared)?);
        }
        if let Some(listener) = console {
            server.console = Some(Console::start(listener, &server.shared)?);
        }
        Ok(server)
    }

    /// The address of the metrics, if there is one.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.endpoint.as_ref().map(|endpoint| endpoint.address)
    }

    /// The address of the console for a browser, if there is one.
    pub fn console(&self) -> Option<String> {
        self.console.as_ref().map(Console::url)
    }

    /// The Unix socket, if there is one.
    pub fn socket(&self) -> Option<PathBuf> {
        self.listeners.iter().find_map(|listener| listener.path().map(Path::to_owned))
    }

    /// The addresses on which it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// Ends: no client is let in, statements end, clients are told why, and what they have not
    /// committed is rolled back. Dropping a server does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.begin_end();
        drop(self.endpoint.take());
        drop(self.console.take());
        for connection in self.reactor.close() {
            connection::resume(connection, &self.shared, &self.reactor);
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported.
            let _ = thread.join();
        }
        let end = Instant::now() + self.shared.options.shutdown_time;
        // What has not ended by then ends with the process.
        while self.shared.clients.count() > 0 && Instant::now() < end {
            self.shared.begin_end();
            std::thread::sleep(END_PERIOD);
        }
        self.shared.snapshots.end();
    }
}

/// Raises the limit of open files to what the connections, and the database, need.
fn raise_files(connections: usize) -> Result<(), ServerError> {
    let wanted = connections as u64 + SPARE_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(wanted);
    if most < wanted {
        return Err(ServerError::Files { wanted: connections, limit: most });
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(io::Error::from)?;
    Ok(())
}

/// Gives clients and messages to threads, until the reactor is closed.
fn serve(shared: &Arc<Shared>, reactor: &Arc<Reactor<Connection>>, listeners: &[Listener]) {
    let ended = reactor.run(|happened| match happened {
        Happened::Connection(connection) => connection::resume(connection, shared, reactor),
        Happened::Listener(at) => match listeners[at].accept() {
            Ok(Some(socket)) => connection::begin(socket, shared, reactor),
            Ok(None) => {}
            Err(_) => pause(),
        },
    });
    // Without it no client is served; those that have threads end by themselves.
    if ended.is_err() {
        shared.begin_end();
    }
}
