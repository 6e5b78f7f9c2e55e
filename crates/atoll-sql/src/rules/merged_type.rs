//! The type that values of several types have in common.

use arrow_schema::DataType as ArrowType;

use super::moments;
use super::number::Number;

/// The type that values of these types merge into, where it is for this module to say.
pub(crate) fn merged<'a>(types: impl Iterator<Item = &'a ArrowType> + Clone) -> Option<ArrowType> {
    let mut typed = types.filter(|arrow| !arrow.is_null());
    let numbers: Option<Vec<Number>> = typed.clone().map(Number::of).collect();
    if let Some(numbers) = numbers {
        return numbers.into_iter().reduce(Number::merged).map(Number::arrow);
    }
    let first = typed.next()?.clone();
    typed.try_fold(first, |common, arrow| moments::common(&common, arrow))
}
