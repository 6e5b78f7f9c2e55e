//! The tables of `pg_catalog`, and their columns.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use atoll::DataType;

/// The key of the metadata of a field that tells a type of PostgreSQL which has no type here: its
/// values are those of the Arrow type.
pub const SYSTEM_TYPE: &str = "atoll.system_type";

/// A table.
pub(super) struct SystemTable {
    pub(super) name: &'static str,
    pub(super) oid: u32,
    /// Their names and types.
    pub(super) columns: Vec<(&'static str, &'static str)>,
    schema: SchemaRef,
}

/// All tables, in the order of their names.
pub(super) static TABLES: LazyLock<Vec<SystemTable>> = LazyLock::new(|| {
    let lines = include_str!("tables.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(SystemTable::parse).collect()
});

/// The table of a name.
pub(super) fn named(name: &str) -> Option<&'static SystemTable> {
    TABLES.iter().find(|table| table.name == name)
}

/// The columns of a table, with their types where they are types of the catalogs alone.
pub(crate) fn columns_of(table: &str) -> Option<Vec<(String, Option<&'static str>)>> {
    let column = |(name, of): &(&'static str, &'static str)| {
        ((*name).to_owned(), Some(*of).filter(|of| is_of_catalogs(of)))
    };
    Some(named(table)?.columns.iter().map(column).collect())
}

fn is_of_catalogs(of: &str) -> bool {
    matches!(of, "oid" | "regproc" | "xid" | "name" | "char" | "oid[]" | "oidvector" | "int2vector")
}

/// The Arrow type of a type of the catalogs.
fn arrow(name: &str) -> ArrowType {
    let of = match name {
        "boolean" => DataType::Bool,
        "smallint" => DataType::Int16,
        "integer" => DataType::Int32,
        "bigint" | "oid" | "regproc" | "xid" => DataType::Int64,
        "real" => DataType::Float32,
        "float8" => DataType::Float64,
        "timestamptz" => DataType::TimestampTz,
        "bytea" => DataType::Binary,
        _ => {
            let element = match name {
                "oid[]" | "oidvector" => DataType::Int64,
                "smallint[]" | "int2vector" => DataType::Int16,
                "real[]" => DataType::Float32,
                "text[]" => DataType::Text,
                _ => return atoll::arrow_type(DataType::Text),
            };
            element.array().unwrap_or(DataType::Text)
        }
    };
    atoll::arrow_type(of)
}

/// A field of a type of the catalogs.
pub(super) fn field(name: &str, of: &str) -> Field {
    let field = Field::new(name, arrow(of), true);
    match is_of_catalogs(of) {
        true => field.with_metadata([(SYSTEM_TYPE.to_owned(), of.to_owned())].into()),
        false => field,
    }
}

impl SystemTable {
    fn parse(line: &'static str) -> Option<Self> {
        let (head, columns) = line.split_once(": ")?;
        let (name, oid) = head.split_once(' ')?;
        let columns = columns.split(", ").map(|column| column.split_once(' '));
        let columns: Vec<_> = columns.collect::<Option<_>>()?;
        let fields: Vec<_> = columns.iter().map(|(name, of)| field(name, of)).collect();
        let schema = Arc::new(Schema::new(fields));
        Some(Self { name, oid: oid.parse().ok()?, columns, schema })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
