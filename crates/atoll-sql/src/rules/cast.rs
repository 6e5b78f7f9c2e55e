//! Casts between the types of columns, with PostgreSQL's semantics.
//!
//! `CAST-1`: a cast that an expression asks for rounds as PostgreSQL does (a floating-point number
//! to the nearest even integer, a decimal half away from zero); it never truncates.
//! `CAST-2`: a value that the type does not hold is an error that shows value and type.
//! `CAST-3`: a decimal becomes the floating-point number nearest to its digits.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};
use atoll::{DataType, Value};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    Cast as ArrowCast, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::number::Number;
use crate::arrow_value;
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::{Literal, decimal_to_float};
use crate::query_error::external;
use crate::zone::{self, Zone};
use crate::{lengths, text, types};

/// Moves the point of a decimal, rounding half away from zero; `None` where the digits overflow.
fn rounded(digits: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        return 10i128.checked_pow(u32::from(to - from))?.checked_mul(digits);
    }
    let Some(factor) = 10i128.checked_pow(u32::from(from - to)) else { return Some(0) };
    let (quotient, rest) = (digits / factor, digits % factor);
    let up = rest.unsigned_abs() >= factor.unsigned_abs() - rest.unsigned_abs();
    Some(quotient + if up { digits.signum() } else { 0 })
}

/// A double as the decimal that PostgreSQL takes it for: its first 15 digits (`real`: 6).
fn float_digits(value: &Literal) -> Option<(i128, u8)> {
    let shown = match value {
        Literal::Real(value) => format!("{:.5e}", value),
        Literal::Float(value) => format!("{:.14e}", value),
        _ => return None,
    };
    let (mantissa, exponent) = shown.split_once('e')?;
    let mantissa = match mantissa.split_once('.') {
        Some(_) => mantissa.trim_end_matches('0').trim_end_matches('.'),
        None => mantissa,
    };
    text::decimal(&format!("{mantissa}e{exponent}"))
}

/// Carries a cast out.
///
/// # Errors
/// One clause that shows the value and the type that does not hold it.
pub(crate) fn convert(value: Literal, to: DataType) -> Result<Value, String> {
    use DataType as T;
    use Literal as L;
    let out_of_range = |shown: &str| match to {
        T::Int16 | T::Int32 | T::Int64 => text::out_of_range(shown, to),
        _ => format!("{shown} is out of range for {to}"),
    };
    match (value, to) {
        (L::Null, _) => Ok(Value::Null),
        (value, T::Text) => Ok(value.to_text().map_or(Value::Null, Value::Text)),
        (value, T::Varchar(_) | T::Char(_)) => {
            let text = value.to_text().unwrap_or_default();
            Ok(Value::Text(lengths::cut(&text, to).to_owned()))
        }
        (L::Instant(micros), T::Date) => match zone::current().local(micros) {
            Some(local) => convert(L::Timestamp(local), to),
            None => Err(out_of_range(&zone::show(micros))),
        },
        (value @ (L::Float(_) | L::Real(_)), T::Int16 | T::Int32 | T::Int64) => {
            let (wide, shown) = (value.float(), value.show());
            let nearest = wide.round_ties_even();
            // Within 64 bits the conversion is exact; the range of the type is checked behind it.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&nearest) {
                return Err(out_of_range(&shown));
            }
            L::Integer(nearest as i128).into_value(to).map_err(|_| out_of_range(&shown))
        }
        (L::Decimal(digits, scale), T::Int16 | T::Int32 | T::Int64) => {
            let shown = L::Decimal(digits, scale).show();
            let whole = rounded(digits, scale, 0).ok_or_else(|| out_of_range(&shown))?;
            L::Integer(whole).into_value(to).map_err(|_| out_of_range(&shown))
        }
        (L::Decimal(digits, scale), T::Float64) => {
            Ok(Value::Float64(decimal_to_float(digits, scale)))
        }
        (
            value @ (L::Decimal(..) | L::Float(_) | L::Real(_) | L::Text(_)),
            T::Decimal { precision, scale },
        ) => {
            let shown = value.show();
            let (digits, from) = match &value {
                L::Decimal(digits, from) => (*digits, *from),
                L::Text(written) => text::decimal(written.trim()).ok_or_else(|| {
                    match written.trim().parse::<f64>() {
                        Ok(number) if number.is_finite() => {
                            format!("{shown} has more digits than {to} holds")
                        }
                        _ => format!("{shown} is not a decimal number"),
                    }
                })?,
                float if float.float().is_finite() => {
                    // Too near to zero for 38 digits is zero; too large is out of range below.
                    float_digits(float).unwrap_or(if float.float().abs() < 1.0 {
                        (0, 0)
                    } else {
                        (i128::MAX, 0)
                    })
                }
                _ => return Err(format!("{shown} is not a decimal number")),
            };
            rounded(digits, from, scale)
                .filter(|digits| {
                    let limit = 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX);
                    digits.unsigned_abs() < limit
                })
                .map(Value::Decimal)
                .ok_or_else(|| format!("{shown} has more digits than {to} holds"))
        }
        (L::Bool(value), T::Int16 | T::Int32 | T::Int64) => L::Integer(value.into()).into_value(to),
        (L::List(items), T::Array(_)) => {
            let element = to.element().ok_or("the array has no elements")?;
            let items = items.into_iter().map(|item| convert(item, element));
            let items = items.collect::<Result<Vec<_>, _>>()?;
            Ok(Value::Binary(atoll::encode_list(element, &items)))
        }
        (L::Integer(value), T::Bool) => Ok(Value::Bool(value != 0)),
        (L::Json(text), T::Json | T::Jsonb) => L::Text(text).into_value(to),
        (L::Json(text), _) => Err(format!("a jsonb is not a {to}: {}", text::quote(&text))),
        // The time of day goes, as it does from a timestamp.
        (L::Text(written), T::Date) if text::date(written.trim()).is_err() => {
            match text::timestamp(written.trim()) {
                Ok(micros) => convert(L::Timestamp(micros), to),
                Err(_) => L::Text(written).into_value(to),
            }
        }
        (L::Timestamp(micros), T::Date) => i32::try_from(micros.div_euclid(text::DAY_US))
            .map(Value::Date)
            .map_err(|_| "the date is out of range".to_owned()),
        (value, _) => value.into_value(to),
    }
}

