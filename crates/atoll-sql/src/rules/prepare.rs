//! What a statement's text says that DataFusion's planner cannot read.

use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, Statement, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};

use crate::literal::Literal;

/// Rewrites the numbers of a statement that 38 digits do not hold, such as `1e300`, into doubles.
pub(crate) fn numbers(statement: &mut Statement) {
    // The visitor never breaks off.
    let _ = statement.visit(&mut Wide);
}

struct Wide;

impl VisitorMut for Wide {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = expr
            && digits.parse::<i64>().is_err()
            && let Some(number) = Literal::number(&digits.replace('_', ""))
        {
            let fits = match number {
                Literal::Integer(value) => value.unsigned_abs() < 10u128.pow(38),
                Literal::Decimal(value, scale) => {
                    scale <= 38 && value.unsigned_abs() < 10u128.pow(38)
                }
                _ => false,
            };
            // The planner takes these for unsigned; written with a point they are decimals.
            let data_type = match (fits, number) {
                (true, Literal::Integer(_)) => {
                    SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0))
                }
                // With an exponent the planner makes a decimal of negative scale.
                (true, Literal::Decimal(_, scale)) if digits.contains(['e', 'E']) => {
                    SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(38, scale.into()))
                }
                (true, _) => return ControlFlow::Continue(()),
                (false, _) => SqlType::DoublePrecision,
            };
            let text = Value::SingleQuotedString(digits.clone());
            let text = Expr::Value(ValueWithSpan { value: text, span: *span });
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(text),
                data_type,
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
}
