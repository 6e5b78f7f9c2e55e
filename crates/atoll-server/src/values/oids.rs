//! The numbers that PostgreSQL gives its types.

use atoll::{DataType, Labels};
use atoll_sql::ToldType;

pub(crate) const BOOL: u32 = 16;
pub(crate) const BYTEA: u32 = 17;
pub(crate) const CHAR: u32 = 18;
pub(crate) const NAME: u32 = 19;
pub(crate) const INT8: u32 = 20;
pub(crate) const INT2: u32 = 21;
pub(crate) const INT4: u32 = 23;
pub(crate) const TEXT: u32 = 25;
pub(crate) const INT2VECTOR: u32 = 22;
pub(crate) const REGPROC: u32 = 24;
pub(crate) const OID: u32 = 26;
pub(crate) const XID: u32 = 28;
pub(crate) const OIDVECTOR: u32 = 30;
pub(crate) const JSON: u32 = 114;
pub(crate) const FLOAT4: u32 = 700;
pub(crate) const FLOAT8: u32 = 701;
pub(crate) const UNKNOWN: u32 = 705;
pub(crate) const BPCHAR: u32 = 1042;
pub(crate) const VARCHAR: u32 = 1043;
pub(crate) const DATE: u32 = 1082;
pub(crate) const TIME: u32 = 1083;
pub(crate) const TIMESTAMP: u32 = 1114;
pub(crate) const TIMESTAMPTZ: u32 = 1184;
pub(crate) const INTERVAL: u32 = 1186;
pub(crate) const NUMERIC: u32 = 1700;
pub(crate) const VOID: u32 = 2278;
pub(crate) const UUID: u32 = 2950;
pub(crate) const JSONB: u32 = 3802;
/// Those below are PostgreSQL's own.
const FIRST: u32 = 16_384;

/// Types of elements with those of their arrays.
const ARRAYS: [(u32, u32); 24] = [
    (BOOL, 1000),
    (BYTEA, 1001),
    (CHAR, 1002),
    (NAME, 1003),
    (INT2, 1005),
    (INT4, 1007),
    (TEXT, 1009),
    (BPCHAR, 1014),
    (VARCHAR, 1015),
    (INT8, 1016),
    (FLOAT4, 1021),
    (FLOAT8, 1022),
    (OID, 1028),
    (TIMESTAMP, 1115),
    (DATE, 1182),
    (TIME, 1183),
    (TIMESTAMPTZ, 1185),
    (INTERVAL, 1187),
    (NUMERIC, 1231),
    (JSON, 199),
    (JSONB, 3807),
    (UUID, 2951),
    (UNKNOWN, 1009),
    (VOID, 1009),
];

/// The type of the arrays of a type.
pub(crate) fn array_of(element: u32) -> u32 {
    let found = ARRAYS.iter().find(|(one, _)| *one == element);
    found.map_or(1009, |(_, array)| *array)
}

/// The type of the elements, of a type of arrays.
pub(crate) fn element_of(array: u32) -> Option<u32> {
    ARRAYS.iter().find(|(_, one)| *one == array).map(|(element, _)| *element)
}

/// Finds the number of an enum.
pub(crate) type NumberOf<'n> = &'n dyn Fn(Labels) -> Option<u32>;

/// The number of a type.
pub(crate) fn of(data_type: DataType, number_of: NumberOf<'_>) -> u32 {
    match data_type {
        DataType::Int16 => INT2,
        DataType::Int32 => INT4,
        DataType::Int64 => INT8,
        DataType::Float32 => FLOAT4,
        DataType::Float64 => FLOAT8,
        DataType::Bool => BOOL,
        DataType::Date => DATE,
        DataType::Timestamp => TIMESTAMP,
        DataType::TimestampTz => TIMESTAMPTZ,
        DataType::Time => TIME,
        DataType::Interval => INTERVAL,
        DataType::Decimal { .. } => NUMERIC,
        DataType::Text => TEXT,
        DataType::Enum(labels) => number_of(labels).unwrap_or(TEXT),
        DataType::Varchar(_) => VARCHAR,
        DataType::Char(_) => BPCHAR,
        DataType::Binary | DataType::FixedBinary(_) => BYTEA,
        DataType::Uuid => UUID,
        DataType::Json => JSON,
        DataType::Jsonb => JSONB,
        DataType::Array(_) => {
            data_type.element().map_or(1009, |element| array_of(of(element, number_of)))
        }
    }
}

/// The number of a type as a client is told of it.
pub(crate) fn told(told: ToldType, number_of: NumberOf<'_>) -> u32 {
    match told {
        ToldType::Own(data_type) => of(data_type, number_of),
        ToldType::System(name) => of_system(name).unwrap_or(TEXT),
    }
}

