//! Expressions over one row, evaluated without Arrow.
//!
//! The analyzer has given every operand its final type, so an operator here has one form. What has
//! no form of its own (most functions) is evaluated by DataFusion on a batch of one row, so the
//! short executor has every function that queries have.
//!
//! `SCALAR-1`: an expression has the same value, or the same error, as in a query.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use atoll::{DataType, Value};
use datafusion::physical_expr::PhysicalExpr;

use super::list::List;
use super::value;
use crate::error::{SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::rules::number::{Number, Operation};
use crate::rules::{cast, scalar};

/// The value that a parameter has in one place of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// Number of the parameter, from 0.
    pub(crate) number: usize,
    /// The type that its place gives it.
    pub(crate) data_type: DataType,
}

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Scalar {
    /// A value of the row.
    Column(usize),
    /// A parameter, by its place in the list of slots.
    Param(usize),
    /// The time at which the transaction began.
    Now,
    /// The value of a subquery, by its place in the list of them.
    Subquery(usize),
    Const(Value),
    Compare(Comparison, Box<[Scalar; 2]>),
    And(Box<[Scalar; 2]>),
    Or(Box<[Scalar; 2]>),
    Not(Box<Scalar>),
    IsNull(Box<Scalar>),
    IsNotNull(Box<Scalar>),
    Arithmetic(Box<Arithmetic>),
    Cast(Box<Conversion>),
    Case(Box<Branches>),
    /// Whether a value is in a list.
    In(Box<(Scalar, Vec<Scalar>, bool)>),
    /// A comparison with a parameter that is a list.
    Quantified(Box<Quantified>),
    /// Evaluated by DataFusion.
    Arrow(Box<ByArrow>),
}

/// An operator that compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

#[derive(Debug, Clone)]
pub(crate) struct Arithmetic {
    pub(super) operation: Operation,
    pub(super) operands: [Scalar; 2],
    pub(super) types: [Number; 2],
    pub(super) result: Number,
}

#[derive(Debug, Clone)]
pub(crate) struct Conversion {
    pub(super) inner: Scalar,
    pub(super) from: DataType,
    pub(super) to: DataType,
}

#[derive(Debug, Clone)]
pub(crate) struct Branches {
    pub(super) base: Option<Scalar>,
    pub(super) branches: Vec<(Scalar, Scalar)>,
    pub(super) otherwise: Option<Scalar>,
}

#[derive(Debug, Clone)]
pub(crate) struct ByArrow {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) schema: SchemaRef,
    pub(super) inputs: Vec<Scalar>,
    pub(super) shown: String,
}

/// `value op ANY (list)` or `value op ALL (list)`.
#[derive(Debug, Clone)]
pub(crate) struct Quantified {
    pub(super) value: Scalar,
    pub(super) op: Comparison,
    pub(super) is_all: bool,
    /// The place of the list among those of the surroundings.
    pub(super) list: usize,
}

/// What an expression refers to besides its row.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The values of the slots.
    pub(crate) params: Vec<Value>,
    /// Those of the parameters that are lists; `None` for NULL.
    pub(crate) lists: Vec<Option<Arc<List>>>,
    /// The values of the subqueries that have run.
    pub(crate) subqueries: Vec<Value>,
    pub(crate) began: Began,
}

impl Surroundings {
    /// Those of a statement without parameters and subqueries.
    pub(crate) fn of_nothing(began: Began) -> Self {
        Self { params: Vec::new(), lists: Vec::new(), subqueries: Vec::new(), began }
    }
}

/// When the transaction began: a known time, or the time at which it is first needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Began(OnceCell<i64>);

impl Began {
    /// A known time, in microseconds since 1970-01-01 00:00.
    pub(crate) fn at(micros: i64) -> Self {
        Self(OnceCell::from(micros))
    }

    /// The time, in microseconds since 1970-01-01 00:00.
    pub(crate) fn micros(&self) -> i64 {
        *self.0.get_or_init(now)
    }
}

