//! The target of statements: a database that this process owns, or a snapshot of another process.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use atoll::{Attachment, Database, IndexSpec, Schema, Snapshot};
use atoll_sql::{
    Comments, Input, Literal, Outcome, QueryStream, Question, SqlError, SqlSession, View,
    tablespace_name,
};

use crate::args::{GlobalArgs, OwnerArgs};
use crate::error::{CliError, Result};
use crate::opening;
use crate::output::Style;
use crate::watch::{Teller, Watch};

/// A session on a database or a snapshot.
pub struct Session {
    name: String,
    target: Target,
    sql: SqlSession,
    /// Tells whether the running statement is to end.
    question: Option<Arc<Question>>,
}

enum Target {
    Owned { database: Database, watch: Watch },
    Attached { attachment: Attachment, snapshot: Snapshot, taken: Instant },
}

/// A table as `\d` and the completion show it.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Its columns and key.
    pub schema: Schema,
    /// Its tablespace, for a table of a database of this process that has several.
    pub tablespace: Option<String>,
    /// Its ordered indexes, for a table of a database of this process: a snapshot has none.
    pub indexes: Option<Vec<IndexSpec>>,
}

impl Session {
    /// Creates a database, publishes it under a name and works on it.
    ///
    /// # Errors
    /// Those of [`Database::create`] and [`Database::publish`].
    pub fn own(name: &str, owner: &OwnerArgs, global: &GlobalArgs) -> Result<Self> {
        let options = global.database_options(owner);
        let style = Style::of_stderr(global.color);
        let database = match &owner.data {
            Some(folder) => opening::open(folder, options, style)?,
            None => {
                global.refuse_nodes("a database that is in memory only")?;
                Database::create(options)?
            }
        };
        database.publish(name, global.runtime_dir.as_deref())?;
        let sql = SqlSession::on_database(database.clone());
        let watch = Watch::start(&database, style);
        let target = Target::Owned { database, watch };
        Ok(Self { name: name.to_owned(), target, sql, question: None })
    }

    /// Attaches to a database and works on a snapshot of it.
    ///
    /// # Errors
    /// Those of [`atoll::attach`] and of taking a snapshot.
    pub fn attach(name: &str, runtime_dir: Option<&Path>) -> Result<Self> {
        let attachment = atoll::attach(name, runtime_dir)?;
        let taken = Instant::now();
        let snapshot = attachment.snapshot()?;
        let sql = SqlSession::on_snapshot(snapshot.clone());
        let target = Target::Attached { attachment, snapshot, taken };
        Ok(Self { name: name.to_owned(), target, sql, question: None })
    }

    /// Sets the question that tells whether a running statement is to end.
    pub fn set_interrupt(&mut self, question: Arc<Question>) {
        self.question = Some(question);
        self.sql.set_interrupt(self.question.clone());
    }

    /// See [`Session::set_interrupt`].
    pub fn question(&self) -> Option<Arc<Question>> {
        self.question.clone()
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database, if this process owns it.
    ///
    /// # Errors
    /// [`CliError::Said`] for a snapshot.
    pub fn database(&self) -> Result<&Database> {
        match &self.target {
            Target::Owned { database, .. } => Ok(database),
            Target::Attached { .. } => Err(CliError::with_hint(
                "this shell reads a snapshot, which never changes",
                "change the database in the process that owns it",
            )),
        }
    }

    /// Reports problems of the database in another way than on the standard error output.
    pub fn tell_by(&self, teller: Teller) {
        if let Target::Owned { watch, .. } = &self.target {
            watch.tell_by(teller);
        }
    }

    /// The snapshot and when it was taken, if this process does not own the database.
    pub fn snapshot(&self) -> Option<(&Snapshot, Instant)> {
        match &self.target {
            Target::Owned { .. } => None,
            Target::Attached { snapshot, taken, .. } => Some((snapshot, *taken)),
        }
    }

    /// Releases the snapshot and takes a new one.
    ///
    /// # Errors
    /// [`CliError::Said`] on an owned database; those of taking a snapshot, and the old one stays.
    pub fn refresh(&mut self) -> Result<()> {
        let Target::Attached { attachment, snapshot, taken } = &mut self.target else {
            return Err(CliError::with_hint(
                "there is nothing to refresh: this process owns the database",
                "each query sees the newest state",
            ));
        };
        let now = Instant::now();
        *snapshot = attachment.snapshot()?;
        *taken = now;
        self.sql = SqlSession::on_snapshot(snapshot.clone());
        self.sql.set_interrupt(self.question.clone());
        Ok(())
    }

    /// The snapshots of the database that are held.
    ///
    /// # Errors
    /// Those of asking the owner.
    pub fn snapshots(&self) -> Result<Vec<atoll::SnapshotInfo>> {
        match &self.target {
            Target::Owned { database, .. } => Ok(database.snapshots()),
            Target::Attached { attachment, .. } => Ok(attachment.snapshots()?),
        }
    }

    /// Runs one statement with values for its parameters.
    ///
    /// # Errors
    /// Those of the statement, and another number of values than of parameters.
    pub fn execute(
        &mut self,
        statement: &str,
        values: &[Literal],
    ) -> std::result::Result<Outcome, SqlError> {
        self.sql.execute_with(statement, values)
    }

    /// Runs a `COPY … FROM STDIN` with its data.
    ///
    /// # Errors
    /// Those of the statement and of the data.
    pub fn copy_in(
        &mut self,
        statement: &str,
        data: Input,
    ) -> std::result::Result<Outcome, SqlError> {
        self.sql.copy_in(statement, data)
    }

    /// What is to be told of the statements that have run.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.sql.take_notices().iter().map(ToString::to_string).collect()
    }

