//! The types of columns, and which names of SQL and types of Arrow denote them.

use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};
use atoll::{BINARY, CHARACTERS_MAX, DataType};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as SqlType, ExactNumberInfo, TimezoneInfo,
};

use crate::domain_type;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::json::Form;
use crate::{enums, lengths};

/// Most digits of a decimal.
const DECIMAL_PRECISION_MAX: u8 = 38;

/// The type of a column that is declared with this name.
///
/// # Errors
/// A type that Atoll does not have, or a number with parameters out of range; the hint says what to
/// use. The width of `binary(n)` is checked where a schema is made.
pub(crate) fn column_type(name: &SqlType) -> Result<DataType, SqlError> {
    Ok(match name {
        SqlType::SmallInt(None) | SqlType::Int2(None) => DataType::Int16,
        SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) => DataType::Int32,
        SqlType::BigInt(None) | SqlType::Int8(None) => DataType::Int64,
        SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::DoublePrecision
        | SqlType::Float8
        | SqlType::Double(ExactNumberInfo::None)
        | SqlType::Float(ExactNumberInfo::None) => DataType::Float64,
        SqlType::Float(ExactNumberInfo::Precision(bits)) => float(*bits)?,
        SqlType::Bool | SqlType::Boolean => DataType::Bool,
        SqlType::Date => DataType::Date,
        SqlType::Timestamp(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp
        }
        SqlType::Timestamp(None | Some(6), TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            DataType::TimestampTz
        }
        SqlType::Time(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time
        }
        SqlType::Interval { fields: None, precision: None | Some(6) } => DataType::Interval,
        SqlType::Uuid => DataType::Uuid,
        SqlType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => array(element)?,
        SqlType::JSON => DataType::Json,
        SqlType::JSONB => DataType::Jsonb,
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(info)?,
        SqlType::Text
        | SqlType::Varchar(None)
        | SqlType::CharacterVarying(None)
        | SqlType::CharVarying(None)
        | SqlType::String(None) => DataType::Text,
        SqlType::Varchar(Some(limit))
        | SqlType::CharacterVarying(Some(limit))
        | SqlType::CharVarying(Some(limit)) => DataType::Varchar(characters(limit, "varchar")?),
        SqlType::Char(None) | SqlType::Character(None) => DataType::Char(1),
        SqlType::Char(Some(limit)) | SqlType::Character(Some(limit)) => {
            DataType::Char(characters(limit, "char")?)
        }
        SqlType::Bytea => DataType::Binary,
        SqlType::Binary(Some(width)) => {
            DataType::FixedBinary(u32::try_from(*width).unwrap_or(u32::MAX))
        }
        other => match (enums::of_marked(other), domain_type::of_marked(other)) {
            (Some(labels), _) => DataType::Enum(labels),
            (None, Some((_, below))) => column_type(&below)?,
            (None, None) => return Err(unknown(other)),
        },
    })
}

/// The type of a value that is assigned to a column: one that all columns of its kind have, so that
/// the column can check what it is given.
pub(crate) fn assigned(data_type: DataType) -> DataType {
    match data_type {
        DataType::Varchar(_) | DataType::Char(_) => DataType::Text,
        // Elements have a limit too.
        DataType::Array(_) => match data_type.element().map(assigned) {
            Some(element) => element.array().unwrap_or(data_type),
            None => data_type,
        },
        other => other,
    }
}

/// Whether values of a type become those of another one when they are assigned to a column, as in
/// PostgreSQL: those of any type become texts, numbers become numbers, moments become moments.
pub(crate) fn is_assignable(from: DataType, to: DataType) -> bool {
    let is_text = |one: DataType| assigned(one) == DataType::Text;
    let is_number = |one: DataType| {
        matches!(
            one,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal { .. }
        )
    };
    let is_json = |one: DataType| matches!(one, DataType::Json | DataType::Jsonb);
    let is_moment =
        |one| matches!(one, DataType::Date | DataType::Timestamp | DataType::TimestampTz);
    from == to
        || is_text(to)
        || is_number(from) && is_number(to)
        || is_moment(from) && (is_moment(to) || to == DataType::Time && from != DataType::Date)
        || matches!((from, to), (DataType::Time, DataType::Interval))
        || matches!((from, to), (DataType::Interval, DataType::Time))
        || matches!((from, to), (DataType::FixedBinary(_), DataType::Binary))
        // A text is read; as in PostgreSQL, one JSON becomes the other.
        || (is_text(from) || is_json(from)) && is_json(to)
        || from.element().zip(to.element()).is_some_and(|(a, b)| is_assignable(a, b))
}

