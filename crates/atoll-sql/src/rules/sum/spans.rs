//! `sum` and `avg` of intervals: months, days and the rest are added up apart (`SPAN-1`).

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::DataType as ArrowType;
use atoll::Interval;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::shape::Kind;
use crate::error::{SqlError, SqlErrorKind};
use crate::interval;
use crate::query_error::external;

/// The columns of a state.
pub(super) const STATE: [(&str, ArrowType); 4] = [
    ("months", ArrowType::Int64),
    ("days", ArrowType::Int64),
    ("nanos", ArrowType::Decimal128(38, 0)),
    ("count", ArrowType::Int64),
];

/// The total of all rows, or of those in a window.
#[derive(Debug)]
pub(super) struct Spans {
    kind: Kind,
    months: i64,
    days: i64,
    nanos: i128,
    count: i64,
}

impl Spans {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, months: 0, days: 0, nanos: 0, count: 0 }
    }

    fn add(&mut self, values: &ArrayRef, sign: i64) {
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.months += sign * i64::from(value.months);
            self.days += sign * i64::from(value.days);
            self.nanos += i128::from(sign) * i128::from(value.nanoseconds);
            self.count += sign;
        }
    }

    fn finished(&self) -> Option<Interval> {
        let micros = i64::try_from(self.nanos / 1000).ok()?;
        let sum = interval::of(self.months, self.days, micros)?;
        match self.kind {
            Kind::Sum => Some(sum),
            Kind::Average => interval::scaled(sum, self.count as f64, true),
        }
    }
}

impl Accumulator for Spans {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let Interval { months, days, nanos } = self
            .finished()
            .ok_or_else(|| external(SqlError::new(SqlErrorKind::Type, "interval out of range")))?;
        let value = IntervalMonthDayNano::new(months, days, nanos);
        Ok(ScalarValue::IntervalMonthDayNano(Some(value)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.months)),
            ScalarValue::Int64(Some(self.days)),
            ScalarValue::Decimal128(Some(self.nanos), 38, 0),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let number = |at: usize, row: usize| states[at].as_primitive::<Int64Type>().value(row);
        for row in 0..states[0].len() {
            self.months += number(0, row);
            self.days += number(1, row);
            self.nanos += states[2].as_primitive::<Decimal128Type>().value(row);
            self.count += number(3, row);
        }
        Ok(())
    }
}
