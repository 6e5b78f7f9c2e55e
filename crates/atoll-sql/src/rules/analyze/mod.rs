//! The walk over a plan that gives every expression the types of PostgreSQL.
//!
//! The rule runs before DataFusion's own coercion, from the leaves of a plan to its root, so that
//! an expression sees the final types of its inputs. Outer columns of a subquery get their final
//! types when the walk enters the subquery.
//!
//! `ANALYZE-1`: output columns keep their names; only types and expressions change.

mod arguments;
mod like;
mod scope;
mod written;

use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{
    Distinct, Join, Projection, RecursiveQuery, Union, Values, Window,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::typed::Typed;
use super::{cast, common_type, enums, merged_type, operands, plan_error, spans};
use crate::error::SqlErrorKind;
use scope::Scope;

/// The surroundings of a plan.
#[derive(Clone, Copy)]
struct Outer<'a> {
    /// The schemas of the queries around a subquery, the nearest last.
    schemas: &'a [DFSchemaRef],
    guards: bool,
}

impl Outer<'_> {
    fn and(self, schema: &DFSchemaRef) -> Vec<DFSchemaRef> {
        let mut schemas = self.schemas.to_vec();
        schemas.push(Arc::clone(schema));
        schemas
    }
}

/// The analyzer rule that performs the walk.
#[derive(Debug)]
pub(crate) struct Analyzer {
    /// Whether operands that can fail are guarded.
    pub(crate) guards: bool,
}

impl AnalyzerRule for Analyzer {
    fn name(&self) -> &str {
        "types_of_postgresql"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        signed(plan_types(plan, Outer { schemas: &[], guards: self.guards })?)
    }
}

/// The plan of a query with signed counts: SQL has no others.
fn signed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let wanted: Vec<Option<ArrowType>> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| (*field.data_type() == ArrowType::UInt64).then_some(ArrowType::Int64))
        .collect();
    with_types(plan, &wanted)
}

fn plan_types(plan: LogicalPlan, outer: Outer<'_>) -> Result<LogicalPlan> {
    let plan = match plan {
        LogicalPlan::Join(join) => join_inputs(join, outer)?,
        LogicalPlan::RecursiveQuery(query) => return recursive(query, outer),
        LogicalPlan::Values(values) => return values_types(values, outer),
        other => {
            let each = |input| plan_types(input, outer).map(Transformed::yes);
            other.map_children(each)?.data
        }
    };
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&scan.projected_schema);
    }
    let scope = Scope { schema: Arc::new(schema), outer };
    let names = NamePreserver::new(&plan);
    let plan = plan
        .map_expressions(|expr| {
            if let Expr::GroupingSet(_) = expr {
                // Its parts are named one by one.
                let part = |expr: Expr| {
                    let name = names.save(&expr);
                    scope.rewrite(expr).map(|expr| Transformed::yes(name.restore(expr)))
                };
                return expr.map_children(part);
            }
            let name = names.save(&expr);
            scope.rewrite(expr).map(|expr| Transformed::yes(name.restore(expr)))
        })?
        .data;
    match plan {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = operands::truth(scope.typed(filter.predicate)?)?;
            Ok(LogicalPlan::Filter(filter))
        }
        LogicalPlan::Join(join) => join_keys(join),
        LogicalPlan::Aggregate(aggregate) => spans::grouped(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => spans::distinct(input),
        LogicalPlan::Window(window) => window_keys(window).and_then(window_numbers),
        LogicalPlan::Union(union) => union_types(union),
        LogicalPlan::Sort(mut sort) => {
            sort.expr = sort_keys(sort.expr, &scope.schema)?;
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            on.sort_expr = on.sort_expr.map(|keys| sort_keys(keys, &schema)).transpose()?;
            LogicalPlan::Distinct(Distinct::On(on)).recompute_schema()
        }
        other => other.recompute_schema(),
    }
}

