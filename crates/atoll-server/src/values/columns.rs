//! The columns of a result as they are described to a client, and rows in their formats.

use arrow_schema::Schema;
use atoll::DataType;
use atoll_sql::{SYSTEM_TYPE, SqlSession, ToldType, type_of_field, varchar_limit};

use super::{Cell, binary, oids, text};
use crate::wire::out::Out;

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) oid: u32,
    modifier: i32,
    /// `None` for one that no table has, such as NULL.
    pub(crate) data_type: Option<DataType>,
}

#[cfg(test)]
impl Column {
    /// A column of a type without a modifier.
    pub(crate) fn plain(name: &str, oid: u32) -> Self {
        Self { name: name.to_owned(), oid, modifier: -1, data_type: None }
    }
}

/// The columns of a result of a session.
pub(crate) fn columns_of(schema: &Schema, session: &SqlSession) -> Vec<Column> {
    let column = |field: &arrow_schema::Field| {
        let data_type = type_of_field(field).or_else(|| query_type(field.data_type()));
        let of_system = field.metadata().get(SYSTEM_TYPE).and_then(|name| oids::of_system(name));
        let own = || {
            data_type.map_or(oids::TEXT, |own| oids::of(own, &|one| session.number_of_type(one)))
        };
        let limit = varchar_limit(field).map(DataType::Varchar);
        let modifier = limit.or(data_type).map_or(-1, oids::modifier_of);
        let oid = of_system.or(limit.map(|_| oids::VARCHAR)).unwrap_or_else(own);
        Column { name: field.name().clone(), oid, modifier, data_type }
    };
    schema.fields().iter().map(|field| column(field)).collect()
}

/// Gives columns the types that a client is told of instead.
pub(crate) fn tell(columns: &mut [Column], told: &[Option<ToldType>]) {
    for (column, told) in columns.iter_mut().zip(told) {
        if let Some(told) = *told {
            column.oid = oids::told(told, &|_| None);
            column.modifier = match told {
                ToldType::Own(data_type) => oids::modifier_of(data_type),
                ToldType::System(_) => -1,
            };
        }
    }
}

/// The types of values that no column of a table has, and a query may have.
fn query_type(arrow: &arrow_schema::DataType) -> Option<DataType> {
    use arrow_schema::DataType as Arrow;
    Some(match arrow {
        Arrow::Int8 | Arrow::UInt8 => DataType::Int16,
        Arrow::UInt16 => DataType::Int32,
        Arrow::UInt32 => DataType::Int64,
        Arrow::UInt64 => DataType::Decimal { precision: 38, scale: 0 },
        Arrow::Interval(_) | Arrow::Duration(_) => DataType::Interval,
        Arrow::List(item) | Arrow::LargeList(item) => type_of_field(item)?.array()?,
        _ => return None,
    })
}

/// The format of a column: of those that the client has asked for, one for all or one for each.
pub(crate) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(0),
    }
}

/// Writes the description of the columns, or that there are none.
pub(crate) fn put_description(columns: &[Column], formats: &[i16], out: &mut Out) {
    let open = out.begin(b'T');
    out.i16(columns.len() as i16);
    for (at, column) in columns.iter().enumerate() {
        out.text(&column.name);
        // It is told of no table.
        out.i32(0);
        out.i16(0);
        out.u32(column.oid);
        out.i16(oids::width_of(column.oid));
        out.i32(column.modifier);
        out.i16(format_of(formats, at));
    }
    out.end(open);
}

/// Writes a row.
///
/// # Errors
/// One clause: a value has no binary form. Nothing is written then.
pub(crate) fn put_row<'v>(
    cells: impl Iterator<Item = Result<Cell<'v>, String>>,
    columns: &[Column],
    formats: &[i16],
    out: &mut Out,
) -> Result<(), String> {
    let before = out.len();
    let open = out.begin(b'D');
    out.i16(columns.len() as i16);
    for (at, (cell, column)) in cells.zip(columns).enumerate() {
        let format = format_of(formats, at);
        let written = cell.and_then(|cell| put_value(&cell, column.oid, format, out));
        if let Err(why) = written {
            out.cut(before);
            return Err(format!("column \"{}\": {why}", column.name));
        }
    }
    out.end(open);
    Ok(())
}

/// Writes a value with its length.
pub(crate) fn put_value(
    cell: &Cell<'_>,
    oid: u32,
    format: i16,
    out: &mut Out,
) -> Result<(), String> {
    if *cell == Cell::Null {
        out.i32(-1);
        return Ok(());
    }
    let bytes = out.raw();
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    match format {
        0 if oids::element_of_vector(oid).is_some() => text::put_vector(cell, bytes),
        0 if oid == oids::REGPROC => text::put_function(cell, bytes),
        0 => text::put(cell, bytes),
        _ => binary::put(cell, oid, bytes)?,
    }
    let length = (bytes.len() - start - 4) as u32;
    bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
