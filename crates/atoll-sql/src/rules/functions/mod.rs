//! Functions of single values that DataFusion does not have, or has otherwise than PostgreSQL.
//!
//! A [`Function`] is a name with the types of arguments that it takes, as rows of PostgreSQL's
//! `pg_proc`, and what it does to one row of values. This module chooses among them as PostgreSQL
//! does (its manual, chapter 10.3), converts the arguments by the rules of [`super::cast`], and
//! carries the function out for a batch. Both executors, `INSERT` and `UPDATE` reach them through
//! it.
//!
//! `FUNCTION-1`: once the arguments have the types that were chosen, choosing again gives the same.
//!
//! In reading order: [`kind`] (types of arguments), [`column`] (a batch of results), then the
//! functions: [`pattern`] with [`regex_syntax`] and [`pattern_rows`], [`bytes`] with [`digest`],
//! [`texts`] with [`keywords`], [`format`], [`numbers`] with [`exact`], [`times`] with
//! [`calendar`], [`intervals`], [`json`] with [`json_changes`], [`json_made`] and [`json_rows`],
//! [`arrays`], [`sequences`], [`settings`], [`coordination`], [`privileges`], and the patterns of
//! `to_char` and `to_date`: [`number_format`], [`time_format`], [`time_written`], [`time_read`].

mod arrays;
mod bytes;
mod calendar;
mod column;
mod coordination;
mod digest;
pub(crate) mod exact;
mod format;
mod intervals;
mod json;
mod json_changes;
mod json_made;
pub(super) mod json_rows;
mod json_values;
mod keywords;
mod kind;
mod number_format;
mod numbers;
mod pattern;
mod pattern_rows;
mod privileges;
mod regex_syntax;
mod sequences;
mod settings;
mod texts;
mod time_format;
mod time_read;
mod time_written;
mod times;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::typed::Typed;
use super::{merged_type, plan_error};
use crate::arrow_value;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::json::Form;
use crate::literal::Literal;
use crate::query_error::external;
use crate::sequence::context::{self, Context};
use kind::{Argument, Kind};

pub(crate) use arrays::{ORDINALS, SUBSCRIPTS, of_operator as of_array_operator};
pub(crate) use column::of as column_of;
pub(crate) use json::{check_literal as check_json, of_operator as of_json_operator};
pub(crate) use pattern::like_escape;
pub(crate) use pattern_rows::MATCHES;

/// A function of this name.
pub(crate) struct Function {
    name: &'static str,
    overloads: &'static [Overload],
}

/// The types of arguments that a function takes, and what it does to them.
struct Overload {
    takes: &'static [Kind],
    /// The type of any number of arguments behind those.
    rest: Option<Kind>,
    gives: Gives,
    nulls: Nulls,
    run: Run,
}

/// How a call is carried out.
enum Run {
    /// Row by row.
    Rows(fn(&[Literal]) -> Result<Literal, SqlError>),
    /// As another expression over the same arguments, which are not converted.
    Rewrite(fn(Vec<Typed>) -> Result<Expr>),
    /// By a function of DataFusion that does the same, and quicker.
    Builtin(fn() -> Arc<ScalarUDF>),
}

/// The type of a result.
enum Gives {
    Kind(Kind),
    /// A numeric with as many digits behind the point as follow from those of the arguments.
    Scale(fn(&[u8]) -> u8),
    /// A numeric with as many digits behind the point as the field has that the first argument
    /// names.
    Field(fn(&str) -> u8),
    /// The type of the first array among the arguments.
    List,
    /// The type of its elements.
    Item,
    /// An array of integers.
    Ints,
}

/// What a function does where an argument is NULL.
#[derive(PartialEq)]
enum Nulls {
    /// Its result is NULL.
    Pass,
    /// It looks at them.
    See,
}

/// A function that gives NULL for NULL.
const fn strict(
    takes: &'static [Kind],
    gives: Kind,
    run: fn(&[Literal]) -> Result<Literal, SqlError>,
) -> Overload {
    let run = Run::Rows(run);
    Overload { takes, rest: None, gives: Gives::Kind(gives), nulls: Nulls::Pass, run }
}

