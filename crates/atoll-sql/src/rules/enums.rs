//! Values of enums in expressions (`ENUM-1`): what they have, and no operator or function that only
//! timestamps have.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_schema::{DataType as ArrowType, Field};
use atoll::Labels;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast as ArrowCast, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility, lit,
};

use super::cast::Cast;
use super::typed::Typed;
use crate::enums::{self, label};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::parse::MARK;
use crate::query_error::external;

/// The type of labels in arrays.
const TEXT: ArrowType = ArrowType::Utf8View;

/// The functions of this module.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    [Ask::First, Ask::Last, Ask::Range].map(|ask| ScalarUDF::from(OfEnum::new(ask))).to_vec()
}

/// The enum of an expression.
pub(crate) fn labels_of(value: &Typed) -> Option<Labels> {
    enums::of(&value.arrow)
}

/// Checks an operator of which an operand is an enum.
///
/// # Errors
/// It is none of enums.
pub(crate) fn check_operator(left: &Typed, op: Operator, right: &Typed) -> Result<()> {
    let is_enum = |side: &Typed| labels_of(side).is_some();
    let has_it = match op {
        Operator::StringConcat => left.is_text() || right.is_text(),
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom => true,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => true,
        op => op == Operator::IsNotDistinctFrom,
    };
    if has_it || !is_enum(left) && !is_enum(right) {
        return Ok(());
    }
    let message = format!("{} {op} {} has no meaning", left.type_name(), right.type_name());
    Err(no_operator(message))
}

/// The error of an operator that enums do not have.
pub(crate) fn no_operator(message: String) -> DataFusionError {
    let error = SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::NoSuchOperator);
    external(error.with_hint(Some("cast the enum, as in CAST(x AS text)".to_owned())))
}

/// Checks the arguments of a function that is none of those which take any type.
///
/// # Errors
/// One is an enum.
pub(crate) fn check_arguments<'a>(
    name: &str,
    arguments: impl Iterator<Item = &'a Typed> + Clone,
) -> Result<()> {
    if !arguments.clone().any(|one| labels_of(one).is_some()) {
        return Ok(());
    }
    Err(no_function(name, arguments))
}

fn no_function<'a>(name: &str, arguments: impl Iterator<Item = &'a Typed>) -> DataFusionError {
    let types: Vec<String> = arguments.map(Typed::type_name).collect();
    no_operator(format!("function {name}({}) does not exist", types.join(", ")))
}

/// Whether an aggregate, or a function over a window, takes values of any type.
pub(crate) fn takes_any(name: &str) -> bool {
    matches!(
        name,
        "count" | "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead"
    )
}

/// `enum_first`, `enum_last` and `enum_range` of arguments with these types; `None` for another
/// function.
///
/// # Errors
/// The arguments are of no enum, or of two.
pub(crate) fn call(name: &str, arguments: &[Typed]) -> Option<Result<Expr>> {
    let ask = [Ask::First, Ask::Last, Ask::Range].into_iter().find(|ask| ask.name() == name)?;
    let has_type = |one: &Typed| one.untyped().is_none() && !one.arrow.is_null();
    if arguments.iter().any(|one| has_type(one) && labels_of(one).is_none()) {
        return Some(Err(no_function(name, arguments.iter())));
    }
    let mut of = arguments.iter().filter_map(labels_of);
    let Some(labels) = of.next().filter(|first| of.all(|other| other == *first)) else {
        let message = "could not determine actual enum type";
        return Some(Err(external(SqlError::new(SqlErrorKind::Type, message).with_state("42804"))));
    };
    let all = labels.labels();
    let code = match ask {
        Ask::First => 0,
        Ask::Last => all.len().saturating_sub(1),
        Ask::Range => {
            let arguments = arguments.iter().map(|one| match one.arrow.is_null() {
                true => null_of(labels),
                false => Ok(one.expr.clone()),
            });
            let call = |arguments| ScalarUDF::from(OfEnum::new(ask)).call(arguments);
            return Some(arguments.collect::<Result<_>>().map(call));
        }
    };
    if all.is_empty() {
        let message = format!("enum {} contains no values", labels.shown());
        return Some(Err(external(SqlError::new(SqlErrorKind::Type, message).with_state("55000"))));
    }
    let zone = match enums::arrow(labels) {
        ArrowType::Timestamp(_, zone) => zone,
        _ => None,
    };
    Some(Ok(lit(ScalarValue::TimestampSecond(Some(code as i64), zone))))
}