/// The inputs of a join; the right one may refer to the left one.
fn join_inputs(mut join: Join, outer: Outer<'_>) -> Result<LogicalPlan> {
    join.left = Arc::new(plan_types(Arc::unwrap_or_clone(join.left), outer)?);
    let around = outer.and(join.left.schema());
    let around = Outer { schemas: &around, ..outer };
    join.right = Arc::new(plan_types(Arc::unwrap_or_clone(join.right), around)?);
    Ok(LogicalPlan::Join(join))
}

/// Whether a join stands for INTERSECT or EXCEPT: all columns of both sides are its keys, and NULL
/// equals NULL.
fn is_set_operation(join: &Join) -> bool {
    let columns = join.left.schema().fields().len();
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.on.len() == columns
        && join.right.schema().fields().len() == columns
}

/// The keys of a join, which are pairs of expressions that are compared.
fn join_keys(mut join: Join) -> Result<LogicalPlan> {
    if is_set_operation(&join) {
        // The result has the type that both sides merge into, as that of UNION has.
        let fields = join.left.schema().fields().iter().zip(join.right.schema().fields());
        let wanted: Vec<Option<ArrowType>> = fields
            .map(|(a, b)| merged_type::merged([a.data_type(), b.data_type()].into_iter()))
            .collect();
        let before = Arc::clone(join.left.schema());
        join.left = Arc::new(with_types(Arc::unwrap_or_clone(join.left), &wanted)?);
        if before.has_equivalent_names_and_types(join.left.schema()).is_err() {
            // Its rows were distinct in their own types, and may be equal now.
            join.left = Arc::new(LogicalPlan::Distinct(Distinct::All(join.left)));
        }
        join.right = Arc::new(with_types(Arc::unwrap_or_clone(join.right), &wanted)?);
    }
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    join.on = join
        .on
        .into_iter()
        .map(|(a, b)| {
            operands::comparison(Typed::new(a, &left)?, Operator::Eq, Typed::new(b, &right)?)
        })
        .collect::<Result<_>>()?;
    LogicalPlan::Join(join).recompute_schema()
}

/// The keys of an order in canonical form, so that equal numbers are peers (`COMPARE-1`).
fn sort_keys(keys: Vec<SortKey>, schema: &DFSchema) -> Result<Vec<SortKey>> {
    keys.into_iter()
        .map(|key| {
            let value = Typed::new(key.expr.clone(), schema)?;
            Ok(SortKey { expr: spans::key_of(value)?, ..key })
        })
        .collect()
}

/// Keys of windows that are expressions become columns of the input: DataFusion reasons about
/// the order of expressions in one way when it sorts and in another when it checks the order.
fn window_keys(mut window: Window) -> Result<LogicalPlan> {
    let mut keys: Vec<Expr> = Vec::new();
    let mut column_of = |key: &mut Expr| {
        if matches!(key, Expr::Column(_) | Expr::Literal(..)) {
            return;
        }
        let at = keys.iter().position(|known| known == key).unwrap_or_else(|| {
            keys.push(key.clone());
            keys.len() - 1
        });
        *key = Expr::Column(Column::new_unqualified(format!("__window_key_{at}")));
    };
    let columns = window.input.schema().fields().len();
    let names = NamePreserver::new_for_projection();
    let mut named = Vec::with_capacity(window.window_expr.len());
    for expr in std::mem::take(&mut window.window_expr) {
        let name = names.save(&expr);
        let keyed = expr.transform_up(|mut node| {
            if let Expr::WindowFunction(function) = &mut node {
                function.params.partition_by.iter_mut().for_each(&mut column_of);
                function.params.order_by.iter_mut().for_each(|key| column_of(&mut key.expr));
            }
            Ok(Transformed::yes(node))
        })?;
        named.push(name.restore(keyed.data));
    }
    if keys.is_empty() {
        window.window_expr = named;
        return LogicalPlan::Window(window).recompute_schema();
    }
    let mut projected: Vec<Expr> = window.input.schema().iter().map(Expr::from).collect();
    let keys = keys.into_iter().enumerate();
    projected.extend(keys.map(|(at, key)| key.alias(format!("__window_key_{at}"))));
    let keyed = Projection::try_new(projected, window.input)?;
    let keyed = Window::try_new(named, Arc::new(LogicalPlan::Projection(keyed)))?;
    // The columns of the input, and what the windows add; not the keys.
    let kept: Vec<Expr> = keyed
        .schema
        .iter()
        .filter(|(_, field)| !field.name().starts_with("__window_key_"))
        .map(Expr::from)
        .collect();
    debug_assert!(kept.len() >= columns);
    let plan = Projection::try_new(kept, Arc::new(LogicalPlan::Window(keyed)))?;
    Ok(LogicalPlan::Projection(plan))
}

