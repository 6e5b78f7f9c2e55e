//! The Arrow types of columns, and what tells them apart where the types of Arrow do not.

use std::sync::Arc;

use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{Field, IntervalUnit, TimeUnit};
use atoll_storage::{Column, DataType};

/// The Arrow type of a column's values in a snapshot.
pub fn arrow_type(data_type: DataType) -> arrow_schema::DataType {
    match data_type {
        DataType::Int16 => arrow_schema::DataType::Int16,
        DataType::Int32 => arrow_schema::DataType::Int32,
        DataType::Int64 => arrow_schema::DataType::Int64,
        DataType::Float32 => arrow_schema::DataType::Float32,
        DataType::Float64 => arrow_schema::DataType::Float64,
        DataType::Bool => arrow_schema::DataType::Boolean,
        DataType::Date => arrow_schema::DataType::Date32,
        DataType::Timestamp => arrow_schema::DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal { precision, scale } => {
            arrow_schema::DataType::Decimal128(precision, scale as i8)
        }
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Json
        | DataType::Jsonb => arrow_schema::DataType::Utf8View,
        DataType::Interval => arrow_schema::DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Array(_) => {
            let item = data_type.element().map_or(arrow_schema::DataType::Null, arrow_type);
            arrow_schema::DataType::List(Arc::new(Field::new_list_field(item, true)))
        }
        DataType::Binary => arrow_schema::DataType::BinaryView,
        DataType::FixedBinary(width) => arrow_schema::DataType::FixedSizeBinary(width as i32),
        DataType::TimestampTz => {
            arrow_schema::DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
        }
        DataType::Time => arrow_schema::DataType::Time64(TimeUnit::Microsecond),
        DataType::Uuid => arrow_schema::DataType::FixedSizeBinary(16),
        DataType::Enum(_) => arrow_schema::DataType::Dictionary(
            Box::new(arrow_schema::DataType::Int32),
            Box::new(arrow_schema::DataType::Utf8),
        ),
    }
}

/// The time zone of instants in Arrow.
pub const UTC: &str = "UTC";
/// The extension type of a field of `character(n)`, which has `n` as its metadata.
pub const CHARACTER: &str = "atoll.character";
/// The extension type of a field of `binary(16)`, which could be taken for that of a UUID.
pub const BINARY: &str = "atoll.binary";
/// The extension type of a field of an enum, which has its name and its labels, each behind a
/// control character U+0001, as its metadata.
pub const ENUM: &str = "atoll.enum";
/// Arrow's own extension type of texts in the JSON format.
pub const JSON: &str = "arrow.json";
/// The key in the metadata of a field of the type [`JSON`] that tells a `jsonb` from a `json`.
pub const JSONB: &str = "atoll.jsonb";
/// Arrow's own extension type of UUIDs.
pub const UUID: &str = "arrow.uuid";

/// The Arrow field of a column in a snapshot. An extension type tells what its Arrow type does not.
pub fn arrow_field(column: &Column) -> Field {
    let field = Field::new(&column.name, arrow_type(column.data_type), column.nullable);
    let (name, parameter) = match column.data_type {
        DataType::Uuid => (UUID, None),
        DataType::FixedBinary(16) => (BINARY, None),
        DataType::Char(characters) => (CHARACTER, Some(characters.to_string())),
        DataType::Enum(labels) => (ENUM, Some(labels.text().to_owned())),
        DataType::Json | DataType::Jsonb => (JSON, Some(String::new())),
        _ => return field,
    };
    let field = if name == ENUM { field.with_dict_is_ordered(true) } else { field };
    let name = (EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
    let parameter = parameter.map(|text| (EXTENSION_TYPE_METADATA_KEY.to_owned(), text));
    let is_jsonb = column.data_type == DataType::Jsonb;
    let jsonb = is_jsonb.then(|| (JSONB.to_owned(), String::new()));
    field.with_metadata([name].into_iter().chain(parameter).chain(jsonb).collect())
}
