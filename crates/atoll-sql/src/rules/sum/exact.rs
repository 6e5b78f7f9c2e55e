//! The accumulators of exact totals: of all rows, of different values, and of groups (`SUM-1`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow_buffer::NullBuffer;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::shape::Shape;
use crate::query_error::external;
use crate::rules::number::Number;

/// The total of all rows, or of those in a window.
#[derive(Debug)]
pub(super) struct Exact {
    shape: Shape,
    sum: i128,
    count: i64,
}

impl Exact {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, sum: 0, count: 0 }
    }

    fn add(&mut self, sum: i128, count: i64) -> Result<()> {
        let added = self.sum.checked_add(sum);
        self.sum = added.ok_or_else(|| external(self.shape.out_of_range()))?;
        self.count += count;
        Ok(())
    }

    fn result(shape: &Shape, sum: i128, count: i64) -> Result<ScalarValue> {
        if count == 0 {
            return ScalarValue::try_from(&shape.result);
        }
        let digits = shape.finished(sum, count)?;
        ScalarValue::try_from_array(&shape.results(vec![digits], None)?, 0)
    }
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.shape.total(values[0].as_ref())?;
        self.add(sum, count)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.shape.total(values[0].as_ref())?;
        self.add(-sum, -count)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Self::result(&self.shape, self.sum, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sums = self.shape.states(vec![self.sum])?;
        Ok(vec![ScalarValue::try_from_array(&sums, 0)?, ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, counts) =
            (states[0].as_primitive::<Decimal128Type>(), states[1].as_primitive::<Int64Type>());
        sums.values()
            .iter()
            .zip(counts.values())
            .try_for_each(|(sum, count)| self.add(*sum, *count))
    }
}

/// The total of the different values among all rows, or among those in a window.
#[derive(Debug)]
pub(super) struct Distinct {
    shape: Shape,
    /// How often each value is there.
    values: HashMap<i128, u64>,
}

impl Distinct {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, values: HashMap::new() }
    }

    fn digits(&self, values: &dyn Array) -> Vec<i128> {
        fn all<T: ArrowPrimitiveType<Native: Into<i128>>>(values: &dyn Array) -> Vec<i128> {
            values.as_primitive::<T>().iter().flatten().map(Into::into).collect()
        }
        match self.shape.number {
            Number::Int16 => all::<Int16Type>(values),
            Number::Int32 => all::<Int32Type>(values),
            Number::Int64 => all::<Int64Type>(values),
            _ => all::<Decimal128Type>(values),
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in self.digits(values[0].as_ref()) {
            *self.values.entry(value).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in self.digits(values[0].as_ref()) {
            if let Some(times) = self.values.get_mut(&value) {
                *times -= 1;
                if *times == 0 {
                    self.values.remove(&value);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.keys().try_fold(0i128, |sum, value| sum.checked_add(*value));
        let sum = sum.ok_or_else(|| external(self.shape.out_of_range()))?;
        Exact::result(&self.shape, sum, self.values.len() as i64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<(i128, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.shape.states(self.values.keys().copied().collect())?;
        let values: Vec<ScalarValue> = (0..values.len())
            .map(|at| ScalarValue::try_from_array(&values, at))
            .collect::<Result<_>>()?;
        let list = ScalarValue::new_list_nullable(&values, &self.shape.state_type());
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            for value in list.as_primitive::<Decimal128Type>().iter().flatten() {
                *self.values.entry(value).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// The totals of groups.
#[derive(Debug)]
pub(super) struct Groups {
    shape: Shape,
    sums: Vec<i128>,
    counts: Vec<i64>,
}

impl Groups {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, sums: Vec::new(), counts: Vec::new() }
    }

    fn add<T: ArrowPrimitiveType<Native: Into<i128>>>(
        &mut self,
        values: &dyn Array,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = values.as_primitive::<T>();
        // Only decimals can overflow; the check is one predictable branch.
        let mut overflowed = false;
        let (sums, counts) = (&mut self.sums, &mut self.counts);
        let mut add = |group: usize, value: T::Native| {
            let (sum, overflow) = sums[group].overflowing_add(value.into());
            sums[group] = sum;
            counts[group] += 1;
            overflowed |= overflow;
        };
        if filter.is_none() && values.null_count() == 0 {
            for (group, value) in groups.iter().zip(values.values()) {
                add(*group, *value);
            }
        } else {
            for (row, group) in groups.iter().enumerate() {
                let is_wanted =
                    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
                if is_wanted && values.is_valid(row) {
                    add(*group, values.value(row));
                }
            }
        }
        if overflowed { Err(external(self.shape.out_of_range())) } else { Ok(()) }
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.resize(groups_total);
        let values = values[0].as_ref();
        match self.shape.number {
            Number::Int16 => self.add::<Int16Type>(values, groups, filter),
            Number::Int32 => self.add::<Int32Type>(values, groups, filter),
            Number::Int64 => self.add::<Int64Type>(values, groups, filter),
            _ => self.add::<Decimal128Type>(values, groups, filter),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let is_seen: Vec<bool> = counts.iter().map(|count| *count > 0).collect();
        let digits = sums
            .into_iter()
            .zip(counts)
            .map(|(sum, count)| if count == 0 { Ok(0) } else { self.shape.finished(sum, count) })
            .collect::<Result<Vec<_>>>()?;
        let nulls = is_seen.contains(&false).then(|| NullBuffer::from(is_seen));
        self.shape.results(digits, nulls)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        Ok(vec![self.shape.states(sums)?, Arc::new(Int64Array::from(counts))])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        groups_total: usize,
    ) -> Result<()> {
        self.resize(groups_total);
        let (sums, counts) =
            (states[0].as_primitive::<Decimal128Type>(), states[1].as_primitive::<Int64Type>());
        for (row, group) in groups.iter().enumerate() {
            let sum = self.sums[*group].checked_add(sums.value(row));
            self.sums[*group] = sum.ok_or_else(|| external(self.shape.out_of_range()))?;
            self.counts[*group] += counts.value(row);
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self::new(self.shape.clone());
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<i64>()
    }
}
