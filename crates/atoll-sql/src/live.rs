//! The catalog of a live database, by which statements are bound: names and types, no rows.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use atoll::{Column, Schema, Snapshot, Table};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::enums;
use crate::error::SqlError;
use crate::lengths;
use crate::schemas;
use crate::scope::Scope;
use crate::sequence_relation;
use crate::user_types::UserType;
use crate::view::View;
use crate::view::provider::Listed;

/// The table that a statement changes, under a name that no statement can write, so that it is told
/// from other uses of the same table.
pub(crate) const TARGET: &str = "\u{1}target";
/// The same with the numbers of its rows, if it has no primary key.
pub(crate) const KEYED: &str = "\u{1}keyed";
/// The row that `INSERT` proposed, for `ON CONFLICT`.
pub(crate) const EXCLUDED: &str = "\u{1}excluded";

/// The row that was found beside the target, for `RETURNING`.
pub(crate) const FOUND: &str = "\u{1}found";

/// The tables of a database.
#[derive(Clone)]
pub(crate) struct LiveCatalog {
    scope: Scope,
    /// What [`TARGET`], [`KEYED`] and [`EXCLUDED`] stand for.
    target: Option<Table>,
    /// The columns of [`FOUND`].
    found: Option<SchemaRef>,
}

impl LiveCatalog {
    /// The catalog for a statement, which may change a table.
    pub(crate) fn new(scope: Scope, target: Option<Table>) -> Self {
        Self { scope, target, found: None }
    }

    /// The same with [`FOUND`], which has these columns.
    pub(crate) fn with_found(self, schema: SchemaRef) -> Self {
        Self { found: Some(schema), ..self }
    }

    /// The names that a statement may use.
    pub(crate) fn known(&self) -> Vec<String> {
        let mut names = self.flat_names();
        if self.target.is_some() {
            names.extend([TARGET, KEYED, EXCLUDED].map(str::to_owned));
        }
        names.extend(self.found.as_ref().map(|_| FOUND.to_owned()));
        names
    }

    /// The flat names of its relations.
    fn flat_names(&self) -> Vec<String> {
        let mut names = self.scope.tables();
        let views = View::all(&self.scope.catalog).unwrap_or_default();
        names.extend(views.into_iter().map(|(object, _)| object.name().to_owned()));
        names.extend(self.scope.db.bases().iter().flat_map(Snapshot::tables));
        names
    }

    /// Whether an object that is no table has this name.
    pub(crate) fn has_object(&self, name: &str) -> bool {
        self.scope.catalog.object(name).is_some()
    }

    /// The view of a name.
    ///
    /// # Errors
    /// As [`View::of`].
    pub(crate) fn view(&self, name: &str) -> Result<Option<View>, SqlError> {
        let object = self.scope.catalog.object(name);
        object.map_or(Ok(None), |object| sequence_relation::view(object.schema(), name))
    }

    /// The type of a name.
    ///
    /// # Errors
    /// As [`UserType::of`].
    pub(crate) fn user_type(&self, name: &str) -> Result<Option<UserType>, SqlError> {
        UserType::find(&self.scope.catalog, name)
    }

    fn find(&self, name: &str) -> Option<LiveTable> {
        if name == FOUND {
            let found = |schema| LiveTable { table: None, given: Some(1), schema };
            return self.found.clone().map(found);
        }
        let given = match name {
            TARGET | KEYED => Some(0),
            EXCLUDED => Some(1),
            _ => None,
        };
        if given.is_some() {
            return self.target.clone().map(|table| LiveTable::new(table, given, name == KEYED));
        }
        match self.scope.table(name) {
            Ok(table) => Some(LiveTable::new(table, None, false)),
            Err(_) => self.inherited(name),
        }
    }

    /// A table of a snapshot that the database is built on.
    fn inherited(&self, name: &str) -> Option<LiveTable> {
        let table = self.scope.inherited(name)?;
        let schema = enums::inside(&table.arrow_schema());
        let schema = lengths::with_limits(schema, table.schema().visible());
        Some(LiveTable { table: None, given: None, schema })
    }
}

impl fmt::Debug for LiveCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCatalog").field("tables", &self.scope.tables()).finish()
    }
}

