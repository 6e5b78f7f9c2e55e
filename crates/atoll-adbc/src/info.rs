//! What the driver says of itself.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray,
    new_empty_array,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

use crate::errors::Result;

/// A value, of one of the types of the union that ADBC defines.
enum Value {
    Text(&'static str),
    Truth(bool),
    Number(i64),
}

/// The facts that are asked for, by default all; unknown codes are left out.
pub(crate) fn info(codes: Option<&HashSet<InfoCode>>) -> Result<RecordBatch> {
    let version = env!("CARGO_PKG_VERSION");
    let facts = [
        (InfoCode::VendorName, Value::Text("Atoll")),
        (InfoCode::VendorVersion, Value::Text(version)),
        (InfoCode::VendorSql, Value::Truth(true)),
        (InfoCode::VendorSubstrait, Value::Truth(false)),
        (InfoCode::DriverName, Value::Text("Atoll ADBC driver")),
        (InfoCode::DriverVersion, Value::Text(version)),
        (InfoCode::DriverAdbcVersion, Value::Number(ADBC_VERSION_1_1_0.into())),
    ];
    let (mut names, mut kinds, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut truths, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, value) in facts {
        if codes.is_some_and(|codes| !codes.contains(&code)) {
            continue;
        }
        names.push(u32::from(&code));
        let (kind, place) = match value {
            Value::Text(text) => (0_i8, push(&mut texts, text)),
            Value::Truth(truth) => (1, push(&mut truths, truth)),
            Value::Number(number) => (2, push(&mut numbers, number)),
        };
        kinds.push(kind);
        places.push(place);
    }
    let DataType::Union(fields, _) = GET_INFO_SCHEMA.field(1).data_type() else {
        unreachable!("the schemas of ADBC are fixed");
    };
    let mut children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(truths)),
        Arc::new(Int64Array::from(numbers)),
    ];
    children.extend(fields.iter().skip(3).map(|(_, field)| new_empty_array(field.data_type())));
    let (kinds, places) = (ScalarBuffer::from(kinds), ScalarBuffer::from(places));
    let values = UnionArray::try_new(fields.clone(), kinds, Some(places), children)?;
    let columns = vec![Arc::new(UInt32Array::from(names)) as ArrayRef, Arc::new(values)];
    Ok(RecordBatch::try_new(Arc::clone(&GET_INFO_SCHEMA), columns)?)
}

/// Appends a value and returns its place.
fn push<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    values.len() as i32 - 1
}
