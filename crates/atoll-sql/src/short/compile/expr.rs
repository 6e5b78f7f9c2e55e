//! From an expression of DataFusion to a scalar.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema};
use atoll::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator};

use super::{Compiler, NotShort, UNTYPED};
use crate::json::Form;
use crate::parameter_name;
use crate::rules::number::Number;
use crate::rules::quantified::Quantified;
use crate::rules::rowless::Maybe;
use crate::rules::{arith, canonical, cast, temporal};
use crate::short::list::ListSlot;
use crate::short::scalar::{
    self, Arithmetic, Branches, ByArrow, Comparison, Conversion, Scalar, Slot,
};
use crate::short::value;
use crate::wording::in_sql;
use crate::{lengths, system, types};

/// The identifier of the parameter that stands for the time at which the transaction began.
pub(crate) const NOW: &str = "$now";

/// The type of a column that holds values of an Arrow type.
pub(crate) fn data_type(arrow: &ArrowType) -> Result<DataType, NotShort> {
    match arrow {
        ArrowType::FixedSizeBinary(width) if *width != 16 => {
            Ok(DataType::FixedBinary(u32::try_from(*width).unwrap_or(0)))
        }
        other => types::of_arrow(other)
            .ok_or_else(|| NotShort::new(in_sql(&format!("a value of the type {other}")))),
    }
}

/// Where the columns of an expression are.
pub(super) struct Scope<'a> {
    /// The names and types of the columns.
    pub(super) schema: &'a DFSchema,
    /// The place in the row of a column of the schema.
    pub(super) place: &'a dyn Fn(usize) -> Option<usize>,
}

impl Scope<'_> {
    fn column(&self, column: &Column) -> Result<usize, NotShort> {
        let at = self.schema.index_of_column(column)?;
        (self.place)(at).ok_or_else(|| NotShort::new(format!("the column {column} here")))
    }
}

/// Compiles an expression; parameters become slots of the compiler.
pub(super) fn compile(
    expr: &Expr,
    scope: &Scope<'_>,
    compiler: &mut Compiler,
) -> Result<Scalar, NotShort> {
    Ok(match expr {
        Expr::Alias(alias) => compile(&alias.expr, scope, compiler)?,
        Expr::Column(column) => Scalar::Column(scope.column(column)?),
        Expr::Literal(scalar, _) => Scalar::Const(
            value::of_scalar(scalar).ok_or_else(|| NotShort::new(format!("{scalar}")))?,
        ),
        Expr::Placeholder(placeholder) if placeholder.id == NOW => Scalar::Now,
        Expr::Placeholder(placeholder) => {
            parameter(&placeholder.id, placeholder.field.as_deref(), compiler)?
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            match comparison(*op).filter(|_| have_one_type([left, right], scope)) {
                Some(op) => Scalar::Compare(op, both(left, right, scope, compiler)?),
                None => match op {
                    Operator::And => Scalar::And(both(left, right, scope, compiler)?),
                    Operator::Or => Scalar::Or(both(left, right, scope, compiler)?),
                    _ => by_arrow(expr, scope, compiler)?,
                },
            }
        }
        Expr::Not(inner) => Scalar::Not(Box::new(compile(inner, scope, compiler)?)),
        Expr::IsNull(inner) => Scalar::IsNull(Box::new(compile(inner, scope, compiler)?)),
        Expr::IsNotNull(inner) => Scalar::IsNotNull(Box::new(compile(inner, scope, compiler)?)),
        Expr::Cast(Cast { expr: inner, field }) => {
            if let Expr::Placeholder(placeholder) = inner.as_ref()
                && placeholder.field.is_none()
            {
                return parameter(&placeholder.id, Some(field), compiler);
            }
            conversion(inner, field.data_type(), scope, compiler)?
        }
        Expr::ScalarFunction(function) => call(expr, function, scope, compiler)?,
        Expr::Case(case) => {
            let is_base = |base: &Expr| {
                case.when_then_expr.iter().all(|(when, _)| have_one_type([base, when], scope))
            };
            match case.expr.as_ref().is_none_or(|base| is_base(base)) {
                true => branches(case, scope, compiler)?,
                false => by_arrow(expr, scope, compiler)?,
            }
        }
        Expr::InList(InList { expr: first, list, .. })
            if !list.iter().all(|item| have_one_type([first, item], scope)) =>
        {
            by_arrow(expr, scope, compiler)?
        }
        Expr::InList(InList { expr, list, negated }) => {
            let first = compile(expr, scope, compiler)?;
            let list = list.iter().map(|item| compile(item, scope, compiler));
            Scalar::In(Box::new((first, list.collect::<Result<_, _>>()?, *negated)))
        }
        Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty() => {
            compiler.subquery(&subquery.subquery)?
        }
        other => by_arrow(other, scope, compiler)?,
    })
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        Operator::IsDistinctFrom => Comparison::Distinct,
        Operator::IsNotDistinctFrom => Comparison::NotDistinct,
        _ => return None,
    })
}

