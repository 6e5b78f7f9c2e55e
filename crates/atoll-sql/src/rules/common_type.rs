//! The common type of several values: of the branches of `CASE`, of rows and columns that are
//! merged, and of a list behind `IN`.

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Case, Cast, Expr, Operator, binary_expr, lit};

use super::canonical::comparable;
use super::merged_type::merged;
use super::number::{DIGITS_MAX, Number};
use super::operands::{compare, comparison, truth};
use super::temporal::{INTERVAL, TIMESTAMP};
use super::typed::Typed;
use super::{moments, plan_error};
use crate::error::SqlErrorKind;
use crate::{text, types};

/// The type of texts.
const TEXT: ArrowType = ArrowType::Utf8View;

/// Values that one column or result is to hold, all of one type.
///
/// # Errors
/// Text beside a number or a time, and a quoted literal that is no value of the type of the others.
pub(crate) fn merge(values: Vec<Typed>) -> Result<Vec<Expr>> {
    let values = values.into_iter().map(Typed::narrowed).collect::<Result<Vec<_>>>()?;
    let is_typed = |value: &&Typed| value.untyped().is_none() && !value.arrow.is_null();
    let typed: Vec<&Typed> = values.iter().filter(is_typed).collect();
    let Some(first) = typed.first() else {
        let has_text = values.iter().any(|value| value.untyped().is_some());
        let text = |value: Typed| if has_text { value.with_parameter_type(&TEXT) } else { value };
        return Ok(values.into_iter().map(|value| text(value).expr).collect());
    };
    if let Some(other) = typed.iter().find(|other| first.is_apart_from(other)) {
        let message =
            format!("{} and {} have no type in common", first.type_name(), other.type_name());
        return Err(plan_error(SqlErrorKind::Type, message));
    }
    let merged = merged(typed.iter().map(|value| &value.arrow));
    let mut common = merged.unwrap_or_else(|| first.arrow.clone());
    if let ArrowType::Decimal128(..) = common {
        // The digits of quoted numbers stay as they are written.
        for (_, scale) in values.iter().filter_map(|value| text::decimal(value.untyped()?.trim())) {
            let quoted = Number::Decimal { precision: DIGITS_MAX, scale };
            common = Number::of(&common).map_or(quoted, |number| number.merged(quoted)).arrow();
        }
    }
    let is_ours = types::of_arrow(&common).is_some();
    let form = first.json;
    values
        .into_iter()
        .map(|value| {
            if let Some(form) = form
                && (value.is_open_parameter() || value.untyped().is_some())
            {
                return value.into_json(form).map(|value| value.expr);
            }
            if value.is_open_parameter() {
                return Ok(value.with_parameter_type(&common).expr);
            }
            if value.arrow.is_null() && is_ours {
                return Ok(lit(ScalarValue::try_from(&common)?));
            }
            let is_number = value.number().is_some() || value.untyped().is_some();
            let is_time = moments::common(&value.arrow, &common).is_some();
            match is_ours && (is_number || is_time) {
                true => value.into_type(&common).map(|value| value.expr),
                false => Ok(value.expr),
            }
        })
        .collect()
}

/// Numbers or times that are compared with each other, all of one type.
fn aligned(values: Vec<Typed>, join: fn(Number, Number) -> Number) -> Result<Vec<Typed>> {
    let typed = |value: &&Typed| !value.arrow.is_null();
    let types = values.iter().filter(typed).map(|value| &value.arrow);
    if merged(types.collect::<Vec<_>>().into_iter()) == Some(TIMESTAMP) {
        let align = |value: Typed| match value.arrow == ArrowType::Date32 {
            true => value.into_type(&TIMESTAMP),
            false => Ok(value),
        };
        return values.into_iter().map(align).collect();
    }
    let numbers: Option<Vec<Number>> = values.iter().filter(typed).map(Typed::number).collect();
    let Some(common) = numbers.as_ref().and_then(|all| all.iter().copied().reduce(join)) else {
        return Ok(values);
    };
    let wide = numbers
        .unwrap_or_default()
        .into_iter()
        .map(|number| number.comparison(common))
        .find(|arrow| matches!(arrow, ArrowType::Decimal256(..)));
    let common = wide.unwrap_or_else(|| common.arrow());
    let align = |value: Typed| match value.arrow.is_null() {
        true => Ok(value.with_parameter_type(&common)),
        false => value.into_type(&common),
    };
    values.into_iter().map(align).collect()
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|one| Ok(matches!(one, Expr::Placeholder(_)))).unwrap_or(true)
}

/// One condition of at least one, as a tree without long branches.
pub(super) fn balanced(
    mut some: Vec<Expr>,
    op: Operator,
    join: &impl Fn(Expr, Operator, Expr) -> Expr,
) -> Expr {
    while some.len() > 1 {
        let mut pairs = some.into_iter();
        let mut joined = Vec::with_capacity(pairs.len().div_ceil(2));
        while let Some(left) = pairs.next() {
            joined.push(match pairs.next() {
                Some(right) => join(left, op, right),
                None => left,
            });
        }
        some = joined;
    }
    some.pop().unwrap_or_else(|| lit(op == Operator::And))
}

