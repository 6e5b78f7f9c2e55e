//! The rules of types and values that queries, `INSERT`, `UPDATE` and the loaders share.
//!
//! DataFusion plans and runs queries, but its types follow other rules than PostgreSQL's: a double
//! beside a decimal becomes a decimal, sums and products wrap, casts truncate. This module replaces
//! those rules. [`Analyzer`] rewrites a plan before DataFusion's own coercion sees it, so that
//! every operator has operands of the types that PostgreSQL would give them. It inserts the same
//! functions that `INSERT` and `UPDATE` use for single values.
//!
//! In reading order: [`number`] (types of numbers), [`scalar`], [`arith`] and [`absolute`]
//! (operators), [`cast`], [`temporal`] (dates and times), [`enums`], [`typed`], [`operands`],
//! [`common_type`] and [`quoted`] (which types operands get), [`quantified`] (ANY and ALL of
//! arrays), [`analyze`] (the walk over a plan), [`guard`] (order of evaluation), [`subqueries`]
//! (IN, ANY and ALL of subqueries), [`hoist`] (subqueries where no joins are made), [`array_query`]
//! (ARRAY of a subquery), [`decorrelate`] (subqueries as joins), [`rowless`] (subqueries without a
//! row), [`functions`] (of single values),
//! [`sum`], [`extreme`], [`spans`], [`spread`] and [`ranked`] (aggregates), [`series`] (a table),
//! [`prepare`], [`spelled`], [`rows`], [`row_functions`], [`merging`] and [`grouped`] (rewriting
//! before and during planning).

pub(crate) mod absolute;
pub(crate) mod analyze;
pub(crate) mod arith;
pub(crate) mod array_query;
pub(crate) mod at_zone;
pub(crate) mod canonical;
pub(crate) mod cast;
pub(crate) mod common_type;
pub(crate) mod decorrelate;
pub(crate) mod enums;
pub(crate) mod extreme;
pub(crate) mod frame;
pub(crate) mod functions;
pub(crate) mod grouped;
pub(crate) mod guard;
mod hoist;
pub(crate) mod json;
mod json_rows;
pub(crate) mod lengths;
pub(crate) mod merged_type;
pub(crate) mod merging;
pub(crate) mod moments;
pub(crate) mod number;
pub(crate) mod operands;
pub(crate) mod prepare;
pub(crate) mod quantified;
pub(crate) mod quoted;
pub(crate) mod ranked;
pub(crate) mod row_functions;
mod row_guards;
pub(crate) mod rowless;
pub(crate) mod rows;
pub(crate) mod scalar;
pub(crate) mod series;
pub(crate) mod spans;
pub(crate) mod spelled;
pub(crate) mod spread;
pub(crate) mod subqueries;
pub(crate) mod sum;
pub(crate) mod temporal;
pub(crate) mod typed;
mod wildcards;

use arrow_array::ArrayRef;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ColumnarValue;

use crate::error::{SqlError, SqlErrorKind};
use crate::query_error::external;

/// An error that planning finds.
pub(crate) fn plan_error(kind: SqlErrorKind, message: impl Into<String>) -> DataFusionError {
    external(SqlError::new(kind, message))
}

/// What a function of one argument gives for a batch, or for a constant.
fn of_one(
    arguments: &[ColumnarValue],
    compute: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match arguments {
        [ColumnarValue::Array(values)] => compute(values).map(ColumnarValue::Array),
        [ColumnarValue::Scalar(value)] => {
            let one = compute(&value.to_array()?)?;
            ScalarValue::try_from_array(&one, 0).map(ColumnarValue::Scalar)
        }
        others => internal_err!("one argument is expected, not {}", others.len()),
    }
}