/// The numbers that windows give to rows are signed.
fn window_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.recompute_schema()?;
    let wanted: Vec<Option<ArrowType>> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            ArrowType::UInt64 if field.name().starts_with("ntile(") => Some(ArrowType::Int32),
            ArrowType::UInt64 => Some(ArrowType::Int64),
            _ => None,
        })
        .collect();
    with_types(plan, &wanted)
}

/// A plan with the given types of columns; `None` leaves a column unchanged.
fn with_types(plan: LogicalPlan, wanted: &[Option<ArrowType>]) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let is_same =
        schema.fields().iter().zip(wanted).all(|(field, wanted)| {
            wanted.as_ref().is_none_or(|wanted| field.data_type() == wanted)
        });
    if is_same {
        return Ok(plan);
    }
    let columns = schema.iter().zip(wanted).map(|((qualifier, field), wanted)| {
        let column = Expr::from((qualifier, field));
        match wanted {
            Some(wanted) if wanted != field.data_type() => {
                cast::expression(column, field.data_type(), wanted)
                    .map(|expr| expr.alias_qualified(qualifier.cloned(), field.name()))
            }
            _ => Ok(column),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn union_types(union: Union) -> Result<LogicalPlan> {
    let columns = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let wanted: Vec<Option<ArrowType>> = (0..columns)
        .map(|at| {
            let types: Vec<&ArrowType> =
                union.inputs.iter().map(|input| input.schema().field(at).data_type()).collect();
            // A quoted literal beside an enum is a label of it.
            let labels = types.iter().copied().find(|arrow| crate::enums::of(arrow).is_some());
            merged_type::merged(types.into_iter()).or_else(|| labels.cloned())
        })
        .collect();
    for input in &union.inputs {
        for (at, other) in union.inputs[0].schema().fields().iter().enumerate() {
            let types = [input.schema().field(at).data_type(), other.data_type()];
            let is_bytes = |arrow: &ArrowType| arrow.is_binary();
            let is_apart = types[0].is_string() && is_bytes(types[1])
                || is_bytes(types[0]) && types[1].is_string();
            // A quoted literal may be either.
            let is_quoted = |input: &LogicalPlan| match input {
                LogicalPlan::Projection(select) => {
                    matches!(select.expr[at].clone().unalias_nested().data, Expr::Literal(..))
                }
                _ => false,
            };
            let labels = wanted[at].as_ref().filter(|arrow| crate::enums::of(arrow).is_some());
            if let Some(labels) = labels
                && types[0] != labels
                && !types[0].is_null()
                && !(types[0].is_string() && is_quoted(input))
            {
                return Err(enums::apart("UNION", types[0], labels));
            }
            if is_apart && !is_quoted(input) && !is_quoted(&union.inputs[0]) {
                let message = "UNION types text and bytea cannot be matched";
                return Err(plan_error(SqlErrorKind::Type, message));
            }
        }
    }
    let inputs = union
        .inputs
        .into_iter()
        .map(|input| with_types(Arc::unwrap_or_clone(input), &wanted).map(Arc::new))
        .collect::<Result<Vec<_>>>()?;
    // Its names and qualifiers are those that the planner gave it; its types are the inputs'.
    let fields = union
        .schema
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            let first = inputs[0].schema().field(at).as_ref().clone();
            let field = first.with_name(field.name()).with_nullable(field.is_nullable());
            (qualifier.cloned(), Arc::new(field))
        })
        .collect::<Vec<(Option<TableReference>, _)>>();
    let schema = DFSchema::new_with_metadata(fields, union.schema.as_arrow().metadata().clone())?;
    Ok(LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) }))
}

