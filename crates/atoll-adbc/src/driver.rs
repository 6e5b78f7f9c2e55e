//! The driver, and the databases that it opens.
//!
//! ```text
//! uri = "/data/board"       the database in a folder; the one that is open here, if it is
//! uri absent, ":memory:"    a new database in memory, which lives as long as its connections
//! uri = "open:7"            a database that is open in this process, by its number
//! uri = "attach:board"      the database of another process with this name, read only
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adbc_core::Optionable;
use adbc_core::error::Error;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};

use crate::connection::Connection;
use crate::errors::{Result, guarded, of_database, of_open, wrong_argument, wrong_state};
use crate::link::Source;
use crate::options::{self, Defaults, only_texts};
use crate::registry::{self, Settings};

const DURABILITY: &str = "atoll.durability";
const SCHEME: &str = "atoll.scheme";
const MEMORY_LIMIT: &str = "atoll.memory_limit";
const RUNTIME_DIR: &str = "atoll.runtime_dir";

/// The ADBC driver of Atoll.
#[derive(Debug, Default)]
pub struct Driver;

/// A database, to which connections are made.
pub struct Database {
    source: Source,
    uri: String,
    defaults: Defaults,
}

impl adbc_core::Driver for Driver {
    type DatabaseType = Database;

    fn new_database(&mut self) -> Result<Database> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<Database> {
        let mut uri = String::new();
        let (mut settings, mut defaults) = (Settings::default(), Defaults::default());
        let mut runtime_dir = None;
        for (key, value) in options {
            let name = key.as_ref();
            match name {
                _ if matches!(key, OptionDatabase::Uri) => uri = options::text(name, value)?,
                DURABILITY => settings.durability = Some(parsed(name, value)?),
                SCHEME => settings.scheme = Some(parsed(name, value)?),
                MEMORY_LIMIT => settings.memory_limit_bytes = Some(options::number(name, value)?),
                RUNTIME_DIR => runtime_dir = Some(PathBuf::from(options::text(name, value)?)),
                _ => defaults.set(name, value)?,
            }
        }
        let source = guarded(|| connect(&uri, &settings, runtime_dir.as_deref()))?;
        Ok(Database { source, uri, defaults })
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    value: OptionValue,
) -> Result<T> {
    options::text(key, value)?.parse().map_err(|error: T::Err| wrong_argument(error.to_string()))
}

fn connect(uri: &str, settings: &Settings, runtime_dir: Option<&Path>) -> Result<Source> {
    let only_attached = || wrong_argument(format!("{RUNTIME_DIR} belongs to attach:NAME only"));
    if let Some(name) = uri.strip_prefix("attach:") {
        check_no_settings(settings)?;
        let attached = atoll::attach(name, runtime_dir).map_err(|error| of_database(&error))?;
        return Ok(Source::Attached(Arc::new(attached)));
    }
    if runtime_dir.is_some() {
        return Err(only_attached());
    }
    if let Some(number) = uri.strip_prefix("open:") {
        check_no_settings(settings)?;
        let found = number.parse().ok().and_then(registry::find);
        let closed = || wrong_state(format!("no database is open under the number {number}"));
        return found.map(Source::Owned).ok_or_else(closed);
    }
    if matches!(uri, "" | ":memory:") {
        if settings.durability.is_some() {
            let message = format!("{DURABILITY} belongs to a database in a folder");
            return Err(wrong_argument(message));
        }
        let db = atoll::Database::create(settings.options());
        return Ok(Source::Owned(registry::share(db.map_err(|error| of_database(&error))?)));
    }
    let shared = registry::open(Path::new(uri), settings);
    shared.map(Source::Owned).map_err(|error| of_open(&error))
}

fn check_no_settings(settings: &Settings) -> Result<()> {
    if *settings == Settings::default() {
        return Ok(());
    }
    Err(wrong_argument("a database that is open has its settings already; give none"))
}

impl adbc_core::Database for Database {
    type ConnectionType = Connection;

    fn new_connection(&self) -> Result<Connection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Connection> {
        Connection::new(self.source.clone(), self.defaults.clone(), options)
    }
}

impl Optionable for Database {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, value: OptionValue) -> Result<()> {
        self.defaults.set(key.as_ref(), value)
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let missing = |key: &str| -> Error { options::not_found(key) };
        match key.as_ref() {
            _ if matches!(key, OptionDatabase::Uri) => Ok(self.uri.clone()),
            name => self.defaults.get(name).ok_or_else(|| missing(name)),
        }
    }

    only_texts!(OptionDatabase);
}
