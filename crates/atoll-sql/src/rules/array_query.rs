//! `ARRAY(SELECT …)`: the values of a subquery as an array, in the order of the subquery, and an
//! array without elements where it has no rows.
//!
//! The planner sees a call of a function over a scalar subquery. The analyzer makes of it a scalar
//! subquery that aggregates the values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, internal_err};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortKey};
use datafusion::logical_expr::logical_plan::{
    Aggregate, Limit, Projection, Sort, Subquery, Window,
};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprFunctionExt, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sqlparser::ast;

use super::of_one;
use crate::parse::MARK;
use crate::quoted::written;

/// The functions of this module.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [Step::Written, Step::Aggregated].map(|step| ScalarUDF::from(ArrayQuery::new(step)))
}

/// What the function is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// A value, which stands for all of them.
    Written,
    /// An array, or NULL for one without elements.
    Aggregated,
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayQuery {
    step: Step,
    name: String,
    signature: Signature,
}

impl ArrayQuery {
    fn new(step: Step) -> Self {
        // No function that is written has such a name (`NAME-1`).
        let name = match step {
            Step::Written => format!("{MARK}array"),
            Step::Aggregated => format!("{MARK}array_or_empty"),
        };
        Self { step, name, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ArrayQuery {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(match self.step {
            Step::Written => {
                let element = Field::new_list_field(arguments[0].clone(), true);
                ArrowType::List(Arc::new(element))
            }
            Step::Aggregated => arguments[0].clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of_argument = &args.arg_fields[0];
        let arrow = self.return_type(&[of_argument.data_type().clone()])?;
        let field = Field::new(self.name(), arrow, false);
        Ok(Arc::new(field.with_metadata(of_argument.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.step == Step::Written {
            return internal_err!("an array of a subquery is replaced before it could be called");
        }
        of_one(&args.args, |lists| {
            let lists = lists.as_list::<i32>();
            // The lists that are NULL have no elements.
            let valid = NullBuffer::new_valid(lists.len());
            let (field, offsets, values, nulls) = lists.clone().into_parts();
            let is_empty = |at: usize| offsets[at] == offsets[at + 1];
            let bare = nulls
                .is_none_or(|nulls| (0..lists.len()).all(|at| nulls.is_valid(at) || is_empty(at)));
            if !bare {
                return internal_err!("an array that is NULL has elements");
            }
            let lists = ListArray::try_new(field, offsets, values, Some(valid))?;
            Ok(Arc::new(lists) as ArrayRef)
        })
    }
}

/// Writes `ARRAY(query)` as the call that the planner sees.
pub(super) fn call(expr: &mut ast::Expr) {
    let ast::Expr::Function(function) = expr else { return };
    let [name] = function.name.0.as_slice() else { return };
    let is_array = name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("array"));
    if let (true, ast::FunctionArguments::Subquery(query)) = (is_array, &mut function.args) {
        let query = ast::Expr::Subquery(query.clone());
        *expr = written(&format!("{MARK}array"), [query]);
    }
}

/// A node without such calls.
pub(super) fn aggregated(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_call = |expr: &Expr| expr.exists(|node| Ok(query_of(node).is_some()));
    let mut found = false;
    for expr in plan.expressions() {
        found |= has_call(&expr)?;
    }
    if !found {
        return Ok(plan);
    }
    let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
    let changed = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|node| match query_of(&node) {
            Some(query) => {
                let array = Expr::ScalarSubquery(array_of(query)?);
                let call = ScalarUDF::from(ArrayQuery::new(Step::Aggregated)).call(vec![array]);
                Ok(Transformed::yes(call))
            }
            None => Ok(Transformed::no(node)),
        })?;
        Ok(Transformed::yes(name.restore(expr.data)))
    })?;
    Ok(changed.data)
}

/// The subquery of a call.
fn query_of(expr: &Expr) -> Option<&Subquery> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let is_it = |query: &ArrayQuery| query.step == Step::Written;
    match args.as_slice() {
        [Expr::ScalarSubquery(query)] if func.inner().downcast_ref().is_some_and(is_it) => {
            Some(query)
        }
        _ => None,
    }
}

fn array_of(query: &Subquery) -> Result<Subquery> {
    let (input, order, value) = ordered(query.subquery.as_ref().clone())?;
    let array = array_agg_udaf().call(vec![value]);
    let array = if order.is_empty() { array } else { array.order_by(order).build()? };
    let array = Aggregate::try_new(Arc::new(input), Vec::new(), vec![array])?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::Aggregate(array)), ..query.clone() })
}

/// The rows of a query, what orders them, and the value that is selected.
fn ordered(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<SortKey>, Expr)> {
    let value = Expr::from(plan.schema().qualified_field(0));
    let plan = match plan {
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => {
            return Ok((Arc::unwrap_or_clone(input), expr, value));
        }
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(Sort { expr: order, input, fetch: None }) => {
                let value = projection.expr[0].clone().unalias();
                return Ok((input.as_ref().clone(), order.clone(), value));
            }
            _ => LogicalPlan::Projection(projection),
        },
        other => other,
    };
    Ok(match numbered(&plan)? {
        Some((plan, number)) => (plan, vec![Expr::Column(number).sort(true, false)], value),
        None => (plan, Vec::new(), value),
    })
}

/// A plan the rows of which have an order, with a column that numbers them.
fn numbered(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Column)>> {
    Ok(match plan {
        LogicalPlan::Sort(Sort { expr, input, fetch }) => {
            let number = Column::new_unqualified(format!("{MARK}at"));
            let counted = row_number().order_by(expr.clone()).build()?.alias(&number.name);
            let window = Window::try_new(vec![counted], Arc::clone(input))?;
            let input = Arc::new(LogicalPlan::Window(window));
            let sort = Sort { expr: expr.clone(), input, fetch: *fetch };
            Some((LogicalPlan::Sort(sort), number))
        }
        LogicalPlan::Limit(limit) => numbered(&limit.input)?.map(|(input, number)| {
            let limit = Limit { input: Arc::new(input), ..limit.clone() };
            (LogicalPlan::Limit(limit), number)
        }),
        LogicalPlan::Projection(projection) => match numbered(&projection.input)? {
            Some((input, number)) => {
                let mut exprs = projection.expr.clone();
                exprs.push(Expr::Column(number.clone()));
                let projection = Projection::try_new(exprs, Arc::new(input))?;
                Some((LogicalPlan::Projection(projection), number))
            }
            None => None,
        },
        _ => None,
    })
}
