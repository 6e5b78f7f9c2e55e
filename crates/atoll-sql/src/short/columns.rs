//! The columns of a result.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Schema, SchemaRef};
use atoll::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::compile::NotShort;
use super::compile::expr::data_type;
use crate::json::Form;
use crate::{output_names, types};

/// The columns of a result.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) schema: SchemaRef,
    pub(crate) types: Vec<DataType>,
}

impl Columns {
    /// The columns of a plan.
    ///
    /// # Errors
    /// A type that no column has.
    pub(crate) fn of(plan: &LogicalPlan) -> Result<Arc<Self>, NotShort> {
        let fields = plan.schema().fields();
        let types = fields.iter().map(|field| match types::of_field(field) {
            Some(own) => Ok(own),
            None => data_type(field.data_type()),
        });
        let types = types.collect::<Result<_, _>>()?;
        // The planner does not see that a subquery without a row is NULL.
        let may_miss = plan.exists(|node| Ok(node.expressions().iter().any(has_subquery)))?;
        let plain = fields.iter().map(|field| {
            let shown = types::shown_field(field, output_names::shown(field.name()));
            let is_nullable = may_miss || shown.is_nullable();
            shown.with_nullable(is_nullable)
        });
        let schema = Arc::new(Schema::new(plain.collect::<Vec<_>>()));
        Ok(Arc::new(Self { schema, types }))
    }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_)))).unwrap_or(true)
}

/// The types of the columns of a plan that are assigned to those of a table; NULL by itself counts
/// as text.
///
/// # Errors
/// A type that no column has.
pub(crate) fn value_types(plan: &LogicalPlan) -> Result<Vec<DataType>, NotShort> {
    let types = plan.schema().fields().iter().map(|field| match field.data_type() {
        ArrowType::Null => Ok(DataType::Text),
        arrow => match Form::of_field(field) {
            Some(form) => Ok(form.data_type()),
            None => data_type(arrow),
        },
    });
    types.collect()
}
