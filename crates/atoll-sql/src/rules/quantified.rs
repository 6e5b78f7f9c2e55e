//! `value op ANY (array)` and `value op ALL (array)`.
//!
//! They reach the planner as calls of a function, so that it plans nothing of its own for them. The
//! analyzer makes of an array that is written out the comparisons with its elements, those of an IN
//! where the operator is one of its two. What stays a call compares with a parameter, which the
//! short executor does by itself, or with an array that is computed, which [`Quantified`] does.
//!
//! `ANY-1`: as in PostgreSQL (its manual, 9.24), the result is NULL for an array that is NULL, and
//! where no comparison decides and one of them is NULL. An array without elements decides.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, ListArray, Scalar, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType as ArrowType, Field};
use atoll::Labels;
use datafusion::arrow::compute::kernels::cmp;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use sqlparser::ast::{BinaryOperator, Expr as SqlExpr};

use super::temporal::INTERVAL;
use super::typed::Typed;
use super::{canonical, common_type, enums, operands, plan_error};
use crate::array_text;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::parse::MARK;
use crate::query_error::external;
use crate::quoted::written;

/// The operators, with the names of their functions.
const OPERATORS: [(BinaryOperator, Operator, &str); 6] = [
    (BinaryOperator::Eq, Operator::Eq, "="),
    (BinaryOperator::NotEq, Operator::NotEq, "<>"),
    (BinaryOperator::Lt, Operator::Lt, "<"),
    (BinaryOperator::LtEq, Operator::LtEq, "<="),
    (BinaryOperator::Gt, Operator::Gt, ">"),
    (BinaryOperator::GtEq, Operator::GtEq, ">="),
];

/// A comparison with the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Quantified {
    pub(crate) op: Operator,
    pub(crate) is_all: bool,
    name: String,
    signature: Signature,
}

/// The functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [false, true].into_iter().flat_map(|is_all| {
        OPERATORS.into_iter().map(move |(_, op, symbol)| {
            let signature = Signature::any(2, Volatility::Immutable);
            ScalarUDF::from(Quantified { op, is_all, name: name(symbol, is_all), signature })
        })
    })
}

/// No function that is written has this name (`NAME-1`).
fn name(symbol: &str, is_all: bool) -> String {
    format!("{MARK}{symbol} {}", if is_all { "ALL" } else { "ANY" })
}

/// The call for `left op ANY (right)` or `left op ALL (right)`, of an array and an operator that
/// compares.
pub(crate) fn call(expr: &mut SqlExpr) -> Option<SqlExpr> {
    let (left, op, right, is_all) = match expr {
        SqlExpr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        SqlExpr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return None,
    };
    if matches!(right.as_ref(), SqlExpr::Subquery(_)) {
        return None;
    }
    let (.., symbol) = OPERATORS.iter().find(|(written, ..)| written == op)?;
    let nothing = || SqlExpr::Value(sqlparser::ast::Value::Null.into());
    let argument = |side: &mut Box<SqlExpr>| std::mem::replace(side.as_mut(), nothing());
    Some(written(&name(symbol, is_all), [argument(left), argument(right)]))
}

/// What the array of a comparison is.
enum Elements {
    Null,
    Written(Vec<Typed>),
    /// An open parameter, or an array with elements of a type.
    Other(Expr, ArrowType),
}

/// Gives an expression of the surroundings its type.
pub(crate) type TypeOf<'t> = &'t dyn Fn(Expr) -> Result<Typed>;

/// Casts an element to the type of a field.
pub(crate) type CastTo<'c> = &'c dyn Fn(Typed, &Field) -> Result<Expr>;

/// An array, or a text that stands for one.
fn elements(array: Typed, type_of: TypeOf<'_>) -> Result<Elements> {
    if let Some(text) = array.untyped() {
        return Ok(Elements::Written(quoted(text)?));
    }
    let element = match &array.arrow {
        ArrowType::List(field) | ArrowType::LargeList(field) => field.data_type().clone(),
        ArrowType::Null if array.is_open_parameter() => ArrowType::Null,
        ArrowType::Null => return Ok(Elements::Null),
        _ => {
            let message =
                format!("ANY and ALL compare with an array, not with {}", array.type_name());
            let error = SqlError::new(SqlErrorKind::Type, message);
            return Err(external(error.with_cause(Cause::NoSuchOperator)));
        }
    };
    match array.expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "make_array" => {
            let item = |item| type_of(enums::out_of_array(item));
            Ok(Elements::Written(args.into_iter().map(item).collect::<Result<_>>()?))
        }
        Expr::Literal(ScalarValue::List(list), _) if list.len() == 1 && list.is_valid(0) => {
            let items = list.value(0);
            let item = |at| {
                let value = ScalarValue::try_from_array(&items, at)?;
                Ok(as_text(Typed::of(lit(value), items.data_type().clone())))
            };
            Ok(Elements::Written((0..items.len()).map(item).collect::<Result<_>>()?))
        }
        expr => Ok(Elements::Other(expr, element)),
    }
}