/// The expression as one of another type: folded if it is a literal, Arrow's own cast where that
/// loses nothing, and the function of this module everywhere else.
pub(crate) fn expression(expr: Expr, from: &ArrowType, to: &ArrowType) -> Result<Expr> {
    if from == to {
        return Ok(expr);
    }
    if !exists(from, to) {
        let name = |arrow| {
            types::of_arrow(arrow).map_or_else(|| arrow.to_string(), |t: DataType| t.to_string())
        };
        let message = format!("{} cannot be cast to {}", name(from), name(to));
        return Err(external(SqlError::new(SqlErrorKind::Type, message).with_state("42846")));
    }
    if let Expr::Literal(value, metadata) = &expr
        && (types::of_arrow(to).is_some() && (types::of_arrow(from).is_some() || value.is_null()))
    {
        match array(&value.to_array()?, to) {
            Ok(array) => {
                let value = ScalarValue::try_from_array(&array, 0)?;
                return Ok(Expr::Literal(value, metadata.clone()));
            }
            // What a quoted literal stands for is asked before a query runs, whether or not it is
            // reached; any other value is converted when it is.
            Err(error) if value.try_as_str().is_some() => return Err(error),
            Err(_) => {}
        }
    }
    if is_lossless(from, to) || types::of_arrow(to).is_none() || types::of_arrow(from).is_none() {
        return Ok(Expr::Cast(ArrowCast::new(Box::new(expr), to.clone())));
    }
    Ok(ScalarUDF::from(Cast::new(to.clone())).call(vec![expr]))
}

/// Whether there is a cast between two types of columns; others are not for this module to refuse.
fn exists(from: &ArrowType, to: &ArrowType) -> bool {
    use DataType as T;
    let (Some(from), Some(to)) = (types::of_arrow(from), types::of_arrow(to)) else { return true };
    let is_number = |data_type: DataType| Number::of(&types::to_arrow(data_type)).is_some();
    match (from, to) {
        (T::Text, _) | (_, T::Text) => true,
        (T::Bool, T::Int32) | (T::Int32, T::Bool) => true,
        (T::Date | T::Timestamp | T::TimestampTz, T::Date | T::Timestamp | T::TimestampTz) => true,
        (T::Timestamp | T::TimestampTz | T::Interval, T::Time) | (T::Time, T::Interval) => true,
        (from, to) => {
            from == to
                || is_number(from) && is_number(to)
                || from.element().is_some() && to.element().is_some()
        }
    }
}

