//! `percentile_disc` and `mode`: a value of a group by its place in the order, and the one that is
//! there most often.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

use super::plan_error;
use crate::error::{SqlError, SqlErrorKind};
use crate::query_error::external;

/// The aggregates of this module.
pub(crate) fn aggregates() -> Vec<AggregateUDF> {
    [Kind::Percentile, Kind::Mode]
        .map(|kind| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            AggregateUDF::from(Ranked { kind, signature })
        })
        .to_vec()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Percentile,
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ranked {
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Ranked {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Percentile => "percentile_disc",
            Kind::Mode => "mode",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let wanted = if self.kind == Kind::Percentile { 2 } else { 1 };
        if arguments.len() != wanted {
            let message = format!("{} needs WITHIN GROUP (ORDER BY …) with one key", self.name());
            return Err(plan_error(SqlErrorKind::Type, message));
        }
        Ok(arguments[0].clone())
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new_list(format!("{}[values]", args.name), item, false))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let place = match self.kind {
            Kind::Mode => None,
            Kind::Percentile => Some(fraction(&args)?),
        };
        let first = args.order_bys.first();
        Ok(Box::new(Values {
            arrow: args.expr_fields[0].data_type().clone(),
            is_descending: first.is_some_and(|key| key.options.descending),
            place,
            values: Vec::new(),
        }))
    }
}

/// The fraction of `percentile_disc`, which is a constant; `None` for NULL.
fn fraction(args: &AccumulatorArgs<'_>) -> Result<Option<f64>> {
    let constant = args.exprs.get(1).and_then(|one| one.downcast_ref::<Literal>());
    let Some(constant) = constant else {
        let message = "the fraction of percentile_disc must be a constant";
        return Err(plan_error(SqlErrorKind::Unsupported, message));
    };
    let ScalarValue::Float64(fraction) = constant.value().cast_to(&ArrowType::Float64)? else {
        return Ok(None);
    };
    match fraction {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            let message = format!("percentile value {value} is not between 0 and 1");
            Err(external(SqlError::new(SqlErrorKind::Type, message).with_state("22003")))
        }
        fraction => Ok(fraction),
    }
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    arrow: ArrowType,
    is_descending: bool,
    /// Which place is asked for; `None` for the value that is there most often.
    place: Option<Option<f64>>,
    values: Vec<ScalarValue>,
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            if !values[0].is_null(row) {
                self.values.push(ScalarValue::try_from_array(&values[0], row)?);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let is_descending = self.is_descending;
        self.values.sort_by(|a, b| {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if is_descending { order.reverse() } else { order }
        });
        let count = self.values.len();
        let found = match self.place {
            Some(None) => None,
            Some(Some(fraction)) => {
                let number = (fraction * count as f64).ceil() as usize;
                self.values.get(number.max(1) - 1)
            }
            None => {
                let groups = self.values.chunk_by(|a, b| a == b);
                let longest =
                    groups.reduce(|best, one| if one.len() > best.len() { one } else { best });
                longest.and_then(<[ScalarValue]>::first)
            }
        };
        found.cloned().map_or_else(|| ScalarValue::try_from(&self.arrow), Ok)
    }

    fn size(&self) -> usize {
        size_of_val(self) + ScalarValue::size_of_vec(&self.values)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = ScalarValue::new_list_nullable(&self.values, &self.arrow);
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}