/// An array of elements of a type.
fn array(element: &SqlType) -> Result<DataType, SqlError> {
    if matches!(element, SqlType::Array(_)) {
        let message = "an array has one dimension here";
        return Err(SqlError::unsupported(message));
    }
    let element = column_type(element)?;
    let is_known = !matches!(
        element,
        DataType::Char(_)
            | DataType::Json
            | DataType::Jsonb
            | DataType::FixedBinary(_)
            | DataType::Enum(_)
    );
    element.array().filter(|_| is_known).ok_or_else(|| {
        let message = format!("a column cannot have the type {element}[]");
        let hint = "an array has elements of a type other than interval, json, jsonb, char(n), \
                    binary(n), enums and arrays";
        SqlError::unsupported(message).with_hint(Some(hint.to_owned()))
    })
}

/// The limit of the characters of a text.
fn characters(limit: &CharacterLength, name: &str) -> Result<u32, SqlError> {
    let wrong = |reason: String| {
        SqlError::new(SqlErrorKind::Schema, format!("length for type {name} {reason}"))
            .with_cause(Cause::InvalidParameter)
    };
    match limit {
        CharacterLength::IntegerLength { length: 0, .. } => {
            Err(wrong("must be at least 1".to_owned()))
        }
        CharacterLength::IntegerLength { length, .. } => match u32::try_from(*length) {
            Ok(length @ ..=CHARACTERS_MAX) => Ok(length),
            _ => Err(wrong(format!("cannot exceed {CHARACTERS_MAX}"))),
        },
        CharacterLength::Max => Err(wrong(format!("is a number, up to {CHARACTERS_MAX}"))),
    }
}

fn float(bits: u64) -> Result<DataType, SqlError> {
    match bits {
        1..=24 => Ok(DataType::Float32),
        25..=53 => Ok(DataType::Float64),
        _ => Err(SqlError::new(
            SqlErrorKind::Schema,
            format!("float({bits}) is out of range; use 1 to 53 bits"),
        )),
    }
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType, SqlError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => {
            return Err(SqlError::unsupported("a decimal without precision is not supported")
                .with_hint(Some(format!(
                    "say how many digits it has, as in decimal({DECIMAL_PRECISION_MAX},10)"
                ))));
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=DECIMAL_PRECISION_MAX), Ok(scale)) if scale <= precision => {
            Ok(DataType::Decimal { precision, scale })
        }
        _ => Err(SqlError::new(
            SqlErrorKind::Schema,
            format!(
                "decimal({precision},{scale}) is out of range; use 1 to \
                 {DECIMAL_PRECISION_MAX} digits, \
                 and no more of them behind the point"
            ),
        )),
    }
}

/// The types that there are.
const TYPES: &str = "the types are smallint, integer, bigint, real, double precision, boolean, \
                     date, timestamp, timestamptz, time, interval, decimal(p,s), text, \
                     varchar(n), char(n), uuid, json, jsonb, bytea, binary(n), those of CREATE \
                     TYPE and CREATE DOMAIN, and arrays such as integer[]";

/// The error for a type that no column can have.
fn unknown(name: &SqlType) -> SqlError {
    if let SqlType::Custom(custom, _) = name {
        let message = format!("type \"{custom}\" does not exist");
        return SqlError::new(SqlErrorKind::Schema, message)
            .with_cause(Cause::UnknownObject)
            .with_hint(Some(TYPES.to_owned()));
    }
    let hint = match name {
        SqlType::Timestamp(..) | SqlType::Time(..) | SqlType::Interval { .. } => {
            "use timestamp, timestamptz, time or interval, which keep microseconds"
        }
        SqlType::TinyInt(_) => "use smallint",
        SqlType::Binary(None) | SqlType::Varbinary(_) | SqlType::Blob(_) => {
            "use bytea, or binary(n) for exactly n bytes"
        }
        _ => TYPES,
    };
    SqlError::unsupported(format!("a column cannot have the type {name}"))
        .with_hint(Some(hint.to_owned()))
}

/// The type of a column with values of exactly this Arrow type.
pub(crate) fn of_arrow(arrow: &ArrowType) -> Option<DataType> {
    Some(match arrow {
        ArrowType::Int16 => DataType::Int16,
        ArrowType::Int32 => DataType::Int32,
        ArrowType::Int64 => DataType::Int64,
        ArrowType::Float32 => DataType::Float32,
        ArrowType::Float64 => DataType::Float64,
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => DataType::TimestampTz,
        ArrowType::Time64(TimeUnit::Microsecond) => DataType::Time,
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Binary,
        ArrowType::Timestamp(TimeUnit::Second, Some(_)) => DataType::Enum(enums::of(arrow)?),
        ArrowType::List(item) => of_arrow(item.data_type())?.array()?,
        _ => return None,
    })
}

