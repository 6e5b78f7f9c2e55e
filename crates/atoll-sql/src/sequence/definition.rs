//! What a sequence is: its options, as PostgreSQL has them.

use atoll::{Column, DataType, Schema, Table};
use serde::{Deserialize, Serialize};
use sqlparser::ast::{
    DataType as SqlType, Expr, ObjectName, SequenceOptions, UnaryOperator, Value,
};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::sequence_names::KIND;
use crate::{sequence_syntax as syntax, types};

/// The columns of the row of a sequence: a key, the number that was given last, and whether it was.
pub(crate) const KEY: i64 = 0;
pub(crate) const LAST: usize = 1;
pub(crate) const CALLED: usize = 2;

/// The type of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whole {
    Smallint,
    Integer,
    Bigint,
}

impl Whole {
    /// # Errors
    /// It is no type of whole numbers.
    pub(crate) fn of(data_type: DataType) -> Result<Self, SqlError> {
        match data_type {
            DataType::Int16 => Ok(Self::Smallint),
            DataType::Int32 => Ok(Self::Integer),
            DataType::Int64 => Ok(Self::Bigint),
            _ => Err(invalid("sequence type must be smallint, integer, or bigint".to_owned())),
        }
    }

    pub(crate) fn limits(self) -> (i64, i64) {
        match self {
            Self::Smallint => (i16::MIN.into(), i16::MAX.into()),
            Self::Integer => (i32::MIN.into(), i32::MAX.into()),
            Self::Bigint => (i64::MIN, i64::MAX),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Smallint => "smallint",
            Self::Integer => "integer",
            Self::Bigint => "bigint",
        }
    }
}

/// The column that a sequence belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    pub(crate) table: String,
    pub(crate) column: String,
    /// It is the sequence of an identity column.
    pub(crate) is_identity: bool,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    pub(crate) kind: Whole,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) cache: i64,
    pub(crate) cycle: bool,
    pub(crate) owner: Option<Owner>,
    /// The state that the sequence begins with, until it has a row.
    pub(crate) last: i64,
    pub(crate) called: bool,
}

/// The options of a statement.
#[derive(Default)]
pub(crate) struct Options<'o> {
    pub(crate) kind: Option<Whole>,
    increment: Option<i64>,
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    start: Option<i64>,
    /// To a number, or to the start.
    restart: Option<Option<i64>>,
    cache: Option<i64>,
    cycle: Option<bool>,
    /// The column that `OWNED BY` names; the inner `None` for none.
    pub(crate) owner: Option<Option<&'o ObjectName>>,
}

impl<'o> Options<'o> {
    /// The options as they are written.
    ///
    /// # Errors
    /// A type of other values; a number that is out of range.
    pub(crate) fn of(
        data_type: Option<&SqlType>,
        options: &[SequenceOptions],
        owner: Option<&'o ObjectName>,
    ) -> Result<Self, SqlError> {
        let mut all = Self::default();
        if let Some(data_type) = data_type {
            all.kind = Some(Whole::of(types::column_type(data_type)?)?);
        }
        for option in options {
            match option {
                SequenceOptions::IncrementBy(by, _) => all.increment = Some(number(by)?),
                SequenceOptions::MinValue(min) => {
                    all.min = Some(min.as_ref().map(number).transpose()?);
                }
                SequenceOptions::MaxValue(max) => {
                    all.max = Some(max.as_ref().map(number).transpose()?);
                }
                SequenceOptions::StartWith(at, _) if syntax::is_sequence_name(at) => {}
                SequenceOptions::StartWith(at, _) => match syntax::restart(at) {
                    Some(at) => all.restart = Some(at.map(number).transpose()?),
                    None => all.start = Some(number(at)?),
                },
                SequenceOptions::Cache(cache) => all.cache = Some(number(cache)?),
                SequenceOptions::Cycle(no) => all.cycle = Some(!no),
            }
        }
        all.owner = owner.map(|owner| (!syntax::is_none(owner)).then_some(owner));
        Ok(all)
    }
}

/// A whole number as it is written.
fn number(expr: &Expr) -> Result<i64, SqlError> {
    let digits = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => expr.to_string(),
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => expr.to_string(),
        _ => return Err(SqlError::new(SqlErrorKind::Syntax, format!("{expr} is no whole number"))),
    };
    digits.parse().map_err(|_| {
        let message = format!("value \"{digits}\" is out of range for type bigint");
        SqlError::new(SqlErrorKind::Type, message)
    })
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidParameter)
}