impl CatalogProvider for LiveCatalog {
    fn schema_names(&self) -> Vec<String> {
        schemas::schemas_of(&self.scope.catalog)
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let is_there =
            name == schemas::PUBLIC || schemas::exists(name, &|object| self.scope.has(object));
        is_there.then(|| {
            let (catalog, schema) = (self.clone(), name.to_owned());
            Arc::new(LiveSchema { catalog, schema }) as Arc<dyn SchemaProvider>
        })
    }
}

/// The relations of one schema.
#[derive(Debug)]
struct LiveSchema {
    catalog: LiveCatalog,
    schema: String,
}

impl SchemaProvider for LiveSchema {
    fn table_names(&self) -> Vec<String> {
        let has = |name: &str| self.catalog.scope.has(name);
        let names = self.catalog.flat_names();
        let parts = names.iter().map(|name| schemas::split(name, &has));
        let own = parts.filter(|(schema, _)| *schema == self.schema);
        own.map(|(_, name)| name.to_owned()).collect()
    }

    fn table<'a, 'b, 'c>(
        &'a self,
        name: &'b str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn TableProvider>>>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        let (catalog, name) = (&self.catalog, schemas::flat(&self.schema, name));
        let table = match catalog.view(&name) {
            Ok(Some(view)) => Some(Arc::new(Listed::new(&view)) as Arc<dyn TableProvider>),
            _ => catalog.find(&name).map(|table| Arc::new(table) as Arc<dyn TableProvider>),
        };
        Box::pin(ready(Ok(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.find(&schemas::flat(&self.schema, name)).is_some()
    }
}

/// A catalog of nothing but [`FOUND`].
#[derive(Debug, Clone)]
pub(crate) struct OnlyFound(pub(crate) SchemaRef);

impl CatalogProvider for OnlyFound {
    fn schema_names(&self) -> Vec<String> {
        vec![schemas::PUBLIC.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == schemas::PUBLIC).then(|| Arc::new(self.clone()) as Arc<dyn SchemaProvider>)
    }
}

impl SchemaProvider for OnlyFound {
    fn table_names(&self) -> Vec<String> {
        vec![FOUND.to_owned()]
    }

    fn table<'a, 'b, 'c>(
        &'a self,
        name: &'b str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn TableProvider>>>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        let schema = Arc::clone(&self.0);
        let found = LiveTable { table: None, given: Some(1), schema };
        let table = (name == FOUND).then(|| Arc::new(found) as Arc<dyn TableProvider>);
        Box::pin(ready(Ok(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        name == FOUND
    }
}

/// A table as statements are bound to it.
pub(crate) struct LiveTable {
    /// `None` for a table of a snapshot, and for [`FOUND`].
    pub(crate) table: Option<Table>,
    /// Which row of those that the caller of a plan gives it stands for, see [`TARGET`].
    pub(crate) given: Option<usize>,
    schema: SchemaRef,
}

impl LiveTable {
    fn new(table: Table, given: Option<usize>, is_keyed: bool) -> Self {
        let schema = match is_keyed {
            true => of_columns(table.schema().columns()),
            false => arrow_schema(table.schema()),
        };
        Self { table: Some(table), given, schema }
    }
}

/// The columns of a table as queries know them.
pub(crate) fn arrow_schema(schema: &Schema) -> SchemaRef {
    of_columns(schema.visible())
}

fn of_columns(columns: &[Column]) -> SchemaRef {
    let fields = columns.iter().map(atoll::arrow_field);
    let schema = enums::inside(&Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>())));
    lengths::with_limits(schema, columns)
}

impl fmt::Debug for LiveTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTable").field("schema", &self.schema).finish()
    }
}

impl TableProvider for LiveTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn scan<'a, 'b, 'c, 'd, 'e>(
        &'a self,
        _: &'b dyn Session,
        _: Option<&'c Vec<usize>>,
        _: &'d [Expr],
        _: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'e>>
    where
        'a: 'e,
        'b: 'e,
        'c: 'e,
        'd: 'e,
        Self: 'e,
    {
        Box::pin(ready(internal_err!("statements are bound to a live table and run on others")))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}
