//! Rows that a plan names more than once and that are computed once.
//!
//! `SHARED-1`: the rows of the outer query are read for the domain of a subquery and again for the
//! join. Both have to see the same rows, which another run of the same plan does not promise if
//! the plan chooses among equal rows, adds floats or calls `random()` ([`is_repeatable`]). Such a
//! plan is wrapped in a [`Shared`] node. All copies of the node have one cell, and the first one
//! that runs fills it.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::repeatable::is_repeatable;
use super::unsupported;
use arrow_array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::future::{BoxFuture, Shared as SharedFuture};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

/// The rows of an outer query, which a domain and a join read (`SHARED-1`).
///
/// # Errors
/// The recursive part of `WITH RECURSIVE` reads its own table once only.
pub(super) fn shared_if_needed(rows: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    if reads_work_table(&rows) {
        return Err(unsupported("uses columns of the recursive part of WITH RECURSIVE"));
    }
    match is_repeatable(&rows)? {
        true => Ok(rows),
        false => Ok(Arc::new(Shared::around(Arc::unwrap_or_clone(rows)))),
    }
}

/// Whether a plan reads the table of a recursive query that is around it.
fn reads_work_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::RecursiveQuery(_) => false,
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source);
            provider.is_ok_and(|table| {
                let table: &dyn Any = table.as_ref();
                table.is::<CteWorkTable>()
            })
        }
        other => other.inputs().into_iter().any(reads_work_table),
    }
}

/// The rows, with the memory that is reserved for them.
struct Kept {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

type Rows = SharedFuture<BoxFuture<'static, std::result::Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// Where the copies of a node keep the rows.
#[derive(Default)]
struct Cell(Mutex<Option<Rows>>);

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    input: LogicalPlan,
    cell: Arc<Cell>,
}

impl Shared {
    /// The rows of a plan, computed once.
    pub(super) fn around(input: LogicalPlan) -> LogicalPlan {
        let node = Arc::new(Self { input, cell: Arc::default() });
        LogicalPlan::Extension(Extension { node })
    }

    /// The node that a plan is.
    pub(super) fn of(node: &dyn UserDefinedLogicalNode) -> Option<&Self> {
        node.as_any().downcast_ref()
    }

    pub(super) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// Whether two nodes are copies of one.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.is_copy_of(other) && self.input == other.input
    }
}

impl Eq for Shared {}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.cell).hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &'static str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("a shared plan is one");
        };
        Ok(Self { input, cell: Arc::clone(&self.cell) })
    }
}

/// DataFusion's planner, which knows [`Shared`] as well.
#[derive(Debug)]
pub(crate) struct Planner;

type Planned<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl QueryPlanner for Planner {
    fn create_physical_plan<'a, 'b, 'c, 'd>(
        &'a self,
        plan: &'b LogicalPlan,
        session: &'c dyn Session,
    ) -> Planned<'d, Arc<dyn ExecutionPlan>>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        Box::pin(async move {
            let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Self)]);
            planner.create_physical_plan(plan, session).await
        })
    }
}

impl ExtensionPlanner for Planner {
    fn plan_extension<'a, 'b, 'c, 'd, 'e, 'f, 'g, 'h, 'i>(
        &'a self,
        _: &'b dyn PhysicalPlanner,
        node: &'c dyn UserDefinedLogicalNode,
        _: &'d [&'e LogicalPlan],
        inputs: &'f [Arc<dyn ExecutionPlan>],
        _: &'g dyn Session,
        _: &'h PhysicalPlanningContext,
    ) -> Planned<'i, Option<Arc<dyn ExecutionPlan>>>
    where
        'a: 'i,
        'b: 'i,
        'c: 'i,
        'd: 'i,
        'e: 'i,
        'f: 'i,
        'g: 'i,
        'h: 'i,
        Self: 'i,
    {
        let planned = match (Shared::of(node), inputs) {
            (Some(shared), [input]) => {
                let (input, cell) = (Arc::clone(input), Arc::clone(&shared.cell));
                Some(Arc::new(SharedExec::new(input, cell)) as Arc<dyn ExecutionPlan>)
            }
            _ => None,
        };
        Box::pin(std::future::ready(Ok(planned)))
    }
}

/// The operator.
#[derive(Debug)]
struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    cell: Arc<Cell>,
    properties: Arc<PlanProperties>,
}

impl SharedExec {
    fn new(input: Arc<dyn ExecutionPlan>, cell: Arc<Cell>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { input, cell, properties }
    }

    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a shared plan is one");
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.cell))))
    }

    /// The rows, which the first reader computes.
    fn rows(&self, context: Arc<TaskContext>) -> Result<Rows> {
        let mut cell = self.cell.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = cell.as_ref() {
            return Ok(rows.clone());
        }
        let memory = MemoryConsumer::new("Shared").register(context.memory_pool());
        let mut input = self.input.execute(0, context)?;
        let computed = async move {
            let mut batches = Vec::new();
            while let Some(batch) = input.next().await {
                let batch = batch?;
                memory.try_grow(batch.get_array_memory_size())?;
                batches.push(batch);
            }
            Ok(Arc::new(Kept { batches, _memory: memory }))
        };
        let rows = computed.map(|rows| rows.map_err(Arc::new)).boxed().shared();
        *cell = Some(rows.clone());
        Ok(rows)
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedExec")
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows(context)?;
        let batches = stream::once(async move {
            let kept = rows.await.map_err(DataFusionError::Shared)?;
            let batches = (0..kept.batches.len()).map(move |at| Ok(kept.batches[at].clone()));
            Ok::<_, DataFusionError>(stream::iter(batches))
        });
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }
}
