//! Arguments of `atoll serve`.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::log::{LogLevel, ServerLogArgs};
use super::owner::OwnerArgs;
use crate::size;

/// How many clients there may be at a time.
pub const CONNECTIONS: RangeInclusive<u32> = 4..=100_000;

/// `atoll serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll serve bank --data ./bank        own a database and serve it
  psql -h $XDG_RUNTIME_DIR/atoll bank   a client on this machine, as the user of the system
  psql -h $XDG_RUNTIME_DIR/atoll bank -c \"ALTER ROLE $USER PASSWORD 'secret'\"
  psql -h 127.0.0.1 -U $USER bank       a client on the network, with that password
  atoll attach bank                     a snapshot of it, at the same time
  atoll serve --config bank.toml        all of that from a file; what the command line says, wins
  atoll config check bank.toml          what is wrong in the file

The first line says where the server listens. On the Unix socket, a user of the system is the role
of the same name, and the user of the server may be any role. On TCP a role proves its
password (SCRAM-SHA-256). The roles of a database in a folder are in the file `roles` there.
SIGINT (Ctrl-C) or SIGTERM ends the server: statements end, and clients are told why.")]
pub struct ServeArgs {
    /// Name under which other processes find the database, and clients connect to it
    #[arg(required_unless_present = "config")]
    pub name: Option<String>,

    /// File with options, in TOML: each under its name, with underscores
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Port, on TCP and in the name of the Unix socket
    #[arg(long, value_name = "PORT", default_value_t = 5432)]
    pub port: u16,

    /// Address to listen on, or none for the Unix socket alone; may be given again [default:
    /// 127.0.0.1]
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = parse_listen)]
    pub listen: Vec<Listen>,

    /// Folder of the Unix socket, or none for TCP alone [default: that of --runtime-dir]
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,

    /// Certificate of the server in PEM, for clients that ask for encryption; with it, clients of
    /// other machines have to
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate in PEM, which only its owner may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Listen on addresses that other machines reach, without encryption
    #[arg(long, conflicts_with = "tls_cert")]
    pub allow_plaintext: bool,

    /// Most clients at a time; the last three places are for superusers
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(
        i64::from(*CONNECTIONS.start())..=i64::from(*CONNECTIONS.end())
    ))]
    pub max_connections: u32,

    /// Time that a client has to authenticate (seconds, or 10s, 1m)
    #[arg(long, value_name = "TIME", value_parser = size::parse_time, default_value = "30")]
    pub authentication_timeout: Duration,

    /// Address and port at which Prometheus gets metrics, as http://ADDRESS/metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,

    /// Address and port of the web console; without a certificate one of this machine, such as
    /// 127.0.0.1:8432 [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub console: Option<SocketAddr>,

    /// Name under which browsers reach the console, such as db.example.org; may be given again
    #[arg(long = "console-host", value_name = "NAME", requires = "console")]
    pub console_host: Vec<String>,

    /// The log.
    #[command(flatten)]
    pub log: ServerLogArgs,

    /// Settings of the database.
    #[command(flatten)]
    pub owner: OwnerArgs,
}

impl ServeArgs {
    /// What is wrong with options that go together, and what to do.
    pub fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        if self.listen.contains(&Listen::None) && self.listen.len() > 1 {
            let message = "--listen none is given beside an address";
            return Some((message, "give addresses, or none alone"));
        }
        let is_silent = matches!(self.log.log_level, LogLevel::Off | LogLevel::Error);
        if is_silent && self.log.log_min_duration.is_some() {
            let message = "--log-min-duration logs nothing, because of --log-level";
            return Some((message, "give --log-level=warn, or leave out --log-min-duration"));
        }
        None
    }
}

/// Where a server listens on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    None,
    /// On an address of this machine.
    On(IpAddr),
}

/// Reads where a server listens on TCP.
///
/// # Errors
/// A sentence that says how an address looks.
pub fn parse_listen(text: &str) -> Result<Listen, String> {
    match text {
        "none" => Ok(Listen::None),
        "localhost" => Ok(Listen::On(IpAddr::from([127, 0, 0, 1]))),
        text => text
            .parse()
            .map(Listen::On)
            .map_err(|_| "it is an address such as 127.0.0.1, 0.0.0.0 or ::, or none".to_owned()),
    }
}
