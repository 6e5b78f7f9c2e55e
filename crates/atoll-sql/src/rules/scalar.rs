//! Arithmetic on two single values, exact or refused: the steps that `INSERT` and `UPDATE` take,
//! and that `arith` takes for each row (`ARITH-1`, `ARITH-3`).

use arrow_buffer::i256;
use atoll::{DataType, Value};

use super::number::{DIGITS_MAX, Number, Operation};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;

/// Why an operation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    DivisionByZero,
    OutOfRange,
    Underflow,
}

impl Fault {
    /// The error for an operation on two values.
    pub(crate) fn error(
        self,
        operation: Operation,
        left: &Literal,
        right: &Literal,
        number: Number,
    ) -> SqlError {
        let shown = || format!("{} {} {}", left.show(), operation.symbol(), right.show());
        let message = match (self, number) {
            (Self::DivisionByZero, _) => "division by zero".to_owned(),
            (Self::OutOfRange, Number::Decimal { .. }) => {
                format!("numeric out of range, more than {DIGITS_MAX} digits: {}", shown())
            }
            (Self::OutOfRange, number) => format!("{} out of range: {}", number.name(), shown()),
            (Self::Underflow, number) => {
                format!("{} out of range, too near to zero: {}", number.name(), shown())
            }
        };
        let error = SqlError::new(SqlErrorKind::Type, message);
        match self {
            Self::DivisionByZero => error.with_cause(Cause::DivisionByZero),
            _ => error,
        }
    }
}

/// Integers of a width, with the steps that a loop over them takes.
pub(super) trait Integer: Copy + Default + PartialEq {
    /// The wrapped result, and a word that is negative if it wrapped.
    fn flagged(self, operation: Operation, other: Self) -> (Self, Self);
    fn exact(self, operation: Operation, other: Self) -> Result<Self, Fault>;
    fn or(self, other: Self) -> Self;
    fn is_negative(self) -> bool;
}