/// Microseconds since 1970-01-01 00:00.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl Scalar {
    /// The value for a row.
    ///
    /// # Errors
    /// Those of the operators and functions: overflow, division by zero, a failing cast.
    pub(crate) fn eval<'v>(
        &'v self,
        row: &'v [Value],
        around: &'v Surroundings,
    ) -> Result<Cow<'v, Value>, SqlError> {
        Ok(match self {
            Self::Column(at) => Cow::Borrowed(&row[*at]),
            Self::Param(at) => Cow::Borrowed(&around.params[*at]),
            Self::Now => Cow::Owned(Value::Timestamp(around.began.micros())),
            Self::Subquery(at) => Cow::Borrowed(&around.subqueries[*at]),
            Self::Const(value) => Cow::Borrowed(value),
            Self::Compare(op, sides) => {
                let (left, right) = (sides[0].eval(row, around)?, sides[1].eval(row, around)?);
                Cow::Owned(op.apply(&left, &right))
            }
            Self::And(sides) => Cow::Owned(truth_value(connect(sides, false, row, around)?)),
            Self::Or(sides) => Cow::Owned(truth_value(connect(sides, true, row, around)?)),
            Self::Not(inner) => {
                Cow::Owned(truth_value(inner.truth(row, around)?.map(|truth| !truth)))
            }
            Self::IsNull(inner) => {
                Cow::Owned(Value::Bool(*inner.eval(row, around)? == Value::Null))
            }
            Self::IsNotNull(inner) => {
                Cow::Owned(Value::Bool(*inner.eval(row, around)? != Value::Null))
            }
            Self::Arithmetic(arithmetic) => Cow::Owned(arithmetic.eval(row, around)?),
            Self::Cast(conversion) => Cow::Owned(conversion.eval(row, around)?),
            Self::Case(branches) => branches.eval(row, around)?,
            Self::In(parts) => {
                let (first, list, negated) = parts.as_ref();
                let found = is_in(&*first.eval(row, around)?, list, row, around)?;
                Cow::Owned(truth_value(found.map(|found| found != *negated)))
            }
            Self::Quantified(quantified) => {
                Cow::Owned(truth_value(quantified.answer(row, around)?))
            }
            Self::Arrow(by_arrow) => Cow::Owned(by_arrow.eval(row, around)?),
        })
    }

    /// The truth value of a condition; `None` for NULL.
    ///
    /// # Errors
    /// As [`Scalar::eval`].
    pub(crate) fn truth(
        &self,
        row: &[Value],
        around: &Surroundings,
    ) -> Result<Option<bool>, SqlError> {
        Ok(match &*self.eval(row, around)? {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        })
    }

    /// Calls `look` with the place of every column.
    pub(super) fn columns(&self, look: &mut dyn FnMut(usize)) {
        match self {
            Self::Column(at) => look(*at),
            Self::Param(_) | Self::Now | Self::Subquery(_) | Self::Const(_) => {}
            Self::Compare(_, sides) | Self::And(sides) | Self::Or(sides) => {
                sides.iter().for_each(|side| side.columns(look));
            }
            Self::Not(inner) | Self::IsNull(inner) | Self::IsNotNull(inner) => inner.columns(look),
            Self::Arithmetic(arithmetic) => {
                arithmetic.operands.iter().for_each(|side| side.columns(look));
            }
            Self::Cast(conversion) => conversion.inner.columns(look),
            Self::Case(case) => {
                case.base.iter().for_each(|part| part.columns(look));
                case.otherwise.iter().for_each(|part| part.columns(look));
                for (when, then) in &case.branches {
                    when.columns(look);
                    then.columns(look);
                }
            }
            Self::In(parts) => {
                parts.0.columns(look);
                parts.1.iter().for_each(|item| item.columns(look));
            }
            Self::Quantified(quantified) => quantified.value.columns(look),
            Self::Arrow(by_arrow) => by_arrow.inputs.iter().for_each(|input| input.columns(look)),
        }
    }
}

fn truth_value(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, Value::Bool)
}

/// AND (`decides` is false) and OR (`decides` is true): the left side decides, if it can, without
/// the right one.
fn connect(
    sides: &[Scalar; 2],
    decides: bool,
    row: &[Value],
    around: &Surroundings,
) -> Result<Option<bool>, SqlError> {
    let left = match sides[0].truth(row, around) {
        Ok(Some(truth)) if truth == decides => return Ok(Some(decides)),
        Ok(truth) => truth,
        // As in a query, a side that decides hides an error of the other one.
        Err(error) => match sides[1].truth(row, around) {
            Ok(Some(truth)) if truth == decides => return Ok(Some(decides)),
            _ => return Err(error),
        },
    };
    let right = sides[1].truth(row, around)?;
    Ok(if right == Some(decides) { right } else { left.and(right) })
}

fn is_in(
    first: &Value,
    list: &[Scalar],
    row: &[Value],
    around: &Surroundings,
) -> Result<Option<bool>, SqlError> {
    if *first == Value::Null {
        return Ok(if list.is_empty() { Some(false) } else { None });
    }
    let mut has_null = false;
    for item in list {
        match &*item.eval(row, around)? {
            Value::Null => has_null = true,
            item if value::compare(first, item) == Ordering::Equal => return Ok(Some(true)),
            _ => {}
        }
    }
    Ok(if has_null { None } else { Some(false) })
}

