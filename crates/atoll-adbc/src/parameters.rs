//! Bound Arrow data as values of the parameters of statements.
//!
//! The columns of the data are the parameters `$1`, `$2`, … in their order. If their names are
//! numbers, with or without `$` or `:` before them, these count: from 0, as in Python's database
//! interface, or from 1, as in SQL.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, LargeListArray, RecordBatchReader};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as ArrowType, Field, Schema, TimeUnit};
use atoll_sql::{Literal, in_words_of_sql};

use crate::errors::{Result, error, of_source, unsupported, wrong_argument};
use adbc_core::error::Status;

/// The values of a statement, a list for each row of the data. `by_name` says that the names of the
/// columns count, so that columns without a number are refused.
pub(crate) fn lists(reader: impl RecordBatchReader, by_name: bool) -> Result<Vec<Vec<Literal>>> {
    let order = order(&reader.schema(), by_name)?;
    let mut lists = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| of_source(&error))?;
        let columns = order.iter().enumerate();
        let columns = columns.map(|(at, column)| plain(batch.column(*column), at));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            lists.push(columns.iter().map(|column| value(column, row)).collect());
        }
    }
    Ok(lists)
}

/// For each parameter the position of its column.
fn order(schema: &Schema, by_name: bool) -> Result<Vec<usize>> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let numbers: Option<Vec<usize>> = names.clone().map(number).collect();
    for first in [0, 1] {
        let places = numbers.iter().flat_map(|numbers| {
            let place = |wanted| numbers.iter().position(|number| *number == wanted);
            (first..first + numbers.len()).map(place).collect::<Option<Vec<usize>>>()
        });
        if let Some(places) = places.into_iter().next() {
            return Ok(places);
        }
    }
    if by_name {
        let names: Vec<&str> = names.collect();
        return Err(wrong_argument(format!(
            "there are no parameters {}: they have numbers, $1, $2 and so on; a ? has the next one",
            names.join(", ")
        )));
    }
    Ok((0..schema.fields().len()).collect())
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix([':', '$']).unwrap_or(name).parse().ok()
}

/// A column in one of the types that [`value`] reads.
fn plain(column: &ArrayRef, at: usize) -> Result<ArrayRef> {
    use ArrowType as T;
    let wanted = match column.data_type() {
        T::Dictionary(_, values) => return plain(&cast(column, values, at)?, at),
        T::RunEndEncoded(_, values) => return plain(&cast(column, values.data_type(), at)?, at),
        T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 | T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Decimal32(_, scale)
        | T::Decimal64(_, scale)
        | T::Decimal128(_, scale)
        | T::Decimal256(_, scale) => T::Decimal128(38, (*scale).max(0)),
        T::Utf8 | T::Utf8View => T::LargeUtf8,
        T::Binary | T::BinaryView | T::FixedSizeBinary(_) => T::LargeBinary,
        T::Date64 => T::Timestamp(TimeUnit::Microsecond, None),
        T::Timestamp(unit, zone) => {
            if *unit == TimeUnit::Nanosecond {
                check_micros(column, at)?;
            }
            T::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        known @ (T::Null
        | T::Boolean
        | T::Int64
        | T::Float32
        | T::Float64
        | T::LargeUtf8
        | T::LargeBinary
        | T::Date32) => known.clone(),
        T::List(_)
        | T::LargeList(_)
        | T::ListView(_)
        | T::LargeListView(_)
        | T::FixedSizeList(..) => {
            return lists_of(column, at);
        }
        other => {
            let told = in_words_of_sql(&other.to_string());
            let message = format!("parameter ${} has type {told}, which no column has", at + 1);
            return Err(unsupported(message));
        }
    };
    if wanted == *column.data_type() { Ok(column.clone()) } else { cast(column, &wanted, at) }
}

/// A column of lists as one of large lists, with elements that [`value`] reads.
fn lists_of(column: &ArrayRef, at: usize) -> Result<ArrayRef> {
    let element = match column.data_type() {
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::ListView(element)
        | ArrowType::LargeListView(element)
        | ArrowType::FixedSizeList(element, _) => element.clone(),
        _ => return Ok(column.clone()),
    };
    let large = cast(column, &ArrowType::LargeList(element), at)?;
    let lists = large.as_list::<i64>();
    let elements = plain(lists.values(), at)?;
    let element = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    let whole = LargeListArray::try_new(element, offsets, elements, nulls);
    Ok(Arc::new(whole.map_err(|error| of_source(&error))?))
}

fn cast(array: &ArrayRef, to: &ArrowType, at: usize) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &strict).map_err(|cause| {
        let told = in_words_of_sql(&cause.to_string());
        error(Status::InvalidData, "22003", format!("parameter ${}: {told}", at + 1))
    })
}

fn check_micros(column: &ArrayRef, at: usize) -> Result<()> {
    let instants = column.as_primitive::<TimestampNanosecondType>();
    match instants.iter().flatten().find(|instant| instant % 1000 != 0) {
        None => Ok(()),
        Some(odd) => {
            let what = format!("parameter ${} is finer than a microsecond: {odd} ns", at + 1);
            Err(error(Status::InvalidData, "22008", what))
        }
    }
}