/// The elements of an array that is written as a text, as quoted literals without a type.
fn quoted(text: &str) -> Result<Vec<Typed>> {
    let items = array_text::parse(text).map_err(|reason| plan_error(SqlErrorKind::Type, reason))?;
    let item = |item: Option<String>| match item {
        Some(text) => Typed::of(lit(text), ArrowType::Utf8),
        None => Typed::of(lit(ScalarValue::Null), ArrowType::Null),
    };
    Ok(items.into_iter().map(item).collect())
}

/// An array as one with elements of another type. `cast` casts an element.
///
/// # Errors
/// A text that is no array, and elements that have no such cast.
pub(crate) fn cast(
    array: Typed,
    to: &ArrowType,
    element: &Field,
    (type_of, cast): (TypeOf<'_>, CastTo<'_>),
) -> Result<Expr> {
    if let Some(labels) = crate::enums::of(element.data_type()) {
        return cast_to_labels(array, element, labels, (type_of, cast));
    }
    if array.is_open_parameter() {
        return Ok(with_list_type(array.expr, element.data_type()));
    }
    let is_array = matches!(array.arrow, ArrowType::List(_) | ArrowType::LargeList(_));
    if array.untyped().is_none() && !is_array {
        return super::cast::expression(array.expr, &array.arrow, to);
    }
    let from = array.arrow.clone();
    match elements(array, type_of)? {
        Elements::Written(items) if !items.is_empty() => {
            let items = items.into_iter().map(|item| cast(item, element));
            Ok(make_array_udf().call(items.collect::<Result<_>>()?))
        }
        Elements::Written(_) => Ok(Expr::Literal(ScalarValue::List(empty(element)?), None)),
        Elements::Null => Ok(Expr::Literal(ScalarValue::try_from(to)?, None)),
        Elements::Other(expr, _) => super::cast::expression(expr, &from, to),
    }
}

/// An array as one of the labels of an enum: there is none of its values.
fn cast_to_labels(
    array: Typed,
    element: &Field,
    labels: Labels,
    (type_of, cast): (TypeOf<'_>, CastTo<'_>),
) -> Result<Expr> {
    let text = Field::new_list_field(ArrowType::Utf8View, true);
    if array.is_open_parameter() {
        let array = with_list_type(array.expr, text.data_type());
        return Ok(enums::labels_in(array, labels));
    }
    let from = array.arrow.clone();
    let list = ArrowType::List(Arc::new(text.clone()));
    match elements(array, type_of)? {
        Elements::Written(items) if !items.is_empty() => {
            let items = items.into_iter().map(|item| type_of(cast(item, element)?));
            let items = enums::in_array(items.collect::<Result<_>>()?);
            Ok(make_array_udf().call(items.into_iter().map(|item| item.expr).collect()))
        }
        Elements::Written(_) => Ok(Expr::Literal(ScalarValue::List(empty(&text)?), None)),
        Elements::Null => Ok(Expr::Literal(ScalarValue::try_from(&list)?, None)),
        Elements::Other(expr, of) if of.is_string() => {
            Ok(enums::labels_in(super::cast::expression(expr, &from, &list)?, labels))
        }
        Elements::Other(_, of) => {
            let name = Typed::of(lit(ScalarValue::Null), of).type_name();
            let message = format!("cannot cast type {name}[] to {}[]", labels.shown());
            Err(external(SqlError::new(SqlErrorKind::Type, message).with_state("42846")))
        }
    }
}

/// A list without elements, as a value.
fn empty(element: &Field) -> Result<Arc<ListArray>> {
    let field = Arc::new(Field::new_list_field(element.data_type().clone(), true));
    let values = new_empty_array(element.data_type());
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths([0]), values, None)?))
}

/// A parameter that has no type yet as a list with elements of one.
fn with_list_type(parameter: Expr, element: &ArrowType) -> Expr {
    match parameter {
        Expr::Placeholder(Placeholder { id, field: None }) if !element.is_null() => {
            let element = match element {
                text if text.is_string() => ArrowType::Utf8View,
                other => other.clone(),
            };
            let list = ArrowType::List(Arc::new(Field::new_list_field(element, true)));
            let field = Some(Arc::new(Field::new(&id, list, true)));
            Expr::Placeholder(Placeholder::new_with_field(id, field))
        }
        other => other,
    }
}