/// Whether Arrow's own cast gives the same for every value and raises no error.
fn is_lossless(from: &ArrowType, to: &ArrowType) -> bool {
    use ArrowType::{
        Date32, Decimal128, Decimal256, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8,
        Null, UInt8, UInt16, UInt32, Utf8, Utf8View,
    };
    let whole_digits = |to: &ArrowType| match to {
        Decimal128(precision, scale) | Decimal256(precision, scale) => {
            i16::from(*precision) - i16::from(*scale)
        }
        _ => 0,
    };
    match (from, to) {
        (Null, _) => true,
        (Int8 | UInt8, Int16 | Int32 | Int64)
        | (Int16 | UInt16, Int32 | Int64)
        | (Int32 | UInt32, Int64)
        | (Int8 | UInt8 | Int16 | UInt16 | Int32 | UInt32 | Int64 | Float32, Float64)
        | (Int8 | UInt8 | Int16, Float32) => true,
        (Int16, Decimal128(..) | Decimal256(..)) => whole_digits(to) >= 5,
        (Int32, Decimal128(..) | Decimal256(..)) => whole_digits(to) >= 10,
        (Int64, Decimal128(..) | Decimal256(..)) => whole_digits(to) >= 19,
        (Decimal128(_, scale), Decimal128(_, wider) | Decimal256(_, wider)) => {
            wider >= scale && whole_digits(to) >= whole_digits(from)
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Date32, _) => false,
        _ => false,
    }
}

/// The cast of a batch.
fn array(from: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    let Some(data_type) = types::of_arrow(to) else {
        return internal_err!("a cast to {to} is Arrow's own");
    };
    let plain = arrow_value::plain(from).map_err(fault)?;
    let rows = Rows { from: plain.as_ref(), to: data_type };
    let keep = |array: ArrayRef| -> Result<ArrayRef> { Ok(array) };
    match to {
        ArrowType::Int16 => keep(Arc::new(rows.integers::<Int16Type>(|v| match v {
            Value::Int16(v) => Some(v),
            _ => None,
        })?)),
        ArrowType::Int32 => keep(Arc::new(rows.integers::<Int32Type>(|v| match v {
            Value::Int32(v) => Some(v),
            _ => None,
        })?)),
        ArrowType::Int64 => keep(Arc::new(rows.integers::<Int64Type>(|v| match v {
            Value::Int64(v) => Some(v),
            _ => None,
        })?)),
        ArrowType::Float32 => keep(Arc::new(rows.primitives::<Float32Type>(|v| match v {
            Value::Float32(v) => Some(v),
            _ => None,
        })?)),
        ArrowType::Float64 => keep(Arc::new(rows.doubles()?)),
        ArrowType::Date32 => keep(Arc::new(rows.primitives::<Date32Type>(|v| match v {
            Value::Date(v) => Some(v),
            _ => None,
        })?)),
        ArrowType::Timestamp(TimeUnit::Second, zone) => {
            let codes = rows.primitives::<TimestampSecondType>(|v| match v {
                Value::Int32(v) => Some(v.into()),
                _ => None,
            })?;
            keep(Arc::new(codes.with_timezone_opt(zone.clone())))
        }
        ArrowType::Timestamp(_, zone) => {
            let moments = rows.primitives::<TimestampMicrosecondType>(|v| match v {
                Value::Timestamp(v) => Some(v),
                _ => None,
            })?;
            keep(Arc::new(moments.with_timezone_opt(zone.clone())))
        }
        ArrowType::Time64(_) => {
            keep(Arc::new(rows.primitives::<Time64MicrosecondType>(|v| match v {
                Value::Int64(v) => Some(v),
                _ => None,
            })?))
        }
        ArrowType::FixedSizeBinary(_) | ArrowType::Interval(_) | ArrowType::List(_) => {
            let values = rows.values().map(|value| Ok(value?.unwrap_or(Value::Null)));
            Ok(atoll::value_array(data_type, &values.collect::<Result<Vec<_>>>()?)?)
        }
        ArrowType::Decimal128(precision, scale) => {
            let values = rows.primitives::<Decimal128Type>(|v| match v {
                Value::Decimal(v) => Some(v),
                _ => None,
            })?;
            keep(Arc::new(values.with_precision_and_scale(*precision, *scale)?))
        }
        ArrowType::Boolean => {
            let values: Vec<Option<bool>> = rows
                .values()
                .map(|value| {
                    Ok(value?.and_then(|v| match v {
                        Value::Bool(v) => Some(v),
                        _ => None,
                    }))
                })
                .collect::<Result<_>>()?;
            keep(Arc::new(BooleanArray::from(values)))
        }
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(from.len());
            for value in rows.values() {
                builder.append_option(value?.and_then(|v| match v {
                    Value::Binary(v) => Some(v),
                    _ => None,
                }));
            }
            let views: ArrayRef = Arc::new(builder.finish());
            Ok(arrow_cast::cast(&views, to)?)
        }
        _ => {
            let mut builder = StringViewBuilder::with_capacity(from.len());
            for value in rows.values() {
                builder.append_option(value?.and_then(|v| match v {
                    Value::Text(v) => Some(v),
                    _ => None,
                }));
            }
            let views: ArrayRef = Arc::new(builder.finish());
            Ok(arrow_cast::cast(&views, to)?)
        }
    }
}

/// The rows of a batch on their way into another type.
#[derive(Clone, Copy)]
struct Rows<'a> {
    from: &'a dyn Array,
    to: DataType,
}