macro_rules! integer {
    ($type:ty, $wide:ty) => {
        impl Integer for $type {
            #[inline(always)]
            fn flagged(self, operation: Operation, other: Self) -> (Self, Self) {
                match operation {
                    Operation::Add => {
                        let sum = self.wrapping_add(other);
                        (sum, (self ^ sum) & (other ^ sum))
                    }
                    Operation::Subtract => {
                        let difference = self.wrapping_sub(other);
                        (difference, (self ^ other) & (self ^ difference))
                    }
                    _ => {
                        let product = <$wide>::from(self) * <$wide>::from(other);
                        let kept = product as $type;
                        (kept, -<$type>::from(<$wide>::from(kept) != product))
                    }
                }
            }

            fn exact(self, operation: Operation, other: Self) -> Result<Self, Fault> {
                match operation {
                    Operation::Add => self.checked_add(other),
                    Operation::Subtract => self.checked_sub(other),
                    Operation::Multiply => self.checked_mul(other),
                    _ if other == 0 => return Err(Fault::DivisionByZero),
                    Operation::Divide => self.checked_div(other),
                    // The one remainder that is computed by a division that overflows.
                    Operation::Modulo => Some(self.wrapping_rem(other)),
                }
                .ok_or(Fault::OutOfRange)
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            fn is_negative(self) -> bool {
                self < 0
            }
        }
    };
}

integer!(i16, i32);
integer!(i32, i64);
integer!(i64, i128);

/// The result of an operator on two values that are not NULL, with the types that the analyzer has
/// given them.
///
/// # Errors
/// [`Fault::error`].
pub(crate) fn values(
    operation: Operation,
    (left, left_type): (&Value, Number),
    (right, right_type): (&Value, Number),
    result: Number,
) -> Result<Value, SqlError> {
    let done = match (left, right, result) {
        (Value::Int16(a), Value::Int16(b), _) => a.exact(operation, *b).map(Value::Int16),
        (Value::Int32(a), Value::Int32(b), _) => a.exact(operation, *b).map(Value::Int32),
        (Value::Int64(a), Value::Int64(b), _) => a.exact(operation, *b).map(Value::Int64),
        (Value::Float32(a), Value::Float32(b), _) => real(operation, *a, *b).map(Value::Float32),
        (Value::Float64(a), Value::Float64(b), _) => float(operation, *a, *b).map(Value::Float64),
        (Value::Decimal(a), Value::Decimal(b), Number::Decimal { precision, scale }) => {
            let digits = |number| match number {
                Number::Decimal { scale, .. } => scale,
                _ => 0,
            };
            let shape = DecimalShape::new(digits(left_type), digits(right_type), precision, scale);
            shape.exact(operation, *a, *b).map(Value::Decimal)
        }
        (a, b, _) => {
            debug_assert!(false, "{} {} {}", a.kind(), operation.symbol(), b.kind());
            Ok(Value::Null)
        }
    };
    done.map_err(|fault| {
        let literal = |value: &Value, number: Number| match number {
            Number::Decimal { precision, scale } => {
                Literal::of(value.clone(), DataType::Decimal { precision, scale })
            }
            // The other types of numbers are told by the value.
            _ => Literal::of(value.clone(), DataType::Int64),
        };
        fault.error(operation, &literal(left, left_type), &literal(right, right_type), result)
    })
}

/// A result of whole numbers of 128 bits.
pub(crate) fn integer(operation: Operation, a: i128, b: i128) -> Result<i128, Fault> {
    match operation {
        Operation::Add => a.checked_add(b),
        Operation::Subtract => a.checked_sub(b),
        Operation::Multiply => a.checked_mul(b),
        _ if b == 0 => return Err(Fault::DivisionByZero),
        Operation::Divide => a.checked_div(b),
        Operation::Modulo => Some(a.wrapping_rem(b)),
    }
    .ok_or(Fault::OutOfRange)
}

/// A result of floating-point numbers of 32 bits.
pub(crate) fn real(operation: Operation, a: f32, b: f32) -> Result<f32, Fault> {
    let (a, b) = (a.into(), b.into());
    let result = f64::from(float_raw(operation, a, b) as f32);
    float_checked(operation, a, b, result).map(|result| result as f32)
}

/// A result of floating-point numbers from finite or special operands, as PostgreSQL checks it.
pub(crate) fn float(operation: Operation, a: f64, b: f64) -> Result<f64, Fault> {
    float_checked(operation, a, b, float_raw(operation, a, b))
}

pub(super) fn float_raw(operation: Operation, a: f64, b: f64) -> f64 {
    match operation {
        Operation::Add => a + b,
        Operation::Subtract => a - b,
        Operation::Multiply => a * b,
        Operation::Divide => a / b,
        Operation::Modulo => a % b,
    }
}

/// The result where it counts, or what is wrong with it.
pub(super) fn float_checked(
    operation: Operation,
    a: f64,
    b: f64,
    result: f64,
) -> Result<f64, Fault> {
    let divides = matches!(operation, Operation::Divide | Operation::Modulo);
    if divides && b == 0.0 && !a.is_nan() {
        return Err(Fault::DivisionByZero);
    }
    if result.is_nan() {
        return Ok(f64::NAN);
    }
    let limitless = a.is_infinite() || b.is_infinite();
    if result.is_infinite() && !limitless {
        return Err(Fault::OutOfRange);
    }
    let vanished = match operation {
        Operation::Multiply => a != 0.0 && b != 0.0,
        Operation::Divide => a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if result == 0.0 && vanished {
        return Err(Fault::Underflow);
    }
    Ok(result)
}

/// 10 to a power of at most 38.
pub(super) fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(u32::from(exponent.min(DIGITS_MAX)))
}

/// Scales of a decimal operation, and the largest magnitude of its result.
#[derive(Clone, Copy)]
pub(crate) struct DecimalShape {
    left: u8,
    right: u8,
    result: u8,
    limit: i128,
}

impl DecimalShape {
    /// The shape of an operation on decimals with these digits behind the point.
    pub(crate) fn new(left: u8, right: u8, precision: u8, result: u8) -> Self {
        Self { left, right, result, limit: power_of_ten(precision) }
    }

    fn bounded(self, value: i128) -> Result<i128, Fault> {
        let limit = self.limit;
        if -limit < value && value < limit { Ok(value) } else { Err(Fault::OutOfRange) }
    }

    /// The operands with as many digits behind the point as the result has.
    fn aligned(self, a: i128, b: i128) -> Result<(i128, i128), Fault> {
        let a = a.checked_mul(power_of_ten(self.result.saturating_sub(self.left)));
        let b = b.checked_mul(power_of_ten(self.result.saturating_sub(self.right)));
        a.zip(b).ok_or(Fault::OutOfRange)
    }

    /// The result of an operation on digits.
    pub(crate) fn exact(self, operation: Operation, a: i128, b: i128) -> Result<i128, Fault> {
        let result = match operation {
            Operation::Add => self.aligned(a, b).map(|(a, b)| a.checked_add(b))?,
            Operation::Subtract => self.aligned(a, b).map(|(a, b)| a.checked_sub(b))?,
            Operation::Multiply => a.checked_mul(b),
            _ if b == 0 => return Err(Fault::DivisionByZero),
            Operation::Divide => self.quotient(a, b),
            Operation::Modulo => self.remainder(a, b),
        };
        self.bounded(result.ok_or(Fault::OutOfRange)?)
    }

    /// The quotient, rounded half away from zero.
    fn quotient(self, a: i128, b: i128) -> Option<i128> {
        let exponent = self.result - self.left + self.right;
        let narrow =
            (exponent <= DIGITS_MAX).then(|| a.checked_mul(power_of_ten(exponent))).flatten();
        if let Some(scaled) = narrow {
            let (quotient, rest) = (scaled.checked_div(b)?, scaled.checked_rem(b)?);
            let up = rest.unsigned_abs() >= b.unsigned_abs() - rest.unsigned_abs();
            let away = if (scaled < 0) == (b < 0) { 1 } else { -1 };
            return quotient.checked_add(if up { away } else { 0 });
        }
        let mut scaled = i256::from_i128(a);
        let (first, second) = (exponent.min(DIGITS_MAX), exponent.saturating_sub(DIGITS_MAX));
        for part in [first, second] {
            scaled = scaled.checked_mul(i256::from_i128(power_of_ten(part)))?;
        }
        let divisor = i256::from_i128(b);
        let (quotient, rest) = (scaled.checked_div(divisor)?, scaled.checked_rem(divisor)?);
        let twice = rest.wrapping_abs().checked_mul(i256::from_i128(2))?;
        let up = twice >= divisor.wrapping_abs();
        let away = if (a < 0) == (b < 0) { i256::ONE } else { i256::MINUS_ONE };
        quotient.checked_add(if up { away } else { i256::ZERO })?.to_i128()
    }

    fn remainder(self, a: i128, b: i128) -> Option<i128> {
        if let Ok((a, b)) = self.aligned(a, b) {
            return a.checked_rem(b);
        }
        let widen = |digits: i128, scale: u8| {
            i256::from_i128(digits)
                .checked_mul(i256::from_i128(power_of_ten(self.result.saturating_sub(scale))))
        };
        widen(a, self.left)?.checked_rem(widen(b, self.right)?)?.to_i128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_at_their_limits_are_exact_or_refused() {
        use Operation::{Add, Divide, Modulo, Multiply, Subtract};
        let (low, high) = (i64::MIN, i64::MAX);
        assert_eq!(high.exact(Add, 1), Err(Fault::OutOfRange));
        assert_eq!(low.exact(Subtract, 1), Err(Fault::OutOfRange));
        assert_eq!(low.exact(Multiply, -1), Err(Fault::OutOfRange));
        assert_eq!(low.exact(Divide, -1), Err(Fault::OutOfRange));
        assert_eq!(low.exact(Modulo, -1), Ok(0));
        assert_eq!(1i16.exact(Divide, 0), Err(Fault::DivisionByZero));
        let edges = [low, low + 1, -2, -1, 0, 1, 2, 3, 1 << 31, 1 << 32, high - 1, high];
        for (a, b) in edges.iter().flat_map(|a| edges.iter().map(move |b| (*a, *b))) {
            for operation in [Add, Subtract, Multiply] {
                let (value, flag) = a.flagged(operation, b);
                let exact = a.exact(operation, b);
                assert_eq!(flag < 0, exact.is_err(), "{a} {operation:?} {b}");
                assert!(exact.is_err() || exact == Ok(value), "{a} {operation:?} {b}");
            }
        }
    }

    #[test]
    fn floats_overflow_underflow_and_divide_as_in_postgresql() {
        use Operation::{Add, Divide, Multiply, Subtract};
        let infinity = f64::INFINITY;
        assert_eq!(float(Multiply, 1e308, 10.0), Err(Fault::OutOfRange));
        assert_eq!(float(Multiply, 1e-300, 1e-300), Err(Fault::Underflow));
        assert_eq!(float(Divide, 1.0, 0.0), Err(Fault::DivisionByZero));
        assert_eq!(float(Divide, 1.0, infinity), Ok(0.0));
        assert_eq!(float(Add, infinity, 1.0), Ok(infinity));
        assert!(
            float(Subtract, infinity, infinity).is_ok_and(|v| v.is_nan() && v.is_sign_positive())
        );
        assert!(float(Divide, f64::NAN, 0.0).is_ok_and(f64::is_nan));
    }

    #[test]
    fn decimals_round_half_away_and_use_256_bits_where_they_must() {
        let shape = DecimalShape::new(1, 0, 38, 16);
        assert_eq!(shape.exact(Operation::Divide, 10, 3), Ok(3_333_333_333_333_333));
        assert_eq!(shape.exact(Operation::Divide, -20, 3), Ok(-6_666_666_666_666_667));
        let wide = DecimalShape::new(0, 0, 38, 16);
        let big = 10i128.pow(37);
        assert_eq!(wide.exact(Operation::Divide, big, big), Ok(10i128.pow(16)));
        assert_eq!(wide.exact(Operation::Divide, big, 1), Err(Fault::OutOfRange));
        assert_eq!(wide.exact(Operation::Divide, 1, 0), Err(Fault::DivisionByZero));
        let sum = DecimalShape::new(0, 0, 38, 0);
        let nines = 10i128.pow(38) - 1;
        assert_eq!(sum.exact(Operation::Add, nines, 1), Err(Fault::OutOfRange));
        assert_eq!(sum.exact(Operation::Add, nines, 0), Ok(nines));
    }
}
