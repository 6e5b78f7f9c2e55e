//! Sums and averages of floating-point numbers in a moving window.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use super::shape::Kind;

/// Floating-point numbers in a moving window, as a queue made of two stacks: values come in at the
/// back, and the front holds, for each value still in it, the sum of it and of those behind it.
/// When the front is used up the back is turned over, so each value is added twice and never
/// subtracted.
#[derive(Debug)]
pub(super) struct FloatWindow {
    kind: Kind,
    /// The sums of the front, that of the oldest value last.
    front: Vec<f64>,
    back: Vec<f64>,
    back_sum: f64,
}

impl FloatWindow {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, front: Vec::new(), back: Vec::new(), back_sum: 0.0 }
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

    use std::sync::Arc;

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn what_leaves_a_window_leaves_no_trace() {
        let mut window = FloatWindow::new(Kind::Sum);
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