/// Whether two expressions have values of one type, which a column could hold (`SHORT-1`).
fn have_one_type(sides: [&Expr; 2], scope: &Scope<'_>) -> bool {
    let [left, right] = sides.map(|side| side.get_type(scope.schema));
    let (Ok(left), Ok(right)) = (left, right) else { return false };
    if left.is_null() || right.is_null() {
        return true;
    }
    match (data_type(&left), data_type(&right)) {
        // Of two decimals the digits are compared.
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

fn both(
    left: &Expr,
    right: &Expr,
    scope: &Scope<'_>,
    compiler: &mut Compiler,
) -> Result<Box<[Scalar; 2]>, NotShort> {
    Ok(Box::new([compile(left, scope, compiler)?, compile(right, scope, compiler)?]))
}

fn parameter(id: &str, field: Option<&Field>, compiler: &mut Compiler) -> Result<Scalar, NotShort> {
    let number =
        parameter_name::number(id).ok_or_else(|| NotShort::new(format!("the parameter {id}")))?;
    let field = field.filter(|field| !field.data_type().is_null());
    let field = field.ok_or_else(|| NotShort::new(format!("{id}{UNTYPED}")))?;
    let data_type = match (lengths::character(field), Form::of_field(field)) {
        (Some(most), _) => DataType::Char(most),
        (None, Some(form)) => form.data_type(),
        (None, None) => data_type(field.data_type())?,
    };
    let slot = Slot { number, data_type };
    Ok(compiler.parameter(slot))
}

/// A comparison with a parameter that is a list, the value that it compares, and the list.
pub(super) fn listed(expr: &Expr) -> Option<(&Quantified, &Expr, ListSlot)> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let quantified = function.func.inner().downcast_ref::<Quantified>()?;
    let [value, list] = function.args.as_slice() else { return None };
    let element = |arrow: &ArrowType| match arrow {
        ArrowType::List(field) => data_type(field.data_type()).ok(),
        _ => None,
    };
    let (list, compared) = match list {
        Expr::Cast(Cast { expr, field }) => (expr.as_ref(), element(field.data_type())),
        list => (list, None),
    };
    let Expr::Placeholder(Placeholder { id, field: Some(field) }) = list else { return None };
    let data_type = element(field.data_type())?;
    let compared = compared.unwrap_or(data_type);
    Some((quantified, value, ListSlot { number: parameter_name::number(id)?, data_type, compared }))
}

fn conversion(
    inner: &Expr,
    to: &ArrowType,
    scope: &Scope<'_>,
    compiler: &mut Compiler,
) -> Result<Scalar, NotShort> {
    let from = inner.get_type(scope.schema)?;
    let inner = compile(inner, scope, compiler)?;
    if from.is_null() {
        return Ok(inner);
    }
    let (from, to) = (data_type(&from)?, data_type(to)?);
    if from == to {
        return Ok(inner);
    }
    Ok(Scalar::Cast(Box::new(Conversion { inner, from, to })))
}

fn call(
    expr: &Expr,
    function: &ScalarFunction,
    scope: &Scope<'_>,
    compiler: &mut Compiler,
) -> Result<Scalar, NotShort> {
    let inner = function.func.inner();
    if let Some((quantified, value, slot)) = listed(expr)
        && let Some(op) = comparison(quantified.op)
    {
        if data_type(&value.get_type(scope.schema)?)? != slot.compared {
            return Err(NotShort::new("a list of another type than the value beside it"));
        }
        let (value, is_all) = (compile(value, scope, compiler)?, quantified.is_all);
        let list = compiler.list(slot);
        return Ok(Scalar::Quantified(Box::new(scalar::Quantified { value, op, is_all, list })));
    }
    if let ([left, right], Some(arithmetic)) =
        (function.args.as_slice(), inner.downcast_ref::<arith::Arithmetic>())
    {
        let number = |expr: &Expr| {
            let arrow = expr.get_type(scope.schema)?;
            Number::of(&arrow).ok_or_else(|| NotShort::new(format!("{arrow} as a number")))
        };
        let types = [number(left)?, number(right)?];
        let is_decimal = |one: &Number| matches!(one, Number::Decimal { .. });
        if types[0] != types[1] && !types.iter().all(is_decimal) {
            return by_arrow(expr, scope, compiler);
        }
        let result = expr.get_type(scope.schema)?;
        let result = Number::of(&result).ok_or_else(|| NotShort::new("such a result"))?;
        return Ok(Scalar::Arithmetic(Box::new(Arithmetic {
            operation: arithmetic.operation(),
            types,
            operands: [compile(left, scope, compiler)?, compile(right, scope, compiler)?],
            result,
        })));
    }
    if let [inner_expr] = function.args.as_slice() {
        if let Some(cast) = inner.downcast_ref::<cast::Cast>() {
            return conversion(inner_expr, cast.to(), scope, compiler);
        }
        // Comparisons here know that -0.0 equals 0.0 and what NaN is.
        // What a subquery has without a row is not for its own row.
        if inner.is::<canonical::Canonical>() || inner.is::<Maybe>() {
            return compile(inner_expr, scope, compiler);
        }
    }
    by_arrow(expr, scope, compiler)
}

fn branches(case: &Case, scope: &Scope<'_>, compiler: &mut Compiler) -> Result<Scalar, NotShort> {
    let base = case.expr.as_ref().map(|base| compile(base, scope, compiler)).transpose()?;
    let mut branches = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in &case.when_then_expr {
        branches.push((compile(when, scope, compiler)?, compile(then, scope, compiler)?));
    }
    let otherwise =
        case.else_expr.as_ref().map(|expr| compile(expr, scope, compiler)).transpose()?;
    Ok(Scalar::Case(Box::new(Branches { base, branches, otherwise })))
}

/// An expression that DataFusion evaluates on a batch of one row, which has a column for each
/// column and parameter that the expression refers to.
fn by_arrow(expr: &Expr, scope: &Scope<'_>, compiler: &mut Compiler) -> Result<Scalar, NotShort> {
    data_type(&expr.get_type(scope.schema)?)?;
    let mut fields = Vec::new();
    let mut inputs = Vec::new();
    let mut failed = None;
    let rewritten = expr.clone().transform_up(|node| {
        let is_input = match &node {
            Expr::Column(_) | Expr::Placeholder(_) => true,
            Expr::ScalarSubquery(subquery) => subquery.outer_ref_columns.is_empty(),
            _ => false,
        };
        if !is_input {
            return Ok(Transformed::no(node));
        }
        let field = match &node {
            Expr::Placeholder(one) if one.id == NOW => Field::new(NOW, temporal::instant(), true),
            _ => node.to_field(scope.schema)?.1.as_ref().clone(),
        };
        match compile(&node, scope, compiler) {
            Ok(input) => inputs.push(input),
            Err(error) => failed = Some(error),
        }
        let name = format!("input{}", fields.len());
        fields.push(field.with_name(&name).with_nullable(true));
        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
    })?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    let has_other = rewritten.data.exists(|node| {
        Ok(match node {
            // Its values are those of a session (`SYSTEM-2`).
            Expr::ScalarFunction(function) => system::asks(&function.func),
            Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_) => true,
            _ => false,
        })
    })?;
    if has_other {
        return Err(NotShort::new(format!("{expr}")));
    }
    let schema = Arc::new(Schema::new(fields));
    let known = DFSchema::try_from(Arc::clone(&schema))?;
    let expr_on_batch = datafusion::physical_expr::create_physical_expr(
        &rewritten.data,
        &known,
        &Default::default(),
        &Default::default(),
    )?;
    let shown = expr.to_string();
    Ok(Scalar::Arrow(Box::new(ByArrow { expr: expr_on_batch, schema, inputs, shown })))
}
