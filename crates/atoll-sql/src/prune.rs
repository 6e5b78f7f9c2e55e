//! Pruning of segments by the minimum and maximum of their columns.
//!
//! `PRUNE-1`: pruning removes only segments without a matching row. A zone may be wider than the
//! values of its rows, never narrower, and the filter is applied to the rows afterwards.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt64Array};
use arrow_schema::SchemaRef;
use atoll::{Schema, SnapshotSegment, Value};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue, ToDFSchema};
use datafusion::logical_expr::{Expr, utils::conjunction};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::short::value;
use crate::types;

/// For each segment, whether it may hold a row that passes all filters.
pub(crate) fn may_match(
    session: &dyn Session,
    schema: &Schema,
    arrow_schema: &SchemaRef,
    segments: &[SnapshotSegment],
    filters: &[Expr],
) -> Result<Vec<bool>> {
    let Some(predicate) = physical(session, arrow_schema, filters)? else {
        return Ok(vec![true; segments.len()]);
    };
    // A filter that cannot be turned into ranges prunes nothing; it is no error.
    let built =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(arrow_schema)).build(predicate);
    match built {
        Some(predicate) => predicate.prune(&Zones { schema, segments }),
        None => Ok(vec![true; segments.len()]),
    }
}

fn physical(
    session: &dyn Session,
    arrow_schema: &SchemaRef,
    filters: &[Expr],
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(filter) = conjunction(filters.to_vec()) else { return Ok(None) };
    let schema = Arc::clone(arrow_schema).to_dfschema()?;
    session.create_physical_expr(filter, &schema).map(Some)
}

/// The zones of segments as DataFusion asks for them.
struct Zones<'a> {
    schema: &'a Schema,
    segments: &'a [SnapshotSegment],
}

impl Zones<'_> {
    /// One bound of a column for every segment, NULL where none is known.
    fn bounds(&self, column: &Column, pick: fn((Value, Value)) -> Value) -> Option<ArrayRef> {
        let at = self.schema.position(&column.name)?;
        let data_type = self.schema.columns()[at].data_type;
        if !data_type.has_zone() {
            return None;
        }
        let arrow = types::to_arrow(data_type);
        let bounds = self.segments.iter().map(|segment| {
            let value = segment.zone(at).map_or(Value::Null, pick);
            value::to_scalar(&value, &arrow).unwrap_or(ScalarValue::Null)
        });
        ScalarValue::iter_to_array(bounds).ok()
    }
}

impl PruningStatistics for Zones<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |(low, _)| low)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |(_, high)| high)
    }

    fn num_containers(&self) -> usize {
        self.segments.len()
    }

    fn null_counts(&self, _column: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.segments.iter().map(|segment| segment.row_count() as u64);
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
