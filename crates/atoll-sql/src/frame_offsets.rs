//! The offsets of window frames: `ROWS BETWEEN $1 PRECEDING AND 1 + 1 FOLLOWING`.
//!
//! The planner takes numbers that are written. So an expression is computed before it plans, and a
//! parameter is its value by then.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, NamedWindowExpr, Select, Statement, Value, VisitMut, VisitorMut, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use crate::error::{SqlError, SqlErrorKind};
use crate::eval;
use crate::literal::Literal;

/// The frame of a window function.
pub(crate) fn of_function(function: &Function) -> Option<&WindowFrame> {
    match &function.over {
        Some(WindowType::WindowSpec(spec)) => spec.window_frame.as_ref(),
        _ => None,
    }
}

/// The offsets of a frame that counts rows or groups of them.
pub(crate) fn counted(frame: &WindowFrame) -> impl Iterator<Item = &Expr> {
    let counts = frame.units != WindowFrameUnits::Range;
    [Some(&frame.start_bound), frame.end_bound.as_ref()]
        .into_iter()
        .flatten()
        .filter(move |_| counts)
        .filter_map(|bound| match bound {
            WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
                offset.as_deref()
            }
            WindowFrameBound::CurrentRow => None,
        })
}

/// Computes the offsets of an expression.
///
/// # Errors
/// One is negative or NULL.
pub(crate) fn compute(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) => of_spec(spec),
        _ => Ok(()),
    }
}

/// Computes the offsets of the windows that a query names.
///
/// # Errors
/// As [`compute`].
pub(crate) fn compute_named(select: &mut Select) -> Result<(), SqlError> {
    let specs = select.named_window.iter_mut().filter_map(|window| match &mut window.1 {
        NamedWindowExpr::WindowSpec(spec) => Some(spec),
        NamedWindowExpr::NamedWindow(_) => None,
    });
    specs.into_iter().try_for_each(of_spec)
}

fn of_spec(spec: &mut WindowSpec) -> Result<(), SqlError> {
    let Some(frame) = &mut spec.window_frame else { return Ok(()) };
    let counts = frame.units != WindowFrameUnits::Range;
    let bounds = [(Some(&mut frame.start_bound), "starting"), (frame.end_bound.as_mut(), "ending")];
    for (bound, which) in bounds {
        let Some(
            WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)),
        ) = bound
        else {
            continue;
        };
        let Some(Ok(value)) = eval::constant(offset) else { continue };
        let wrong = |state, what: &str| {
            let message = format!("frame {which} offset must not be {what}");
            Err(SqlError::new(SqlErrorKind::Type, message).with_state(state))
        };
        let value = match value {
            Literal::Text(text) if counts => {
                Literal::number(text.trim()).unwrap_or(Literal::Text(text))
            }
            other => other,
        };
        match value {
            Literal::Null => return wrong("22004", "null"),
            Literal::Integer(number) if number < 0 => return wrong("22013", "negative"),
            Literal::Integer(number) => {
                **offset = Expr::value(Value::Number(number.to_string(), false));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives offsets that are parameters a value, where a statement is described without values.
pub(crate) fn settle(statement: &mut Statement) {
    struct Offsets;
    impl VisitorMut for Offsets {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            for window in &mut select.named_window {
                if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                    settle_spec(spec);
                }
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            {
                settle_spec(spec);
            }
            ControlFlow::Continue(())
        }
    }
    // The visitor never breaks off.
    let _ = statement.visit(&mut Offsets);
}

fn settle_spec(spec: &mut WindowSpec) {
    use WindowFrameBound::{Following, Preceding};
    let Some(frame) = &mut spec.window_frame else { return };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        let (Preceding(Some(offset)) | Following(Some(offset))) = bound else { continue };
        if eval::constant(offset).is_none() {
            **offset = Expr::value(Value::Number("1".to_owned(), false));
        }
    }
}
