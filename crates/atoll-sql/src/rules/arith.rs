//! Arithmetic on numbers that never wraps: the function behind `+ - * / %` in queries. `scalar` has
//! the same steps on single values.
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
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::number::{DIGITS_MAX, Number, Operation};
use super::plan_error;
use super::scalar::{DecimalShape, Fault, Integer, float_checked, float_raw, power_of_ten};
use crate::error::SqlErrorKind;
use crate::literal::Literal;
use crate::query_error::external;

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

    /// The operator.
    pub(crate) fn operation(&self) -> Operation {
        self.operation
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
