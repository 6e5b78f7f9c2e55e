//! Functions that a decorrelated plan calls.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BinaryArray};
use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::parse::MARK;
use crate::query_error::external;

/// One value for the values of several columns, never NULL: two are equal if all columns are, where
/// NULL equals NULL.
///
/// A join compares it by a plain equality. One that takes NULL for a value loses that when
/// DataFusion puts it into another order (its `EliminateCrossJoin`).
pub(super) fn key(columns: Vec<Expr>) -> Expr {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::from(Key { name: format!("{MARK}key"), signature }).call(columns)
}

/// The value of the only row, of which there are `count`.
pub(super) fn only(value: Expr, count: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::from(Only { name: format!("{MARK}only"), signature }).call(vec![value, count])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Binary)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), ArrowType::Binary, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let types = arrays.iter().map(|array| SortField::new(array.data_type().clone()));
        let converter = RowConverter::new(types.collect())?;
        let keys: BinaryArray = converter.convert_columns(&arrays)?.try_into_binary()?;
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for Only {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, count] = args.args.as_slice() else {
            return internal_err!("a value and a count are expected");
        };
        let counts: ArrayRef = count.to_array(args.number_rows)?;
        if counts.as_primitive::<Int64Type>().iter().flatten().any(|count| count > 1) {
            let message = "more than one row returned by a subquery used as an expression";
            let error = SqlError::new(SqlErrorKind::Query, message);
            return Err(external(error.with_cause(Cause::SecondRow)));
        }
        Ok(value.clone())
    }
}
