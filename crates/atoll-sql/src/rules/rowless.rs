//! Subqueries as values: one without a row is NULL, whatever it selects.
//!
//! DataFusion takes the value of a subquery for one that is never NULL where its column is not
//! nullable. It would answer `IS NULL` before the query runs, and refuse the NULL when it comes. So
//! a function that may return NULL stands around such a column, unless the subquery has a row
//! whatever the tables contain. The function is volatile, so the optimizer leaves it where it is.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Distinct, Projection, Subquery};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::parse::MARK;

/// The rule that puts the functions there.
#[derive(Debug)]
pub(crate) struct Rowless;

impl AnalyzerRule for Rowless {
    fn name(&self) -> &str {
        "null_without_a_row"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let node = |node: LogicalPlan| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(nullable)?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })?
            .map_data(LogicalPlan::recompute_schema)
        };
        Ok(plan.transform_up_with_subqueries(node)?.data)
    }
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    let schema = Arc::clone(subquery.subquery.schema());
    let [field] = schema.fields().as_ref() else {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    };
    if field.is_nullable() || has_a_row(&subquery.subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let column = Expr::from(schema.qualified_field(0));
    let name = field.name();
    let value = ScalarUDF::from(Maybe::new()).call(vec![column]).alias(name);
    let plan = Projection::try_new(vec![value], subquery.subquery)?;
    let subquery = Subquery { subquery: Arc::new(LogicalPlan::Projection(plan)), ..subquery };
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
}

/// Whether a plan has a row, whatever the rows of the tables are.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Window(window) => has_a_row(&window.input),
        LogicalPlan::Sort(sort) => has_a_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_a_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Values(values) => !values.values.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Maybe {
    name: String,
    signature: Signature,
}

impl Maybe {
    fn new() -> Self {
        // A constant would be one that is not NULL again.
        Self { name: format!("{MARK}maybe"), signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Maybe {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            others => internal_err!("one argument is expected, not {}", others.len()),
        }
    }
}
