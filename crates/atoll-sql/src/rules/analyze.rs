//! The walk over a plan that gives every expression the types of PostgreSQL.
//!
//! The rule runs before DataFusion's own coercion, from the leaves of a plan to its root, so that
//! an expression sees the final types of its inputs. Outer columns of a subquery get their final
//! types when the walk enters the subquery.
//!
//! `ANALYZE-1`: output columns keep their names; only types and expressions change.

use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::common::{DFSchema, DFSchemaRef, ExprSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InList, InSubquery, ScalarFunction, SetComparison, Sort as SortKey,
    WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{
    Distinct, Join, Projection, RecursiveQuery, Subquery, Union, Values, Window,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    Operator, WindowFrameBound, WindowFrameUnits, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::canonical::canonical;
use super::operands::{self, Typed};
use super::{cast, extreme, guard, merging, plan_error, sum, temporal};
use crate::error::SqlErrorKind;

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
        plan_types(plan, Outer { schemas: &[], guards: self.guards })
    }
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
            .map(|(a, b)| operands::merged([a.data_type(), b.data_type()].into_iter()))
            .collect();
        join.left = Arc::new(with_types(Arc::unwrap_or_clone(join.left), &wanted)?);
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
            let arrow = key.expr.get_type(schema)?;
            Ok(SortKey { expr: canonical(key.expr, &arrow), ..key })
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
            operands::merged(types.into_iter())
        })
        .collect();
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
            let merged = operands::merge(column.collect::<Result<_>>()?)?;
            for (row, value) in rows.iter_mut().zip(merged) {
                row[at] = value;
            }
            is_changed = true;
            continue;
        }
        for row in &mut rows {
            row[at] = scope.rewrite(std::mem::take(&mut row[at]))?;
        }
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

/// The columns that the expressions of a node can refer to.
struct Scope<'a> {
    schema: DFSchemaRef,
    outer: Outer<'a>,
}