/// A comparison with an array, with the types that it has in PostgreSQL. `join` makes one condition
/// of two.
///
/// # Errors
/// Anything but an array, and elements that cannot be compared with the value.
pub(crate) fn compare(
    quantified: &Quantified,
    (value, array): (Typed, Typed),
    type_of: TypeOf<'_>,
    join: impl Fn(Expr, Operator, Expr) -> Expr,
) -> Result<Expr> {
    let Quantified { op, is_all, .. } = *quantified;
    let is_written_as_text = array.untyped().is_some();
    match elements(array, type_of)? {
        Elements::Null => Ok(lit(ScalarValue::Boolean(None))),
        Elements::Written(mut items) => {
            if !is_written_as_text && !items.iter().any(has_type) {
                // As in PostgreSQL, an array of quoted literals is one of texts.
                items = items.into_iter().map(as_text).collect();
            }
            let both = if is_all { Operator::And } else { Operator::Or };
            if (op, is_all) == (Operator::Eq, false) || (op, is_all) == (Operator::NotEq, true) {
                return common_type::in_list(value, items, is_all, join);
            }
            let one = |item| operands::compare(value.clone(), op, item);
            let all = items.into_iter().map(one).collect::<Result<Vec<_>>>()?;
            Ok(common_type::balanced(all, both, &join))
        }
        Elements::Other(array, element) => {
            let (value, array) = aligned(value, op, array, element)?;
            Ok(ScalarUDF::from(quantified.clone()).call(vec![value, array]))
        }
    }
}

fn has_type(item: &Typed) -> bool {
    item.untyped().is_none() && !item.arrow.is_null()
}

fn as_text(item: Typed) -> Typed {
    match item.untyped() {
        Some(_) => {
            let arrow = ArrowType::Utf8View;
            let expr = Expr::Cast(Cast::new(Box::new(item.expr), arrow.clone()));
            Typed::of(expr, arrow)
        }
        None => item,
    }
}

/// A value and an array with elements of the type in which both are compared.
fn aligned(value: Typed, op: Operator, array: Expr, element: ArrowType) -> Result<(Expr, Expr)> {
    if element.is_null() {
        // A parameter; it becomes a list of what stands beside it.
        let array = with_list_type(array, &value.arrow);
        return Ok((canonical::canonical(value.expr, &value.arrow), array));
    }
    if element == INTERVAL {
        let message = "ANY and ALL of a computed array of intervals are not supported";
        return Err(plan_error(SqlErrorKind::Unsupported, message));
    }
    if enums::labels_of(&value).is_some() && element.is_string() {
        // The labels of an enum: an array has no other values of one.
        if !matches!(op, Operator::Eq | Operator::NotEq) {
            let message = "ANY and ALL of a computed array of an enum compare with = and <> only";
            return Err(plan_error(SqlErrorKind::Unsupported, message));
        }
        return Ok((value.into_type(&ArrowType::Utf8View)?.expr, array));
    }
    // What an element is, stands for all of them.
    let null = Typed::of(lit(ScalarValue::try_from(&element)?), element.clone());
    let nothing = DFSchema::empty();
    let (_, compared) = operands::comparison(value.clone(), op, null)?;
    let common = compared.get_type(&nothing)?;
    let value = match value.is_open_parameter() {
        true => value.with_parameter_type(&common),
        false => value.into_type(&common)?,
    };
    let value = canonical::canonical(value.expr, &value.arrow);
    if common == element {
        return Ok((value, array));
    }
    let list = ArrowType::List(Arc::new(Field::new_list_field(common, true)));
    Ok((value, Expr::Cast(Cast::new(Box::new(array), list))))
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Boolean)
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        let symbol = self.name.trim_start_matches(MARK);
        match arguments {
            [value, array] => Ok(format!("{value} {symbol} ({array})")),
            _ => internal_err!("a comparison has two sides"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values, arrays] = args.args.as_slice() else {
            return internal_err!("a comparison has two sides");
        };
        let values = values.to_array(args.number_rows)?;
        let arrays = arrays.to_array(args.number_rows)?;
        let Some(arrays) = arrays.as_list_opt::<i32>() else {
            return internal_err!("ANY and ALL compare with a list");
        };
        let mut answers = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            answers.push(match arrays.is_null(row) {
                true => None,
                false => self.decide(&values.slice(row, 1), &arrays.value(row))?,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(answers))))
    }
}

impl Quantified {
    /// Compares a value with elements (`ANY-1`).
    fn decide(&self, value: &ArrayRef, elements: &ArrayRef) -> Result<Option<bool>> {
        if elements.is_empty() {
            return Ok(Some(self.is_all));
        }
        let elements = match elements.data_type() == value.data_type() {
            true => Arc::clone(elements),
            false => arrow_cast::cast(elements, value.data_type())?,
        };
        let elements = canonical::array(elements)?;
        let (left, right): (&dyn Datum, &dyn Datum) = (&Scalar::new(value), &elements);
        let compared = match self.op {
            Operator::Eq => cmp::eq(left, right)?,
            Operator::NotEq => cmp::neq(left, right)?,
            Operator::Lt => cmp::lt(left, right)?,
            Operator::LtEq => cmp::lt_eq(left, right)?,
            Operator::Gt => cmp::gt(left, right)?,
            _ => cmp::gt_eq(left, right)?,
        };
        let decides = !self.is_all;
        if compared.iter().any(|one| one == Some(decides)) {
            return Ok(Some(decides));
        }
        Ok(if compared.null_count() > 0 { None } else { Some(self.is_all) })
    }
}
