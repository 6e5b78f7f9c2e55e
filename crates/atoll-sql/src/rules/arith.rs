//! Arithmetic on numbers that never wraps: the function behind `+ - * / %` in queries, and the same
//! steps on single values for `INSERT` and `UPDATE`.
//!
//! A batch is computed without looking at its result first; flags that the loop collects on the way
//! tell whether any value may be wrong, and only then are the rows looked at one by one. So a
//! column without overflow costs one vectorised loop.
//!
//! `ARITH-1`: a result that its type does not hold is an error that names operation and operands.
//! `ARITH-2`: rows that are NULL never raise an error, whatever their bytes are.
//! `ARITH-3`: NaN results have the sign bit clear, so that NaN sorts above all numbers
//! (`COMPARE-1`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{NullBuffer, ScalarBuffer, i256};
use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::number::{DIGITS_MAX, Number, Operation};
use super::{external, plan_error};
use crate::error::{SqlError, SqlErrorKind};
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
        SqlError::new(SqlErrorKind::Type, message)
    }
}

/// Integers of a width, with the steps that a loop over them takes.
trait Integer: Copy + Default + PartialEq {
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

fn float_raw(operation: Operation, a: f64, b: f64) -> f64 {
    match operation {
        Operation::Add => a + b,
        Operation::Subtract => a - b,
        Operation::Multiply => a * b,
        Operation::Divide => a / b,
        Operation::Modulo => a % b,
    }
}

/// The result where it counts, or what is wrong with it.
fn float_checked(operation: Operation, a: f64, b: f64, result: f64) -> Result<f64, Fault> {
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
fn power_of_ten(exponent: u8) -> i128 {
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

/// One of the operators `+ - * / %` on two numbers of one type, or on two decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    operation: Operation,
    signature: Signature,
}

impl Arithmetic {
    /// The function of an operator.
    pub(crate) fn new(operation: Operation) -> Self {
        Self { operation, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn result(&self, arguments: &[ArrowType]) -> Result<Number> {
        let [Some(left), Some(right)] = [&arguments[0], &arguments[1]].map(Number::of) else {
            return internal_err!("{arguments:?} are not two numbers");
        };
        left.result(self.operation, right).map_err(|reason| plan_error(SqlErrorKind::Type, reason))
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.operation.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        self.result(arguments).map(Number::arrow)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("({} {} {})", arguments[0], self.name(), arguments[1]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("an operator has two operands");
        };
        let types = [left.data_type(), right.data_type()];
        let number = self.result(&types)?;
        let is_decimal = |arrow: &ArrowType| matches!(arrow, ArrowType::Decimal128(..));
        if types[0] != types[1] && !types.iter().all(is_decimal) {
            return internal_err!("{types:?} are not operands of {}", self.name());
        }
        let operands = Operands { operation: self.operation, left, right, number };
        let array = match number {
            Number::Int16 => operands.integers::<Int16Type>()?,
            Number::Int32 => operands.integers::<Int32Type>()?,
            Number::Int64 => operands.integers::<Int64Type>()?,
            Number::Float32 => operands.floats::<Float32Type>(|v| v.into(), |v| v as f32)?,
            Number::Float64 => operands.floats::<Float64Type>(|v| v, |v| v)?,
            Number::Decimal { precision, scale } => operands.decimals(precision, scale)?,
        };
        match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            true => ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(array)),
        }
    }
}

/// The operands of one call.
struct Operands<'a> {
    operation: Operation,
    left: &'a ColumnarValue,
    right: &'a ColumnarValue,
    number: Number,
}

/// One operand: a value for each row, or one for all of them.
#[derive(Clone, Copy)]
enum Side<'a, N> {
    Each(&'a [N]),
    All(N),
}

impl<N: Copy> Side<'_, N> {
    fn at(self, index: usize) -> N {
        match self {
            Self::Each(values) => values[index],
            Self::All(value) => value,
        }
    }
}

