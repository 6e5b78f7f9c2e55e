//! The types of columns.
//!
//! `TYPE-1`: a type is stored as one of the first thirteen ([`DataType::stored_as`]): its values
//! are theirs, in bytes and as [`crate::Value`], and have their order. It says which of them a
//! column can hold, and what they mean outside a table.

use std::fmt;

use crate::labels::Labels;

/// Widest fixed-size binary, in bytes.
pub const FIXED_BINARY_BYTES_MAX: u32 = 4096;
/// Highest limit of the characters of a text, as in PostgreSQL.
pub const CHARACTERS_MAX: u32 = 10_485_760;
/// Microseconds of a day; a time of day may be this number, 24:00.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// The kind of an enum in the directory.
pub(crate) const ENUM: u8 = 32;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 32-bit IEEE 754.
    Float32,
    /// 64-bit IEEE 754.
    Float64,
    /// True or false, one bit.
    Bool,
    /// Days since 1970-01-01, 32 bits.
    Date,
    /// Microseconds since 1970-01-01 00:00 without a time zone, 64 bits.
    Timestamp,
    /// 128-bit decimal: `precision` digits in total (1–38), `scale` of them after the decimal
    /// point.
    Decimal {
        /// Total number of digits.
        precision: u8,
        /// Digits after the decimal point, 0..=precision.
        scale: u8,
    },
    /// UTF-8 of any length up to 256 MiB: up to 12 bytes inline, longer values in the segment's
    /// heap.
    Text,
    /// Bytes of any length up to 256 MiB, stored like text.
    Binary,
    /// Exactly this many bytes.
    FixedBinary(u32),
    /// A span of time: months, days and nanoseconds apart, 128 bits (`INTERVAL-1`).
    Interval,
    /// Text of at most this many characters.
    Varchar(u32),
    /// Text that is shown with exactly this many characters. Blanks at its end have no meaning
    /// and are not stored.
    Char(u32),
    /// An instant: microseconds since 1970-01-01 00:00 UTC, 64 bits.
    TimestampTz,
    /// Microseconds since midnight, 64 bits; 24:00 is the last one.
    Time,
    /// A UUID, 16 bytes in the order in which it is written.
    Uuid,
    /// One of some labels, 32 bits (`LABELS-1`).
    Enum(Labels),
    /// A text in the JSON format, as it was written.
    Json,
    /// A text in the JSON format, in a form that a layer above has chosen: texts with one meaning
    /// are the same.
    Jsonb,
    /// An array with one dimension, stored as bytes (`LIST-1`).
    Array(Element),
}

/// The type of the elements of an array: the code of a type in 8 bits, its parameter in 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element(u32);

impl Element {
    /// The type as that of elements; `None` for a type that arrays cannot have.
    ///
    /// The form of the elements does not keep the parts of an interval apart (`LIST-1`).
    pub fn of(data_type: DataType) -> Option<Self> {
        let (kind, parameter) = data_type.encode();
        let has_room = parameter < 1 << 24;
        let is_plain = !matches!(data_type, DataType::Array(_) | DataType::Interval);
        (has_room && is_plain).then_some(Self(u32::from(kind) << 24 | parameter))
    }

    /// The type of the elements.
    pub fn data_type(self) -> Option<DataType> {
        let [kind, _, _, _] = self.0.to_be_bytes();
        let data_type = DataType::decode(kind, self.0 & 0xff_ffff)?;
        Self::of(data_type).map(|_| data_type)
    }
}

impl DataType {
    /// The array of this type, if there is one.
    pub fn array(self) -> Option<Self> {
        Element::of(self).map(Self::Array)
    }

    /// The type of the elements, if this is an array.
    pub fn element(self) -> Option<Self> {
        match self {
            Self::Array(element) => element.data_type(),
            _ => None,
        }
    }
}

impl DataType {
    /// Whether a value of the type may be stored as this number of 32 bits.
    pub(crate) fn has_number(self, number: i32) -> bool {
        match self {
            Self::Enum(labels) => labels.label(number).is_some(),
            _ => true,
        }
    }

    /// Bytes of the definition that the directory keeps of the type.
    pub(crate) fn definition_bytes(self) -> usize {
        match self {
            Self::Enum(labels) => labels.text().len(),
            _ => 0,
        }
    }

    /// The type with the values and the layout that this one has (`TYPE-1`).
    pub const fn stored_as(self) -> Self {
        match self {
            Self::Varchar(_) | Self::Char(_) | Self::Json | Self::Jsonb => Self::Text,
            Self::Array(_) => Self::Binary,
            Self::TimestampTz => Self::Timestamp,
            Self::Time => Self::Int64,
            Self::Uuid => Self::FixedBinary(16),
            Self::Enum(_) => Self::Int32,
            other => other,
        }
    }

    /// Bytes of one value in a segment; 0 for `bool`, since its values are bits.
    pub const fn width(self) -> usize {
        match self.stored_as() {
            Self::Bool => 0,
            Self::Int16 => 2,
            Self::Int32 | Self::Float32 | Self::Date => 4,
            Self::Int64 | Self::Float64 | Self::Timestamp => 8,
            Self::FixedBinary(width) => width as usize,
            _ => 16,
        }
    }

    /// Whether values of more than 12 bytes are stored in the segment's heap.
    pub const fn is_view(self) -> bool {
        matches!(self.stored_as(), Self::Text | Self::Binary)
    }

