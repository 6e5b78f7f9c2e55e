//! Reading a table of a snapshot: one record batch for each segment, its buffers the snapshot's.
//!
//! `SCAN-1`: the bytes of a column are copied only if deleted rows are scattered between present
//! ones, and where it is an enum (`ENUM-1`); adjacent rows are slices of the segment. `SCAN-2`: the
//! scan checks before each segment that the snapshot is still valid, so a query on an expired one
//! ends with an error.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use atoll::{Snapshot, SnapshotSegment};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err, stats::Precision};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

use crate::enums;
use crate::query_error::external;

/// Most runs of present rows that become slices; with more, rows are gathered.
const SLICES_MAX: usize = 4;

/// The plan node that reads segments.
pub(crate) struct SnapshotScan {
    snapshot: Snapshot,
    table: String,
    projection: Vec<usize>,
    schema: SchemaRef,
    segments: Arc<[SnapshotSegment]>,
    segments_total: usize,
    partitions: Vec<Range<usize>>,
    filters: String,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SnapshotScan {
    /// A scan of the given segments, which are those of `segments_total` that may be wanted.
    ///
    /// # Errors
    /// A projection out of range.
    pub(crate) fn try_new(
        snapshot: Snapshot,
        table: String,
        schema: &SchemaRef,
        projection: Vec<usize>,
        segments: Vec<SnapshotSegment>,
        segments_total: usize,
    ) -> Result<Self> {
        let schema = Arc::new(schema.project(&projection)?);
        let properties = Arc::new(properties(&schema, 1));
        let whole = 0..segments.len();
        Ok(Self {
            snapshot,
            table,
            projection,
            schema,
            segments: segments.into(),
            segments_total,
            partitions: vec![whole],
            filters: String::new(),
            limit: None,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same scan in at most the given number of parts, one segment each at least.
    pub(crate) fn with_partitions(mut self, wanted: usize) -> Self {
        let segments = self.segments.len();
        let count = wanted.clamp(1, segments.max(1));
        self.partitions =
            (0..count).map(|i| segments * i / count..segments * (i + 1) / count).collect();
        self.properties = Arc::new(properties(&self.schema, count));
        self
    }

    /// The same scan with the filters that chose its segments, for `EXPLAIN`.
    pub(crate) fn with_filters(mut self, filters: &[Expr]) -> Self {
        self.filters = filters.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ");
        self
    }

    /// The same scan with a limit of rows.
    pub(crate) fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Segments that the filters or the limit left out.
    pub(crate) fn segments_pruned(&self) -> usize {
        self.segments_total - self.segments.len()
    }

    fn rows(&self, segments: Range<usize>) -> usize {
        let rows = self.segments[segments].iter().map(SnapshotSegment::row_count).sum();
        self.limit.map_or(rows, |limit| limit.min(rows))
    }
}

fn properties(schema: &SchemaRef, partitions: usize) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl fmt::Debug for SnapshotScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotScan")
            .field("table", &self.table)
            .field("segments", &self.segments.len())
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SnapshotScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (scanned, pruned) = (self.segments.len(), self.segments_pruned());
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "table={}", self.table)?;
            return writeln!(f, "segments={scanned} of {}", self.segments_total);
        }
        write!(
            f,
            "SnapshotScan: table={}, columns=[{}], segments_scanned={scanned}, \
             segments_pruned={pruned}, partitions={}",
            self.table,
            columns.join(", "),
            self.partitions.len()
        )?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if !self.filters.is_empty() {
            write!(f, ", pruned_by={}", self.filters)?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SnapshotScan {
    fn name(&self) -> &'static str {
        "SnapshotScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(segments) = self.partitions.get(partition) else {
            return internal_err!("the scan has no partition {partition}");
        };
        if partition == 0 {
            let pruned = MetricBuilder::new(&self.metrics).global_counter("segments_pruned");
            pruned.add(self.segments_pruned());
        }
        let reader = SegmentReader {
            snapshot: self.snapshot.clone(),
            segments: Arc::clone(&self.segments),
            next: segments.clone(),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            ready: Vec::new(),
            wanted: self.limit.unwrap_or(usize::MAX),
            scanned: MetricBuilder::new(&self.metrics).counter("segments_scanned", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(reader),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition() {
            Some(partition) => match self.partitions.get(partition) {
                Some(segments) => self.rows(segments.clone()),
                None => return internal_err!("the scan has no partition {partition}"),
            },
            None => self.rows(0..self.segments.len()),
        };
        let mut statistics = Statistics::new_unknown(&self.schema);
        // Each part stops at the limit by itself, so together they may give more.
        statistics.num_rows = match self.limit {
            Some(_) => Precision::Inexact(rows),
            None => Precision::Exact(rows),
        };
        Ok(Arc::new(statistics))
    }
}

/// The batches of one partition, made one after the other as they are asked for.
struct SegmentReader {
    snapshot: Snapshot,
    segments: Arc<[SnapshotSegment]>,
    next: Range<usize>,
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Batches of the present segment still to hand out, the last one first.
    ready: Vec<RecordBatch>,
    wanted: usize,
    scanned: Count,
    baseline: BaselineMetrics,
}

impl Iterator for SegmentReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        while self.wanted > 0 {
            if let Some(batch) = self.ready.pop() {
                let rows = batch.num_rows().min(self.wanted);
                self.wanted -= rows;
                self.baseline.record_output(rows);
                return Some(Ok(batch.slice(0, rows)));
            }
            let index = self.next.next()?;
            match self.read(index) {
                Ok(batches) => self.ready = batches,
                Err(error) => {
                    self.wanted = 0;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl SegmentReader {
    /// The present rows of a segment as batches, the last one first.
    fn read(&self, index: usize) -> Result<Vec<RecordBatch>> {
        self.snapshot.check().map_err(external)?;
        self.scanned.add(1);
        let segment = &self.segments[index];
        if self.projection.is_empty() {
            return Ok(vec![self.batch(Vec::new(), segment.row_count())?]);
        }
        let columns = self
            .projection
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                Ok(enums::array_inside(segment.array(*column)?, field.data_type()))
            })
            .collect::<std::result::Result<Vec<_>, atoll::Error>>()
            .map_err(external)?;
        let Some(presence) = segment.presence() else {
            return Ok(vec![self.batch(columns, segment.slots())?]);
        };
        let runs: Vec<(usize, usize)> = presence.set_slices().take(SLICES_MAX + 1).collect();
        if runs.len() > SLICES_MAX {
            // Absent rows may violate the schema, so they are removed before it is applied.
            let loose = Arc::new(nullable(&self.schema));
            let all = RecordBatch::try_new(loose, columns)?;
            let present = filter_record_batch(&all, &BooleanArray::new(presence, None))?;
            return Ok(vec![self.batch(present.columns().to_vec(), present.num_rows())?]);
        }
        runs.into_iter()
            .rev()
            .map(|(start, end)| {
                let slices = columns.iter().map(|column| column.slice(start, end - start));
                self.batch(slices.collect(), end - start)
            })
            .collect()
    }

    fn batch(&self, columns: Vec<arrow_array::ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The schema with every column nullable.
fn nullable(schema: &SchemaRef) -> arrow_schema::Schema {
    let fields: Vec<_> =
        schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    arrow_schema::Schema::new(fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::Array;
    use atoll::{Column, DataType, Database, DatabaseOptions, Schema, Value};
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::provider::SnapshotProvider;

    const SEGMENT: i64 = 8192;

    fn filled(count: i64) -> Database {
        let db = Database::create(DatabaseOptions::default()).unwrap();
        let columns = vec![Column::new("id", DataType::Int64), Column::new("name", DataType::Text)];
        let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
        let mut transaction = db.begin().unwrap();
        for id in 0..count {
            let name = format!("a name that is longer than twelve bytes, {id}");
            transaction.insert(&table, &[Value::Int64(id), name.into()]).unwrap();
        }
        transaction.commit().unwrap();
        db
    }

    /// The batches of `SELECT * FROM t` on one partition.
    fn read(snapshot: &Snapshot) -> Vec<RecordBatch> {
        let table = snapshot.table("t").unwrap();
        let context = SessionContext::new();
        let provider = Arc::new(SnapshotProvider::new(snapshot.clone(), table));
        context.register_table("t", provider).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let state = context.state();
            let plan = state.create_logical_plan("SELECT * FROM t").await.unwrap();
            let plan = state.create_physical_plan(&plan).await.unwrap();
            collect(plan, context.task_ctx()).await.unwrap()
        })
    }

    /// Addresses of an array's buffers.
    fn buffers(array: &dyn Array) -> Vec<usize> {
        array.to_data().buffers().iter().map(|buffer| buffer.as_ptr() as usize).collect()
    }

    #[test]
    fn a_batch_is_the_segment_itself_and_no_copy_of_it() {
        let db = filled(2 * SEGMENT + 5);
        let snapshot = db.snapshot().unwrap();
        let table = snapshot.table("t").unwrap();
        let mut wanted: Vec<Vec<usize>> = Vec::new();
        for index in 0..table.segment_count() {
            let segment = table.segment(index).unwrap();
            for column in 0..2 {
                wanted.push(buffers(segment.array(column).unwrap().as_ref()));
            }
        }
        let mut got: Vec<Vec<usize>> = read(&snapshot)
            .iter()
            .flat_map(|batch| {
                batch.columns().iter().map(|c| buffers(c.as_ref())).collect::<Vec<_>>()
            })
            .collect();
        assert!(wanted.iter().all(|buffers| !buffers.is_empty()));
        wanted.sort();
        got.sort();
        assert_eq!(got, wanted);
    }

    #[test]
    fn rows_that_lie_together_are_slices_and_no_copy() {
        let db = filled(SEGMENT);
        let table = db.table("t").unwrap();
        let mut transaction = db.begin().unwrap();
        for id in 100..200 {
            assert!(transaction.delete(&table, &[Value::Int64(id)]).unwrap());
        }
        transaction.commit().unwrap();
        let snapshot = db.snapshot().unwrap();
        let segment = snapshot.table("t").unwrap().segment(0).unwrap();
        let base = buffers(segment.array(0).unwrap().as_ref())[0];
        let batches = read(&snapshot);
        let starts: Vec<usize> =
            batches.iter().map(|batch| buffers(batch.column(0).as_ref())[0] - base).collect();
        assert_eq!(starts, [0, 200 * size_of::<i64>()]);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 8092);
    }
}
