//! `sum` and `avg` that never wrap, with the types that PostgreSQL gives them.
//!
//! | argument | `sum` | `avg` |
//! |---|---|---|
//! | `smallint`, `integer` | `bigint` | `numeric` |
//! | `bigint`, `numeric` | `numeric` | `numeric` |
//! | `real`, `double precision` | `double precision` | `double precision` |
//!
//! Integers and decimals are added up in 128 bits, which the integers of no table overflow.
//! Floating-point numbers and intervals are DataFusion's own, except in moving windows: there a sum
//! is made of the values in the window, and none is subtracted, because a NaN or an infinity cannot
//! be subtracted again.
//!
//! `SUM-1`: the digits of a sum are exact, or the statement fails.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::{average::avg_udaf, sum::sum_udaf};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};

use super::arith::DecimalShape;
use super::number::{DIGITS_MAX, Number, Operation};
use super::{external, plan_error};
use crate::error::{SqlError, SqlErrorKind};

/// The result that a total becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
}

/// The aggregates of this module, as statements name them.
pub(crate) fn aggregates() -> Vec<AggregateUDF> {
    [Kind::Sum, Kind::Average].map(|kind| AggregateUDF::from(Total::new(kind, false))).to_vec()
}

/// The function as it runs. DataFusion splits aggregates with the name "sum" into sums of sums,
/// which have other types here, so a sum runs under another name.
pub(crate) fn hidden(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.inner().downcast_ref::<Total>() {
        Some(Total { kind, .. }) => Arc::new(AggregateUDF::from(Total::new(*kind, true))),
        None => function,
    }
}

/// `sum` or `avg`.
#[derive(PartialEq, Eq, Hash)]
struct Total {
    kind: Kind,
    is_hidden: bool,
    builtin: Arc<AggregateUDF>,
    signature: Signature,
}