impl Definition {
    /// A new sequence.
    ///
    /// # Errors
    /// Options that do not go together.
    pub(crate) fn new(options: &Options<'_>) -> Result<Self, SqlError> {
        let (kind, increment) = (options.kind.unwrap_or(Whole::Bigint), 1);
        let (last, called, owner) = (0, false, None);
        let (start, min, max, cache, cycle) = (0, 0, 0, 1, false);
        let mut new = Self { kind, start, increment, min, max, cache, cycle, owner, last, called };
        new.set(options, true)?;
        new.restart(new.start);
        Ok(new)
    }

    /// The sequence of a column that is numbered.
    pub(crate) fn of_column(
        kind: Whole,
        options: &Options<'_>,
        owner: Owner,
    ) -> Result<Self, SqlError> {
        let options = Options {
            kind: Some(kind),
            increment: options.increment,
            min: options.min,
            max: options.max,
            start: options.start,
            restart: None,
            cache: options.cache,
            cycle: options.cycle,
            owner: None,
        };
        Ok(Self { owner: Some(owner), ..Self::new(&options)? })
    }

    /// The definition of a sequence.
    ///
    /// # Errors
    /// The object is another one; a later version of Atoll has defined it.
    pub(crate) fn of(object: &Table) -> Result<Self, SqlError> {
        Self::of_schema(object.schema(), object.name())
    }

    /// The definition of a sequence, by the schema of its object.
    ///
    /// # Errors
    /// As [`Definition::of`].
    pub(crate) fn of_schema(schema: &Schema, name: &str) -> Result<Self, SqlError> {
        match schema.object() {
            Some((KIND, text)) => serde_json::from_str(text).map_err(|error| {
                let message = format!("the definition of a sequence cannot be read: {error}");
                SqlError::new(SqlErrorKind::Database, message)
                    .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
            }),
            _ => Err(not_a_sequence(name)),
        }
    }

    /// The schema of the object.
    ///
    /// # Errors
    /// None that a definition has.
    pub(crate) fn schema(&self) -> Result<Schema, SqlError> {
        let columns = vec![
            Column::new("key", DataType::Int64),
            Column::new("last_value", DataType::Int64),
            Column::new("is_called", DataType::Bool),
        ];
        let text = serde_json::to_string(self).expect("numbers and texts can be written as JSON");
        Ok(Schema::new(columns, &["key"])?.of_object(KIND, &text)?)
    }

    /// Changes what options say.
    ///
    /// # Errors
    /// Options that do not go together.
    pub(crate) fn alter(&mut self, options: &Options<'_>) -> Result<(), SqlError> {
        self.set(options, false)?;
        if let Some(at) = options.restart {
            self.restart(at.unwrap_or(self.start));
        }
        let Self { last, min, max, .. } = *self;
        if last < min {
            let message = format!("RESTART value ({last}) cannot be less than MINVALUE ({min})");
            return Err(invalid(message));
        }
        if last > max {
            let message = format!("RESTART value ({last}) cannot be greater than MAXVALUE ({max})");
            return Err(invalid(message));
        }
        Ok(())
    }

    /// The next number is this.
    pub(crate) fn restart(&mut self, at: i64) {
        (self.last, self.called) = (at, false);
    }

