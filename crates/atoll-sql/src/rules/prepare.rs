//! Rewriting of statements that DataFusion's planner would misread.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    self, CastKind, DataType as SqlType, ExactNumberInfo, Expr, Query, SetExpr, SetOperator,
    SetQuantifier, Spanned, Statement, TableFactor, UnaryOperator, Value, ValueWithSpan, VisitMut,
    VisitorMut, visit_expressions,
};

use super::number::DIGITS_MAX;
use super::{
    array_query, at_zone, grouped, quantified, row_functions, row_guards, rows, spelled, wildcards,
};
use crate::depth;
use crate::error::{SqlError, SqlErrorKind};
use crate::interval;
use crate::literal::Literal;
use crate::names;
use crate::output_names;
use crate::quoted::written;
use crate::sequence_names;

/// Most subqueries of expressions inside each other: the planner checks each one again inside the
/// one around it, so their number counts as the exponent of a power of two.
const SUBQUERIES_MAX: usize = 16;

/// Gives names to the columns of a result, and rewrites the numbers of a statement that the planner
/// would read as something else.
///
/// # Errors
/// A number with more digits than `numeric` has, which no type would hold exactly, and set
/// operations that the planner carries out wrongly.
pub(crate) fn statement(statement: &mut Statement) -> Result<(), SqlError> {
    output_names::give(statement);
    let mentioned = Mentioned::of(statement);
    match statement.visit(&mut Preparation { depth: 0, mentioned }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Preparation {
    /// Subqueries around the expression that is visited.
    depth: usize,
    mentioned: Mentioned,
}

/// The names that stand alone in the expressions of a statement.
struct Mentioned(HashSet<String>);

impl Mentioned {
    fn of(statement: &Statement) -> Self {
        let mut names = HashSet::new();
        let _: ControlFlow<()> = visit_expressions(statement, |expr| {
            if let Expr::Identifier(name) = expr {
                names.insert(names::fold(name));
            }
            ControlFlow::Continue(())
        });
        Self(names)
    }
}

/// Whether an expression is, or compares with, a subquery.
fn has_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

/// The number that is negated twice: both signs belong to the number, which may be too large for
/// the type that it has with one of them.
fn negated_twice(expr: &Expr) -> Option<Expr> {
    let negated = |expr: &Expr| match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(expr.as_ref().clone()),
        _ => None,
    };
    let Expr::Nested(inner) = negated(expr)? else { return None };
    negated(&inner).filter(|number| {
        matches!(number, Expr::Value(ValueWithSpan { value: Value::Number(..), .. }))
    })
}

/// `CAST(expr AS data_type)`.
fn typed(expr: Expr, data_type: SqlType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// An interval that is written, in words that the planner reads as PostgreSQL reads the interval.
///
/// # Errors
/// No interval, and fields of which the text has others.
fn interval_in_words(interval: &mut ast::Interval) -> Result<(), SqlError> {
    let span = interval.value.span();
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) =
        interval.value.as_mut()
    else {
        return Ok(());
    };
    let fields = [interval.leading_field.take(), interval.last_field.take()];
    let fields = fields.map(|field| field.map(|field| field.to_string().to_lowercase()));
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let written = match (&fields, text.trim()) {
        ([Some(unit), None], amount) if is_number(amount) => format!("{amount} {unit}"),
        ([Some(_), None], _) => {
            let message = "an interval with one field has one number";
            return Err(SqlError::unsupported(message).at(span));
        }
        ([Some(first), Some(last)], clock) if first == "minute" && last == "second" => {
            format!("0:{clock}")
        }
        ([Some(first), Some(last)], both) if first == "day" && last == "hour" => {
            match both.split_once(' ') {
                Some((days, hours)) => format!("{days} days {hours} hours"),
                None => both.to_owned(),
            }
        }
        (_, text) => text.to_owned(),
    };
    let read = interval::parse(&written);
    let read = read.map_err(|reason| SqlError::new(SqlErrorKind::Type, reason).at(span))?;
    *text = interval::in_words(read);
    Ok(())
}

/// An interval that is written, with the other sign: the planner would negate its first word alone.
fn negated_interval(expr: &Expr) -> Option<Expr> {
    let Expr::Interval(written) = expr else { return None };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) =
        written.value.as_ref()
    else {
        return None;
    };
    let read = interval::parse(text).ok()?;
    let negated = interval::negated(read)?;
    let value = Value::SingleQuotedString(interval::in_words(negated));
    let value = Box::new(Expr::Value(ValueWithSpan { value, span: *span }));
    Some(Expr::Interval(ast::Interval { value, ..written.clone() }))
}

