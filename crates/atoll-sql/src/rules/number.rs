//! Types of numbers: which type two of them have in common, and which type an operator gives.
//!
//! The rules are PostgreSQL's (its manual, chapters 8.1 and 10). Integers widen to the larger
//! integer, an integer beside a decimal becomes a decimal, and a decimal beside a floating-point
//! number becomes a floating-point number, never the other way round.
//!
//! `NUMBER-1`: a decimal type never has fewer digits behind the point than its exact result needs.
//! Where 38 digits do not hold a value, evaluation reports it; no digit is dropped.

use arrow_schema::DataType as ArrowType;

/// Most digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;
/// Fewest digits that a quotient of decimals keeps behind the point.
const QUOTIENT_SCALE_MIN: u8 = 16;

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// `smallint`
    Int16,
    /// `integer`
    Int32,
    /// `bigint`
    Int64,
    /// `decimal(precision, scale)`
    Decimal { precision: u8, scale: u8 },
    /// `real`
    Float32,
    /// `double precision`
    Float64,
}

/// An operator on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operation {
    /// The operator as it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Number {
    /// The type of numbers that values of an Arrow type have. Unsigned integers, which only
    /// functions return, have the signed type that holds them; 64 bits of them are taken for
    /// counts.
    pub(crate) fn of(arrow: &ArrowType) -> Option<Self> {
        Some(match arrow {
            ArrowType::Int8 | ArrowType::UInt8 | ArrowType::Int16 => Self::Int16,
            ArrowType::UInt16 | ArrowType::Int32 => Self::Int32,
            ArrowType::UInt32 | ArrowType::Int64 | ArrowType::UInt64 => Self::Int64,
            ArrowType::Decimal32(precision, scale)
            | ArrowType::Decimal64(precision, scale)
            | ArrowType::Decimal128(precision, scale) => {
                Self::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
            }
            ArrowType::Float16 | ArrowType::Float32 => Self::Float32,
            ArrowType::Float64 => Self::Float64,
            _ => return None,
        })
    }

    /// The Arrow type of its values.
    pub(crate) fn arrow(self) -> ArrowType {
        match self {
            Self::Int16 => ArrowType::Int16,
            Self::Int32 => ArrowType::Int32,
            Self::Int64 => ArrowType::Int64,
            Self::Decimal { precision, scale } => {
                ArrowType::Decimal128(precision, scale.cast_signed())
            }
            Self::Float32 => ArrowType::Float32,
            Self::Float64 => ArrowType::Float64,
        }
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int16 => "smallint",
            Self::Int32 => "integer",
            Self::Int64 => "bigint",
            Self::Decimal { .. } => "numeric",
            Self::Float32 => "real",
            Self::Float64 => "double precision",
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    fn is_integer(self) -> bool {
        matches!(self, Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Digits before and behind the point; 0 for a floating-point number.
    fn digits(self) -> (u8, u8) {
        match self {
            Self::Int16 => (5, 0),
            Self::Int32 => (10, 0),
            Self::Int64 => (19, 0),
            Self::Decimal { precision, scale } => (precision.saturating_sub(scale), scale),
            Self::Float32 | Self::Float64 => (0, 0),
        }
    }

    fn wider_integer(self, other: Self) -> Self {
        if self.digits().0 >= other.digits().0 { self } else { other }
    }

    /// The digits that hold every value of two types: before the point and behind it.
    fn digits_of_both(self, other: Self) -> (u8, u8) {
        let ((whole_a, scale_a), (whole_b, scale_b)) = (self.digits(), other.digits());
        (whole_a.max(whole_b), scale_a.max(scale_b))
    }

    /// The type in which an operator or a comparison sees two numbers.
    pub(crate) fn operand(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        if self.is_float() || other.is_float() {
            return Self::Float64;
        }
        if self.is_integer() && other.is_integer() {
            return self.wider_integer(other);
        }
        let (whole, scale) = self.digits_of_both(other);
        decimal(whole + scale, scale)
    }

    /// The type of a column that holds numbers of two types (CASE, COALESCE, UNION, VALUES, IN).
    pub(crate) fn merged(self, other: Self) -> Self {
        match (self, other) {
            // As PostgreSQL merges them: `real` takes in integers and decimals.
            (Self::Float32, other) | (other, Self::Float32) if other != Self::Float64 => {
                Self::Float32
            }
            _ => self.operand(other),
        }
    }

    /// The Arrow type in which two numbers are compared; 256 bits where 38 digits are too few.
    pub(crate) fn comparison(self, other: Self) -> ArrowType {
        let both = self.operand(other);
        if let Self::Decimal { .. } = both {
            let (whole, scale) = self.digits_of_both(other);
            if whole + scale > DIGITS_MAX {
                return ArrowType::Decimal256(whole + scale, scale.cast_signed());
            }
        }
        both.arrow()
    }

    /// The type of the result of an operator.
    ///
    /// # Errors
    /// A product of decimals that needs more than 38 digits behind the point.
    pub(crate) fn result(self, operation: Operation, other: Self) -> Result<Self, String> {
        let operand = self.operand(other);
        let Self::Decimal { .. } = operand else { return Ok(operand) };
        let ((whole_a, scale_a), (whole_b, scale_b)) = (self.digits(), other.digits());
        let (whole, scale) = self.digits_of_both(other);
        Ok(match operation {
            Operation::Add | Operation::Subtract => decimal(whole + scale + 1, scale),
            Operation::Multiply if scale_a + scale_b > DIGITS_MAX => {
                return Err(format!(
                    "a product with {} digits behind the point is more than numeric's \
                     {DIGITS_MAX}; cast one side to fewer digits",
                    scale_a + scale_b
                ));
            }
            Operation::Multiply => {
                decimal(whole_a + scale_a + whole_b + scale_b, scale_a + scale_b)
            }
            Operation::Divide => decimal(DIGITS_MAX, scale.max(QUOTIENT_SCALE_MIN)),
            Operation::Modulo => decimal(whole + scale, scale),
        })
    }
}

/// A decimal type of at most 38 digits.
pub(crate) fn decimal(precision: u8, scale: u8) -> Number {
    Number::Decimal { precision: precision.min(DIGITS_MAX), scale }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Number::{Float32, Float64, Int16, Int32, Int64};
    use super::*;

    #[test]
    fn a_decimal_beside_a_float_is_a_double() {
        for number in [Int16, Int64, decimal(30, 15), Float32] {
            assert_eq!(number.operand(Float64), Float64);
            assert_eq!(Float64.merged(number), Float64);
        }
        assert_eq!(decimal(2, 1).operand(Float32), Float64);
        assert_eq!(Int32.operand(Float32), Float64);
        assert_eq!(Float32.operand(Float32), Float32);
        assert_eq!(Float32.merged(decimal(2, 1)), Float32);
    }

    #[test]
    fn decimals_keep_the_digits_of_both() {
        assert_eq!(Int32.operand(decimal(3, 2)), decimal(12, 2));
        assert_eq!(decimal(38, 0).operand(decimal(2, 1)), decimal(38, 1));
        assert_eq!(decimal(38, 0).comparison(decimal(2, 1)), ArrowType::Decimal256(39, 1));
        assert_eq!(decimal(5, 2).result(Operation::Add, decimal(4, 3)), Ok(decimal(7, 3)));
        assert_eq!(decimal(5, 2).result(Operation::Multiply, Int16), Ok(decimal(10, 2)));
        assert_eq!(decimal(5, 2).result(Operation::Divide, Int16), Ok(decimal(38, 16)));
        let tiny = decimal(38, 30);
        assert!(tiny.result(Operation::Multiply, tiny).unwrap_err().contains("60 digits"));
    }

    #[test]
    fn integers_widen_to_the_larger() {
        assert_eq!(Int16.result(Operation::Multiply, Int16), Ok(Int16));
        assert_eq!(Int16.result(Operation::Add, Int32), Ok(Int32));
        assert_eq!(Int64.operand(Int32), Int64);
    }
}