impl Scope<'_> {
    fn rewrite(&self, expr: Expr) -> Result<Expr> {
        Ok(expr.transform_up(|expr| self.node(expr).map(Transformed::yes))?.data)
    }

    fn typed(&self, expr: Expr) -> Result<Typed> {
        Typed::new(expr, &self.schema)
    }

    /// A node with finished children.
    fn node(&self, expr: Expr) -> Result<Expr> {
        match expr {
            Expr::OuterReferenceColumn(field, column) => {
                let found =
                    self.outer.schemas.iter().rev().find_map(|s| s.field_from_column(&column).ok());
                let field = match found {
                    Some(found) if found.data_type() != field.data_type() => {
                        Arc::new(field.as_ref().clone().with_data_type(found.data_type().clone()))
                    }
                    _ => field,
                };
                Ok(Expr::OuterReferenceColumn(field, column))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.binary(self.typed(*left)?, op, self.typed(*right)?)
            }
            Expr::Negative(inner) => operands::negative(self.typed(*inner)?),
            Expr::Cast(Cast { expr, field }) => {
                let value = self.typed(*expr)?;
                let to = temporal::wanted_type(&field, &value.arrow);
                let expr = cast::expression(value.expr, &value.arrow, &to)?;
                let looks_untyped = match &expr {
                    Expr::Literal(ScalarValue::Int64(_), _) => true,
                    Expr::Literal(value, _) => value.try_as_str().flatten().is_some(),
                    _ => false,
                };
                // The cast stays around a literal that would be taken for one without a type.
                match looks_untyped {
                    true => Ok(Expr::Cast(Cast::new(Box::new(expr), to))),
                    false => Ok(expr),
                }
            }
            // DataFusion's own say otherwise in its two kinds of plans whether they may be NULL.
            Expr::IsTrue(inner) => self.is_known(*inner, false),
            Expr::IsNotTrue(inner) => Ok(Expr::Not(Box::new(self.is_known(*inner, false)?))),
            Expr::IsFalse(inner) => self.is_known(*inner, true),
            Expr::IsNotFalse(inner) => Ok(Expr::Not(Box::new(self.is_known(*inner, true)?))),
            Expr::IsUnknown(inner) => {
                Ok(Expr::IsNull(Box::new(operands::truth(self.typed(*inner)?)?)))
            }
            Expr::IsNotUnknown(inner) => {
                Ok(Expr::IsNotNull(Box::new(operands::truth(self.typed(*inner)?)?)))
            }
            Expr::Not(inner) => Ok(Expr::Not(Box::new(operands::truth(self.typed(*inner)?)?))),
            Expr::Between(Between { expr, negated, low, high }) => {
                let value = self.typed(*expr)?;
                let (low, high) = (self.typed(*low)?, self.typed(*high)?);
                let (below, above, both) = match negated {
                    false => (Operator::GtEq, Operator::LtEq, Operator::And),
                    true => (Operator::Lt, Operator::Gt, Operator::Or),
                };
                let first = operands::compare(value.clone(), below, low)?;
                Ok(self.logical(first, both, operands::compare(value, above, high)?))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let list = list.into_iter().map(|item| self.typed(item)).collect::<Result<_>>()?;
                let join = |left, op, right| self.logical(left, op, right);
                operands::in_list(self.typed(*expr)?, list, negated, join)
            }
            Expr::Case(case) => {
                let case = operands::case(case, &self.schema)?;
                match self.outer.guards {
                    true => guard::case(case, &self.schema),
                    false => Ok(Expr::Case(case)),
                }
            }
            Expr::Like(like) => {
                for operand in [&like.expr, &like.pattern] {
                    let arrow = self.typed(operand.as_ref().clone())?.arrow;
                    if matches!(arrow, ArrowType::Binary | ArrowType::BinaryView) {
                        let message = "LIKE compares texts, not bytea";
                        return Err(plan_error(SqlErrorKind::Type, message));
                    }
                }
                Ok(Expr::Like(like))
            }
            Expr::ScalarFunction(function) => self.function(function),
            Expr::AggregateFunction(function) => self.aggregate(function),
            Expr::WindowFunction(function) => self.window(*function),
            Expr::ScalarSubquery(subquery) => self.subquery(subquery).map(Expr::ScalarSubquery),
            Expr::Exists(Exists { subquery, negated }) => {
                Ok(Expr::Exists(Exists { subquery: self.subquery(subquery)?, negated }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (expr, subquery) = self.beside_subquery(*expr, subquery, Operator::Eq)?;
                Ok(Expr::InSubquery(InSubquery { expr: Box::new(expr), subquery, negated }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let (expr, subquery) = self.beside_subquery(*expr, subquery, op)?;
                let expr = Box::new(expr);
                Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
            }
            other => Ok(other),
        }
    }

    fn binary(&self, left: Typed, op: Operator, right: Typed) -> Result<Expr> {
        use Operator as Op;
        match op {
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => {
                operands::arithmetic(left, op, right)
            }
            // As the key of a join it may lose the pairs of NULL: DataFusion makes a plain equality
            // of it where it puts joins in another order.
            Op::IsNotDistinctFrom
                if left.expr.any_column_refs() && right.expr.any_column_refs() =>
            {
                let (left, right) = operands::comparison(left, op, right)?;
                let both_null = left.clone().is_null().and(right.clone().is_null());
                let both = left.clone().is_not_null().and(right.clone().is_not_null());
                Ok(both.and(left.eq(right)).or(both_null))
            }
            Op::Eq
            | Op::NotEq
            | Op::Lt
            | Op::LtEq
            | Op::Gt
            | Op::GtEq
            | Op::IsDistinctFrom
            | Op::IsNotDistinctFrom => operands::compare(left, op, right),
            Op::StringConcat => operands::concat(left, right),
            Op::And | Op::Or => {
                Ok(self.logical(operands::truth(left)?, op, operands::truth(right)?))
            }
            _ => {
                Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr))))
            }
        }
    }

    /// Whether a condition is known to be true, or false if it is `negated`.
    fn is_known(&self, condition: Expr, negated: bool) -> Result<Expr> {
        let condition = operands::truth(self.typed(condition)?)?;
        let holds = match negated {
            true => Expr::Not(Box::new(condition.clone())),
            false => condition.clone(),
        };
        Ok(Expr::IsNotNull(Box::new(condition)).and(holds))
    }

    /// AND or OR of two conditions.
    fn logical(&self, left: Expr, op: Operator, right: Expr) -> Expr {
        let guarded = self.outer.guards.then(|| guard::logical(&left, op, &right)).flatten();
        guarded.unwrap_or_else(|| {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        })
    }

    fn function(&self, function: ScalarFunction) -> Result<Expr> {
        let ScalarFunction { func, args } = function;
        let mut typed: Vec<Typed> =
            args.into_iter().map(|arg| self.typed(arg)).collect::<Result<_>>()?;
        let args = match func.name() {
            "coalesce" | "greatest" | "least" => {
                let func = merging::builtin(func);
                let args = operands::merge(typed)?;
                return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
            }
            "nullif" if typed.len() == 2 => {
                let (other, value) = (typed.remove(1), typed.remove(0));
                let (value, other) = (value.narrowed()?, other.narrowed()?);
                let is_equal = operands::compare(value.clone(), Operator::Eq, other.clone())?;
                let result = operands::kept_by_nullif(value, &other)?;
                let null = ScalarValue::try_from(&result.arrow)?;
                let case = Case::new(
                    None,
                    vec![(Box::new(is_equal), Box::new(lit(null)))],
                    Some(Box::new(result.expr)),
                );
                return Ok(Expr::Case(case));
            }
            "abs" if typed.len() == 1 && typed[0].arrow.is_signed_integer() => {
                let value = typed.remove(0);
                let zero = Typed::new(lit(0i64), &self.schema)?;
                let is_negative = operands::compare(value.clone(), Operator::Lt, zero)?;
                let negative = operands::negative(value.clone())?;
                let case = Case::new(
                    None,
                    vec![(Box::new(is_negative), Box::new(negative))],
                    Some(Box::new(value.expr)),
                );
                return Ok(Expr::Case(case));
            }
            "date_trunc" if typed.len() == 2 => {
                let (moment, unit) = (typed.remove(1), typed.remove(0));
                let moment = operands::as_moment(moment)?;
                if moment.arrow == operands::TIMESTAMP {
                    return Ok(temporal::date_trunc().call(vec![unit.expr, moment.expr]));
                }
                vec![unit.expr, moment.expr]
            }
            _ => operands::as_arguments(typed)?,
        };
        Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
    }

    fn aggregate(&self, mut function: AggregateFunction) -> Result<Expr> {
        let params = &mut function.params;
        params.order_by = sort_keys(std::mem::take(&mut params.order_by), &self.schema)?;
        params.args = self.arguments(function.func.name(), std::mem::take(&mut params.args))?;
        if params.distinct {
            for argument in &mut params.args {
                let value = self.typed(std::mem::take(argument))?;
                *argument = canonical(value.expr, &value.arrow);
            }
        }
        if let Some(filter) = params.filter.take() {
            let filter = operands::truth(self.typed(*filter)?)?;
            if self.outer.guards {
                params.args = guard::filtered(std::mem::take(&mut params.args), &filter);
            }
            params.filter = Some(Box::new(filter));
        }
        function.func = sum::hidden(function.func);
        Ok(Expr::AggregateFunction(function))
    }

    /// Whole numbers that are written as arguments of an aggregate have the type of PostgreSQL.
    fn arguments(&self, name: &str, arguments: Vec<Expr>) -> Result<Vec<Expr>> {
        let of_values = matches!(name, "first_value" | "last_value" | "lag" | "lead");
        if !of_values && !matches!(name, "sum" | "avg" | "min" | "max") {
            return Ok(arguments);
        }
        if of_values {
            // The others are distances and counts.
            let mut arguments = arguments;
            if let Some(value) = arguments.first_mut() {
                *value = self.typed(std::mem::take(value))?.narrowed()?.expr;
            }
            return Ok(arguments);
        }
        let narrowed = |argument| {
            let value = self.typed(argument)?.narrowed()?;
            if matches!(name, "sum" | "avg") && value.arrow.is_string() {
                let message = format!("{name} takes numbers, not text; cast the text");
                return Err(plan_error(SqlErrorKind::Type, message));
            }
            Ok(value.expr)
        };
        arguments.into_iter().map(narrowed).collect()
    }

    fn window(&self, mut function: WindowFunction) -> Result<Expr> {
        let params = &mut function.params;
        params.order_by = sort_keys(std::mem::take(&mut params.order_by), &self.schema)?;
        let frame = &params.window_frame;
        let distances: Vec<&ScalarValue> = [&frame.start_bound, &frame.end_bound]
            .into_iter()
            .filter_map(|bound| match bound {
                WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => Some(by),
                WindowFrameBound::CurrentRow => None,
            })
            .filter(|by| !by.is_null())
            .collect();
        let is_measured = frame.units == WindowFrameUnits::Range && !distances.is_empty();
        for key in &mut params.order_by {
            let value = self.typed(std::mem::take(&mut key.expr))?;
            key.expr = match is_measured {
                true => operands::distance_key(value, &distances)?,
                false => operands::frame_key(value)?,
            };
        }
        // Partitions are found in sorted rows, so their keys are keys of an order too.
        for key in &mut params.partition_by {
            let value = self.typed(std::mem::take(key))?;
            *key = canonical(value.expr, &value.arrow);
        }
        params.args = self.arguments(function.fun.name(), std::mem::take(&mut params.args))?;
        // Over truth values these are the same, and can be kept over a moving window.
        match function.fun.name() {
            "bool_and" => function.fun = extreme::low().into(),
            "bool_or" => function.fun = extreme::high().into(),
            _ => {}
        }
        if matches!(function.fun.name(), "lag" | "lead") && params.args.len() == 3 {
            // The value and what stands for a missing one have one type.
            let both = [0, 2].map(|at| self.typed(std::mem::take(&mut params.args[at])));
            let both = both.into_iter().collect::<Result<Vec<_>>>()?;
            for (at, expr) in [0, 2].into_iter().zip(operands::merge(both)?) {
                params.args[at] = expr;
            }
        }
        Ok(Expr::WindowFunction(Box::new(function)))
    }

    fn subquery(&self, subquery: Subquery) -> Result<Subquery> {
        let around = self.outer.and(&self.schema);
        let around = Outer { schemas: &around, ..self.outer };
        let plan = plan_types(Arc::unwrap_or_clone(subquery.subquery), around)?;
        let outer_ref_columns = subquery
            .outer_ref_columns
            .into_iter()
            .map(|expr| {
                let inside = Scope { schema: Arc::clone(&self.schema), outer: around };
                inside.node(expr)
            })
            .collect::<Result<_>>()?;
        Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans })
    }

    /// An expression and the one column of a subquery that it is compared with.
    fn beside_subquery(
        &self,
        expr: Expr,
        subquery: Subquery,
        op: Operator,
    ) -> Result<(Expr, Subquery)> {
        let mut subquery = self.subquery(subquery)?;
        let schema = Arc::clone(subquery.subquery.schema());
        let (qualifier, field) = schema.qualified_field(0);
        let column = Typed::new(Expr::from((qualifier, field)), &schema)?;
        let (expr, inner) = operands::comparison(self.typed(expr)?, op, column.clone())?;
        if inner != column.expr {
            let plan = Projection::try_new(vec![inner], subquery.subquery)?;
            subquery.subquery = Arc::new(LogicalPlan::Projection(plan));
        }
        Ok((expr, subquery))
    }
}