    fn set(&mut self, options: &Options<'_>, is_new: bool) -> Result<(), SqlError> {
        let before = self.kind.limits();
        let was_default = (self.min == before.0, self.max == before.1);
        self.kind = options.kind.unwrap_or(self.kind);
        self.increment = options.increment.unwrap_or(self.increment);
        if self.increment == 0 {
            return Err(invalid("INCREMENT must not be zero".to_owned()));
        }
        self.cycle = options.cycle.unwrap_or(self.cycle);
        let (least, greatest) = self.kind.limits();
        let retypes = options.kind.is_some();
        let is_up = self.increment > 0;
        self.max = match options.max {
            Some(Some(max)) => max,
            None if !(is_new || retypes && was_default.1) => self.max,
            _ => {
                if is_up {
                    greatest
                } else {
                    -1
                }
            }
        };
        self.min = match options.min {
            Some(Some(min)) => min,
            None if !(is_new || retypes && was_default.0) => self.min,
            _ => {
                if is_up {
                    1
                } else {
                    least
                }
            }
        };
        let kind = self.kind.name();
        for (name, value) in [("MAXVALUE", self.max), ("MINVALUE", self.min)] {
            if !(least..=greatest).contains(&value) {
                let message =
                    format!("{name} ({value}) is out of range for sequence data type {kind}");
                return Err(invalid(message));
            }
        }
        let Self { min, max, .. } = *self;
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        self.start = match options.start {
            Some(start) => start,
            None if is_new => {
                if is_up {
                    min
                } else {
                    max
                }
            }
            None => self.start,
        };
        let start = self.start;
        if start < min {
            let message = format!("START value ({start}) cannot be less than MINVALUE ({min})");
            return Err(invalid(message));
        }
        if start > max {
            let message = format!("START value ({start}) cannot be greater than MAXVALUE ({max})");
            return Err(invalid(message));
        }
        self.cache = options.cache.unwrap_or(self.cache);
        if self.cache <= 0 {
            let message = format!("CACHE ({}) must be greater than zero", self.cache);
            return Err(invalid(message));
        }
        Ok(())
    }

    /// The number behind the last one.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn next(&self, name: &str, (last, called): (i64, bool)) -> Result<i64, SqlError> {
        if !called {
            return Ok(last);
        }
        let next = last.checked_add(self.increment);
        if let Some(next) = next.filter(|next| (self.min..=self.max).contains(next)) {
            return Ok(next);
        }
        let is_up = self.increment > 0;
        if self.cycle {
            return Ok(if is_up { self.min } else { self.max });
        }
        let (which, limit) = if is_up { ("maximum", self.max) } else { ("minimum", self.min) };
        let message = format!("nextval: reached {which} value of sequence \"{name}\" ({limit})");
        Err(SqlError::new(SqlErrorKind::Query, message).with_state("2200H"))
    }

    /// The last number of a block that begins behind this one, without a limit between them, and
    /// how many numbers the block has.
    pub(crate) fn ahead(&self, last: i64, block: u64) -> (i64, u64) {
        let limit = if self.increment > 0 { self.max } else { self.min };
        let room = i128::from(limit) - i128::from(last);
        let steps = u64::try_from(room / i128::from(self.increment)).unwrap_or(0).min(block);
        let covered = i128::from(last) + i128::from(steps) * i128::from(self.increment);
        (i64::try_from(covered).unwrap_or(limit), steps)
    }
}

/// The error for a sequence that does not exist.
pub(crate) fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlErrorKind::UnknownTable, format!("relation \"{name}\" does not exist"))
}

/// The error for something else.
pub(crate) fn not_a_sequence(name: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Schema, format!("\"{name}\" is not a sequence"))
        .with_cause(Cause::OtherObject)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn made(options: Options<'_>) -> Definition {
        Definition::new(&options).unwrap()
    }

    #[test]
    fn a_block_ends_at_the_limit() {
        let up = made(Options { max: Some(Some(10)), increment: Some(3), ..Options::default() });
        assert_eq!(up.ahead(1, 2), (7, 2));
        assert_eq!(up.ahead(1, 32), (10, 3));
        assert_eq!(up.ahead(10, 32), (10, 0));
        let down = made(Options { increment: Some(-1), ..Options::default() });
        assert_eq!((down.start, down.ahead(-1, 4)), (-1, (-5, 4)));
        let all = made(Options { increment: Some(i64::MAX), ..Options::default() });
        assert_eq!(all.ahead(1, 32), (1, 0));
    }

    #[test]
    fn numbers_end_or_begin_again() {
        let mut few = made(Options { max: Some(Some(2)), ..Options::default() });
        assert_eq!(few.next("s", (1, false)).unwrap(), 1);
        assert_eq!(few.next("s", (1, true)).unwrap(), 2);
        let error = few.next("s", (2, true)).unwrap_err();
        assert_eq!(error.message(), "nextval: reached maximum value of sequence \"s\" (2)");
        few.cycle = true;
        assert_eq!(few.next("s", (2, true)).unwrap(), 1);
    }
}