/// The number of a type that columns of tables do not have, by its name in the catalogs.
pub(crate) fn of_system(name: &str) -> Option<u32> {
    Some(match name {
        "oid" => OID,
        "regproc" => REGPROC,
        "xid" => XID,
        "name" => NAME,
        "char" => CHAR,
        "int2vector" => INT2VECTOR,
        "oidvector" => OIDVECTOR,
        "varchar" => VARCHAR,
        "regclass" => 2205,
        "regtype" => 2206,
        "regnamespace" => 4089,
        "regrole" => 4096,
        "oid[]" => array_of(OID),
        "name[]" => array_of(NAME),
        "char[]" => array_of(CHAR),
        "varchar[]" => array_of(VARCHAR),
        _ => return None,
    })
}

/// The type of the elements of a vector, which is an array with its own text.
pub(crate) fn element_of_vector(oid: u32) -> Option<u32> {
    match oid {
        INT2VECTOR => Some(INT2),
        OIDVECTOR => Some(OID),
        _ => None,
    }
}

/// What PostgreSQL calls the modifier of a type: its limit or its digits; -1 for none.
pub(crate) fn modifier_of(data_type: DataType) -> i32 {
    match data_type {
        // An expression without a limit.
        DataType::Char(0) => -1,
        DataType::Varchar(most) | DataType::Char(most) => {
            i32::try_from(most).map_or(-1, |most| most + 4)
        }
        // An expression has as many digits as there can be, which in PostgreSQL have no limit.
        DataType::Decimal { precision: 38, .. } => -1,
        DataType::Decimal { precision, scale } => {
            ((i32::from(precision) << 16) | i32::from(scale)) + 4
        }
        _ => -1,
    }
}

/// Bytes of a value of a type; -1 where they differ.
pub(crate) fn width_of(oid: u32) -> i16 {
    match oid {
        BOOL | CHAR => 1,
        INT2 => 2,
        INT4 | FLOAT4 | OID | REGPROC | XID | DATE => 4,
        INT8 | FLOAT8 | TIMESTAMP | TIMESTAMPTZ | TIME => 8,
        INTERVAL | UUID => 16,
        NAME => 64,
        UNKNOWN => -2,
        _ => -1,
    }
}

/// Whether the binary form of a type that has no type here is a text.
pub(crate) fn is_text(oid: u32) -> bool {
    matches!(oid, 0 | TEXT | VARCHAR | BPCHAR | NAME | CHAR | JSON | UNKNOWN | VOID) || oid >= FIRST
}

/// Whether a type is a number of what the system has.
pub(crate) fn is_number_of_system(oid: u32) -> bool {
    matches!(oid, OID | REGPROC | XID | 2205 | 2206 | 4089 | 4096)
}

/// The type that a client declares for a parameter, where it decides what the parameter means. One
/// of texts takes the type of its place: drivers declare texts for values of many types. Numbers of
/// type `numeric` have any digits.
pub(crate) fn declared(oid: u32) -> Option<DataType> {
    Some(match oid {
        BOOL => DataType::Bool,
        INT2 => DataType::Int16,
        INT4 => DataType::Int32,
        INT8 | OID => DataType::Int64,
        FLOAT4 => DataType::Float32,
        FLOAT8 => DataType::Float64,
        BYTEA => DataType::Binary,
        DATE => DataType::Date,
        TIME => DataType::Time,
        TIMESTAMP => DataType::Timestamp,
        TIMESTAMPTZ => DataType::TimestampTz,
        INTERVAL => DataType::Interval,
        NUMERIC => DataType::Decimal { precision: 38, scale: 0 },
        UUID => DataType::Uuid,
        JSON => DataType::Json,
        JSONB => DataType::Jsonb,
        array => match declared(element_of(array)?)? {
            DataType::Json | DataType::Jsonb => return None,
            element => element.array()?,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn arrays_have_the_types_of_their_elements() {
        let of = |data_type: Option<DataType>| of(data_type.unwrap(), &|_| None);
        assert_eq!(of(DataType::Int32.array()), 1007);
        assert_eq!(of(DataType::Varchar(5).array()), 1015);
        assert_eq!(element_of(1007), Some(INT4));
        assert_eq!(declared(1016), DataType::Int64.array());
        assert_eq!((declared(TEXT), declared(1009), declared(0)), (None, None, None));
        assert_eq!(modifier_of(DataType::Decimal { precision: 15, scale: 2 }), 983_046);
    }
}
