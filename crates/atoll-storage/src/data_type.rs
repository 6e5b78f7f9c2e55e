//! The types of columns.

use std::fmt;

/// Widest fixed-size binary, in bytes.
pub const FIXED_BINARY_BYTES_MAX: u32 = 4096;

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
}

impl DataType {
    /// Bytes of one value in a segment; 0 for `bool`, since its values are bits.
    pub const fn width(self) -> usize {
        match self {
            Self::Bool => 0,
            Self::Int16 => 2,
            Self::Int32 | Self::Float32 | Self::Date => 4,
            Self::Int64 | Self::Float64 | Self::Timestamp => 8,
            Self::Decimal { .. } | Self::Text | Self::Binary => 16,
            Self::FixedBinary(width) => width as usize,
        }
    }

    /// Whether values of more than 12 bytes are stored in the segment's heap.
    pub const fn is_view(self) -> bool {
        matches!(self, Self::Text | Self::Binary)
    }

    /// Whether the values are integers; see [`crate::Number`].
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Int16 | Self::Int32 | Self::Int64 | Self::Date | Self::Timestamp)
    }

    /// Whether every bit pattern of the type's width is a valid value.
    pub const fn is_any_bytes(self) -> bool {
        use DataType::{Date, FixedBinary, Float32, Float64, Int16, Int32, Int64, Timestamp};
        let is_number = matches!(self, Int16 | Int32 | Int64 | Float32 | Float64);
        is_number || matches!(self, Date | Timestamp | FixedBinary(_))
    }

    /// Whether each segment keeps a minimum and a maximum of the column (see [`crate::zone`]).
    pub const fn has_zone(self) -> bool {
        !matches!(self, Self::Bool | Self::Text | Self::Binary | Self::FixedBinary(_))
            && !matches!(self, Self::Decimal { precision, .. } if precision > 18)
    }

    /// The code of the type in the directory: kind and parameter.
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
        }
    }
}
