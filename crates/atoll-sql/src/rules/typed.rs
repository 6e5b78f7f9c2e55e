//! An expression with its type. Quoted literals, and parameters without a type, take the type of
//! the other operand.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};

use super::cast;
use super::number::{DIGITS_MAX, Number};
use crate::json::Form;
use crate::wording::in_sql;
use crate::{enums, lengths, text, types};

/// An expression and its type.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) arrow: ArrowType,
    /// The characters that it is shown with, if it is a `character(n)`.
    pub(crate) character: Option<u32>,
    /// Which JSON it is, if it is one.
    pub(crate) json: Option<Form>,
}

impl Typed {
    /// An expression over the columns of a schema.
    pub(crate) fn new(expr: Expr, schema: &DFSchema) -> Result<Self> {
        let arrow = expr.get_type(schema)?;
        let (character, json) = match (&expr, arrow.is_string()) {
            (Expr::Literal(..), _) | (_, false) => (None, None),
            (Expr::Cast(cast), true) => {
                (lengths::character(&cast.field), Form::of_field(&cast.field))
            }
            _ => {
                let field = expr.to_field(schema)?.1;
                (lengths::character(&field), Form::of_field(&field))
            }
        };
        Ok(Self { expr, arrow, character, json })
    }

    /// An expression that has this type.
    pub(crate) fn of(expr: Expr, arrow: ArrowType) -> Self {
        Self { expr, arrow, character: None, json: None }
    }

    /// Whether it may be a UUID; `binary(16)` looks the same.
    pub(super) fn is_uuid(&self) -> bool {
        self.arrow == ArrowType::FixedSizeBinary(16)
    }

    pub(super) fn number(&self) -> Option<Number> {
        Number::of(&self.arrow)
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.arrow, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
            && self.json.is_none()
    }

    /// The text of a quoted literal that has no type yet.
    pub(crate) fn untyped(&self) -> Option<&str> {
        match &self.expr {
            Expr::Literal(
                ScalarValue::Utf8(Some(text))
                | ScalarValue::Utf8View(Some(text))
                | ScalarValue::LargeUtf8(Some(text)),
                _,
            ) => Some(text),
            _ => None,
        }
    }

    /// Whether it is a parameter that has no type yet.
    pub(crate) fn is_open_parameter(&self) -> bool {
        matches!(&self.expr, Expr::Placeholder(Placeholder { field: None, .. }))
    }

    /// Its type as SQL names it.
    pub(super) fn type_name(&self) -> String {
        if let Some(form) = self.json {
            return form.data_type().to_string();
        }
        let other = || in_sql(&self.arrow.to_string());
        types::of_arrow(&self.arrow).map_or_else(other, |own| own.to_string())
    }

    /// The family of types that can be compared and merged with each other, where it is known.
    pub(super) fn family(&self) -> Option<u8> {
        Some(match &self.arrow {
            arrow if enums::of(arrow).is_some() => 8,
            _ if self.number().is_some() => 0,
            _ if self.is_text() => 1,
            _ if let Some(form) = self.json => match form {
                Form::Json => 9,
                Form::Jsonb => 10,
            },
            ArrowType::Date32 | ArrowType::Timestamp(..) => 2,
            ArrowType::Boolean => 3,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => 4,
            ArrowType::List(_) | ArrowType::LargeList(_) => 5,
            ArrowType::Time64(_) => 6,
            ArrowType::Interval(_) => 8,
            // It may be a UUID or bytes.
            ArrowType::FixedSizeBinary(16) => 7,
            _ => return None,
        })
    }

    /// Whether no operator and no column takes both.
    pub(super) fn is_apart_from(&self, other: &Self) -> bool {
        match (self.family(), other.family()) {
            (Some(4), Some(7)) | (Some(7), Some(4)) => false,
            (Some(8), Some(8)) => self.arrow != other.arrow,
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    }

    /// As a value of another type.
    pub(crate) fn into_type(self, to: &ArrowType) -> Result<Self> {
        let expr = cast::expression(self.expr, &self.arrow, to)?;
        let character = self.character.filter(|_| *to == self.arrow);
        let json = self.json.filter(|_| *to == self.arrow);
        Ok(Self { expr, arrow: to.clone(), character, json })
    }

    /// A whole number that is written without a type is an `integer` where it fits, as in
    /// PostgreSQL; the planner reads it as a `bigint`.
    pub(crate) fn narrowed(self) -> Result<Self> {
        match self.expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(value).is_ok() => {
                self.into_type(&ArrowType::Int32)
            }
            _ => Ok(self),
        }
    }

    /// A quoted literal, or a parameter without a type, with the type of `other`; the digits of a
    /// number stay as they are written.
    pub(super) fn beside(self, other: &Self) -> Result<Self> {
        if self.is_open_parameter() {
            return Ok(match (other.character, other.json) {
                (Some(_), _) => self.with_parameter_field(&lengths::any_character()),
                (_, Some(form)) => self.into_json(form)?,
                _ => self.with_parameter_type(&other.arrow),
            });
        }
        let Some(written) = self.untyped() else { return Ok(self) };
        if other.character.is_some() {
            let text = written.trim_end_matches(' ').to_owned();
            return Ok(Self::of(lit(ScalarValue::Utf8View(Some(text))), ArrowType::Utf8View));
        }
        if let Some(form) = other.json {
            return self.into_json(form);
        }
        if other.untyped().is_some() || other.is_text() {
            return Ok(self);
        }
        let wanted = match other.number() {
            Some(Number::Decimal { .. }) => match text::decimal(written.trim()) {
                Some((_, scale)) => ArrowType::Decimal128(DIGITS_MAX, scale.cast_signed()),
                None => other.arrow.clone(),
            },
            _ => other.arrow.clone(),
        };
        match types::of_arrow(&wanted) {
            Some(_) => self.into_type(&wanted),
            None => Ok(self),
        }
    }
}

impl Typed {
    /// A parameter without a type with this one, unless it is that of NULL; anything else as it is.
    pub(crate) fn with_parameter_type(self, arrow: &ArrowType) -> Self {
        match arrow {
            none if none.is_null() => self,
            text if text.is_string() => {
                self.with_parameter_field(&Field::new("", ArrowType::Utf8View, true))
            }
            arrow => self.with_parameter_field(&Field::new("", arrow.clone(), true)),
        }
    }

    pub(super) fn with_parameter_field(self, field: &Field) -> Self {
        match self.expr {
            Expr::Placeholder(Placeholder { id, field: None }) => {
                let arrow = field.data_type().clone();
                let field = Some(Arc::new(field.clone().with_name(&id)));
                let expr = Expr::Placeholder(Placeholder::new_with_field(id, field));
                Self { expr, arrow, ..self }
            }
            expr => Self { expr, ..self },
        }
    }
}

/// Two operands, quoted literals with the type of the other side.
pub(super) fn resolved(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    let (beside_right, beside_left) = (left.clone().beside(&right)?, right.beside(&left)?);
    Ok((beside_right, beside_left))
}