impl Operands<'_> {
    /// Applies a step to every row. `step` gives a value and flags, which are collected; where
    /// `is_suspect` finds that they tell of a fault, or no step is given, `exact` decides row by
    /// row.
    fn each<T: ArrowPrimitiveType, F: Copy + Default>(
        &self,
        step: Option<impl Fn(T::Native, T::Native) -> (T::Native, F)>,
        join: impl Fn(F, F) -> F,
        is_suspect: impl Fn(F) -> bool,
        exact: impl Fn(T::Native, T::Native) -> Result<T::Native, Fault>,
    ) -> Result<ArrayRef> {
        let arrays = [self.left, self.right].map(|side| match side {
            ColumnarValue::Array(array) => Ok((Arc::clone(array), true)),
            ColumnarValue::Scalar(scalar) => scalar.to_array().map(|array| (array, false)),
        });
        let [(left, left_is_array), (right, right_is_array)] = {
            let [left, right] = arrays;
            [left?, right?]
        };
        let rows = match (left_is_array, right_is_array) {
            (true, _) => left.len(),
            (_, true) => right.len(),
            _ => 1,
        };
        let one_is_null = |array: &ArrayRef, is_array: bool| !is_array && array.is_null(0);
        if one_is_null(&left, left_is_array) || one_is_null(&right, right_is_array) {
            return Ok(arrow_array::new_null_array(&self.number.arrow(), rows));
        }
        let (a, b) = (left.as_primitive::<T>(), right.as_primitive::<T>());
        let side = |array: &PrimitiveArray<T>, is_array| match is_array {
            true => None,
            false => Some(array.value(0)),
        };
        let (one_a, one_b) = (side(a, left_is_array), side(b, right_is_array));
        let a_side = one_a.map_or(Side::Each(&a.values()[..]), Side::All);
        let b_side = one_b.map_or(Side::Each(&b.values()[..]), Side::All);
        let nulls = NullBuffer::union(
            left.nulls().filter(|_| left_is_array),
            right.nulls().filter(|_| right_is_array),
        );
        let mut values: Vec<T::Native> = Vec::with_capacity(rows);
        let mut is_done = false;
        if let Some(step) = step {
            let mut flags = F::default();
            let mut take = |a, b| {
                let (value, flag) = step(a, b);
                flags = join(flags, flag);
                value
            };
            match (a_side, b_side) {
                (Side::Each(a), Side::Each(b)) => {
                    values.extend(a.iter().zip(b).map(|(a, b)| take(*a, *b)));
                }
                (Side::Each(a), Side::All(b)) => values.extend(a.iter().map(|a| take(*a, b))),
                (Side::All(a), Side::Each(b)) => values.extend(b.iter().map(|b| take(a, *b))),
                (Side::All(a), Side::All(b)) => values.push(take(a, b)),
            }
            is_done = !is_suspect(flags);
        }
        if !is_done {
            values.clear();
            for row in 0..rows {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    values.push(T::Native::default());
                    continue;
                }
                let value = exact(a_side.at(row), b_side.at(row));
                values.push(value.map_err(|fault| self.fault(fault, [&left, &right], row))?);
            }
        }
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls);
        Ok(Arc::new(array.with_data_type(self.number.arrow())))
    }

    /// The error for a row.
    fn fault(
        &self,
        fault: Fault,
        sides: [&ArrayRef; 2],
        row: usize,
    ) -> datafusion::error::DataFusionError {
        let shown = sides.map(|array| {
            let at = if array.len() == 1 { 0 } else { row };
            crate::arrow_value::at(array, at).unwrap_or(Literal::Null)
        });
        external(fault.error(self.operation, &shown[0], &shown[1], self.number))
    }

    fn integers<T: ArrowPrimitiveType<Native: Integer>>(&self) -> Result<ArrayRef> {
        let operation = self.operation;
        // The branch on the operation is the same for all rows, so it is taken outside the loop.
        let exact = |a: T::Native, b: T::Native| a.exact(operation, b);
        let (or, is_bad) = (T::Native::or, T::Native::is_negative);
        match operation {
            Operation::Add => {
                let step = |a: T::Native, b| a.flagged(Operation::Add, b);
                self.each::<T, _>(Some(step), or, is_bad, exact)
            }
            Operation::Subtract => {
                let step = |a: T::Native, b| a.flagged(Operation::Subtract, b);
                self.each::<T, _>(Some(step), or, is_bad, exact)
            }
            Operation::Multiply => {
                let step = |a: T::Native, b| a.flagged(Operation::Multiply, b);
                self.each::<T, _>(Some(step), or, is_bad, exact)
            }
            Operation::Divide | Operation::Modulo => {
                // Each row is looked at: a divisor may be zero.
                let none = false.then_some(|a: T::Native, b| a.flagged(operation, b));
                self.each::<T, _>(none, or, is_bad, exact)
            }
        }
    }

    fn floats<T: ArrowPrimitiveType>(
        &self,
        widen: impl Fn(T::Native) -> f64 + Copy,
        narrow: impl Fn(f64) -> T::Native + Copy,
    ) -> Result<ArrayRef> {
        let operation = self.operation;
        let exact = |a: T::Native, b: T::Native| {
            let (a, b) = (widen(a), widen(b));
            // Rounded to the type before it is checked: what overflows is the type.
            let result = widen(narrow(float_raw(operation, a, b)));
            float_checked(operation, a, b, result).map(narrow)
        };
        let step = move |a: T::Native, b: T::Native| {
            let (a, b) = (widen(a), widen(b));
            let result = narrow(float_raw(operation, a, b));
            let wide = widen(result);
            (result, u8::from(!wide.is_finite()) | u8::from(wide == 0.0))
        };
        self.each::<T, u8>(Some(step), |a, b| a | b, |flags| flags != 0, exact)
    }

    fn decimals(&self, precision: u8, scale: u8) -> Result<ArrayRef> {
        let scale_of = |side: &ColumnarValue| match side.data_type() {
            ArrowType::Decimal128(_, scale) => u8::try_from(scale).unwrap_or(0),
            _ => 0,
        };
        let operation = self.operation;
        let (left, right) = (scale_of(self.left), scale_of(self.right));
        let shape = DecimalShape::new(left, right, precision, scale);
        let exact = move |a, b| shape.exact(operation, a, b);
        // Below 38 digits the type of the result was chosen so that it holds every result.
        let holds_all = precision < DIGITS_MAX;
        let (to_left, to_right) =
            (power_of_ten(scale - left.min(scale)), power_of_ten(scale - right.min(scale)));
        let plain = move |a: i128, b: i128| {
            let value = match operation {
                Operation::Add => a.wrapping_mul(to_left).wrapping_add(b.wrapping_mul(to_right)),
                Operation::Subtract => {
                    a.wrapping_mul(to_left).wrapping_sub(b.wrapping_mul(to_right))
                }
                _ => a.wrapping_mul(b),
            };
            (value, ())
        };
        let steps = holds_all && !matches!(operation, Operation::Divide | Operation::Modulo);
        self.each::<Decimal128Type, ()>(steps.then_some(plain), |(), ()| (), |()| false, exact)
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
