//! Views as lists of tables show them. A statement that reads one has its query in its place.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use atoll::{Column, arrow_field};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use sqlparser::ast::Expr as SqlExpr;

use super::{View, ViewColumn};
use crate::declared::expression;
use crate::types;

/// A view in a list of tables.
pub(crate) struct Listed {
    schema: SchemaRef,
    definition: Option<String>,
}

impl Listed {
    /// A view as a table of a list.
    pub(crate) fn new(view: &View) -> Self {
        let fields: Vec<Field> = view.columns.iter().map(field).collect();
        Self { schema: Arc::new(Schema::new(fields)), definition: view.definition().ok() }
    }
}

/// A column of a view as a field; one of a type that no table has is shown as text.
fn field(column: &ViewColumn) -> Field {
    let data_type = match expression(&format!("CAST(NULL AS {})", column.data_type)) {
        Ok(SqlExpr::Cast { data_type, .. }) => types::column_type(&data_type).ok(),
        _ => None,
    };
    match data_type {
        Some(data_type) => arrow_field(&Column::nullable(column.name.clone(), data_type)),
        None => Field::new(&column.name, ArrowType::Utf8View, true),
    }
}

impl View {
    /// Its columns as an Arrow schema; a column of a type that no table has is shown as text.
    pub fn arrow_schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl TableProvider for Listed {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
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
        Box::pin(ready(internal_err!("a view is read by its query")))
    }
}
