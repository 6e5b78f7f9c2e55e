//! Connections: a session, and what is asked about the database.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::{InfoCode, IsolationLevel, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Optionable};
use arrow_schema::Schema;

use crate::catalog::{self, CATALOG, Filter, SCHEMA};
use crate::errors::{Result, error, unsupported, wrong_argument};
use crate::info;
use crate::link::{Core, Isolation, Link, Source};
use crate::options::{self, Defaults, only_texts};
use crate::results::{Stream, schema_without_views, stream_of};
use crate::statement::Statement;

/// A connection to a database.
pub struct Connection {
    link: Arc<Link>,
    defaults: Defaults,
}

impl Connection {
    pub(crate) fn new(
        source: Source,
        defaults: Defaults,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Self> {
        let read_only = matches!(source, Source::Attached(_));
        let mut connection = Self { link: Arc::new(Link::new(source, read_only)), defaults };
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}

impl Optionable for Connection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionConnection::AutoCommit => {
                let autocommit = options::truth(&name, value)?;
                self.link.with(|core| core.set_autocommit(autocommit))
            }
            OptionConnection::ReadOnly => {
                let read_only = options::truth(&name, value)?;
                self.link.with(|core| core.set_read_only(read_only))
            }
            OptionConnection::IsolationLevel => {
                let isolation = isolation(&options::text(&name, value)?)?;
                self.link.with(|core| core.set_isolation(isolation))
            }
            OptionConnection::CurrentCatalog => {
                only("catalog", CATALOG, &options::text(&name, value)?)
            }
            OptionConnection::CurrentSchema => {
                only("schema", SCHEMA, &options::text(&name, value)?)
            }
            _ => self.defaults.set(&name, value),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        let told = |tell: fn(&Core) -> String| self.link.with(|core| Ok(tell(core)));
        match key {
            OptionConnection::AutoCommit => told(|core| core.autocommit().to_string()),
            OptionConnection::ReadOnly => told(|core| core.is_read_only().to_string()),
            OptionConnection::IsolationLevel => told(|core| {
                String::from(match core.isolation() {
                    Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
                    Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
                    Isolation::Serializable => IsolationLevel::Serializable,
                })
            }),
            OptionConnection::CurrentCatalog => Ok(CATALOG.to_owned()),
            OptionConnection::CurrentSchema => Ok(SCHEMA.to_owned()),
            _ => {
                let name = key.as_ref();
                self.defaults.get(name).ok_or_else(|| options::not_found(name))
            }
        }
    }

    only_texts!(OptionConnection);
}

/// The level of a name in ADBC.
fn isolation(name: &str) -> Result<Isolation> {
    use adbc_core::constants as name_of;
    match name {
        // The second is the first, as in PostgreSQL.
        name_of::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT
        | name_of::ADBC_OPTION_ISOLATION_LEVEL_READ_UNCOMMITTED
        | name_of::ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED => Ok(Isolation::ReadCommitted),
        name_of::ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ => Ok(Isolation::RepeatableRead),
        name_of::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE => Ok(Isolation::Serializable),
        name_of::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT
        | name_of::ADBC_OPTION_ISOLATION_LEVEL_LINEARIZABLE => {
            Err(unsupported(format!("{name} is not supported; serializable gives more")))
        }
        _ => Err(wrong_argument(format!("{name} is no isolation level"))),
    }
}

fn only(what: &str, only: &str, given: &str) -> Result<()> {
    if given == only {
        return Ok(());
    }
    let message = format!("{what} \"{given}\" does not exist; the only one is {only}");
    Err(error(Status::NotFound, "3F000", message))
}

impl adbc_core::Connection for Connection {
    type StatementType = Statement;

    fn new_statement(&mut self) -> Result<Statement> {
        Ok(Statement::new(Arc::clone(&self.link), self.defaults.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.link.cancel.clone())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Stream> {
        info::info(codes.as_ref()).map(stream_of)
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Stream> {
        let filter = Filter {
            depth,
            catalog,
            schema: db_schema,
            table: table_name,
            table_types: table_type,
            column: column_name,
        };
        self.link.with(|core| catalog::objects(core.source(), &filter)).map(stream_of)
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let schema = self
            .link
            .with(|core| catalog::table_schema(core.source(), catalog, db_schema, table_name))?;
        Ok(if self.defaults.views { schema } else { schema_without_views(&schema) })
    }

    fn get_table_types(&self) -> Result<Stream> {
        catalog::table_types().map(stream_of)
    }

    fn get_statistic_names(&self) -> Result<Stream> {
        Err(unsupported("there are no statistics"))
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Stream> {
        Err(unsupported("there are no statistics"))
    }

    fn commit(&mut self) -> Result<()> {
        self.link.with(|core| core.end_transaction("COMMIT"))
    }

    fn rollback(&mut self) -> Result<()> {
        self.link.with(|core| core.end_transaction("ROLLBACK"))
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Stream> {
        Err(unsupported("results have no partitions"))
    }
}
