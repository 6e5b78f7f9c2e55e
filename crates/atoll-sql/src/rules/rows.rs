//! Comparisons of rows, such as `(a, b) < (1, 2)`, as the comparisons of their parts that they
//! stand for. A part that is NULL makes the answer NULL only where the parts before it do not
//! decide.

use sqlparser::ast::{
    BinaryOperator as Op, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value,
};

use super::spelled::call;
use crate::error::{SqlError, SqlErrorKind};

/// Rewrites an expression that compares rows.
///
/// # Errors
/// Rows of different length.
pub(super) fn plain(expr: &mut Expr) -> Result<(), SqlError> {
    let made = match expr {
        Expr::BinaryOp { left, op, right } => match (parts(left), parts(right)) {
            (Some(left), Some(right)) => compare(left, op, right)?,
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => match (parts(left), parts(right)) {
            (Some(left), Some(right)) => Some(distinct(left, right)?),
            _ => None,
        },
        Expr::IsNotDistinctFrom(left, right) => match (parts(left), parts(right)) {
            (Some(left), Some(right)) => Some(not(distinct(left, right)?)),
            _ => None,
        },
        Expr::IsNull(inner) => parts(inner).map(|parts| all(parts, Expr::IsNull)),
        Expr::IsNotNull(inner) => parts(inner).map(|parts| all(parts, Expr::IsNotNull)),
        Expr::InList { expr: row, list, negated } => match parts(row) {
            Some(row) => in_list(&row, list, *negated)?,
            None => None,
        },
        Expr::Between { expr: row, negated, low, high } => {
            match (parts(row), parts(low), parts(high)) {
                (Some(row), Some(low), Some(high)) => {
                    let least = compare(row.clone(), &Op::GtEq, low)?;
                    let most = compare(row, &Op::LtEq, high)?;
                    let both = least.zip(most).map(|(least, most)| binary(least, Op::And, most));
                    if *negated { both.map(not) } else { both }
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(made) = made {
        *expr = made;
    }
    Ok(())
}

/// The parts of a row: of `(a, b)` and of `ROW(a, b)`.
fn parts(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => parts(inner),
        Expr::Tuple(parts) if !parts.is_empty() => Some(parts.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let [name] = name.0.as_slice() else { return None };
            let name = name.as_ident().filter(|name| name.quote_style.is_none())?;
            let is_row = name.value.eq_ignore_ascii_case("row") && !list.args.is_empty();
            let part = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => Some(part.clone()),
                _ => None,
            };
            if is_row { list.args.iter().map(part).collect() } else { None }
        }
        _ => None,
    }
}

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    let expr = Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    Expr::Nested(Box::new(expr))
}

fn not(expr: Expr) -> Expr {
    let expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) };
    Expr::Nested(Box::new(expr))
}

fn joined(conditions: impl DoubleEndedIterator<Item = Expr>, op: &Op) -> Expr {
    let none = || Expr::Value(Value::Boolean(*op == Op::And).into());
    let join = |right, left| binary(left, op.clone(), right);
    conditions.rev().reduce(join).unwrap_or_else(none)
}

fn all(parts: Vec<Expr>, asked: fn(Box<Expr>) -> Expr) -> Expr {
    joined(parts.into_iter().map(|part| Expr::Nested(Box::new(asked(Box::new(part))))), &Op::And)
}

fn pairs(left: Vec<Expr>, right: Vec<Expr>) -> Result<Vec<(Expr, Expr)>, SqlError> {
    if left.len() != right.len() {
        let message = "unequal number of entries in row expressions";
        return Err(SqlError::new(SqlErrorKind::Syntax, message));
    }
    Ok(left.into_iter().zip(right).collect())
}

/// The comparison of two parts, which may be rows themselves.
fn part(left: Expr, op: &Op, right: Expr) -> Result<Expr, SqlError> {
    if let (Some(left), Some(right)) = (parts(&left), parts(&right))
        && let Some(made) = compare(left, op, right)?
    {
        return Ok(made);
    }
    Ok(binary(left, op.clone(), right))
}

/// The comparison of two rows, if the operator is one of rows.
fn compare(left: Vec<Expr>, op: &Op, right: Vec<Expr>) -> Result<Option<Expr>, SqlError> {
    if *op == Op::Overlaps {
        return overlaps(left, right);
    }
    let both = match op {
        Op::Eq => Op::And,
        Op::NotEq => Op::Or,
        Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => return ordered(left, op, right).map(Some),
        _ => return Ok(None),
    };
    let one = |(left, right)| part(left, op, right);
    let each = pairs(left, right)?.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(joined(each.into_iter(), &both)))
}

/// Two spans of time: their begins, and their ends or how long they last.
fn overlaps(left: Vec<Expr>, right: Vec<Expr>) -> Result<Option<Expr>, SqlError> {
    let mut places = Vec::with_capacity(4);
    for (span, side) in [(left, "left"), (right, "right")] {
        let [begin, end] = span.as_slice() else {
            let message =
                format!("wrong number of parameters on {side} side of OVERLAPS expression");
            return Err(SqlError::new(SqlErrorKind::Syntax, message));
        };
        let end = match end {
            Expr::Interval(_) => binary(begin.clone(), Op::Plus, end.clone()),
            end => end.clone(),
        };
        places.extend([begin.clone(), end]);
    }
    Ok(Some(call("overlaps", places)))
}

/// The first parts that are not equal decide; NULL is neither equal nor not.
fn ordered(left: Vec<Expr>, op: &Op, right: Vec<Expr>) -> Result<Expr, SqlError> {
    let strict = match op {
        Op::Lt | Op::LtEq => Op::Lt,
        _ => Op::Gt,
    };
    let mut pairs = pairs(left, right)?.into_iter().rev();
    let Some((left, right)) = pairs.next() else { return Ok(joined([].into_iter(), &Op::And)) };
    let mut made = part(left, op, right)?;
    for (left, right) in pairs {
        let equal = part(left.clone(), &Op::Eq, right.clone())?;
        let rest = binary(equal, Op::And, made);
        made = binary(part(left, &strict, right)?, Op::Or, rest);
    }
    Ok(made)
}

fn distinct(left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr, SqlError> {
    let each = pairs(left, right)?.into_iter().map(|(left, right)| {
        Expr::Nested(Box::new(Expr::IsDistinctFrom(Box::new(left), Box::new(right))))
    });
    Ok(joined(each, &Op::Or))
}

fn in_list(row: &[Expr], list: &[Expr], negated: bool) -> Result<Option<Expr>, SqlError> {
    let Some(rows) = list.iter().map(parts).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let mut each = Vec::with_capacity(rows.len());
    for one in rows {
        each.extend(compare(row.to_vec(), &Op::Eq, one)?);
    }
    let found = joined(each.into_iter(), &Op::Or);
    Ok(Some(if negated { not(found) } else { found }))
}