/// A function that DataFusion has.
const fn builtin(
    takes: &'static [Kind],
    gives: Kind,
    function: fn() -> Arc<ScalarUDF>,
) -> Overload {
    let run = Run::Builtin(function);
    Overload { takes, rest: None, gives: Gives::Kind(gives), nulls: Nulls::Pass, run }
}

/// The functions of this module.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let all = [
        pattern::FUNCTIONS,
        pattern_rows::FUNCTIONS,
        bytes::FUNCTIONS,
        texts::FUNCTIONS,
        format::FUNCTIONS,
        numbers::FUNCTIONS,
        times::FUNCTIONS,
        intervals::FUNCTIONS,
        json::FUNCTIONS,
        json_rows::FUNCTIONS,
        arrays::FUNCTIONS,
        sequences::FUNCTIONS,
        settings::FUNCTIONS,
        coordination::LOCKS,
        coordination::FUNCTIONS,
        privileges::FUNCTIONS,
    ];
    all.into_iter().flatten().map(|function| ScalarUDF::from(Call::new(function))).collect()
}

/// A call of a function of this module by its name.
///
/// # Errors
/// There is none for these types.
pub(crate) fn call(name: &str, arguments: Vec<Typed>) -> Result<Expr> {
    let Some(function) = functions().into_iter().find(|one| one.name() == name) else {
        return internal_err!("there is no function {name}");
    };
    match function.inner().downcast_ref::<Call>() {
        Some(call) => call.over(arguments),
        None => internal_err!("{name} is not a function of this module"),
    }
}

/// A value that a function does not take, with its SQLSTATE.
fn refused(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::Type, message).with_state(state)
}

/// A [`Function`] as DataFusion calls it.
pub(crate) struct Call {
    function: &'static Function,
    signature: Signature,
    /// The overload, once the arguments have the types that it takes (`FUNCTION-1`).
    chosen: Option<usize>,
    /// The session that it asks sequences in, on a thread that has none (`CONTEXT-1`).
    context: Option<Arc<Context>>,
}

impl Call {
    /// Whether it fails for some values. Of few functions it is known that they never do.
    pub(crate) fn can_fail(&self) -> bool {
        self.function.name != "array_element"
    }

    fn new(function: &'static Function) -> Self {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let of_session = [sequences::has, settings::has, coordination::has, privileges::has];
        let volatility = match of_session.iter().any(|has| has(function.name)) {
            true => Volatility::Volatile,
            false => Volatility::Immutable,
        };
        let signature = Signature::one_of(any, volatility);
        Self { function, signature, chosen: None, context: None }
    }

    fn is_volatile(&self) -> bool {
        self.signature.volatility == Volatility::Volatile
    }

    /// The call with arguments that have the types that the function takes.
    ///
    /// # Errors
    /// It takes none of these types; a quoted literal that is no value of the type.
    pub(crate) fn over(&self, arguments: Vec<Typed>) -> Result<Expr> {
        let arguments = arguments.into_iter().map(Typed::narrowed).collect::<Result<Vec<_>>>()?;
        let known: Vec<Argument<'_>> = arguments.iter().map(Argument::of).collect();
        let chosen = self.search(&known)?;
        let overload = &self.function.overloads[chosen];
        if let Run::Rewrite(rewrite) = overload.run {
            return rewrite(arguments);
        }
        let is_builtin = matches!(overload.run, Run::Builtin(_));
        let common = common_item(overload, &known);
        let wanted = known.iter().enumerate().map(|(at, one)| match overload.kind(at) {
            // Theirs count in 64 bits.
            Kind::Int32 if is_builtin => ArrowType::Int64,
            Kind::Array => list_of(common.clone()),
            Kind::Element => common.clone(),
            kind => one.wanted(kind),
        });
        let wanted: Vec<ArrowType> = wanted.collect();
        let forms = (0..wanted.len()).map(|at| overload.kind(at).json());
        let wanted = wanted.iter().cloned().zip(forms);
        let converted = arguments.into_iter().zip(wanted).map(|(argument, (wanted, json))| {
            let argument = match (argument.is_open_parameter(), json) {
                (true, Some(form)) => argument.into_json(form)?,
                (false, Some(form)) if argument.untyped().is_some() => argument.into_json(form)?,
                (true, None) => argument.with_parameter_type(&wanted),
                (false, _) => argument,
            };
            argument.into_type(&wanted).map(|one| one.expr)
        });
        let call = match overload.run {
            Run::Builtin(function) => function(),
            _ => {
                let context = if self.is_volatile() { context::current() } else { None };
                let chosen = Some(chosen);
                Arc::new(ScalarUDF::from(Self { chosen, context, ..Self::new(self.function) }))
            }
        };
        Ok(call.call(converted.collect::<Result<_>>()?))
    }

