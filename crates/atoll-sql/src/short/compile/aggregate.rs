//! From an aggregation of DataFusion to one of the short executor.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Aggregate as AggregatePlan;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;

use super::{Compiler, NotShort, expr, over};
use crate::short::aggregate::{Aggregate, ByArrow, Call, Function, sums_exactly};
use crate::short::plan::Node;

impl Compiler {
    /// Compiles an aggregation of the rows of a node.
    pub(super) fn aggregate(
        &mut self,
        plan: &AggregatePlan,
        input: Node,
    ) -> Result<Node, NotShort> {
        let schema = plan.input.schema();
        let mut groups = Vec::with_capacity(plan.group_expr.len());
        for group in &plan.group_expr {
            if matches!(group, Expr::GroupingSet(_)) {
                return Err(NotShort::new("GROUPING SETS"));
            }
            groups.push(over(group, schema, self)?);
        }
        let calls = plan.aggr_expr.iter().map(|call| self.call(call, schema));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let aggregate = Box::new(Aggregate { groups, calls });
        Ok(Node::Aggregate { input: Box::new(input), aggregate })
    }

    fn call(&mut self, call: &Expr, schema: &DFSchema) -> Result<Call, NotShort> {
        let function = match call {
            Expr::Alias(alias) => return self.call(&alias.expr, schema),
            Expr::AggregateFunction(function) => function,
            other => return Err(NotShort::new(format!("{other}"))),
        };
        let params = &function.params;
        let filter = params.filter.as_ref().map(|filter| over(filter, schema, self)).transpose()?;
        let own = match (function.func.name(), params.args.as_slice(), params.distinct) {
            _ if !params.order_by.is_empty() || params.null_treatment.is_some() => None,
            ("count", [Expr::Literal(one, _)], false) if !one.is_null() => {
                Some(Function::Count(None))
            }
            ("count", [argument], false) => {
                Some(Function::Count(Some(over(argument, schema, self)?)))
            }
            ("count", [argument], true) => {
                Some(Function::CountDistinct(over(argument, schema, self)?))
            }
            ("min", [argument], _) => Some(Function::Smallest(over(argument, schema, self)?)),
            ("max", [argument], _) => Some(Function::Largest(over(argument, schema, self)?)),
            ("sum" | "exact_sum", [argument], false)
                if sums_exactly(&argument.get_type(schema)?) =>
            {
                let result = expr::data_type(&call.get_type(schema)?)?;
                Some(Function::Sum { argument: over(argument, schema, self)?, result })
            }
            _ => None,
        };
        let function = match own {
            Some(own) => own,
            None => Function::Arrow(self.by_arrow(function, schema)?),
        };
        Ok(Call { function, filter })
    }

    /// A call that DataFusion carries out, on a column for each of its arguments.
    fn by_arrow(
        &mut self,
        function: &AggregateFunction,
        schema: &DFSchema,
    ) -> Result<ByArrow, NotShort> {
        if !function.params.order_by.is_empty() {
            return Err(NotShort::new(format!("{} with ORDER BY", function.func.name())));
        }
        let (mut fields, mut inputs) = (Vec::new(), Vec::new());
        let mut alone = function.clone();
        alone.params.filter = None;
        for argument in &mut alone.params.args {
            if matches!(argument, Expr::Literal(..)) {
                continue;
            }
            let field = argument.to_field(schema)?.1;
            expr::data_type(field.data_type())?;
            inputs.push(over(argument, schema, self)?);
            let name = format!("input{}", fields.len());
            fields.push(field.as_ref().clone().with_name(&name).with_nullable(true));
            *argument = Expr::Column(Column::new_unqualified(name));
        }
        let batch = Arc::new(Schema::new(fields));
        let known = DFSchema::try_from(Arc::clone(&batch))?;
        let expr = Expr::AggregateFunction(alone);
        let lowered = LoweredAggregateBuilder::new(
            &expr,
            &known,
            &batch,
            &Default::default(),
            &Default::default(),
        )
        .with_name("call")
        .build()?;
        Ok(ByArrow { function: lowered.aggregate, schema: batch, inputs })
    }
}
