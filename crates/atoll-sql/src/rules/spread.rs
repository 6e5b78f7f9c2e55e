//! `var_samp`, `var_pop`, `stddev_samp` and `stddev_pop` of whole numbers and numerics, which are
//! numerics with 16 digits behind the point. Those of floating-point numbers are DataFusion's.
//!
//! `SPREAD-1`: sums and squares are exact, so a spread is right to its last digit, whatever the
//! order of the rows.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Int64Type};
use arrow_buffer::i256;
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::functions::exact;
use super::number::{DIGITS_MAX, Number};
use super::plan_error;
use crate::arrow_value;
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::query_error::external;

/// Digits behind the point of a variance that becomes a root.
const ROOT_DIGITS: u8 = 2 * exact::RESULT_DIGITS;

/// The aggregates of this module.
pub(crate) fn aggregates() -> Vec<AggregateUDF> {
    let spread = |name, aliases: &[&str], builtin, is_sample, is_root| {
        let aliases = aliases.iter().map(|one| (*one).to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        let kind = Kind { is_sample, is_root };
        AggregateUDF::from(Spread { name, aliases, builtin, kind, signature })
    };
    vec![
        spread("var_samp", &["variance", "var", "var_sample"], var_samp_udaf(), true, false),
        spread("var_pop", &["var_population"], var_pop_udaf(), false, false),
        spread("stddev_samp", &["stddev"], stddev_udaf(), true, true),
        spread("stddev_pop", &[], stddev_pop_udaf(), false, true),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    is_sample: bool,
    is_root: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct Spread {
    name: &'static str,
    aliases: Vec<String>,
    builtin: Arc<AggregateUDF>,
    kind: Kind,
    signature: Signature,
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spread").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The digits behind the point of numbers that are exact.
fn scale_of(arrow: &ArrowType) -> Option<u8> {
    match Number::of(arrow)? {
        Number::Decimal { scale, .. } => Some(scale),
        number => (!number.is_float()).then_some(0),
    }
}

fn result_type() -> ArrowType {
    Number::Decimal { precision: DIGITS_MAX, scale: exact::RESULT_DIGITS }.arrow()
}

const SUM: ArrowType = ArrowType::Decimal256(76, 0);
const DIGITS: ArrowType = ArrowType::Decimal128(38, 0);

impl AggregateUDFImpl for Spread {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        match arguments {
            [exact] if scale_of(exact).is_some() => Ok(vec![exact.clone()]),
            [float] if float.is_floating() || float.is_null() => Ok(vec![ArrowType::Float64]),
            _ => {
                let message = format!("{} takes one number", self.name);
                Err(plan_error(SqlErrorKind::Type, message))
            }
        }
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let is_exact = arguments.first().is_some_and(|one| scale_of(one).is_some());
        Ok(if is_exact { result_type() } else { ArrowType::Float64 })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(scale) = scale_of(args.expr_fields[0].data_type()) else {
            return self.builtin.accumulator(args);
        };
        let seen = args.is_distinct.then(HashSet::new);
        let (kind, count, sum, squares) = (self.kind, 0, i256::ZERO, i256::ZERO);
        Ok(Box::new(Exact { kind, scale, count, sum, squares, seen }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if scale_of(args.input_fields[0].data_type()).is_none() {
            return self.builtin.state_fields(args);
        }
        let name = |part: &str| format!("{}[{part}]", args.name);
        Ok(match args.is_distinct {
            true => {
                let item = Field::new_list_field(DIGITS, true);
                vec![Arc::new(Field::new_list(name("values"), item, false))]
            }
            false => vec![
                Arc::new(Field::new(name("count"), ArrowType::Int64, false)),
                Arc::new(Field::new(name("sum"), SUM, false)),
                Arc::new(Field::new(name("squares"), SUM, false)),
            ],
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        scale_of(args.expr_fields[0].data_type()).is_none()
            && self.builtin.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.builtin.create_groups_accumulator(args)
    }
}

/// The count, the sum and the sum of squares of digits.
#[derive(Debug)]
struct Exact {
    kind: Kind,
    scale: u8,
    count: i64,
    sum: i256,
    squares: i256,
    /// The different values, where only these count.
    seen: Option<HashSet<i128>>,
}

fn out_of_range() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlErrorKind::Type, "numeric out of range: a sum of squares"))
}

impl Exact {
    fn add(&mut self, digits: i128, sign: i64) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            seen.insert(digits);
            return Ok(());
        }
        self.add_sums(digits, sign)
    }

    fn add_sums(&mut self, digits: i128, sign: i64) -> Result<()> {
        let wide = i256::from_i128(digits);
        let (sign_wide, square) = (i256::from_i128(sign.into()), wide.checked_mul(wide));
        let square = square.ok_or_else(out_of_range)?.wrapping_mul(sign_wide);
        self.count += sign;
        self.sum = self.sum.checked_add(wide.wrapping_mul(sign_wide)).ok_or_else(out_of_range)?;
        self.squares = self.squares.checked_add(square).ok_or_else(out_of_range)?;
        Ok(())
    }

    fn add_all(&mut self, values: &ArrayRef, sign: i64) -> Result<()> {
        for row in 0..values.len() {
            match arrow_value::at(values.as_ref(), row) {
                Ok(Literal::Integer(digits) | Literal::Decimal(digits, _)) => {
                    self.add(digits, sign)?;
                }
                Ok(_) => {}
                Err(reason) => return Err(plan_error(SqlErrorKind::Type, reason)),
            }
        }
        Ok(())
    }
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(&values[0], 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(seen) = self.seen.take() {
            for digits in &seen {
                self.add_sums(*digits, 1)?;
            }
            self.seen = Some(seen);
        }
        let divisor = if self.kind.is_sample { self.count - 1 } else { self.count };
        if self.count == 0 || divisor == 0 {
            return ScalarValue::try_from(&result_type());
        }
        let wide = |value: i64| i256::from_i128(value.into());
        // count * squares - sum * sum, over count * divisor
        let above = self
            .squares
            .checked_mul(wide(self.count))
            .zip(self.sum.checked_mul(self.sum))
            .and_then(|(left, right)| left.checked_sub(right))
            .ok_or_else(out_of_range)?;
        let below = wide(self.count).wrapping_mul(wide(divisor));
        let digits = if self.kind.is_root { ROOT_DIGITS } else { exact::RESULT_DIGITS };
        let variance = exact::quotient(above, below, 2 * self.scale, digits).map_err(external)?;
        let result = match self.kind.is_root {
            true => exact::root(variance, digits).map_err(external)?,
            false => variance.to_i128().ok_or_else(out_of_range)?,
        };
        let ArrowType::Decimal128(precision, scale) = result_type() else {
            return internal_err!("a spread is a numeric");
        };
        Ok(ScalarValue::Decimal128(Some(result), precision, scale))
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, HashSet::capacity);
        size_of_val(self) + seen * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let values: Vec<ScalarValue> =
                seen.iter().map(|digits| ScalarValue::Decimal128(Some(*digits), 38, 0)).collect();
            return Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DIGITS))]);
        }
        let sum = |value| ScalarValue::Decimal256(Some(value), 76, 0);
        Ok(vec![ScalarValue::Int64(Some(self.count)), sum(self.sum), sum(self.squares)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            for list in states[0].as_list::<i32>().iter().flatten() {
                seen.extend(list.as_primitive::<Decimal128Type>().iter().flatten());
            }
            return Ok(());
        }
        let counts = states[0].as_primitive::<Int64Type>();
        let sums = states[1].as_primitive::<Decimal256Type>();
        let squares = states[2].as_primitive::<Decimal256Type>();
        for row in 0..counts.len() {
            self.count += counts.value(row);
            self.sum = self.sum.checked_add(sums.value(row)).ok_or_else(out_of_range)?;
            let squares = self.squares.checked_add(squares.value(row));
            self.squares = squares.ok_or_else(out_of_range)?;
        }
        Ok(())
    }
}
