//! The types of arguments and results, and how far one is from another.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field};
use datafusion::common::ScalarValue;

use crate::json::Form;
use crate::rules::number::{DIGITS_MAX, Number};
use crate::rules::temporal::{INTERVAL, TIMESTAMP, instant};
use crate::rules::typed::Typed;
use crate::{text, types};

/// A type as functions know it: numerics of any digits are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int16,
    Int32,
    Int64,
    Numeric,
    Float64,
    Text,
    Bytes,
    Date,
    Timestamp,
    /// A span of time.
    Interval,
    Json,
    Jsonb,
    /// An array of texts.
    Texts,
    /// An array of any type.
    Array,
    /// A value of the type of the elements of an array beside it.
    Element,
    /// Any type: the function sees the value as it is.
    Any,
}

/// A numeric with digits behind the point.
pub(super) fn numeric(scale: u8) -> ArrowType {
    Number::Decimal { precision: DIGITS_MAX, scale: scale.min(DIGITS_MAX) }.arrow()
}

impl Kind {
    /// Which JSON it is.
    pub(super) fn json(self) -> Option<Form> {
        match self {
            Self::Json => Some(Form::Json),
            Self::Jsonb => Some(Form::Jsonb),
            _ => None,
        }
    }

    /// The Arrow type of a result; of a numeric it is that of a whole number.
    pub(super) fn arrow(self) -> ArrowType {
        match self {
            Self::Bool => ArrowType::Boolean,
            Self::Int16 => ArrowType::Int16,
            Self::Int32 => ArrowType::Int32,
            Self::Int64 => ArrowType::Int64,
            Self::Numeric => numeric(0),
            Self::Float64 => ArrowType::Float64,
            Self::Text | Self::Any | Self::Json | Self::Jsonb | Self::Element => {
                ArrowType::Utf8View
            }
            Self::Texts | Self::Array => {
                ArrowType::List(Arc::new(Field::new_list_field(ArrowType::Utf8View, true)))
            }
            Self::Bytes => ArrowType::BinaryView,
            Self::Date => ArrowType::Date32,
            Self::Timestamp => TIMESTAMP,
            Self::Interval => INTERVAL,
        }
    }
}

/// The distance of a type that is converted.
const CONVERTED: u32 = 100;

/// An argument of a call.
pub(super) struct Argument<'a> {
    arrow: &'a ArrowType,
    json: Option<Form>,
    /// The text of a quoted literal, which has no type yet.
    untyped: Option<&'a str>,
    /// Whether it is seen before the analyzer gives whole numbers their types.
    is_planned: bool,
}

impl<'a> Argument<'a> {
    pub(super) fn of(value: &'a Typed) -> Self {
        let untyped = value.untyped().filter(|_| value.json.is_none());
        Self { arrow: &value.arrow, json: value.json, untyped, is_planned: false }
    }

    /// One without a field.
    pub(super) fn bare(arrow: &'a ArrowType) -> Self {
        Self { arrow, json: None, untyped: None, is_planned: false }
    }

    pub(super) fn typed(field: &'a Field) -> Self {
        Self { json: Form::of_field(field), ..Self::bare(field.data_type()) }
    }

    pub(super) fn planned(field: &'a Field, scalar: Option<&'a ScalarValue>) -> Self {
        let json = Form::of_field(field);
        let untyped = scalar.and_then(|value| value.try_as_str().flatten());
        let untyped = untyped.filter(|_| json.is_none());
        Self { arrow: field.data_type(), json, untyped, is_planned: true }
    }

    /// How much has to be done to make it one of a kind; `None` if PostgreSQL has no implicit
    /// conversion.
    pub(super) fn distance(&self, to: Kind) -> Option<u32> {
        // While a statement is planned a CASE with a quoted literal looks like text.
        let unsettled = self.is_planned.then_some(CONVERTED * 8);
        self.settled_distance(to).or(unsettled)
    }

