//! Casts that are written.

use arrow_schema::{DataType as ArrowType, Field};
use atoll::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr};

use crate::json::Form;
use crate::rules::typed::Typed;
use crate::rules::{cast, json, lengths, temporal};

/// A cast that is written.
pub(super) fn written_cast(value: Typed, field: &Field) -> Result<Expr> {
    if let Some(limit) = lengths::limit_of(field) {
        return lengths::cast(value, limit);
    }
    if let Some(form) = Form::of_field(field) {
        return value.into_json(form).map(|json| json.expr);
    }
    let to = temporal::wanted_type(field, &value.arrow);
    if let Some(form) = value.json {
        return json::cast(value, form, &to);
    }
    if value.character.is_some() && to == value.arrow {
        return Ok(lengths::cut(value.expr, DataType::Text));
    }
    let value = if to == ArrowType::Boolean { value.narrowed()? } else { value };
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
