//! `min` and `max` of floating-point numbers by group.
//!
//! DataFusion starts a group at the largest finite number and compares by IEEE 754, so a group of
//! infinities has a finite minimum and a NaN is left out. Here a group starts with its first value
//! and follows `COMPARE-1`: NaN is above all numbers. Intervals are compared by their length
//! ([`spans`]). Everything else is DataFusion's own.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType as ArrowType, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};

use super::spans;
use super::temporal::INTERVAL;
use crate::lengths;

/// The aggregates of this module.
pub(crate) fn aggregates() -> Vec<AggregateUDF> {
    [low(), high()].map(Arc::unwrap_or_clone).to_vec()
}

/// `min`.
pub(crate) fn low() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme { side: Side::Low, builtin: min_udaf() }))
}

/// `max`.
pub(crate) fn high() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme { side: Side::High, builtin: max_udaf() }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Low,
    High,
}

impl Side {
    /// Whether a value takes the place of the one before it.
    fn prefers(self, value: f64, before: f64) -> bool {
        match self {
            Self::Low => value < before || before.is_nan() && !value.is_nan(),
            Self::High => value > before || value.is_nan() && !before.is_nan(),
        }
    }
}

/// `min` or `max`.
#[derive(PartialEq, Eq, Hash)]
struct Extreme {
    side: Side,
    builtin: Arc<AggregateUDF>,
}

impl fmt::Debug for Extreme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extreme").field("side", &self.side).finish_non_exhaustive()
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.builtin.name()
    }

    fn signature(&self) -> &Signature {
        self.builtin.signature()
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        self.builtin.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        self.builtin.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = self.builtin.return_field(arguments)?;
        // A `character(n)` stays one, and a `varchar(n)` becomes a text.
        Ok(match arguments {
            [given] if !given.metadata().is_empty() => {
                let field = field.as_ref().clone().with_metadata(given.metadata().clone());
                Arc::new(lengths::without_limit(field))
            }
            _ => field,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.builtin.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == INTERVAL {
            return Ok(Box::new(spans::Extreme::new(self.side == Side::High)));
        }
        self.builtin.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == INTERVAL {
            return self.accumulator(args);
        }
        self.builtin.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        *args.return_field.data_type() != INTERVAL
            && self.builtin.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            ArrowType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.side))),
            ArrowType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.side))),
            _ => self.builtin.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.builtin.is_descending()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &ArrowType) -> SetMonotonicity {
        self.builtin.inner().set_monotonicity(data_type)
    }
}

/// The extremes of groups; `None` for a group without a value.
struct Groups<T: ArrowPrimitiveType> {
    side: Side,
    found: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> Groups<T> {
    fn new(side: Side) -> Self {
        Self { side, found: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.found.resize(groups_total, None);
        let values = values[0].as_primitive::<T>();
        for (row, group) in groups.iter().enumerate() {
            let is_wanted = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if !is_wanted || values.is_null(row) {
                continue;
            }
            let (value, found) = (values.value(row), &mut self.found[*group]);
            if found.is_none_or(|before| self.side.prefers(value.into(), before.into())) {
                *found = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        groups_total: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, None, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let found = emit_to.take_needed(&mut self.found);
        Ok(Arc::new(found.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let Some(filter) = filter else { return Ok(vec![Arc::new(values.clone())]) };
        let is_wanted = NullBuffer::from_iter(
            (0..values.len()).map(|row| filter.is_valid(row) && filter.value(row)),
        );
        let nulls = NullBuffer::union(values.nulls(), Some(&is_wanted));
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(values.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<Option<T::Native>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_above_all_numbers() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        assert!(Side::High.prefers(nan, infinity) && !Side::High.prefers(infinity, nan));
        assert!(Side::Low.prefers(infinity, nan) && !Side::Low.prefers(nan, infinity));
        assert!(!Side::Low.prefers(nan, nan) && !Side::High.prefers(nan, nan));
        assert!(!Side::Low.prefers(-0.0, 0.0) && !Side::High.prefers(0.0, -0.0));
    }
}
