//! Texts with a limit of characters in expressions.
//!
//! An expression of the type `varchar(n)` is a text. One of `character(n)` has the extension type
//! [`atoll::CHARACTER`] in its field; its values are as they are stored, without the blanks at
//! their end (`LENGTH-1`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringViewArray};
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use atoll::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::typed::Typed;
use crate::lengths::{self, as_character, character, padded_array};

/// Marks the type `varchar(n)` in a cast.
const VARCHAR: &str = "atoll.varchar";

/// The type of a cast to a text with a limit.
pub(crate) fn wanted(data_type: DataType) -> Option<Field> {
    let field = Field::new("", ArrowType::Utf8View, true);
    match data_type {
        DataType::Varchar(most) => {
            let mark = (VARCHAR.to_owned(), most.to_string());
            Some(field.with_metadata([mark].into()))
        }
        DataType::Char(most) => Some(as_character(field, most)),
        _ => None,
    }
}

/// The limit to which a cast cuts.
pub(crate) fn limit_of(field: &Field) -> Option<DataType> {
    let varchar = field.metadata().get(VARCHAR).and_then(|most| most.parse().ok());
    varchar.map(DataType::Varchar).or_else(|| character(field).map(DataType::Char))
}

/// The values of a `character(n)` as texts with the blanks at their end, as `LIKE` sees them.
pub(crate) fn shown(value: Typed) -> Expr {
    match value.character {
        Some(most) => {
            let signature = Signature::any(1, Volatility::Immutable);
            ScalarUDF::from(Pad { most, signature }).call(vec![value.expr])
        }
        None => value.expr,
    }
}

/// What was merged of values that are all a `character(n)` of one length is one too.
pub(crate) fn merged(expr: Expr, characters: &[Option<u32>]) -> Expr {
    match characters {
        [Some(most), rest @ ..] if rest.iter().all(|one| *one == Some(*most)) => {
            cut(expr, DataType::Char(*most))
        }
        _ => expr,
    }
}

/// A cast that is written to a text with a limit.
///
/// # Errors
/// A value that is no text and has no cast to one.
pub(crate) fn cast(value: Typed, to: DataType) -> Result<Expr> {
    let text = match value.is_open_parameter() {
        true => value.with_parameter_type(&ArrowType::Utf8View),
        false => value.into_type(&ArrowType::Utf8View)?,
    };
    Ok(cut(text.expr, to))
}

/// A text cut to its limit.
pub(crate) fn cut(text: Expr, to: DataType) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Cut { to, signature }).call(vec![text])
}

/// The function of a cast to a text with a limit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cut {
    to: DataType,
    signature: Signature,
}

impl Cut {
    fn array(&self, texts: &ArrayRef) -> Result<ArrayRef> {
        let texts = arrow_cast::cast(texts, &ArrowType::Utf8View)?;
        let cut = |text| lengths::cut(text, self.to);
        let texts = texts.as_string_view().iter().map(|text| text.map(cut));
        Ok(Arc::new(texts.collect::<StringViewArray>()))
    }
}

/// The function of [`shown`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pad {
    most: u32,
    signature: Signature,
}

impl ScalarUDFImpl for Pad {
    fn name(&self) -> &str {
        "pad"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Utf8View)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = as_character(Field::new("", ArrowType::Utf8View, true), self.most);
        let texts = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(padded_array(&texts, &field)))
    }
}

impl ScalarUDFImpl for Cut {
    fn name(&self) -> &str {
        "cut"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let field = Field::new(self.name(), ArrowType::Utf8View, nullable);
        Ok(Arc::new(match self.to {
            DataType::Char(most) => as_character(field, most),
            _ => field,
        }))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", arguments[0], self.to))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(texts)] => self.array(texts).map(ColumnarValue::Array),
            [ColumnarValue::Scalar(text)] => {
                let array = self.array(&text.to_array()?)?;
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
            _ => internal_err!("a cast has one argument"),
        }
    }
}