    fn settled_distance(&self, to: Kind) -> Option<u32> {
        if self.untyped.is_some() || self.arrow.is_null() {
            // Text is preferred, then the preferred types of numbers and times.
            return Some(match to {
                Kind::Text => 0,
                Kind::Any => 1,
                Kind::Float64 | Kind::Timestamp => 2,
                _ => 3,
            });
        }
        let number = Number::of(self.arrow);
        let order = |number| match number {
            Number::Int16 => 0,
            Number::Int32 => 1,
            Number::Int64 => 2,
            Number::Decimal { .. } => 3,
            Number::Float32 => 4,
            Number::Float64 => 5,
        };
        let numbers = |wanted: Number| {
            let (from, to) = (order(number?), order(wanted));
            let preferred = wanted == Number::Float64;
            match from.cmp(&to) {
                Ordering::Equal => Some(0),
                Ordering::Less if preferred => Some(CONVERTED),
                Ordering::Less => Some(CONVERTED + to),
                Ordering::Greater if self.is_planned && from == order(Number::Int64) => {
                    Some(CONVERTED * 5)
                }
                Ordering::Greater => None,
            }
        };
        let is = |holds: bool| holds.then_some(0);
        match to {
            Kind::Any => Some(CONVERTED * 10),
            Kind::Bool => is(*self.arrow == ArrowType::Boolean),
            Kind::Int16 => numbers(Number::Int16),
            Kind::Int32 => numbers(Number::Int32),
            Kind::Int64 => numbers(Number::Int64),
            Kind::Numeric => numbers(Number::Decimal { precision: DIGITS_MAX, scale: 0 }),
            Kind::Float64 => numbers(Number::Float64),
            Kind::Text => is(self.arrow.is_string() && self.json.is_none()),
            Kind::Json | Kind::Jsonb => is(self.json.is_some() && self.json == to.json()),
            Kind::Array => is(matches!(self.arrow, ArrowType::List(_))),
            Kind::Element => is(!matches!(self.arrow, ArrowType::List(_))),
            Kind::Texts => match self.arrow {
                ArrowType::List(item) => is(item.data_type().is_string()),
                _ => None,
            },
            Kind::Bytes => is(self.is_bytes()),
            Kind::Date => is(*self.arrow == ArrowType::Date32),
            Kind::Timestamp if *self.arrow == ArrowType::Date32 => Some(CONVERTED),
            // The analyzer makes a timestamp of it, where PostgreSQL has an overload for it.
            Kind::Timestamp if self.is_planned && *self.arrow == instant() => Some(CONVERTED * 2),
            Kind::Timestamp => is(*self.arrow == TIMESTAMP),
            Kind::Interval => is(*self.arrow == INTERVAL),
        }
    }

    fn is_bytes(&self) -> bool {
        use ArrowType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
        matches!(self.arrow, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
    }

    /// The type of its elements, if it is an array.
    pub(super) fn item(&self) -> Option<&'a ArrowType> {
        match self.arrow {
            ArrowType::List(item) => Some(item.data_type()),
            _ => None,
        }
    }

    /// Its type.
    pub(super) fn arrow(&self) -> Option<&'a ArrowType> {
        (self.untyped.is_none() && !self.arrow.is_null()).then_some(self.arrow)
    }

    /// The Arrow type that it is converted to.
    pub(super) fn wanted(&self, kind: Kind) -> ArrowType {
        match kind {
            Kind::Any if self.arrow.is_null() => ArrowType::Utf8View,
            Kind::Any => self.arrow.clone(),
            Kind::Text if self.arrow.is_string() => self.arrow.clone(),
            Kind::Bytes if self.is_bytes() => self.arrow.clone(),
            Kind::Numeric => match (Number::of(self.arrow), self.untyped) {
                (Some(Number::Decimal { .. }), _) => self.arrow.clone(),
                (Some(integer), _) => {
                    integer.operand(Number::Decimal { precision: 1, scale: 0 }).arrow()
                }
                (None, written) => {
                    let digits = written.and_then(|written| text::decimal(written.trim()));
                    numeric(digits.map_or(0, |(_, scale)| scale))
                }
            },
            kind => kind.arrow(),
        }
    }

    /// The text of a quoted literal.
    pub(super) fn untyped(&self) -> Option<&'a str> {
        self.untyped
    }

    /// Its digits behind the point.
    pub(super) fn scale(&self) -> u8 {
        let number = Number::of(self.arrow);
        let written = || text::decimal(self.untyped?.trim()).map(|(_, scale)| scale);
        match number {
            Some(Number::Decimal { scale, .. }) => scale,
            Some(_) => 0,
            None => written().unwrap_or(0),
        }
    }

    /// Its type as a message names it.
    pub(super) fn shown(&self) -> String {
        match self.untyped {
            _ if let Some(form) = self.json => form.data_type().to_string(),
            Some(_) => "unknown".to_owned(),
            None if self.arrow.is_null() => "unknown".to_owned(),
            None => Number::of(self.arrow).map_or_else(
                || {
                    types::of_arrow(self.arrow)
                        .map_or_else(|| self.arrow.to_string(), |t| t.to_string())
                },
                |number| number.name().to_owned(),
            ),
        }
    }
}

/// The name of an expression's type, as PostgreSQL writes it.
pub(super) fn name(value: &Typed) -> String {
    let shown = Argument::of(value).shown();
    match shown.as_str() {
        "timestamp" => "timestamp without time zone".to_owned(),
        _ => shown,
    }
}