/// A value of a column that [`plain`] has made.
fn value(column: &ArrayRef, row: usize) -> Literal {
    if column.is_null(row) {
        return Literal::Null;
    }
    match column.data_type() {
        ArrowType::Boolean => Literal::Bool(column.as_boolean().value(row)),
        ArrowType::Int64 => Literal::from(column.as_primitive::<Int64Type>().value(row)),
        ArrowType::Float32 => Literal::Real(column.as_primitive::<Float32Type>().value(row)),
        ArrowType::Float64 => Literal::Float(column.as_primitive::<Float64Type>().value(row)),
        ArrowType::Decimal128(_, scale) => {
            let digits = column.as_primitive::<Decimal128Type>().value(row);
            match u8::try_from(*scale) {
                Ok(scale) if scale > 0 => Literal::Decimal(digits, scale),
                _ => Literal::Integer(digits),
            }
        }
        ArrowType::LargeUtf8 => Literal::from(column.as_string::<i64>().value(row)),
        ArrowType::LargeBinary => Literal::from(column.as_binary::<i64>().value(row)),
        ArrowType::Date32 => Literal::Date(column.as_primitive::<Date32Type>().value(row)),
        ArrowType::Timestamp(..) => {
            Literal::Timestamp(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        ArrowType::LargeList(_) => {
            let items = column.as_list::<i64>().value(row);
            Literal::List((0..items.len()).map(|at| value(&items, at)).collect())
        }
        // A column of NULLs only.
        _ => Literal::Null,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::types::Int32Type;
    use arrow_array::{
        BooleanArray, Decimal128Array, FixedSizeListArray, Int8Array, ListArray, NullArray,
        RecordBatch, RecordBatchIterator, StringViewArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    fn order_of(names: &[&str], by_name: bool) -> Result<Vec<usize>> {
        let fields = names.iter().map(|name| Field::new(*name, ArrowType::Null, true));
        order(&Schema::new(fields.collect::<Vec<_>>()), by_name)
    }

    #[test]
    fn names_that_are_numbers_count() {
        for by_name in [false, true] {
            for names in [["0", "1"], ["1", "2"], ["$1", "$2"], [":1", ":2"], [":0", ":1"]] {
                assert_eq!(order_of(&names, by_name).unwrap(), [0, 1], "{names:?}");
                let turned = [names[1], names[0]];
                assert_eq!(order_of(&turned, by_name).unwrap(), [1, 0], "{turned:?}");
            }
        }
        assert_eq!(order_of(&["a", "b"], false).unwrap(), [0, 1]);
        assert_eq!(order_of(&["1", "3"], false).unwrap(), [0, 1]);
        assert_eq!(order_of(&["1", "1"], false).unwrap(), [0, 1]);
        for names in [["a", "b"], ["1", "3"]] {
            let error = order_of(&names, true).unwrap_err();
            assert_eq!(error.status, Status::InvalidArguments);
        }
    }

    fn values_of(column: impl Array + 'static) -> Result<Vec<Literal>> {
        let batch = RecordBatch::try_from_iter([("0", Arc::new(column) as ArrayRef)]).unwrap();
        let schema = batch.schema();
        let lists = lists(RecordBatchIterator::new([Ok(batch)], schema), false)?;
        Ok(lists.into_iter().flatten().collect())
    }

    fn int(value: i128) -> Literal {
        Literal::Integer(value)
    }

    #[test]
    fn values_keep_their_types() {
        assert_eq!(
            values_of(Int8Array::from(vec![Some(-1), None])).unwrap(),
            [int(-1), Literal::Null]
        );
        assert_eq!(values_of(UInt64Array::from(vec![u64::MAX])).unwrap(), [int(u64::MAX.into())]);
        assert_eq!(values_of(BooleanArray::from(vec![true])).unwrap(), [Literal::Bool(true)]);
        assert_eq!(values_of(StringViewArray::from(vec!["é"])).unwrap(), [Literal::from("é")]);
        assert_eq!(values_of(NullArray::new(2)).unwrap(), [Literal::Null, Literal::Null]);
        let money = Decimal128Array::from(vec![1250]).with_precision_and_scale(9, 2).unwrap();
        assert_eq!(values_of(money).unwrap(), [Literal::Decimal(1250, 2)]);
        let fine = values_of(TimestampNanosecondArray::from(vec![1_000, 1_001])).unwrap_err();
        assert!(fine.message.contains("finer than a microsecond: 1001 ns"), "{fine}");
        let exact = values_of(TimestampNanosecondArray::from(vec![1_000])).unwrap();
        assert_eq!(exact, [Literal::Timestamp(1)]);
    }

    #[test]
    fn lists_are_values() {
        let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let wanted =
            [Literal::List(vec![int(1), Literal::Null]), Literal::Null, Literal::List(Vec::new())];
        // A part of the column too.
        assert_eq!(values_of(lists.slice(1, 2)).unwrap(), wanted[1..]);
        assert_eq!(values_of(lists).unwrap(), wanted);
        let fixed = [Some(vec![Some(7), Some(8)])];
        let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(fixed, 2);
        assert_eq!(values_of(fixed).unwrap(), [Literal::List(vec![int(7), int(8)])]);
    }
}