impl Comparison {
    /// The operator with its sides exchanged.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    fn apply(self, left: &Value, right: &Value) -> Value {
        let nulls = (*left == Value::Null, *right == Value::Null);
        let order = match (self, nulls) {
            (Self::Distinct, (true, true)) => return Value::Bool(false),
            (Self::NotDistinct, (true, true)) => return Value::Bool(true),
            (Self::Distinct, (true, _) | (_, true)) => return Value::Bool(true),
            (Self::NotDistinct, (true, _) | (_, true)) => return Value::Bool(false),
            (_, (true, _) | (_, true)) => return Value::Null,
            _ => value::compare(left, right),
        };
        Value::Bool(match self {
            Self::Equal | Self::NotDistinct => order == Ordering::Equal,
            Self::NotEqual | Self::Distinct => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

impl Arithmetic {
    fn eval(&self, row: &[Value], around: &Surroundings) -> Result<Value, SqlError> {
        let (left, right) =
            (self.operands[0].eval(row, around)?, self.operands[1].eval(row, around)?);
        if *left == Value::Null || *right == Value::Null {
            return Ok(Value::Null);
        }
        scalar::values(self.operation, (&left, self.types[0]), (&right, self.types[1]), self.result)
    }
}

impl Conversion {
    fn eval(&self, row: &[Value], around: &Surroundings) -> Result<Value, SqlError> {
        let inner = self.inner.eval(row, around)?;
        match (&*inner, self.to) {
            (Value::Null, _) => return Ok(Value::Null),
            (Value::Int16(v), DataType::Int32) => return Ok(Value::Int32((*v).into())),
            (Value::Int16(v), DataType::Int64) => return Ok(Value::Int64((*v).into())),
            (Value::Int32(v), DataType::Int64) => return Ok(Value::Int64((*v).into())),
            _ => {}
        }
        cast::convert(Literal::of(inner.into_owned(), self.from), self.to)
            .map_err(|reason| SqlError::new(SqlErrorKind::Type, reason))
    }
}

impl Quantified {
    /// The answer; `None` for NULL (`ANY-1`).
    ///
    /// # Errors
    /// Those of the value.
    fn answer(&self, row: &[Value], around: &Surroundings) -> Result<Option<bool>, SqlError> {
        let Some(list) = &around.lists[self.list] else { return Ok(None) };
        let undecided = if list.has_null() { None } else { Some(self.is_all) };
        if list.values().is_empty() && !list.has_null() {
            return Ok(undecided);
        }
        let value = self.value.eval(row, around)?;
        if *value == Value::Null {
            return Ok(None);
        }
        let decides = match (self.op, self.is_all) {
            (Comparison::Equal, false) | (Comparison::NotEqual, true) => list.contains(&value),
            _ => {
                let decisive = Value::Bool(!self.is_all);
                list.values().iter().any(|one| self.op.apply(&value, one) == decisive)
            }
        };
        Ok(if decides { Some(!self.is_all) } else { undecided })
    }
}

impl Branches {
    fn eval<'v>(
        &'v self,
        row: &'v [Value],
        around: &'v Surroundings,
    ) -> Result<Cow<'v, Value>, SqlError> {
        let base = self.base.as_ref().map(|base| base.eval(row, around)).transpose()?;
        for (when, then) in &self.branches {
            let holds = match &base {
                Some(base) => Comparison::Equal.apply(base, &*when.eval(row, around)?),
                None => when.eval(row, around)?.into_owned(),
            };
            if holds == Value::Bool(true) {
                return then.eval(row, around);
            }
        }
        match &self.otherwise {
            Some(otherwise) => otherwise.eval(row, around),
            None => Ok(Cow::Owned(Value::Null)),
        }
    }
}

impl ByArrow {
    fn eval(&self, row: &[Value], around: &Surroundings) -> Result<Value, SqlError> {
        let wrong = || {
            let message = format!("{} has no value of its type", self.shown);
            SqlError::new(SqlErrorKind::Query, message)
        };
        let mut columns = Vec::with_capacity(self.inputs.len());
        for (input, field) in self.inputs.iter().zip(self.schema.fields()) {
            let value = input.eval(row, around)?;
            let one = std::iter::once(&*value);
            columns.push(value::to_array(one, field.data_type()).ok_or_else(wrong)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|_| wrong())?;
        let result = self.expr.evaluate(&batch)?.into_array(1)?;
        value::of_array(&result, 0).ok_or_else(wrong)
    }
}
