//! Cancellation of joins.
//!
//! A query is cancelled by dropping it, and its threads notice that when an operator yields.
//! Sources yield after some batches, but a join can make billions of rows of a single batch, or
//! compare as many without a match. So joins are watched at two places:
//!
//! - `WATCH-1`: after each batch, a join yields now and then, as sources do.
//! - `WATCH-2`: where its filter is evaluated, and after each batch, the join reads the flag of the
//!   query and fails if it is set.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

use crate::error::{SqlError, SqlErrorKind};

/// Set when a query is to end.
type Flag = Arc<AtomicBool>;

/// The same plan with joins that end when the flag is set.
pub(crate) fn joins(plan: Arc<dyn ExecutionPlan>, flag: &Flag) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_up(|node| {
        if !node.name().contains("Join") {
            return Ok(Transformed::no(node));
        }
        let input = with_watched_filter(&node, flag)?.unwrap_or(node);
        Ok(Transformed::yes(Arc::new(Watched { input, flag: Arc::clone(flag) })))
    });
    Ok(watched?.data)
}

/// The join with its filter watched, if it is of a kind that may evaluate it for long by itself.
fn with_watched_filter(
    node: &Arc<dyn ExecutionPlan>,
    flag: &Flag,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let watched = |filter: &JoinFilter| {
        let expression =
            Arc::new(Filter { inner: Arc::clone(filter.expression()), flag: Arc::clone(flag) });
        let columns = filter.column_indices().to_vec();
        Some(JoinFilter::new(expression, columns, Arc::clone(filter.schema())))
    };
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(watched(filter))
            .build()?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Some(join.builder().with_filter(watched(filter)).build_exec()?));
    }
    Ok(None)
}

fn check(flag: &Flag) -> Result<()> {
    match flag.load(Ordering::Relaxed) {
        // The thread that asks knows why.
        true => {
            let ended = SqlError::new(SqlErrorKind::Cancelled, "the statement is to end");
            Err(DataFusionError::External(Box::new(ended)))
        }
        false => Ok(()),
    }
}

/// A join and the watcher of its batches.
#[derive(Debug)]
struct Watched {
    input: Arc<dyn ExecutionPlan>,
    flag: Flag,
}

impl Watched {
    fn around(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a watched join is one");
        };
        Ok(Arc::new(Self { input, flag: Arc::clone(&self.flag) }))
    }
}

impl DisplayAs for Watched {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &'static str {
        "Watched"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let flag = Arc::clone(&self.flag);
        let batches = make_cooperative(self.input.execute(partition, context)?);
        let watched = batches.map(move |batch| check(&flag).and(batch));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), watched)))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

/// The filter of a join.
#[derive(Debug)]
struct Filter {
    inner: Arc<dyn PhysicalExpr>,
    flag: Flag,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Filter {}

impl Hash for Filter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Filter {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check(&self.flag)?;
        self.inner.evaluate(batch)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input_schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let (Some(inner), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a watched filter is one");
        };
        Ok(Arc::new(Self { inner, flag: Arc::clone(&self.flag) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
