//! How a total of exact numbers is made: the types of its sum and of its result, and the sum of a
//! batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;
use datafusion::common::Result;

use crate::error::{SqlError, SqlErrorKind};
use crate::query_error::external;
use crate::rules::number::{DIGITS_MAX, Number, Operation};
use crate::rules::scalar::DecimalShape;

/// The result that a total becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Sum,
    Average,
}

/// How a total of exact numbers is made.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) number: Number,
    pub(super) scale: u8,
    pub(super) result: ArrowType,
}

impl Shape {
    pub(super) fn out_of_range(&self) -> SqlError {
        let name = match self.kind {
            Kind::Sum => "sum",
            Kind::Average => "avg",
        };
        let message = match &self.result {
            ArrowType::Int64 => format!("{name} is out of range for bigint"),
            _ => format!("{name} has more than the {DIGITS_MAX} digits of numeric"),
        };
        SqlError::new(SqlErrorKind::Type, message)
    }

    /// The sum of the present values of a batch, and how many they are.
    pub(super) fn total(&self, values: &dyn Array) -> Result<(i128, i64)> {
        let count = (values.len() - values.null_count()) as i64;
        let sum = match self.number {
            Number::Int16 => small_total::<Int16Type>(values),
            Number::Int32 => small_total::<Int32Type>(values),
            Number::Int64 => big_total(values.as_primitive::<Int64Type>()),
            _ => {
                let values = values.as_primitive::<Decimal128Type>();
                let mut present = values.iter().flatten();
                let sum = present.try_fold(0i128, i128::checked_add);
                sum.ok_or_else(|| external(self.out_of_range()))?
            }
        };
        Ok((sum, count))
    }

    /// The digits of the result.
    pub(super) fn finished(&self, sum: i128, count: i64) -> Result<i128> {
        let result = match (&self.result, self.kind) {
            (ArrowType::Decimal128(precision, scale), kind) => {
                let scale = scale.cast_unsigned();
                let (operation, other) = match kind {
                    Kind::Sum => (Operation::Add, 0),
                    Kind::Average => (Operation::Divide, i128::from(count)),
                };
                let shape = DecimalShape::new(self.scale, 0, *precision, scale);
                shape.exact(operation, sum, other).ok()
            }
            _ => i64::try_from(sum).ok().map(i128::from),
        };
        result.ok_or_else(|| external(self.out_of_range()))
    }

    pub(super) fn results(&self, digits: Vec<i128>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match &self.result {
            ArrowType::Decimal128(precision, scale) => Arc::new(
                Decimal128Array::new(digits.into(), nulls)
                    .with_precision_and_scale(*precision, *scale)?,
            ),
            _ => {
                // `finished` has checked the range.
                let values: Vec<i64> = digits.into_iter().map(|v| v as i64).collect();
                Arc::new(Int64Array::new(values.into(), nulls))
            }
        })
    }

    pub(super) fn state_type(&self) -> ArrowType {
        ArrowType::Decimal128(DIGITS_MAX, self.scale.cast_signed())
    }

    pub(super) fn states(&self, sums: Vec<i128>) -> Result<ArrayRef> {
        let sums = Decimal128Array::from(sums);
        Ok(Arc::new(sums.with_precision_and_scale(DIGITS_MAX, self.scale.cast_signed())?))
    }
}

/// The sum of integers so small that 64 bits hold any batch of them.
fn small_total<T: ArrowPrimitiveType<Native: Into<i64>>>(values: &dyn Array) -> i128 {
    let values = values.as_primitive::<T>();
    let sum: i64 = match values.nulls() {
        None => values.values().iter().map(|value| (*value).into()).sum(),
        Some(_) => values.iter().flatten().map(Into::into).sum(),
    };
    sum.into()
}

/// The sum of 64-bit integers: their upper and lower halves are added up by themselves, each of
/// which 64 bits hold for 2^31 values and which compilers make vectors of.
fn big_total(values: &PrimitiveArray<Int64Type>) -> i128 {
    const CHUNK: usize = 1 << 20;
    let mut total = 0i128;
    if values.null_count() > 0 {
        values.iter().flatten().for_each(|value| total += i128::from(value));
        return total;
    }
    for chunk in values.values().chunks(CHUNK) {
        let (mut upper, mut lower) = (0i64, 0u64);
        for value in chunk {
            upper += value >> 32;
            lower += u64::from(*value as u32);
        }
        total += (i128::from(upper) << 32) + i128::from(lower);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_halves_are_exact() {
        let values = vec![i64::MIN, i64::MAX, -1, 0, 1, i64::MIN, 1 << 32, -(1 << 32), i64::MAX];
        let wanted: i128 = values.iter().map(|value| i128::from(*value)).sum();
        assert_eq!(big_total(&Int64Array::from(values.clone())), wanted);
        let with_nulls = Int64Array::from_iter(values.iter().map(|v| Some(*v)).chain([None]));
        assert_eq!(big_total(&with_nulls), wanted);
    }
}