    /// The schemas, in the order of their names, with their comments.
    ///
    /// # Errors
    /// As [`Session::views`].
    pub fn schemas(&self) -> Result<Vec<(String, Option<String>)>> {
        let mut schemas = Vec::new();
        match &self.target {
            Target::Owned { database, .. } => {
                let catalog = database.catalog()?;
                for schema in atoll_sql::schemas_of(&catalog) {
                    let comment = atoll_sql::comment_on_schema(&catalog, &schema)?;
                    schemas.push((schema, comment));
                }
            }
            Target::Attached { snapshot, .. } => {
                for schema in atoll_sql::schemas_in(snapshot) {
                    let comment = atoll_sql::comment_in_snapshot(snapshot, &schema)?;
                    schemas.push((schema, comment));
                }
            }
        }
        Ok(schemas)
    }

    /// As [`Session::execute`]; the rows of a query come as they are read.
    ///
    /// # Errors
    /// Those of [`Session::execute`]; one that a row causes comes with the rows.
    pub fn stream(
        &mut self,
        statement: &str,
        values: &[Literal],
    ) -> std::result::Result<QueryStream, SqlError> {
        self.sql.stream(statement, values)
    }

    /// How many parameters a statement has.
    ///
    /// # Errors
    /// Those of the statement that can be told without values.
    pub fn parameters(&mut self, statement: &str) -> std::result::Result<usize, SqlError> {
        Ok(self.sql.prepare(statement)?.parameters())
    }

    /// Whether a transaction is open, between `BEGIN` and `COMMIT` or `ROLLBACK`.
    pub fn in_transaction(&self) -> bool {
        self.sql.in_transaction()
    }

    /// The tables in the order of their names.
    ///
    /// # Errors
    /// A snapshot that has expired.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        let mut tables = Vec::new();
        match &self.target {
            Target::Owned { database, .. } => {
                let has_several = database.durability().is_some() && database.tablespaces() > 1;
                for name in database.tables() {
                    let table = database.table(&name)?;
                    let tablespace = has_several.then(|| tablespace_name(table.tablespace()));
                    let (schema, indexes) = (table.schema().clone(), Some(table.indexes()));
                    tables.push(TableInfo { name, schema, tablespace, indexes });
                }
                database.bases().iter().try_for_each(|base| add_tables(base, &mut tables))?;
            }
            Target::Attached { snapshot, .. } => add_tables(snapshot, &mut tables)?,
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tables)
    }

    /// The objects of a kind that are no tables, in the order of their names.
    ///
    /// # Errors
    /// [`atoll::Error::ForkedChild`].
    pub fn objects(&self, kind: &str) -> Result<Vec<(String, Schema)>> {
        let object = |name: &str, schema: &Schema| (name.to_owned(), schema.clone());
        let mut found: Vec<_> = match &self.target {
            Target::Owned { database, .. } => {
                let catalog = database.catalog()?;
                catalog.objects().map(|one| object(one.name(), one.schema())).collect()
            }
            Target::Attached { snapshot, .. } => {
                snapshot.objects().map(|one| object(one.name(), one.schema())).collect()
            }
        };
        found.retain(|(_, schema)| schema.object().is_some_and(|(one, _)| one == kind));
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// The views in the order of their names.
    ///
    /// # Errors
    /// A definition of a later version of Atoll.
    pub fn views(&self) -> Result<Vec<(String, View)>> {
        let mut views = Vec::new();
        for (name, schema) in self.objects("view")? {
            views.extend(View::of(&schema)?.map(|view| (name, view)));
        }
        Ok(views)
    }

    /// The comments on a relation and its parts.
    ///
    /// # Errors
    /// As [`Session::views`].
    pub fn comments(&self, relation: &str) -> Result<Comments> {
        Ok(match &self.target {
            Target::Owned { database, .. } => {
                Comments::in_catalog(&*database.catalog()?, relation)?
            }
            Target::Attached { snapshot, .. } => Comments::in_snapshot(snapshot, relation)?,
        })
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// No such table, and a snapshot that has expired or is damaged.
    pub fn row_count(&self, table: &str) -> Result<u64> {
        match &self.target {
            Target::Owned { database, .. } => match database.table(table) {
                Ok(table) => Ok(table.row_count()),
                Err(unknown) => {
                    let base = database.bases().iter().find_map(|base| base.table(table).ok());
                    Ok(base.ok_or(unknown)?.row_count()?)
                }
            },
            Target::Attached { snapshot, .. } => Ok(snapshot.table(table)?.row_count()?),
        }
    }
}

/// Adds the tables of a snapshot that none of `tables` hides.
fn add_tables(snapshot: &Snapshot, tables: &mut Vec<TableInfo>) -> Result<()> {
    for name in snapshot.tables() {
        if !tables.iter().any(|table| table.name == name) {
            let schema = snapshot.table(&name)?.schema().clone();
            tables.push(TableInfo { name, schema, tablespace: None, indexes: None });
        }
    }
    Ok(())
}
