//! The keys of a configuration file.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::values::{
    Address, Bytes, Checked, Connections, Interval, Level, Scheme, Survival, Time,
};

/// A configuration file. What is not said has its default.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub name: Option<String>,
    runtime_dir: Option<PathBuf>,
    server: Server,
    database: Database,
    queries: Queries,
    log: Log,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Server {
    port: Option<u16>,
    listen: Vec<Checked<Address>>,
    socket_dir: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    allow_plaintext: Option<bool>,
    max_connections: Option<Checked<Connections>>,
    authentication_timeout: Option<Checked<Time>>,
    metrics: Option<SocketAddr>,
    console: Option<SocketAddr>,
    console_host: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Database {
    data: Option<PathBuf>,
    scheme: Option<Checked<Scheme>>,
    durability: Option<Checked<Survival>>,
    checkpoint_every: Option<Checked<Interval>>,
    archive: Option<PathBuf>,
    memory: Option<Checked<Bytes>>,
    memory_budget: Option<Checked<Bytes>>,
    ready_memory: Option<Checked<Bytes>>,
    cold_node: Option<u32>,
    nodes: Option<usize>,
    node_folder: Vec<PathBuf>,
    snapshot_age_max: Option<Checked<Time>>,
    snapshot_bytes_max: Option<Checked<Bytes>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Queries {
    query_memory: Option<Checked<Bytes>>,
    spill_limit: Option<Checked<Bytes>>,
    spill_folder: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Log {
    log_level: Option<Checked<Level>>,
    log_file: Option<PathBuf>,
    log_rotate_size: Option<Checked<Bytes>>,
    log_rotate_age: Option<Checked<Interval>>,
    log_keep: Option<u32>,
    log_min_duration: Option<Checked<Time>>,
    log_values: Option<bool>,
}

/// A key, with the section that it is in; none for those above all sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub section: Option<String>,
    pub name: String,
}

/// The keys that there are: those above all sections first, in alphabetical order.
pub fn keys() -> Vec<Key> {
    Config::default().entries().into_iter().map(|(key, _)| key).collect()
}

impl Config {
    /// Its keys with their values, and those without.
    pub fn entries(&self) -> Vec<(Key, Json)> {
        // Paths that are no text cannot come from a file of text.
        let Ok(Json::Object(all)) = serde_json::to_value(self) else { return Vec::new() };
        let (sections, single): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, value)| value.is_object());
        let mut entries = Vec::new();
        for (name, value) in single {
            entries.push((Key { section: None, name }, value));
        }
        for (section, values) in sections {
            let Json::Object(values) = values else { continue };
            for (name, value) in values {
                entries.push((Key { section: Some(section.clone()), name }, value));
            }
        }
        entries
    }
}
