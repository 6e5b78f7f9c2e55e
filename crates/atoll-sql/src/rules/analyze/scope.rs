//! The expressions of one node of a plan: from the leaves to the root, each gets the types of
//! PostgreSQL.

use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction,
};
use datafusion::logical_expr::logical_plan::{Projection, Subquery};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, LogicalPlan, Operator, ScalarUDF, WindowFrameBound,
    WindowFrameUnits, lit,
};

use super::written::written_cast;
use super::{Outer, plan_types, sort_keys};
use crate::error::SqlErrorKind;
use crate::json::Form;
use crate::mark::MARK;
use crate::rules::arith::Arithmetic;
use crate::rules::canonical::canonical;
use crate::rules::functions::{self, Call};
use crate::rules::grouped::OtherName;
use crate::rules::quantified::{self, Quantified};
use crate::rules::spans::key_of;
use crate::rules::typed::Typed;
use crate::rules::{
    absolute, at_zone, common_type, enums, extreme, frame, guard, json, lengths, merging, moments,
    operands, plan_error, sum, temporal,
};

/// The columns that the expressions of a node can refer to.
pub(super) struct Scope<'a> {
    pub(super) schema: DFSchemaRef,
    pub(super) outer: Outer<'a>,
}

impl Scope<'_> {
    pub(super) fn rewrite(&self, expr: Expr) -> Result<Expr> {
        Ok(expr.transform_up(|expr| self.node(expr).map(Transformed::yes))?.data)
    }

    pub(super) fn typed(&self, expr: Expr) -> Result<Typed> {
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
                match field.data_type() {
                    to @ ArrowType::List(element) => quantified::cast(
                        value,
                        to,
                        element,
                        (&|expr| self.typed(expr), &written_cast),
                    ),
                    // DataFusion gives it the type only outside of the arguments of functions.
                    _ if value.is_open_parameter() && Form::of_field(&field).is_none() => {
                        let wanted = temporal::wanted_type(&field, &value.arrow);
                        written_cast(value.with_parameter_type(&wanted), &field)
                    }
                    _ => written_cast(value, &field),
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
                common_type::in_list(self.typed(*expr)?, list, negated, join)
            }
            Expr::Case(case) => {
                let results = case.when_then_expr.iter().map(|(_, then)| then);
                let results = results.chain(&case.else_expr);
                let results = results.map(|then| self.typed(then.as_ref().clone()));
                let results = results.collect::<Result<Vec<_>>>()?;
                let characters: Vec<_> = results.iter().map(|one| one.character).collect();
                let forms = json::forms(&results);
                let case = common_type::case(case, &self.schema)?;
                let case = match self.outer.guards {
                    true => guard::case(case, &self.schema)?,
                    false => Expr::Case(case),
                };
                json::merged(lengths::merged(case, &characters), &forms)
            }
            Expr::Like(mut like) => {
                for operand in [&like.expr, &like.pattern] {
                    let arrow = self.typed(operand.as_ref().clone())?.arrow;
                    if matches!(arrow, ArrowType::Binary | ArrowType::BinaryView) {
                        let message = "LIKE compares texts, not bytea";
                        return Err(plan_error(SqlErrorKind::Type, message));
                    }
                }
                let value = self.typed(std::mem::take(like.expr.as_mut()))?;
                enums::check_operator(&value, Operator::LikeMatch, &value)?;
                *like.expr = lengths::shown(value);
                self.like(like)
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
        enums::check_operator(&left, op, &right)?;
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
            Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::BitwiseShiftLeft
            | Op::BitwiseShiftRight => operands::bitwise(left, op, right),
            Op::RegexMatch | Op::RegexNotMatch | Op::RegexIMatch | Op::RegexNotIMatch => {
                let (name, negated) = match op {
                    Op::RegexMatch => ("textregexeq", false),
                    Op::RegexNotMatch => ("textregexeq", true),
                    Op::RegexIMatch => ("texticregexeq", false),
                    _ => ("texticregexeq", true),
                };
                let left = self.typed(lengths::shown(left))?;
                let found = functions::call(name, vec![left, right])?;
                Ok(if negated { Expr::Not(Box::new(found)) } else { found })
            }
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
        if is_known(&condition) {
            return Ok(if negated { Expr::Not(Box::new(condition)) } else { condition });
        }
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
        if let Some(call) = enums::call(func.name(), &typed) {
            return call;
        }
        typed = moments::apart(func.name(), typed)?;
        if func.inner().is::<OtherName>() {
            return Ok(typed.remove(0).expr);
        }
        typed = self.with_blanks(func.name(), typed)?;
        if let Some(call) = func.inner().downcast_ref::<Call>() {
            return match call.over(typed)? {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    operands::arithmetic(self.typed(*left)?, op, self.typed(*right)?)
                }
                call => Ok(call),
            };
        }
        if let Some(settled) = func.inner().downcast_ref::<Arithmetic>()
            && typed.len() == 2
        {
            let (right, left) = (typed.remove(1), typed.remove(0));
            return operands::again(settled, left, right);
        }
        if let Some(comparison) = func.inner().downcast_ref::<Quantified>()
            && typed.len() == 2
        {
            let (array, value) = (typed.remove(1), typed.remove(0));
            let join = |left, op, right| self.logical(left, op, right);
            return quantified::compare(comparison, (value, array), &|expr| self.typed(expr), join);
        }
        match func.name() {
            "coalesce" | "greatest" | "least" | "nullif" => {}
            "make_array" => typed = enums::in_array(typed),
            // It checks values of a domain.
            name if name.starts_with(MARK) => {}
            name => enums::check_arguments(name, typed.iter())?,
        }
        let args = match func.name() {
            "coalesce" | "greatest" | "least" => {
                let func = merging::builtin(func);
                let characters: Vec<_> = typed.iter().map(|one| one.character).collect();
                let forms = json::forms(&typed);
                let args = common_type::merge(typed)?;
                if func.name() != "coalesce"
                    && let Some(first) = args.first()
                    && self.typed(first.clone())?.arrow == temporal::INTERVAL
                {
                    let name = format!("{}_interval", func.name());
                    let args = args.into_iter().map(|arg| self.typed(arg));
                    return functions::call(&name, args.collect::<Result<_>>()?);
                }
                let args = if func.name() == "coalesce" { flat(args) } else { args };
                let call = Expr::ScalarFunction(ScalarFunction { func, args });
                return json::merged(lengths::merged(call, &characters), &forms);
            }
            "nullif" if typed.len() == 2 => {
                let (other, value) = (typed.remove(1), typed.remove(0));
                let (value, other) = (value.narrowed()?, other.narrowed()?);
                let is_one_form = !value.arrow.is_floating()
                    && value.arrow != temporal::INTERVAL
                    && value.json.is_none();
                if value.arrow == other.arrow && is_one_form {
                    // The function names its argument once, where nested ones would grow by powers.
                    let character = value.character;
                    let args = vec![value.expr, other.expr];
                    let func = merging::builtin(func);
                    let call = Expr::ScalarFunction(ScalarFunction { func, args });
                    return Ok(lengths::merged(call, &[character]));
                }
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
                return Ok(absolute::absolute(typed.remove(0).narrowed()?.expr));
            }
            at_zone::NAME if typed.len() == 2 => {
                let (moment, zone) = (typed.remove(1), typed.remove(0));
                return at_zone::call(zone, moment);
            }
            "current_date" if typed.is_empty() => {
                let now = Typed::of(func_now(), temporal::instant());
                return now.into_type(&ArrowType::Date32).map(|today| today.expr);
            }
            temporal::LOCAL if typed.is_empty() => {
                let now = Typed::of(func_now(), temporal::instant());
                return now.into_type(&temporal::TIMESTAMP).map(|local| local.expr);
            }
            "date_trunc" if typed.len() == 2 => {
                let (moment, unit) = (typed.remove(1), typed.remove(0));
                // A date is an instant first, as in every function that takes both.
                let moment = match moment.arrow == ArrowType::Date32 {
                    true => moment.into_type(&temporal::instant())?,
                    false => operands::as_moment(moment)?,
                };
                if moment.arrow == temporal::instant() {
                    let local = moment.into_type(&temporal::TIMESTAMP)?;
                    let cut = temporal::date_trunc().call(vec![unit.expr, local.expr]);
                    let cut = Typed::of(cut, temporal::TIMESTAMP);
                    return cut.into_type(&temporal::instant()).map(|cut| cut.expr);
                }
                if moment.arrow == temporal::INTERVAL {
                    return functions::call("date_trunc_interval", vec![unit, moment]);
                }
                if moment.arrow == temporal::TIMESTAMP {
                    return Ok(temporal::date_trunc().call(vec![unit.expr, moment.expr]));
                }
                // There is none.
                return functions::call("date_trunc_interval", vec![unit, moment]);
            }
            "make_array" => common_type::merge(typed)?,
            name if !name.contains("array")
                && typed.iter().any(|argument| argument.json.is_some()) =>
            {
                return Err(functions::takes_none(name, &typed));
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
            let counts = function.func.name() == "count";
            for argument in &mut params.args {
                let value = self.typed(std::mem::take(argument))?;
                if (value.arrow == temporal::INTERVAL || value.json.is_some()) && counts {
                    *argument = key_of(value)?;
                    continue;
                }
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
        if params.distinct && params.order_by.is_empty() && function.func.name() == "string_agg" {
            // Different values are found in sorted ones, and come in this order.
            let keys = params.args.first().map(|value| value.clone().sort(true, false));
            params.order_by = keys.into_iter().collect();
        }
        function.func = sum::hidden(function.func);
        Ok(Expr::AggregateFunction(function))
    }

    fn window(&self, mut function: WindowFunction) -> Result<Expr> {
        let params = &mut function.params;
        params.order_by = sort_keys(std::mem::take(&mut params.order_by), &self.schema)?;
        let frame = &params.window_frame;
        frame::check(frame)?;
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
            *key = key_of(value)?;
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
            for (at, expr) in [0, 2].into_iter().zip(common_type::merge(both)?) {
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

/// `now()`.
fn func_now() -> Expr {
    ScalarUDF::from(temporal::Now::new()).call(Vec::new())
}

/// The arguments of nested `coalesce` as those of one: the optimizer names an argument twice.
fn flat(arguments: Vec<Expr>) -> Vec<Expr> {
    let inner = |argument: Expr| match argument {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "coalesce" => args,
        other => vec![other],
    };
    arguments.into_iter().flat_map(inner).collect()
}

/// Whether a condition is one of IS TRUE and its kin, which is never NULL: around another one,
/// nothing has to be asked twice.
fn is_known(condition: &Expr) -> bool {
    match condition {
        Expr::Not(inner) => is_known(inner),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let Expr::IsNotNull(asked) = left.as_ref() else { return false };
            match right.as_ref() {
                Expr::Not(inner) if asked != right => inner == asked,
                other => other == asked.as_ref(),
            }
        }
        Expr::IsNull(_) | Expr::IsNotNull(_) => true,
        _ => false,
    }
}