/// Rows that are written out. The planner has merged their types by its own rules and put casts
/// around the values; where they made a decimal of doubles, the values are merged again.
fn values_types(values: Values, outer: Outer<'_>) -> Result<LogicalPlan> {
    let nothing = Arc::new(DFSchema::empty());
    let mut rows = values.values;
    let mut is_changed = false;
    let mut forms = vec![None; values.schema.fields().len()];
    let inner = |expr: &Expr| match expr {
        Expr::Cast(cast) => cast.expr.as_ref().clone(),
        other => other.clone(),
    };
    let scope = Scope { schema: Arc::clone(&nothing), outer };
    for (at, field) in values.schema.fields().iter().enumerate() {
        let is_float = |row: &Vec<Expr>| {
            inner(&row[at]).get_type(&nothing).is_ok_and(|arrow| arrow.is_floating())
        };
        let is_decimal = matches!(field.data_type(), ArrowType::Decimal128(..));
        if is_decimal && rows.iter().any(is_float) {
            let column = rows.iter().map(|row| scope.typed(scope.rewrite(inner(&row[at]))?));
            let merged = common_type::merge(column.collect::<Result<_>>()?)?;
            for (row, value) in rows.iter_mut().zip(merged) {
                row[at] = value;
            }
            is_changed = true;
            continue;
        }
        for row in &mut rows {
            row[at] = scope.rewrite(std::mem::take(&mut row[at]))?;
        }
        // The planner has given JSON the type of texts.
        for row in &rows {
            forms[at] = forms[at].or(scope.typed(inner(&row[at]))?.json);
        }
        for row in &mut rows {
            if let Some(form) = forms[at] {
                row[at] = scope.typed(inner(&row[at]))?.into_json(form)?.expr;
            }
        }
    }
    if forms.iter().any(Option::is_some) {
        let plan = LogicalPlanBuilder::values(rows)?.build()?;
        let columns = plan.schema().iter().zip(&forms).map(|((qualifier, field), form)| {
            let column = Expr::from((qualifier, field));
            let column = operands::as_json(column, *form)?;
            Ok(column.alias_qualified(qualifier.cloned(), field.name()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        return Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?));
    }
    if is_changed {
        return LogicalPlanBuilder::values(rows)?.build();
    }
    LogicalPlan::Values(Values { schema: values.schema, values: rows }).recompute_schema()
}

/// `WITH RECURSIVE`: the table that the query reads itself from was made with the types that its
/// first part had when it was planned, so both parts keep those.
fn recursive(query: RecursiveQuery, outer: Outer<'_>) -> Result<LogicalPlan> {
    let planned = Arc::clone(query.static_term.schema());
    let wanted: Vec<Option<ArrowType>> =
        planned.fields().iter().map(|field| Some(field.data_type().clone())).collect();
    let part = |term: Arc<LogicalPlan>| {
        let term = plan_types(Arc::unwrap_or_clone(term), outer)?;
        for (field, planned) in term.schema().fields().iter().zip(planned.fields()) {
            let is_float = |arrow: &ArrowType| arrow.is_floating();
            if is_float(field.data_type()) != is_float(planned.data_type()) {
                let message = format!(
                    "column \"{}\" of WITH RECURSIVE has no type that both of its queries keep",
                    planned.name()
                );
                return Err(plan_error(
                    SqlErrorKind::Type,
                    message + "; cast it in both, as in CAST(x AS double precision)",
                ));
            }
        }
        with_types(term, &wanted).map(Arc::new)
    };
    let static_term = part(query.static_term)?;
    let recursive_term = part(query.recursive_term)?;
    Ok(LogicalPlan::RecursiveQuery(RecursiveQuery { static_term, recursive_term, ..query }))
}
