//! Frames of windows that begin behind their end, which the planner refuses.
//!
//! DataFusion (55) compares the two distances by their months first, so it takes a frame from a
//! month before to 400 days before, and fails when it runs.

use arrow_schema::{DataType as ArrowType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound};

use super::plan_error;
use crate::error::SqlErrorKind;

const DAY_NS: i128 = 86_400_000_000_000;

/// The shortest and the longest time that an interval may be, in nanoseconds.
fn range(by: &ScalarValue) -> Option<(i128, i128)> {
    // The planner has left it as a text.
    let by = by.cast_to(&ArrowType::Interval(IntervalUnit::MonthDayNano)).ok()?;
    let ScalarValue::IntervalMonthDayNano(Some(interval)) = by else { return None };
    let with_months_of = |days: i128| {
        let days = i128::from(interval.months) * days + i128::from(interval.days);
        days * DAY_NS + i128::from(interval.nanoseconds)
    };
    let (short, long) = (with_months_of(28), with_months_of(31));
    Some((short.min(long), short.max(long)))
}

/// Checks a frame with distances of time.
///
/// # Errors
/// It begins behind its end, whatever the months are.
pub(crate) fn check(frame: &WindowFrame) -> Result<()> {
    use WindowFrameBound::{Following, Preceding};
    let is_behind = match (&frame.start_bound, &frame.end_bound) {
        (Preceding(begin), Preceding(end)) => {
            range(begin).zip(range(end)).is_some_and(|(begin, end)| begin.1 < end.0)
        }
        (Following(begin), Following(end)) => {
            range(begin).zip(range(end)).is_some_and(|(begin, end)| begin.0 > end.1)
        }
        _ => false,
    };
    match is_behind {
        true => {
            let message = "a window frame that begins behind its end is not supported";
            Err(plan_error(SqlErrorKind::Unsupported, message))
        }
        false => Ok(()),
    }
}
