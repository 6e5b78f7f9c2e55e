//! The system as schemas of DataFusion's catalog, beside those of the database.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::catalog::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::System;
use super::tables::{SystemTable, TABLES, named};
use crate::query_error::external;

/// See the module.
#[derive(Debug)]
pub(crate) struct WithSystem {
    pub(super) inner: Arc<dyn CatalogProvider>,
    pub(super) system: Arc<System>,
}

impl CatalogProvider for WithSystem {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            "pg_catalog" => Some(Arc::new(SystemSchema(Arc::clone(&self.system)))),
            _ => self.inner.schema(name),
        }
    }
}

/// The tables of `pg_catalog`.
#[derive(Debug)]
struct SystemSchema(Arc<System>);

impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(|table| table.name.to_owned()).collect()
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
        let system = Arc::clone(&self.0);
        let found = named(name);
        let table = found.map(|table| Arc::new(Provided { table, system }) as _);
        Box::pin(ready(Ok(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        named(name).is_some()
    }
}

/// A table of the system. Its rows are made when it is scanned.
struct Provided {
    table: &'static SystemTable,
    system: Arc<System>,
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provided").field(&self.table.name).finish()
    }
}

impl Provided {
    fn plan(&self, projection: Option<&Vec<usize>>) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.table.columns.len()).collect();
        let wanted: Vec<usize> = projection.map_or_else(all, Vec::clone);
        let batch = self.table.batch(&self.system.definitions, &self.system.around, &wanted);
        let batch = batch.map_err(external)?;
        let (schema, rows) = (batch.schema(), [vec![batch]]);
        let source = MemorySourceConfig::try_new(&rows, schema, None)?;
        Ok(Arc::new(DataSourceExec::new(Arc::new(source))))
    }
}

impl TableProvider for Provided {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn scan<'a, 'b, 'c, 'd, 'e>(
        &'a self,
        _: &'b dyn Session,
        projection: Option<&'c Vec<usize>>,
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
        Box::pin(ready(self.plan(projection)))
    }
}