impl fmt::Debug for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Total").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Total {
    fn new(kind: Kind, is_hidden: bool) -> Self {
        let builtin = match kind {
            Kind::Sum => sum_udaf(),
            Kind::Average => avg_udaf(),
        };
        Self { kind, is_hidden, builtin, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn shape(&self, argument: &ArrowType) -> Option<Shape> {
        let number = Number::of(argument).filter(|number| !number.is_float())?;
        let scale = match number {
            Number::Decimal { scale, .. } => scale,
            _ => 0,
        };
        let result = match (self.kind, number) {
            (Kind::Sum, Number::Int16 | Number::Int32) => ArrowType::Int64,
            (Kind::Sum, _) => ArrowType::Decimal128(DIGITS_MAX, scale.cast_signed()),
            (Kind::Average, _) => {
                let count = Number::Int64;
                let sum = Number::Decimal { precision: DIGITS_MAX, scale };
                sum.result(Operation::Divide, count).ok()?.arrow()
            }
        };
        Some(Shape { kind: self.kind, number, scale, result })
    }

    fn shape_of(&self, args: &AccumulatorArgs<'_>) -> Option<Shape> {
        args.expr_fields.first().and_then(|field| self.shape(field.data_type()))
    }
}

/// How a total of exact numbers is made.
#[derive(Debug, Clone)]
struct Shape {
    kind: Kind,
    number: Number,
    scale: u8,
    result: ArrowType,
}

impl Shape {
    fn out_of_range(&self) -> SqlError {
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
    fn total(&self, values: &dyn Array) -> Result<(i128, i64)> {
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
    fn finished(&self, sum: i128, count: i64) -> Result<i128> {
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

    fn results(&self, digits: Vec<i128>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
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

    fn state_type(&self) -> ArrowType {
        ArrowType::Decimal128(DIGITS_MAX, self.scale.cast_signed())
    }

    fn states(&self, sums: Vec<i128>) -> Result<ArrayRef> {
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

impl AggregateUDFImpl for Total {
    fn name(&self) -> &str {
        match (self.kind, self.is_hidden) {
            (Kind::Sum, false) => "sum",
            (Kind::Sum, true) => "exact_sum",
            (Kind::Average, _) => "avg",
        }
    }

    fn aliases(&self) -> &[String] {
        self.builtin.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.builtin.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.builtin.human_display(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.builtin.display_name(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.builtin.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.builtin.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        let [argument] = arguments else {
            return Err(plan_error(
                SqlErrorKind::Type,
                format!("a sum or an average has one argument, not {}", arguments.len()),
            ));
        };
        if let Some(number) = Number::of(argument) {
            let wanted = if number.is_float() { Number::Float64 } else { number };
            return Ok(vec![wanted.arrow()]);
        }
        match argument {
            ArrowType::Null => Ok(vec![ArrowType::Float64]),
            // While a statement is planned a CASE with a quoted literal looks like text.
            text if text.is_string() && !self.is_hidden => Ok(vec![ArrowType::Float64]),
            ArrowType::Duration(_) | ArrowType::Interval(_) => Ok(arguments.to_vec()),
            other => Err(plan_error(
                SqlErrorKind::Type,
                format!("values of the type {other} have no sum and no average"),
            )),
        }
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        match self.shape(&arguments[0]) {
            Some(shape) => Ok(shape.result),
            None => self.builtin.return_type(arguments),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.shape_of(&args) {
            Some(shape) if args.is_distinct => Ok(Box::new(Distinct::new(shape))),
            Some(shape) => Ok(Box::new(Exact { shape, sum: 0, count: 0 })),
            None => self.builtin.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields.first().and_then(|field| self.shape(field.data_type()));
        let Some(shape) = argument else { return self.builtin.state_fields(args) };
        let name = |part: &str| format!("{}[{part}]", args.name);
        Ok(match args.is_distinct {
            true => {
                let item = Field::new_list_field(shape.state_type(), true);
                vec![Arc::new(Field::new_list(name("values"), item, false))]
            }
            false => vec![
                Arc::new(Field::new(name("sum"), shape.state_type(), false)),
                Arc::new(Field::new(name("count"), ArrowType::Int64, false)),
            ],
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.shape_of(&args) {
            Some(_) => !args.is_distinct,
            None => self.builtin.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.shape_of(&args) {
            Some(shape) => Ok(Box::new(Groups { shape, sums: Vec::new(), counts: Vec::new() })),
            None => self.builtin.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_float = matches!(args.expr_fields[0].data_type(), ArrowType::Float64);
        match self.shape_of(&args) {
            Some(_) => self.accumulator(args),
            None if is_float && !args.is_distinct => {
                Ok(Box::new(FloatWindow { kind: self.kind, ..FloatWindow::default() }))
            }
            None => self.builtin.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The total of all rows, or of those in a window.
#[derive(Debug)]
struct Exact {
    shape: Shape,
    sum: i128,
    count: i64,
}

impl Exact {
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
struct Distinct {
    shape: Shape,
    /// How often each value is there.
    values: HashMap<i128, u64>,
}

impl Distinct {
    fn new(shape: Shape) -> Self {
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
struct Groups {
    shape: Shape,
    sums: Vec<i128>,
    counts: Vec<i64>,
}

impl Groups {
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
        let mut each = Self { shape: self.shape.clone(), sums: Vec::new(), counts: Vec::new() };
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<i64>()
    }
}

/// Floating-point numbers in a moving window, as a queue made of two stacks: values come in at the
/// back, and the front holds, for each value still in it, the sum of it and of those behind it.
/// When the front is used up the back is turned over, so each value is added twice and never
/// subtracted.
#[derive(Debug)]
struct FloatWindow {
    kind: Kind,
    /// The sums of the front, that of the oldest value last.
    front: Vec<f64>,
    back: Vec<f64>,
    back_sum: f64,
}

impl Default for FloatWindow {
    fn default() -> Self {
        Self { kind: Kind::Sum, front: Vec::new(), back: Vec::new(), back_sum: 0.0 }
    }
}

impl Accumulator for FloatWindow {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.back_sum = if self.back.is_empty() { value } else { self.back_sum + value };
            self.back.push(value);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() - values[0].null_count() {
            if self.front.is_empty() {
                let mut sum = None;
                while let Some(value) = self.back.pop() {
                    let added = sum.map_or(value, |sum: f64| value + sum);
                    self.front.push(added);
                    sum = Some(added);
                }
                self.back_sum = 0.0;
            }
            self.front.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let front = self.front.last().copied();
        let back = (!self.back.is_empty()).then_some(self.back_sum);
        let sum = match (front, back) {
            (Some(front), Some(back)) => Some(front + back),
            (front, back) => front.or(back),
        };
        let count = (self.front.len() + self.back.len()) as f64;
        let value = sum.map(|sum| match self.kind {
            Kind::Sum => sum,
            Kind::Average => sum / count,
        });
        Ok(ScalarValue::Float64(value.map(|v| if v.is_nan() { f64::NAN } else { v })))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.front.capacity() + self.back.capacity()) * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a moving window has no parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving window has no parts")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn sums_of_halves_are_exact() {
        let values = vec![i64::MIN, i64::MAX, -1, 0, 1, i64::MIN, 1 << 32, -(1 << 32), i64::MAX];
        let wanted: i128 = values.iter().map(|value| i128::from(*value)).sum();
        assert_eq!(big_total(&Int64Array::from(values.clone())), wanted);
        let with_nulls = Int64Array::from_iter(values.iter().map(|v| Some(*v)).chain([None]));
        assert_eq!(big_total(&with_nulls), wanted);
    }

    #[test]
    fn what_leaves_a_window_leaves_no_trace() {
        let mut window = FloatWindow::default();
        let batch = |values: &[f64]| -> [ArrayRef; 1] {
            [Arc::new(Float64Array::from(values.to_vec())) as ArrayRef]
        };
        window.update_batch(&batch(&[1.0, f64::NAN, f64::INFINITY, 2.0])).unwrap();
        assert!(matches!(window.evaluate(), Ok(ScalarValue::Float64(Some(v))) if v.is_nan()));
        window.retract_batch(&batch(&[1.0, f64::NAN])).unwrap();
        assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(Some(f64::INFINITY)));
        window.update_batch(&batch(&[1e300, 3.0])).unwrap();
        window.retract_batch(&batch(&[f64::INFINITY, 2.0, 1e300])).unwrap();
        assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(Some(3.0)));
        window.retract_batch(&batch(&[3.0])).unwrap();
        assert_eq!(window.evaluate().unwrap(), ScalarValue::Float64(None));
    }
}
