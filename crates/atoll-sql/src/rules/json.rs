//! JSON in expressions: its casts, and what it is merged into.
//!
//! An expression is JSON if its field has the extension type [`atoll::JSON`]; its values are texts.

use arrow_schema::{DataType as ArrowType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, lit};

use super::number::Number;
use super::typed::Typed;
use super::{functions, operands};
use crate::error::{SqlError, SqlErrorKind};
use crate::json::Form;
use crate::query_error::external;
use crate::types;

impl Typed {
    /// A text, a literal or a parameter as JSON of a form.
    pub(crate) fn into_json(self, form: Form) -> Result<Self> {
        if self.json == Some(form) {
            return Ok(self);
        }
        let field = form.mark(Field::new("", ArrowType::Utf8View, true));
        if self.is_open_parameter() {
            return Ok(Self { json: Some(form), ..self.with_parameter_field(&field) });
        }
        let arrow = ArrowType::Utf8View;
        let name = if form == Form::Json { "json_in" } else { "jsonb_in" };
        if self.json.is_none() && !self.is_text() && !self.arrow.is_null() {
            let to = form.data_type();
            let message = format!("cannot cast type {} to {to}", self.type_name());
            let error = SqlError::new(SqlErrorKind::Type, message).with_state("42846");
            return Err(external(error));
        }
        if let Some(text) = self.untyped() {
            functions::check_json(form, text).map_err(external)?;
        }
        let expr = functions::call(name, vec![self])?;
        Ok(Self { expr, arrow, character: None, json: Some(form) })
    }
}

/// The forms of JSON that values have; those that are none by themselves take that of the others.
pub(crate) fn forms(values: &[Typed]) -> Vec<Option<Form>> {
    let is_open = |one: &&Typed| one.untyped().is_none() && !one.arrow.is_null();
    values.iter().filter(is_open).map(|one| one.json).collect()
}

/// What was merged of values that are all JSON of one form is so too.
pub(crate) fn merged(expr: Expr, forms: &[Option<Form>]) -> Result<Expr> {
    match forms {
        [Some(form), rest @ ..] if rest.iter().all(|one| *one == Some(*form)) => {
            operands::as_json(expr, Some(*form))
        }
        _ => Ok(expr),
    }
}

/// A cast of JSON that is written: to a text, and of a `jsonb` to a number or a truth value.
pub(crate) fn cast(value: Typed, form: Form, to: &ArrowType) -> Result<Expr> {
    if to.is_string() {
        return functions::call("json_out", vec![value]);
    }
    let number = Number::of(to);
    if form == Form::Json || number.is_none() && *to != ArrowType::Boolean {
        let to = types::of_arrow(to).map_or_else(|| to.to_string(), |to| to.to_string());
        let message = format!("cannot cast type {} to {to}", form.data_type());
        let error = SqlError::new(SqlErrorKind::Type, message).with_state("42846");
        return Err(external(error));
    }
    let name = number.map_or("boolean", |number| number.name());
    let name = Typed::of(lit(name), ArrowType::Utf8);
    let text = Typed::of(functions::call("jsonb_scalar", vec![value, name])?, ArrowType::Utf8View);
    // A fraction is rounded where the number is whole.
    let text = match number {
        Some(Number::Int16 | Number::Int32 | Number::Int64) => {
            text.into_type(&ArrowType::Decimal128(38, 15))?
        }
        _ => text,
    };
    text.into_type(to).map(|value| value.expr)
}