/// What gives quoted literals of a list their type: the value, and those of several constants that
/// have one.
fn list_type(value: &Typed, list: &[Typed]) -> Typed {
    let is_constant = |item: &&Typed| !item.expr.any_column_refs();
    let has_type = |item: &&Typed| item.untyped().is_none() && !item.arrow.is_null();
    let constants = list.iter().filter(is_constant);
    if constants.clone().count() < 2 {
        return value.clone();
    }
    let typed: Vec<&Typed> = constants.chain([value]).filter(has_type).collect();
    let Some(first) = typed.last() else { return value.clone() };
    let merged = merged(typed.iter().map(|one| &one.arrow));
    let arrow = merged.unwrap_or_else(|| first.arrow.clone());
    // An expression that is no literal, whatever the value is.
    let expr = Expr::Cast(Cast::new(Box::new(value.expr.clone()), arrow.clone()));
    Typed { expr, arrow, character: first.character, json: first.json }
}

/// `value IN (…)`. As in PostgreSQL, several constants merge into one type, and anything else is
/// compared by itself.
///
/// `join` makes one condition of two.
pub(crate) fn in_list(
    value: Typed,
    list: Vec<Typed>,
    negated: bool,
    join: impl Fn(Expr, Operator, Expr) -> Expr,
) -> Result<Expr> {
    let value_type = value.clone();
    let common = list_type(&value, &list);
    let value = value.beside(&common)?;
    let mut items = Vec::with_capacity(list.len());
    for item in list {
        let beside = if item.expr.any_column_refs() { &value_type } else { &common };
        items.push(item.beside(beside)?);
    }
    let (constants, others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| !item.expr.any_column_refs());
    let (constants, singles) = match constants.len() {
        0 | 1 => (Vec::new(), constants.into_iter().chain(others).collect::<Vec<_>>()),
        _ => (constants, others),
    };
    let (op, both) = match negated {
        false => (Operator::Eq, Operator::Or),
        true => (Operator::NotEq, Operator::And),
    };
    let mut found = None;
    if !constants.is_empty() {
        let mut all = vec![value.clone()];
        all.extend(constants);
        for item in &all[1..] {
            // Only to refuse what cannot be compared.
            comparison(value.clone(), op, item.clone())?;
        }
        // The constants become the type into which all merge, which is compared with the value's.
        let value = all[0].clone();
        let mut all = aligned(all, Number::merged)?;
        all.remove(0);
        let common = all[0].number().zip(value.number()).map(|(a, b)| a.comparison(b));
        let is_time = all.iter().any(|item| item.arrow == TIMESTAMP);
        let in_common = |item: Typed| match &common {
            Some(common) if !item.arrow.is_null() => item.into_type(common),
            None if is_time && item.arrow == ArrowType::Date32 => item.into_type(&TIMESTAMP),
            _ => Ok(item),
        };
        all = all.into_iter().map(in_common).collect::<Result<_>>()?;
        let first = in_common(value)?;
        // Constants are looked up by their bits.
        let list: Vec<Expr> =
            all.into_iter().map(|item| comparable(item.expr, &item.arrow)).collect();
        let value = comparable(first.expr, &first.arrow);
        // The optimizer merges lists for the same value by the text of their items, as if two
        // different ones were never equal: parameters may be.
        found = Some(match list.iter().any(has_parameter) {
            true => {
                let one = |item| binary_expr(value.clone(), op, item);
                balanced(list.into_iter().map(one).collect(), both, &join)
            }
            false => Expr::InList(InList::new(Box::new(value), list, negated)),
        });
    }
    for item in singles {
        let one = compare(value.clone(), op, item)?;
        found = Some(match found {
            Some(before) => join(before, both, one),
            None => one,
        });
    }
    Ok(found.unwrap_or_else(|| lit(negated)))
}

/// `CASE`, with one type for what is compared and one for what results.
pub(crate) fn case(case: Case, schema: &DFSchema) -> Result<Case> {
    let (whens, thens): (Vec<_>, Vec<_>) = case.when_then_expr.into_iter().unzip();
    let typed = |expr: Box<Expr>| Typed::new(*expr, schema);
    let mut results: Vec<Typed> = thens.into_iter().map(typed).collect::<Result<_>>()?;
    let has_else = case.else_expr.is_some();
    results.extend(case.else_expr.map(typed).transpose()?);
    let mut results = merge(results)?;
    let else_expr = if has_else { results.pop().map(Box::new) } else { None };
    let mut whens: Vec<Typed> = whens.into_iter().map(typed).collect::<Result<_>>()?;
    let (mut expr, mut compared_whens) = (None, Vec::new());
    if case.expr.is_none() {
        for when in &mut whens {
            when.expr = truth(when.clone())?;
        }
    }
    if let Some(value) = case.expr {
        let value = typed(value)?;
        let mut all = vec![value.clone()];
        for when in whens {
            // Only to refuse what cannot be compared.
            comparison(value.clone(), Operator::Eq, when.clone())?;
            all.push(when.beside(&value)?);
        }
        let mut aligned = aligned(all, Number::operand)?.into_iter();
        let value = aligned.next().unwrap_or(value);
        if value.number().is_some_and(Number::is_float)
            || value.is_uuid()
            || value.arrow == INTERVAL
        {
            // DataFusion looks for the value by its bits, and not among bytes of one width.
            for when in aligned.by_ref() {
                let compared = compare(value.clone(), Operator::Eq, when)?;
                compared_whens.push(Typed::of(compared, ArrowType::Boolean));
            }
            whens = compared_whens;
        } else {
            expr = Some(Box::new(value.expr));
            whens = aligned.collect();
        }
    }
    let when_then_expr = whens
        .into_iter()
        .zip(results)
        .map(|(when, then)| (Box::new(when.expr), Box::new(then)))
        .collect();
    Ok(Case { expr, when_then_expr, else_expr })
}