/// The smallest bigint. Its digits by themselves are too many for one and have become a decimal.
fn smallest(expr: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: digits } = expr else { return None };
    let Expr::Cast { expr: digits, data_type: SqlType::Decimal(_), .. } = digits.as_ref() else {
        return None;
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(digits), span }) =
        digits.as_ref()
    else {
        return None;
    };
    format!("-{digits}").parse::<i64>().ok()?;
    let number =
        Expr::Value(ValueWithSpan { value: Value::Number(digits.clone(), false), span: *span });
    Some(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) })
}

/// Gives the texts of a column of rows that are written out the type of one that is JSON. The
/// planner wants one extension type for all of them.
fn with_json(values: &mut ast::Values) {
    let json = |expr: &Expr| match expr {
        Expr::Cast { data_type: data_type @ (SqlType::JSON | SqlType::JSONB), .. } => {
            Some(data_type.clone())
        }
        _ => None,
    };
    for at in 0..values.rows.first().map_or(0, |row| row.len()) {
        let found = values.rows.iter().find_map(|row| row.get(at).and_then(json));
        let Some(found) = found else { continue };
        for expr in values.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            if let Expr::Value(_) = expr {
                *expr = typed(expr.clone(), found.clone());
            }
        }
    }
}

impl VisitorMut for Preparation {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        grouped::rename(query);
        if let SetExpr::Values(values) = query.body.as_mut() {
            with_json(values);
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            wildcards::qualify(select);
            row_guards::guard(select);
            for condition in [&mut select.selection, &mut select.having].into_iter().flatten() {
                if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) =
                    condition
                {
                    let quoted = condition.clone();
                    *condition = typed(quoted, SqlType::Boolean);
                }
            }
        }
        let mut open = vec![query.body.as_ref()];
        while let Some(body) = open.pop() {
            let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { continue };
            let counts = matches!(op, SetOperator::Intersect | SetOperator::Except);
            if counts && *set_quantifier == SetQuantifier::All {
                // The planner makes joins of them, which do not count how often a row is there.
                let message = format!("{op} ALL is not supported");
                let hint = format!("{op} without ALL gives each row once");
                return ControlFlow::Break(SqlError::unsupported(message).with_hint(Some(hint)));
            }
            open.extend([left.as_ref(), right.as_ref()]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        match spelled::series(table) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        match row_functions::table(table, &|name| self.mentioned.0.contains(name)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if has_query(expr) {
            self.depth += 1;
            if self.depth > SUBQUERIES_MAX {
                return ControlFlow::Break(depth::too_complex().at(expr.span()));
            }
        }
        sequence_names::without_regclass(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if has_query(expr) {
            self.depth -= 1;
        }
        if let Expr::Interval(interval) = expr
            && let Err(error) = interval_in_words(interval)
        {
            return ControlFlow::Break(error);
        }
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
            && let Some(negated) = negated_interval(inner)
        {
            *expr = negated;
            return ControlFlow::Continue(());
        }
        if let Expr::AtTimeZone { timestamp, time_zone } = expr {
            let arguments = [time_zone, timestamp].map(|part| part.as_ref().clone());
            *expr = written(at_zone::NAME, arguments);
            return ControlFlow::Continue(());
        }
        if let Err(error) = spelled::plain(expr).and_then(|()| rows::plain(expr)) {
            return ControlFlow::Break(error.at(expr.span()));
        }
        array_query::call(expr);
        row_functions::selected(expr);
        if let Some(call) = quantified::call(expr) {
            *expr = call;
            return ControlFlow::Continue(());
        }
        if let Some(number) = negated_twice(expr) {
            *expr = number;
        }
        if let Some(smallest) = smallest(expr) {
            *expr = smallest;
            return ControlFlow::Continue(());
        }
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
        *expr = typed(text, data_type);
        ControlFlow::Continue(())
    }
}
