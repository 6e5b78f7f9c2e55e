//! What a statement's text says that DataFusion's planner cannot read.

use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, Statement, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};

use super::number::DIGITS_MAX;
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;

/// Rewrites the numbers of a statement that the planner would read as something else.
///
/// # Errors
/// A number with more digits than `numeric` has, which no type would hold exactly.
pub(crate) fn numbers(statement: &mut Statement) -> Result<(), SqlError> {
    match statement.visit(&mut Numbers) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Numbers;

impl VisitorMut for Numbers {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Value(ValueWithSpan { value: Value::Number(written, _), span }) = expr else {
            return ControlFlow::Continue(());
        };
        let digits = written.replace('_', "");
        if digits.parse::<i64>().is_ok() {
            return ControlFlow::Continue(());
        }
        let has_exponent = digits.contains(['e', 'E']);
        let limit = 10u128.pow(DIGITS_MAX.into());
        let decimal = |scale| SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(38, scale));
        let data_type = match Literal::number(&digits) {
            // The planner takes these for unsigned.
            Some(Literal::Integer(value)) if value.unsigned_abs() < limit => decimal(0),
            Some(Literal::Decimal(value, scale))
                if value.unsigned_abs() < limit && scale <= DIGITS_MAX =>
            {
                if !has_exponent {
                    return ControlFlow::Continue(());
                }
                // Of these it makes decimals of negative scale.
                decimal(scale.into())
            }
            Some(_) if has_exponent => SqlType::DoublePrecision,
            _ => {
                let message = format!("{written} has more than the {DIGITS_MAX} digits of numeric");
                let hint = "write it with an exponent, as in 1e40, for a double precision";
                return ControlFlow::Break(
                    SqlError::new(SqlErrorKind::Type, message)
                        .at(*span)
                        .with_hint(Some(hint.to_owned())),
                );
            }
        };
        let text = Value::SingleQuotedString(digits);
        let text = Expr::Value(ValueWithSpan { value: text, span: *span });
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(text),
            data_type,
            array: false,
            format: None,
        };
        ControlFlow::Continue(())
    }
}