fn null_of(labels: Labels) -> Result<Expr> {
    Ok(lit(ScalarValue::try_from(&enums::arrow(labels))?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ask {
    First,
    Last,
    Range,
}

impl Ask {
    fn name(self) -> &'static str {
        match self {
            Self::First => "enum_first",
            Self::Last => "enum_last",
            Self::Range => "enum_range",
        }
    }
}

/// A function about the labels of an enum.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEnum {
    ask: Ask,
    signature: Signature,
}

impl OfEnum {
    fn new(ask: Ask) -> Self {
        let signature = match ask {
            Ask::First | Ask::Last => Signature::any(1, Volatility::Immutable),
            Ask::Range => {
                let any = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
                Signature::one_of(any, Volatility::Immutable)
            }
        };
        Self { ask, signature }
    }
}

impl ScalarUDFImpl for OfEnum {
    fn name(&self) -> &str {
        self.ask.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(match self.ask {
            Ask::First | Ask::Last => arguments[0].clone(),
            Ask::Range => {
                ArrowType::List(Arc::new(Field::new_list_field(ArrowType::Utf8View, true)))
            }
        })
    }

    /// The labels of a range, of which each end may be open.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ends = args.args.iter().map(|end| end.to_array(args.number_rows));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let labels = ends.first().and_then(|end| enums::of(end.data_type()));
        let (Ask::Range, Some(labels)) = (self.ask, labels) else {
            return internal_err!("{} is replaced before it could be called", self.name());
        };
        let all = labels.labels();
        let code = |end: usize, row: usize| {
            let end = ends.get(end).filter(|end| end.is_valid(row))?;
            usize::try_from(labels.code(label(end, row)?)?).ok()
        };
        let mut ranges = ListBuilder::new(StringViewBuilder::new());
        for row in 0..args.number_rows {
            let (from, to) = match ends.len() {
                // The one argument only says of which type.
                1 => (0, all.len()),
                _ => (code(0, row).unwrap_or(0), code(1, row).map_or(all.len(), |to| to + 1)),
            };
            all.get(from..to).unwrap_or_default().iter().for_each(|one| {
                ranges.values().append_value(one);
            });
            ranges.append(true);
        }
        Ok(ColumnarValue::Array(Arc::new(ranges.finish())))
    }
}

/// The error for values of different types that become one.
pub(crate) fn apart(what: &str, one: &ArrowType, other: &ArrowType) -> DataFusionError {
    let name = |arrow: &ArrowType| Typed::of(lit(0), arrow.clone()).type_name();
    let message = format!("{what} types {} and {} cannot be matched", name(one), name(other));
    external(SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::OtherType))
}

/// Values of enums as their labels, where an array is made of them. [`out_of_array`] finds the
/// values again: around the cast to a text is one more, which no written cast has.
pub(crate) fn in_array(values: Vec<Typed>) -> Vec<Typed> {
    let text = |value: Typed| match labels_of(&value) {
        Some(_) => {
            let label = ScalarUDF::from(Cast::new(TEXT)).call(vec![value.expr]);
            Typed::of(Expr::Cast(ArrowCast::new(Box::new(label), TEXT)), TEXT)
        }
        None => value,
    };
    values.into_iter().map(text).collect()
}

/// The value of which [`in_array`] has made this element of an array; any other element as it is.
pub(crate) fn out_of_array(element: Expr) -> Expr {
    match element {
        Expr::Cast(ArrowCast { expr, field }) => match *expr {
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if func.inner().is::<Cast>() && args.len() == 1 =>
            {
                args.swap_remove(0)
            }
            inner => Expr::Cast(ArrowCast { expr: Box::new(inner), field }),
        },
        other => other,
    }
}

/// An array of texts as one of the labels of an enum.
pub(crate) fn labels_in(array: Expr, labels: Labels) -> Expr {
    ScalarUDF::from(LabelsIn::new(labels)).call(vec![array])
}

/// A function that returns an array of texts, of which each must be a label.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LabelsIn {
    name: String,
    labels: Labels,
    signature: Signature,
}

impl LabelsIn {
    fn new(labels: Labels) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        Self { name: format!("{MARK}labels"), labels, signature }
    }
}

impl ScalarUDFImpl for LabelsIn {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arrays] = args.args.as_slice() else {
            return internal_err!("one argument is expected");
        };
        let arrays = arrays.to_array(args.number_rows)?;
        for array in arrays.as_list::<i32>().iter().flatten() {
            for text in arrow_cast::cast(&array, &TEXT)?.as_string_view().iter().flatten() {
                let of_text = |reason| external(SqlError::new(SqlErrorKind::Type, reason));
                enums::parse(text, self.labels).map_err(of_text)?;
            }
        }
        Ok(ColumnarValue::Array(arrays))
    }
}
