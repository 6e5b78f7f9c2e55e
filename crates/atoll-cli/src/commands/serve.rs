//! `atoll serve`: own a database and serve clients of PostgreSQL.

use std::io::Write;
use std::path::Path;

use atoll::RuntimeDir;
use atoll_server::{ROLES_FILE, Server, ServerError, ServerOptions, TlsFiles};

use super::{notify, wait_for_end};
use crate::args::{GlobalArgs, Listen, ServeArgs};
use crate::error::{CliError, Result};
use crate::logging;
use crate::output::{Output, say};
use crate::session::Session;

/// Runs the command.
///
/// # Errors
/// A database that cannot be opened, and sockets that cannot be made.
pub fn run(args: &ServeArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let name = args.name.as_deref().ok_or_else(|| {
        let hint = "give it on the command line, or as `name` at the top of the file";
        CliError::with_hint("the database has no name", hint)
    })?;
    let options = options(args, global)?;
    logging::begin(&args.log)?;
    let session = Session::own(name, &args.owner, global)?;
    let database = session.database()?.clone();
    let roles = args.owner.data.as_ref().map(|folder| folder.join(ROLES_FILE));
    let server = Server::start(database.clone(), name, roles.as_deref(), options)?;
    let mut places: Vec<String> =
        server.socket().iter().map(|path| path.display().to_string()).collect();
    places.extend(server.addresses().iter().map(ToString::to_string));
    if let Some(address) = server.metrics() {
        say(&format!("metrics at http://{address}/metrics"));
    }
    if let Some(url) = server.console() {
        say(&format!("console at {url}"));
    }
    let places = places.join(" and ");
    tracing::info!(name, places, "listening");
    output.line(&format!("listening on {places}"))?;
    output.flush()?;
    say(&format!("serving {name}; Ctrl-C ends this process, which owns it"));
    tell("READY=1");
    wait_for_end()?;
    tell("STOPPING=1");
    tracing::info!(name, "stopping");
    server.stop();
    Ok(database.close()?)
}

/// Tells systemd; a service that cannot is told of, and serves.
fn tell(state: &str) {
    if let Err(error) = notify::tell(state) {
        say(&format!("warning: $NOTIFY_SOCKET cannot be told {state}: {error}"));
    }
}

fn options(args: &ServeArgs, global: &GlobalArgs) -> Result<ServerOptions> {
    if let Some((message, hint)) = args.contradiction() {
        return Err(CliError::with_hint(message, hint));
    }
    let addresses = match args.listen.as_slice() {
        [] => vec![[127, 0, 0, 1].into()],
        given => given
            .iter()
            .filter_map(|one| match one {
                Listen::On(address) => Some(*address),
                Listen::None => None,
            })
            .collect(),
    };
    let socket_folder = match &args.socket_dir {
        Some(path) if path == Path::new("none") => None,
        Some(path) => Some(path.clone()),
        None => {
            let folder = RuntimeDir::open(global.runtime_dir.as_deref());
            Some(folder.map_err(atoll::Error::from)?.path().to_owned())
        }
    };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Ok(ServerOptions {
        runtime_dir: global.runtime_dir.clone(),
        socket_folder,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        allows_plaintext: args.allow_plaintext,
        addresses,
        port: args.port,
        connections_max: args.max_connections as usize,
        authentication_time: args.authentication_timeout,
        log: logging::options(&args.log),
        metrics: args.metrics,
        console: args.console,
        console_hosts: args.console_host.clone(),
        ..ServerOptions::default()
    })
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        Self::Said { message: error.to_string(), hint: error.hint() }
    }
}
