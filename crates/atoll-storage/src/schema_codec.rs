//! Schemas as bytes in the directory.
//!
//! ```text
//! name | u32 columns | (u8 type, u8 nullable, u32 parameter, name) × columns
//! u32 key columns | u32 position × key columns
//! declared                                              name, declared = u32 bytes, UTF-8
//! ```
//! Earlier versions have left the last part away. The parameter of an enum is the length of its
//! definition (`LABELS-2`), which is between the parameter and the name.
//! All integers are little-endian. The bytes come from shared memory, so decoding trusts nothing.

use crate::data_type::ENUM;
use crate::labels::{LABELS_BYTES_MAX, Labels};
use crate::types::{
    COLUMNS_MAX, Column, DECLARED_BYTES_MAX, DataType, NAME_BYTES_MAX, OBJECT_NAME_BYTES_MAX,
    Schema,
};

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn column(out: &mut Vec<u8>, column: &Column) {
    let (kind, parameter) = column.data_type.encode();
    out.extend([kind, u8::from(column.nullable)]);
    match column.data_type {
        DataType::Enum(labels) => text(out, labels.text()),
        _ => out.extend(parameter.to_le_bytes()),
    }
    text(out, &column.name);
}

/// The bytes of a column.
pub fn encode_column(described: &Column) -> Vec<u8> {
    let mut out = Vec::new();
    column(&mut out, described);
    out
}

/// Decodes a column; `None` for bytes that [`encode_column`] has not written.
pub fn decode_column(bytes: &[u8]) -> Option<Column> {
    let mut input = Input(bytes);
    let column = input.column()?;
    column.data_type.check().ok()?;
    input.0.is_empty().then_some(column)
}

/// The bytes of a table's name and schema.
pub fn encode(name: &str, schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, name);
    out.extend((schema.columns().len() as u32).to_le_bytes());
    schema.columns().iter().for_each(|one| column(&mut out, one));
    out.extend((schema.primary_key().len() as u32).to_le_bytes());
    for position in schema.primary_key() {
        out.extend((*position as u32).to_le_bytes());
    }
    text(&mut out, schema.declared());
    out
}

/// Decodes a name and a schema; `None` for bytes that [`encode`] has not written.
pub fn decode(bytes: &[u8]) -> Option<(String, Schema)> {
    let mut input = Input(bytes);
    let name = input.text(OBJECT_NAME_BYTES_MAX)?;
    let count = input.u32()? as usize;
    if count > COLUMNS_MAX {
        return None;
    }
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        columns.push(input.column()?);
    }
    let keys = input.u32()? as usize;
    if keys > count {
        return None;
    }
    let mut names = Vec::new();
    for _ in 0..keys {
        names.push(columns.get(input.u32()? as usize)?.name.clone());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let declared = match input.0 {
        [] => String::new(),
        _ => input.text(DECLARED_BYTES_MAX)?,
    };
    input.0.is_empty().then_some(())?;
    Some((name, Schema::new(columns, &names).ok()?.with_declared(declared).ok()?))
}

struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn column(&mut self) -> Option<Column> {
        let kind = self.u8()?;
        let nullable = match self.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let data_type = match kind {
            ENUM => DataType::Enum(Labels::of_text(&self.text(LABELS_BYTES_MAX)?)?),
            kind => DataType::decode(kind, self.u32()?)?,
        };
        Some(Column { name: self.text(NAME_BYTES_MAX)?, data_type, nullable })
    }

    fn text(&mut self, bytes_max: usize) -> Option<String> {
        let len = self.u32()? as usize;
        if len > bytes_max {
            return None;
        }
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A name and two labels.
    const MOOD: &str = "mood\u{1}sad\u{1}happy";

    fn sample() -> Vec<u8> {
        let schema = Schema::new(
            vec![
                Column::new("id", DataType::Int64),
                Column::nullable("price", DataType::Decimal { precision: 12, scale: 2 }),
                Column::nullable("tag", DataType::FixedBinary(16)),
                Column::nullable("code", DataType::Char(3)),
                Column::nullable("name", DataType::Varchar(20)),
                Column::nullable("at", DataType::TimestampTz),
                Column::nullable("clock", DataType::Time),
                Column::nullable("token", DataType::Uuid),
                Column::nullable("mood", DataType::Enum(Labels::of_text(MOOD).unwrap())),
                Column::nullable("lasts", DataType::Interval),
                Column::nullable("doc", DataType::Json),
                Column::nullable("docs", DataType::Jsonb),
                Column::nullable("names", DataType::Varchar(20).array().unwrap()),
            ],
            &["id"],
        );
        encode("orders", &schema.unwrap().with_declared("check".into()).unwrap())
    }

    /// Bytes of the last part of the sample, which earlier versions have not written.
    const DECLARED_BYTES: usize = 4 + "check".len();

    #[test]
    fn a_schema_comes_back_as_it_was() {
        let (name, schema) = decode(&sample()).unwrap();
        assert_eq!(name, "orders");
        assert_eq!(encode(&name, &schema), sample());
    }

    #[test]
    fn a_parameter_that_its_type_does_not_have_is_refused() {
        // The parameter of the first column, a bigint, and bits of the second column's parameter
        // that a decimal does not use.
        let start = 4 + "orders".len() + 4;
        let bigint = start + 2;
        let decimal = bigint + 4 + 4 + "id".len() + 2;
        for at in [bigint, bigint + 3, decimal + 2, decimal + 3] {
            let mut bytes = sample();
            assert_eq!(bytes[at], 0);
            bytes[at] = 1;
            assert!(decode(&bytes).is_none(), "byte {at}");
        }
    }

    #[test]
    fn bytes_cut_short_or_changed_are_refused_or_decode_without_a_panic() {
        let bytes = sample();
        let earlier = bytes.len() - DECLARED_BYTES;
        for len in (0..bytes.len()).filter(|len| *len != earlier) {
            assert!(decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        assert_eq!(decode(&bytes[..earlier]).unwrap().1.declared(), "");
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = decode(&damaged);
            }
        }
    }
}
