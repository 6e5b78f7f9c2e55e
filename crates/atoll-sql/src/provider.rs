//! The DataFusion catalog of a snapshot: its schemas, and their tables.
//!
//! The methods that DataFusion awaits have their answers at once, so they are written as functions
//! that return a ready future. `async_trait` would make a coroutine of each, and for each one that
//! holds expressions the compiler proves anew that all types of a plan are `Send`: half a minute.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use atoll::{Snapshot, SnapshotTable};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::enums;
use crate::lengths;
use crate::prune;
use crate::query_error::external;
use crate::scan::SnapshotScan;
use crate::schemas;
use crate::view::View;
use crate::view::provider::Listed;

/// An answer that waits for nothing.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The tables of one snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotCatalog {
    snapshot: Snapshot,
}

impl SnapshotCatalog {
    /// The catalog of a snapshot.
    pub(crate) fn of(snapshot: Snapshot) -> Self {
        Self { snapshot }
    }

    fn has_object(&self, name: &str) -> bool {
        self.snapshot.object(name).is_some() || schemas::is_inherited(self.snapshot.bases(), name)
    }

    /// The flat names of its relations.
    fn flat_names(&self) -> Vec<String> {
        let objects = self.snapshot.objects();
        let views = objects.filter(|one| matches!(View::of(one.schema()), Ok(Some(_))));
        let mut names = self.snapshot.tables();
        names.extend(views.map(|view| view.name().to_owned()));
        names
    }

    fn exists(&self, name: &str) -> bool {
        self.flat_names().iter().any(|table| table == name)
    }

    fn find(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(object) = self.snapshot.object(name) {
            let view = View::of(object.schema()).map_err(external)?;
            return Ok(view.map(|view| Arc::new(Listed::new(&view)) as Arc<dyn TableProvider>));
        }
        if !self.exists(name) {
            return Ok(None);
        }
        let table = self.snapshot.table(name).map_err(external)?;
        Ok(Some(Arc::new(SnapshotProvider::new(self.snapshot.clone(), table))))
    }
}

impl fmt::Debug for SnapshotCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotCatalog").field("tables", &self.flat_names()).finish()
    }
}

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        schemas::schemas_in(&self.snapshot)
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let is_there =
            name == schemas::PUBLIC || schemas::exists(name, &|object| self.has_object(object));
        is_there.then(|| {
            let (catalog, schema) = (self.clone(), name.to_owned());
            Arc::new(SnapshotSchema { catalog, schema }) as Arc<dyn SchemaProvider>
        })
    }
}

/// The relations of one schema.
#[derive(Debug)]
struct SnapshotSchema {
    catalog: SnapshotCatalog,
    schema: String,
}

impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let names = self.catalog.flat_names();
        let has = |name: &str| self.catalog.has_object(name);
        let parts = names.iter().map(|name| schemas::split(name, &has));
        let own = parts.filter(|(schema, _)| *schema == self.schema);
        own.map(|(_, name)| name.to_owned()).collect()
    }

    fn table<'a, 'b, 'c>(&'a self, name: &'b str) -> Answer<'c, Option<Arc<dyn TableProvider>>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(ready(self.catalog.find(&schemas::flat(&self.schema, name))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.exists(&schemas::flat(&self.schema, name))
    }
}

/// A table of a snapshot.
pub(crate) struct SnapshotProvider {
    snapshot: Snapshot,
    table: SnapshotTable,
    schema: SchemaRef,
}

impl SnapshotProvider {
    /// The provider for a table.
    pub(crate) fn new(snapshot: Snapshot, table: SnapshotTable) -> Self {
        let schema = enums::inside(&table.arrow_schema());
        let schema = lengths::with_limits(schema, table.schema().visible());
        Self { snapshot, table, schema }
    }

    /// Reads the columns of the segments that the filters leave.
    fn plan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.snapshot.check().map_err(external)?;
        let segments = (0..self.table.segment_count())
            .map(|index| self.table.segment(index))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(external)?;
        let total = segments.len();
        let keep =
            prune::may_match(session, self.table.schema(), &self.schema, &segments, filters)?;
        let mut kept = Vec::with_capacity(total);
        let mut rows = 0;
        for (segment, _) in segments.into_iter().zip(keep).filter(|(_, keep)| *keep) {
            // A limit comes without filters, so any first rows suffice.
            if limit.is_some_and(|limit| rows >= limit) {
                break;
            }
            let present = segment.row_count();
            rows += present;
            if present > 0 {
                kept.push(segment);
            }
        }
        let projection = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let scan = SnapshotScan::try_new(
            self.snapshot.clone(),
            self.table.name().to_owned(),
            &self.schema,
            projection,
            kept,
            total,
        )?;
        let partitions = session.config().target_partitions();
        Ok(Arc::new(scan.with_partitions(partitions).with_filters(filters).with_limit(limit)))
    }
}

impl fmt::Debug for SnapshotProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotProvider").field("table", &self.table.name()).finish()
    }
}

impl TableProvider for SnapshotProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn scan<'a, 'b, 'c, 'd, 'e>(
        &'a self,
        session: &'b dyn Session,
        projection: Option<&'c Vec<usize>>,
        filters: &'d [Expr],
        limit: Option<usize>,
    ) -> Answer<'e, Arc<dyn ExecutionPlan>>
    where
        'a: 'e,
        'b: 'e,
        'c: 'e,
        'd: 'e,
        Self: 'e,
    {
        Box::pin(ready(self.plan(session, projection, filters, limit)))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Zones are ranges of whole segments: rows must still be filtered above.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