/// The type of a column of a result.
pub fn of_field(field: &Field) -> Option<DataType> {
    match field.data_type() {
        ArrowType::FixedSizeBinary(16) if field.extension_type_name() == Some(BINARY) => {
            Some(DataType::FixedBinary(16))
        }
        ArrowType::FixedSizeBinary(width) if *width != 16 => {
            u32::try_from(*width).ok().map(DataType::FixedBinary)
        }
        ArrowType::Dictionary(..) => enums::of_field(field).map(DataType::Enum),
        arrow
            if arrow.is_string()
                && let Some(form) = Form::of_field(field) =>
        {
            Some(form.data_type())
        }
        arrow => lengths::character(field).map(DataType::Char).or_else(|| of_arrow(arrow)),
    }
}

/// The type of a column of a result, as SQL names it.
pub(crate) fn shown(field: &Field) -> String {
    match (of_field(field), field.data_type()) {
        (Some(data_type), _) => data_type.to_string(),
        (None, ArrowType::Null) => DataType::Text.to_string(),
        (None, ArrowType::Interval(_) | ArrowType::Duration(_)) => "interval".to_owned(),
        (None, ArrowType::List(item) | ArrowType::LargeList(item)) => format!("{}[]", shown(item)),
        (None, other) => other.to_string(),
    }
}

/// A field of a result as a client sees it.
pub(crate) fn shown_field(field: &Field, name: &str) -> Field {
    if let Some(labels) = enums::of(field.data_type()) {
        return enums::shown(name, labels, field.is_nullable());
    }
    let plain = Field::new(name, field.data_type().clone(), field.is_nullable());
    let plain = plain.with_metadata(field.metadata().clone());
    if *field.data_type() == ArrowType::FixedSizeBinary(16) && field.extension_type_name().is_none()
    {
        let uuid = (EXTENSION_TYPE_NAME_KEY.to_owned(), atoll::UUID.to_owned());
        return plain.with_metadata([uuid].into());
    }
    plain
}

/// The Arrow type of a column's values inside a plan.
pub(crate) fn to_arrow(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Enum(labels) => enums::arrow(labels),
        other => atoll::arrow_type(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn of(text: &str) -> Result<DataType, SqlError> {
        let dialect = PostgreSqlDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(text).unwrap();
        column_type(&parser.parse_data_type().unwrap())
    }

    #[test]
    fn every_documented_name_has_its_type() {
        let cases = [
            ("smallint", DataType::Int16),
            ("int2", DataType::Int16),
            ("INTEGER", DataType::Int32),
            ("int", DataType::Int32),
            ("int4", DataType::Int32),
            ("bigint", DataType::Int64),
            ("int8", DataType::Int64),
            ("real", DataType::Float32),
            ("float4", DataType::Float32),
            ("double precision", DataType::Float64),
            ("float8", DataType::Float64),
            ("boolean", DataType::Bool),
            ("bool", DataType::Bool),
            ("date", DataType::Date),
            ("timestamp", DataType::Timestamp),
            ("timestamp without time zone", DataType::Timestamp),
            ("decimal(15,2)", DataType::Decimal { precision: 15, scale: 2 }),
            ("numeric(9)", DataType::Decimal { precision: 9, scale: 0 }),
            ("text", DataType::Text),
            ("timestamptz", DataType::TimestampTz),
            ("timestamp with time zone", DataType::TimestampTz),
            ("time", DataType::Time),
            ("time without time zone", DataType::Time),
            ("uuid", DataType::Uuid),
            ("interval", DataType::Interval),
            ("json", DataType::Json),
            ("jsonb", DataType::Jsonb),
            ("varchar", DataType::Text),
            ("char(4)", DataType::Char(4)),
            ("character", DataType::Char(1)),
            ("varchar(10)", DataType::Varchar(10)),
            ("character varying(3)", DataType::Varchar(3)),
            ("bytea", DataType::Binary),
            ("binary(16)", DataType::FixedBinary(16)),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_type_that_no_column_can_have_says_what_to_use() {
        assert!(of("varchar(0)").unwrap_err().message().contains("at least 1"));
        assert!(of("varchar(10485761)").unwrap_err().message().contains("cannot exceed"));
        assert!(of("timestamp(3)").unwrap_err().hint().unwrap().contains("microseconds"));
        assert!(of("money").unwrap_err().hint().unwrap().contains("the types are"));
        assert!(of("decimal(39,2)").is_err());
        assert!(of("decimal(5,6)").is_err());
        assert!(of("numeric").is_err());
    }
}
