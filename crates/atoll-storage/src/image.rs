//! The image of a value: the fixed-width bytes that a segment stores for it.
//!
//! Integers, floats, dates, timestamps and decimals are little-endian. A `bool` is one byte as an
//! image and one bit in the segment. A text or binary is a 16-byte view in Arrow's layout: its
//! length, then either up to 12 bytes inline, or the first 4 bytes, the number of a heap block and
//! an offset in that block. The image of NULL is zero; in a floating-point column it is NaN, so
//! that a reader that ignores the validity bitmap reads NaN.

use crate::types::{DataType, Interval, Value};

/// Longest text or binary that is stored inline in its view.
pub const INLINE_BYTES_MAX: usize = 12;

/// A value as plain bytes: little-endian for numbers, one byte for a `bool`, all the bytes of a
/// text or binary; `None` for NULL. A transaction keeps values in this form before they are stored
/// in a slot.
pub type Plain<'v> = Option<&'v [u8]>;

/// The plain bytes of a value; the bytes of a number are written to `room`.
#[inline]
pub fn plain<'v>(value: &'v Value, room: &'v mut [u8; 16]) -> Plain<'v> {
    macro_rules! fixed {
        ($value:expr) => {{
            let bytes = $value.to_le_bytes();
            room[..bytes.len()].copy_from_slice(&bytes);
            Some(&room[..bytes.len()])
        }};
    }
    match value {
        Value::Null => None,
        Value::Int16(value) => fixed!(value),
        Value::Int32(value) | Value::Date(value) => fixed!(value),
        Value::Int64(value) | Value::Timestamp(value) => fixed!(value),
        Value::Float32(value) => fixed!(value),
        Value::Float64(value) => fixed!(value),
        Value::Bool(value) => fixed!(u8::from(*value)),
        Value::Decimal(value) => fixed!(value),
        Value::Interval(value) => fixed!(value),
        Value::Text(text) => Some(text.as_bytes()),
        Value::Binary(bytes) => Some(bytes),
    }
}

/// The image of plain bytes that are stored without the heap. `Err` holds the bytes of a value that
/// needs the heap.
#[inline]
pub fn of_plain<'v>(
    data_type: DataType,
    plain: Plain<'v>,
    room: &'v mut [u8; 16],
) -> Result<&'v [u8], &'v [u8]> {
    match plain {
        None => null(data_type, room),
        Some(bytes) if data_type.is_view() => view(bytes, room),
        Some(bytes) => Ok(bytes),
    }
}

/// The value of plain bytes; `None` if the bytes are not a value of this type.
pub fn value_of_plain(data_type: DataType, plain: Plain<'_>) -> Option<Value> {
    match plain {
        None => Some(Value::Null),
        Some(bytes) if data_type.is_view() => of_bytes(data_type, bytes.to_vec()),
        Some(bytes) => decode(data_type, bytes),
    }
}

fn null(data_type: DataType, room: &mut [u8; 16]) -> Result<&[u8], &[u8]> {
    /// Zeroes, as many as the widest fixed-size binary has bytes.
    static ZERO: [u8; crate::types::FIXED_BINARY_BYTES_MAX as usize] =
        [0; crate::types::FIXED_BINARY_BYTES_MAX as usize];
    match data_type {
        DataType::Float32 => room[..4].copy_from_slice(&f32::NAN.to_le_bytes()),
        DataType::Float64 => room[..8].copy_from_slice(&f64::NAN.to_le_bytes()),
        _ => return Ok(&ZERO[..data_type.width().max(1)]),
    }
    Ok(&room[..data_type.width()])
}

fn view<'v>(bytes: &'v [u8], room: &'v mut [u8; 16]) -> Result<&'v [u8], &'v [u8]> {
    if bytes.len() > INLINE_BYTES_MAX {
        return Err(bytes);
    }
    *room = [0; 16];
    room[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    room[4..4 + bytes.len()].copy_from_slice(bytes);
    Ok(room)
}

/// The position of a long text or binary in the heap of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapPlace {
    /// Bytes of the value.
    pub len: u32,
    /// Number of the block in its column's heap list.
    pub block: u32,
    /// Offset in the block.
    pub offset: u32,
}

/// The view of a value in the heap.
pub fn heap_view(bytes: &[u8], place: HeapPlace) -> [u8; 16] {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&place.len.to_le_bytes());
    view[4..8].copy_from_slice(&bytes[..4]);
    view[8..12].copy_from_slice(&place.block.to_le_bytes());
    view[12..].copy_from_slice(&place.offset.to_le_bytes());
    view
}

impl HeapPlace {
    /// The heap position in a view that is given as two words; `None` for an inline view.
    #[inline]
    pub(crate) fn of_view([start, end]: [u64; 2]) -> Option<Self> {
        let len = start as u32;
        let is_long = len as usize > INLINE_BYTES_MAX;
        is_long.then_some(Self { len, block: end as u32, offset: (end >> 32) as u32 })
    }
}

/// The heap position in a view; `None` for an inline view.
pub fn heap_place(view: &[u8]) -> Option<HeapPlace> {
    let (start, rest) = view.split_first_chunk()?;
    let end = rest.first_chunk()?;
    HeapPlace::of_view([start, end].map(|word| u64::from_le_bytes(*word)))
}

/// The bytes of a text or binary that is stored inline; `None` for a view into the heap.
pub fn inline(view: &[u8]) -> Option<&[u8]> {
    let len = u32::from_le_bytes(view.get(..4)?.try_into().ok()?) as usize;
    view.get(4..4 + len).filter(|_| len <= INLINE_BYTES_MAX)
}

/// The value of an image without a heap; `None` for a view into the heap or an image of the wrong
/// width.
pub fn decode(data_type: DataType, image: &[u8]) -> Option<Value> {
    macro_rules! fixed {
        ($rust:ty) => {
            <$rust>::from_le_bytes(image.try_into().ok()?)
        };
    }
    Some(match data_type.stored_as() {
        DataType::Int16 => Value::Int16(fixed!(i16)),
        DataType::Int32 => Value::Int32(fixed!(i32)),
        DataType::Date => Value::Date(fixed!(i32)),
        DataType::Int64 => Value::Int64(fixed!(i64)),
        DataType::Timestamp => Value::Timestamp(fixed!(i64)),
        DataType::Float32 => Value::Float32(fixed!(f32)),
        DataType::Float64 => Value::Float64(fixed!(f64)),
        DataType::Bool => Value::Bool(*image.first()? != 0),
        DataType::Decimal { .. } => Value::Decimal(fixed!(i128)),
        DataType::Interval => Value::Interval(fixed!(Interval)),
        DataType::FixedBinary(_) => Value::Binary(image.to_vec()),
        _ => {
            return of_bytes(data_type, inline(image)?.to_vec());
        }
    })
}

/// The value of a text or binary's bytes.
pub fn of_bytes(data_type: DataType, bytes: Vec<u8>) -> Option<Value> {
    match data_type.stored_as() {
        DataType::Text => String::from_utf8(bytes).ok().map(Value::Text),
        _ => Some(Value::Binary(bytes)),
    }
}