    /// Whether the values are stored as integers; see [`crate::Number`].
    pub const fn is_integer(self) -> bool {
        use DataType::{Date, Int16, Int32, Int64, Timestamp};
        matches!(self.stored_as(), Int16 | Int32 | Int64 | Date | Timestamp)
    }

    /// Whether every bit pattern of the type's width is a valid value.
    pub const fn is_any_bytes(self) -> bool {
        use DataType::{Date, FixedBinary, Float32, Float64, TimestampTz, Uuid};
        use DataType::{Int16, Int32, Int64, Timestamp};
        let is_number = matches!(self, Int16 | Int32 | Int64 | Float32 | Float64);
        is_number || matches!(self, Date | Timestamp | TimestampTz | FixedBinary(_) | Uuid)
    }

    /// Whether each segment keeps a minimum and a maximum of the column (see [`crate::zone`]).
    pub const fn has_zone(self) -> bool {
        match self.stored_as() {
            Self::Bool | Self::Text | Self::Binary | Self::FixedBinary(_) | Self::Interval => false,
            Self::Decimal { precision, .. } => precision <= 18,
            _ => true,
        }
    }

    /// The code of the type in the directory: kind and parameter. That of an enum, the bytes of its
    /// definition, does not tell it.
    pub(crate) const fn encode(self) -> (u8, u32) {
        match self {
            Self::Int16 => (1, 0),
            Self::Int32 => (2, 0),
            Self::Int64 => (3, 0),
            Self::Float32 => (4, 0),
            Self::Float64 => (5, 0),
            Self::Bool => (6, 0),
            Self::Date => (7, 0),
            Self::Timestamp => (8, 0),
            Self::Decimal { precision, scale } => (9, (precision as u32) << 8 | scale as u32),
            Self::Text => (10, 0),
            Self::Binary => (11, 0),
            Self::FixedBinary(width) => (12, width),
            Self::Varchar(characters) => (13, characters),
            Self::Char(characters) => (14, characters),
            Self::TimestampTz => (15, 0),
            Self::Time => (16, 0),
            Self::Uuid => (17, 0),
            Self::Enum(_) => (ENUM, u32::MAX),
            Self::Interval => (18, 0),
            Self::Json => (19, 0),
            Self::Jsonb => (20, 0),
            Self::Array(element) => (21, element.0),
        }
    }

    /// The type of a code, or `None` for a code that no version has written.
    pub(crate) fn decode(kind: u8, parameter: u32) -> Option<Self> {
        let [_, _, precision, scale] = parameter.to_be_bytes();
        let data_type = match kind {
            1 => Self::Int16,
            2 => Self::Int32,
            3 => Self::Int64,
            4 => Self::Float32,
            5 => Self::Float64,
            6 => Self::Bool,
            7 => Self::Date,
            8 => Self::Timestamp,
            9 => Self::Decimal { precision, scale },
            10 => Self::Text,
            11 => Self::Binary,
            12 => Self::FixedBinary(parameter),
            13 => Self::Varchar(parameter),
            14 => Self::Char(parameter),
            15 => Self::TimestampTz,
            16 => Self::Time,
            17 => Self::Uuid,
            18 => Self::Interval,
            19 => Self::Json,
            20 => Self::Jsonb,
            21 => Self::Array(Element(parameter)),
            _ => return None,
        };
        // No version has set bits that the type does not use.
        let is_whole = data_type.encode() == (kind, parameter);
        (is_whole && data_type.check().is_ok()).then_some(data_type)
    }

    /// Checks the parameters of the type; the error is a message for the user.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Decimal { precision, scale } if !(1..=38).contains(&precision) => Err(format!(
                "decimal({precision},{scale}) has no valid precision; use 1 to 38 digits"
            )),
            Self::Decimal { precision, scale } if scale > precision => Err(format!(
                "decimal({precision},{scale}) has more digits behind the point than in all"
            )),
            Self::FixedBinary(width) if width == 0 || width > FIXED_BINARY_BYTES_MAX => Err(
                format!("binary({width}) is out of range; use 1 to {FIXED_BINARY_BYTES_MAX} bytes"),
            ),
            Self::Varchar(characters) | Self::Char(characters)
                if characters == 0 || characters > CHARACTERS_MAX =>
            {
                Err(format!("{self} is out of range; use 1 to {CHARACTERS_MAX} characters"))
            }
            Self::Array(element) if element.data_type().is_none() => {
                Err("an array has elements of a type that is unknown".into())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int16 => f.write_str("smallint"),
            Self::Int32 => f.write_str("integer"),
            Self::Int64 => f.write_str("bigint"),
            Self::Float32 => f.write_str("real"),
            Self::Float64 => f.write_str("double precision"),
            Self::Bool => f.write_str("boolean"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Text => f.write_str("text"),
            Self::Binary => f.write_str("bytea"),
            Self::FixedBinary(width) => write!(f, "binary({width})"),
            Self::Varchar(characters) => write!(f, "character varying({characters})"),
            Self::Char(characters) => write!(f, "character({characters})"),
            Self::TimestampTz => f.write_str("timestamp with time zone"),
            Self::Time => f.write_str("time"),
            Self::Uuid => f.write_str("uuid"),
            Self::Enum(labels) => f.write_str(&labels.shown()),
            Self::Interval => f.write_str("interval"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::Array(element) => match element.data_type() {
                Some(one) => write!(f, "{one}[]"),
                None => f.write_str("unknown[]"),
            },
        }
    }
}
