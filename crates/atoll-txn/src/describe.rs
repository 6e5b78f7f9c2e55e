//! The definition of a table as bytes, which logs and checkpoint stores contain.
//!
//! ```text
//! serial | tablespace | replicated | schema bytes | schema (atoll_storage::schema_codec) | indexes
//! indexes = count | (kind | name bytes | name | columns | position × columns) × count
//! options = tablespace | replicated | indexes                        in the directory of tables
//! ```
//! Numbers are encoded as in [`atoll_storage::redo`]. The bytes come from a medium, so the decoder
//! checks everything.

use atoll_storage::redo::{Input, number};
use atoll_storage::types::COLUMNS_MAX;
use atoll_storage::{Schema, TableSerial, schema_codec};

use crate::tables::{INDEXES_MAX, IndexSpec, TableOptions};

/// A decoded definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its serial number.
    pub serial: TableSerial,
    /// Its name.
    pub name: String,
    /// Its columns and primary key.
    pub schema: Schema,
    /// Everything else.
    pub options: TableOptions,
}

/// Encodes a table's definition.
pub fn encode(serial: TableSerial, name: &str, schema: &Schema, options: &TableOptions) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, serial.0);
    number(&mut out, options.tablespace.unwrap_or(0).into());
    number(&mut out, options.replicated.into());
    let encoded = schema_codec::encode(name, schema);
    number(&mut out, encoded.len() as u64);
    out.extend(encoded);
    encode_indexes(schema, &options.indexes, &mut out);
    out
}

/// Encodes the options of a table, which the directory keeps beside its schema.
pub fn encode_options(schema: &Schema, options: &TableOptions) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, options.tablespace.unwrap_or(0).into());
    number(&mut out, options.replicated.into());
    encode_indexes(schema, &options.indexes, &mut out);
    out
}

fn encode_indexes(schema: &Schema, indexes: &[IndexSpec], out: &mut Vec<u8>) {
    number(out, indexes.len() as u64);
    for index in indexes {
        let kind = match (index.unique, index.nulls_not_distinct) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        number(out, kind);
        number(out, index.name.len() as u64);
        out.extend(index.name.as_bytes());
        number(out, index.columns.len() as u64);
        for column in &index.columns {
            let position = schema.position(column).expect("the index was checked");
            number(out, position as u64);
        }
    }
}

/// Decodes a table's definition; `None` if the bytes are invalid.
pub fn decode(bytes: &[u8]) -> Option<Description> {
    let mut input = Input(bytes);
    let serial = serial(&mut input)?;
    let tablespace = Some(input.number()?.try_into().ok()?);
    let replicated = flag(&mut input)?;
    let len = input.number()?.try_into().ok()?;
    let (name, schema) = schema_codec::decode(input.take(len)?)?;
    let indexes = decode_indexes(&mut input, &schema)?;
    let options = TableOptions { indexes, replicated, tablespace };
    input.0.is_empty().then_some(Description { serial, name, schema, options })
}

/// Decodes the options of a table with this schema; `None` if the bytes are invalid.
pub fn decode_options(bytes: &[u8], schema: &Schema) -> Option<TableOptions> {
    let mut input = Input(bytes);
    let tablespace = Some(input.number()?.try_into().ok()?);
    let replicated = flag(&mut input)?;
    let indexes = decode_indexes(&mut input, schema)?;
    input.0.is_empty().then_some(TableOptions { indexes, replicated, tablespace })
}

/// Reads a serial number; `None` for a number that is too large for one.
pub fn serial(input: &mut Input<'_>) -> Option<TableSerial> {
    input.number().filter(|serial| *serial < TableSerial::END).map(TableSerial)
}

fn decode_indexes(input: &mut Input<'_>, schema: &Schema) -> Option<Vec<IndexSpec>> {
    let mut indexes = Vec::new();
    for _ in 0..input.number()? {
        if indexes.len() == INDEXES_MAX {
            return None;
        }
        let (unique, nulls_not_distinct) = match input.number()? {
            0 => (false, false),
            1 => (true, false),
            2 => (true, true),
            _ => return None,
        };
        let len = input.number()?.try_into().ok()?;
        let name = String::from_utf8(input.take(len)?.to_vec()).ok()?;
        let mut columns = Vec::new();
        for _ in 0..input.number()? {
            let position: usize = input.number()?.try_into().ok()?;
            columns.push(schema.columns().get(position)?.name.clone());
            if columns.len() > COLUMNS_MAX {
                return None;
            }
        }
        indexes.push(IndexSpec { name, columns, unique, nulls_not_distinct });
    }
    Some(indexes)
}

fn flag(input: &mut Input<'_>) -> Option<bool> {
    match input.number()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_storage::{Column, DataType};

    use super::*;

    fn sample() -> (Schema, TableOptions) {
        let columns =
            vec![Column::new("id", DataType::Int64), Column::nullable("name", DataType::Text)];
        let index = IndexSpec {
            name: "by_name".into(),
            columns: vec!["name".into(), "id".into()],
            unique: true,
            nulls_not_distinct: true,
        };
        let options = TableOptions { indexes: vec![index], replicated: true, tablespace: Some(3) };
        (Schema::new(columns, &["id"]).unwrap(), options)
    }

    #[test]
    fn a_table_comes_back_as_it_was() {
        let (schema, options) = sample();
        let found = decode(&encode(TableSerial(7), "people", &schema, &options)).unwrap();
        assert_eq!((found.serial, &found.name[..]), (TableSerial(7), "people"));
        assert_eq!((&found.schema, &found.options), (&schema, &options));
        assert_eq!(decode_options(&encode_options(&schema, &options), &schema), Some(options));
    }

    #[test]
    fn an_index_has_no_more_columns_than_a_table() {
        let (schema, options) = sample();
        for (count, fits) in [(COLUMNS_MAX, true), (COLUMNS_MAX + 1, false)] {
            let mut options = options.clone();
            options.indexes[0].columns = vec!["name".into(); count];
            let found = decode(&encode(TableSerial(7), "people", &schema, &options));
            assert_eq!(found.is_some(), fits, "{count} columns");
        }
    }

    #[test]
    fn bytes_cut_short_or_changed_end_without_a_panic() {
        let (schema, options) = sample();
        let bytes = encode(TableSerial(7), "people", &schema, &options);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        let short = encode_options(&schema, &options);
        for len in 0..short.len() {
            assert!(decode_options(&short[..len], &schema).is_none(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = decode(&damaged);
            }
        }
    }
}