    /// The overload for arguments: as in PostgreSQL the one with the fewest conversions, and of
    /// those the one with the preferred types.
    fn search(&self, arguments: &[Argument<'_>]) -> Result<usize> {
        let overloads = self.function.overloads.iter().enumerate();
        let possible = overloads.filter_map(|(at, one)| Some((one.distance(arguments)?, at)));
        match possible.min() {
            Some((_, at)) => Ok(at),
            None => Err(external(no_function(self.function.name, arguments))),
        }
    }

    /// The overload that was chosen, or the one for arguments.
    fn overload(&self, arguments: &[Argument<'_>]) -> Result<&'static Overload> {
        let at = self.chosen.map_or_else(|| self.search(arguments), Ok)?;
        Ok(&self.function.overloads[at])
    }
}

/// The error for a function that takes no arguments of these types.
pub(crate) fn takes_none(name: &str, arguments: &[Typed]) -> DataFusionError {
    let arguments: Vec<Argument<'_>> = arguments.iter().map(Argument::of).collect();
    external(no_function(name, &arguments))
}

/// The type of the elements of the first array.
fn item_type(arguments: &[Argument<'_>]) -> ArrowType {
    let item = arguments.iter().find_map(Argument::item);
    item.cloned().unwrap_or(ArrowType::Utf8View)
}

/// The type that the elements of arrays, and the values beside them, have in common.
fn common_item(overload: &Overload, arguments: &[Argument<'_>]) -> ArrowType {
    let types = arguments.iter().enumerate().filter_map(|(at, one)| match overload.kind(at) {
        Kind::Array => one.item().filter(|item| !item.is_null()),
        Kind::Element => one.arrow(),
        _ => None,
    });
    let types: Vec<&ArrowType> = types.collect();
    let merged = merged_type::merged(types.iter().copied());
    merged.or_else(|| types.first().map(|one| (*one).clone())).unwrap_or(ArrowType::Utf8View)
}

fn list_of(item: ArrowType) -> ArrowType {
    ArrowType::List(Arc::new(Field::new_list_field(item, true)))
}

fn no_function(name: &str, arguments: &[Argument<'_>]) -> SqlError {
    let shown: Vec<String> = arguments.iter().map(Argument::shown).collect();
    let name = if name == "date_trunc_interval" { "date_trunc" } else { name };
    let message = format!("function {name}({}) does not exist", shown.join(", "));
    SqlError::new(SqlErrorKind::Query, message)
        .with_cause(Cause::NoSuchOperator)
        .with_hint(Some(format!("cast the arguments to types that {name} takes")))
}

impl Overload {
    fn kind(&self, at: usize) -> Kind {
        self.takes.get(at).copied().or(self.rest).unwrap_or(Kind::Any)
    }

    /// How far the types of arguments are from those that it takes, if it takes them.
    fn distance(&self, arguments: &[Argument<'_>]) -> Option<u32> {
        let count = arguments.len();
        let fits = count == self.takes.len() || count > self.takes.len() && self.rest.is_some();
        if !fits {
            return None;
        }
        arguments.iter().enumerate().map(|(at, one)| one.distance(self.kind(at))).sum()
    }

    /// The type of the result for arguments of the types that it takes.
    fn result(&self, arguments: &[Argument<'_>]) -> ArrowType {
        match &self.gives {
            Gives::Kind(kind) => kind.arrow(),
            Gives::List => list_of(item_type(arguments)),
            Gives::Item => item_type(arguments),
            Gives::Ints => list_of(ArrowType::Int32),
            Gives::Field(scale) => {
                let name = arguments.first().and_then(Argument::untyped);
                kind::numeric(name.map_or(0, scale))
            }
            Gives::Scale(scale) => {
                let scales: Vec<u8> = arguments.iter().map(Argument::scale).collect();
                kind::numeric(scale(&scales))
            }
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Call").field(&self.function.name).finish()
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name && self.chosen == other.chosen
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
        self.chosen.hash(state);
    }
}

impl ScalarUDFImpl for Call {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let arguments: Vec<Argument<'_>> = arguments.iter().map(Argument::bare).collect();
        Ok(self.overload(&arguments)?.result(&arguments))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let fields = args.arg_fields.iter().zip(args.scalar_arguments);
        let arguments: Vec<Argument<'_>> =
            fields.map(|(field, scalar)| Argument::planned(field, *scalar)).collect();
        let overload = self.overload(&arguments)?;
        let field = Field::new(self.name(), overload.result(&arguments), true);
        Ok(Arc::new(match overload.gives {
            Gives::Kind(kind) if let Some(form) = kind.json() => form.mark(field),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let fields = args
            .args
            .iter()
            .zip(&args.arg_fields)
            .map(|(value, field)| field.as_ref().clone().with_data_type(value.data_type()));
        let fields: Vec<Field> = fields.collect();
        let arguments: Vec<Argument<'_>> = fields.iter().map(Argument::typed).collect();
        let overload = self.overload(&arguments)?;
        let Run::Rows(run) = overload.run else {
            return internal_err!("{} is replaced before it could be called", self.name());
        };
        let is_constant = |one: &ColumnarValue| matches!(one, ColumnarValue::Scalar(_));
        let is_scalar = !self.is_volatile() && args.args.iter().all(is_constant);
        let call = |row: &[Literal]| match &self.context {
            Some(context) if context::current().is_none() => context::with(context, || run(row)),
            _ => run(row),
        };
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns: Vec<Input> = args.args.into_iter().map(Input::new).collect::<Result<_>>()?;
        let is_json: Vec<bool> =
            fields.iter().map(|field| Form::of_field(field).is_some()).collect();
        let mut results = Vec::with_capacity(rows);
        let mut row: Vec<Literal> = columns.iter().map(Input::constant).collect();
        for (value, is_json) in row.iter_mut().zip(&is_json) {
            as_json(value, *is_json);
        }
        for at in 0..rows {
            for ((value, column), is_json) in row.iter_mut().zip(&columns).zip(&is_json) {
                if let Input::Each(array) = column {
                    let read = arrow_value::at(array.as_ref(), at);
                    *value = read.map_err(|reason| plan_error(SqlErrorKind::Type, reason))?;
                    as_json(value, *is_json);
                }
            }
            let passes = overload.nulls == Nulls::Pass && row.contains(&Literal::Null);
            results.push(if passes { Literal::Null } else { call(&row).map_err(external)? });
        }
        let results = column::of(results, args.return_field.data_type()).map_err(external)?;
        match is_scalar {
            true => ScalarValue::try_from_array(&results, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(results)),
        }
    }
}

/// A text that is JSON as such.
fn as_json(value: &mut Literal, is_json: bool) {
    if let (Literal::Text(text), true) = (&mut *value, is_json) {
        *value = Literal::Json(std::mem::take(text));
    }
}

/// An argument for the rows of a batch.
enum Input {
    Same(Literal),
    Each(ArrayRef),
}

impl Input {
    fn new(value: ColumnarValue) -> Result<Self> {
        let fault = |reason: String| plan_error(SqlErrorKind::Type, reason);
        Ok(match value {
            ColumnarValue::Array(array) => Self::Each(arrow_value::plain(&array).map_err(fault)?),
            ColumnarValue::Scalar(value) => {
                Self::Same(arrow_value::at(value.to_array()?.as_ref(), 0).map_err(fault)?)
            }
        })
    }

    fn constant(&self) -> Literal {
        match self {
            Self::Same(value) => value.clone(),
            Self::Each(_) => Literal::Null,
        }
    }
}