impl<'a> Rows<'a> {
    fn value(self, row: usize) -> Result<Option<Value>> {
        if self.from.is_null(row) {
            return Ok(None);
        }
        let literal = arrow_value::at(self.from, row).map_err(fault)?;
        convert(literal, self.to).map(Some).map_err(fault)
    }

    fn values(self) -> impl Iterator<Item = Result<Option<Value>>> + use<'a> {
        (0..self.from.len()).map(move |row| self.value(row))
    }

    fn primitives<T: ArrowPrimitiveType>(
        self,
        take: impl Fn(Value) -> Option<T::Native>,
    ) -> Result<PrimitiveArray<T>> {
        self.values().map(|value| Ok(value?.and_then(&take))).collect()
    }

    /// Integers; those from doubles without a step through [`Literal`].
    fn integers<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(
        self,
        take: impl Fn(Value) -> Option<T::Native>,
    ) -> Result<PrimitiveArray<T>> {
        if !matches!(self.from.data_type(), ArrowType::Float64) {
            return self.primitives(take);
        }
        let refuse = |value: f64| match convert(Literal::Float(value), self.to) {
            Err(reason) => reason,
            Ok(_) => format!("{value} is out of range for {}", self.to),
        };
        let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
        Ok(self.from.as_primitive::<Float64Type>().try_unary(|value| {
            let nearest = value.round_ties_even();
            range
                .contains(&nearest)
                .then_some(nearest as i64)
                .and_then(|whole| T::Native::try_from(whole).ok())
                .ok_or_else(|| ArrowError::ExternalError(Box::new(type_error(refuse(value)))))
        })?)
    }

    /// Doubles; those from decimals without a step through [`Literal`].
    fn doubles(self) -> Result<PrimitiveArray<Float64Type>> {
        if let ArrowType::Decimal128(_, scale) = self.from.data_type()
            && let Ok(scale) = u8::try_from(*scale)
        {
            let digits = self.from.as_primitive::<Decimal128Type>();
            return Ok(digits.unary(|digits| decimal_to_float(digits, scale)));
        }
        self.primitives(|value| match value {
            Value::Float64(v) => Some(v),
            _ => None,
        })
    }
}

fn type_error(reason: String) -> SqlError {
    SqlError::new(SqlErrorKind::Type, reason)
}

fn fault(reason: String) -> datafusion::error::DataFusionError {
    external(type_error(reason))
}

/// `CAST(value AS type)` as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cast {
    to: ArrowType,
    /// The zone of the session, see `ZONE-1`.
    zone: Zone,
    signature: Signature,
}

impl Cast {
    /// The cast to a type of columns.
    pub(crate) fn new(to: ArrowType) -> Self {
        let (zone, signature) = (zone::current(), Signature::any(1, Volatility::Immutable));
        Self { to, zone, signature }
    }

    /// The type of its result.
    pub(crate) fn to(&self) -> &ArrowType {
        &self.to
    }
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        "cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.to.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        let name = types::of_arrow(&self.to).map_or_else(|| self.to.to_string(), |t| t.to_string());
        Ok(format!("CAST({} AS {name})", arguments[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => {
                zone::with(self.zone, || array(values, &self.to)).map(ColumnarValue::Array)
            }
            [ColumnarValue::Scalar(value)] => {
                let value = value.to_array()?;
                let array = zone::with(self.zone, || array(&value, &self.to))?;
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
            _ => internal_err!("a cast has one argument"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_round_as_postgresql_does() {
        let cast = |value, to| convert(value, to);
        for (value, wanted) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (2.7, 3)] {
            assert_eq!(cast(Literal::Float(value), DataType::Int32), Ok(Value::Int32(wanted)));
        }
        for (digits, wanted) in [(25, 3), (-25, -3), (24, 2), (26, 3)] {
            let decimal = Literal::Decimal(digits, 1);
            assert_eq!(cast(decimal, DataType::Int32), Ok(Value::Int32(wanted)));
        }
        let money = DataType::Decimal { precision: 5, scale: 2 };
        assert_eq!(cast(Literal::Decimal(1005, 3), money), Ok(Value::Decimal(101)));
        assert_eq!(cast(Literal::Float(2.675), money), Ok(Value::Decimal(268)));
        assert_eq!(cast(Literal::Text("1.005".into()), money), Ok(Value::Decimal(101)));
        assert_eq!(cast(Literal::Float(1e-300), money), Ok(Value::Decimal(0)));
        assert!(cast(Literal::Float(1e300), money).is_err());
        assert!(cast(Literal::Float(999.996), money).is_err());
        assert!(cast(Literal::Float(f64::NAN), DataType::Int32).is_err());
        assert!(cast(Literal::Float(9.3e18), DataType::Int64).is_err());
    }
}
