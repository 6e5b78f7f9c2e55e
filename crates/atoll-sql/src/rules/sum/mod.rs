//! `sum` and `avg` that never wrap, with the types that PostgreSQL gives them.
//!
//! | argument | `sum` | `avg` |
//! |---|---|---|
//! | `smallint`, `integer` | `bigint` | `numeric` |
//! | `bigint`, `numeric` | `numeric` | `numeric` |
//! | `real`, `double precision` | `double precision` | `double precision` |
//! | `interval` | `interval` | `interval` |
//!
//! Integers and decimals are added up in 128 bits, which the integers of no table overflow.
//! Floating-point numbers are DataFusion's own, except in moving windows: there a sum
//! is made of the values in the window, and none is subtracted, because a NaN or an infinity cannot
//! be subtracted again.
//!
//! `SUM-1`: the digits of a sum are exact, or the statement fails.

mod exact;
mod float_window;
mod shape;
mod spans;

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::{average::avg_udaf, sum::sum_udaf};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};

use super::number::{DIGITS_MAX, Number, Operation};
use super::plan_error;
use super::temporal::INTERVAL;
use crate::error::SqlErrorKind;
use exact::{Distinct, Exact, Groups};
use float_window::FloatWindow;
use shape::{Kind, Shape};
use spans::Spans;

fn is_of_intervals(args: &AccumulatorArgs<'_>) -> bool {
    args.expr_fields.first().is_some_and(|field| *field.data_type() == INTERVAL)
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
            interval if *interval == INTERVAL => Ok(arguments.to_vec()),
            other => Err(plan_error(
                SqlErrorKind::Type,
                format!("values of the type {other} have no sum and no average"),
            )),
        }
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        match self.shape(&arguments[0]) {
            Some(shape) => Ok(shape.result),
            None if arguments[0] == INTERVAL => Ok(INTERVAL),
            None => self.builtin.return_type(arguments),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.shape_of(&args) {
            Some(shape) if args.is_distinct => Ok(Box::new(Distinct::new(shape))),
            Some(shape) => Ok(Box::new(Exact::new(shape))),
            None if is_of_intervals(&args) => Ok(Box::new(Spans::new(self.kind))),
            None => self.builtin.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields.first().and_then(|field| self.shape(field.data_type()));
        let name = |part: &str| format!("{}[{part}]", args.name);
        if args.input_fields.first().is_some_and(|field| *field.data_type() == INTERVAL) {
            let field = |(part, arrow)| Arc::new(Field::new(name(part), arrow, false));
            return Ok(spans::STATE.into_iter().map(field).collect());
        }
        let Some(shape) = argument else { return self.builtin.state_fields(args) };
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
            None if is_of_intervals(&args) => false,
            None => self.builtin.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.shape_of(&args) {
            Some(shape) => Ok(Box::new(Groups::new(shape))),
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
            None if is_of_intervals(&args) => self.accumulator(args),
            None if is_float && !args.is_distinct => Ok(Box::new(FloatWindow::new(self.kind))),
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
