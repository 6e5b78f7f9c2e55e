//! The nine tables in SQL. Text of a fixed size is `text` here.

use std::fmt::Write;

use atoll::{DataType, Database, Table, Transaction, TxnResult, Value};

use crate::error::BenchError;
use crate::tpcc::fill::Filled;
use crate::tpcc::schema::{CUSTOMER_BY_NAME, Kind, NULLABLE, ORDERS_BY_CUSTOMER};

/// The statements that create the tables and the indexes of a database where an index is created by
/// itself.
pub fn definitions() -> Vec<String> {
    let mut statements: Vec<String> = Kind::ALL.map(|kind| create_table(kind, "")).into();
    for (table, (name, columns)) in indexes() {
        let (table, columns) = (table.name(), columns.join(", "));
        statements.push(format!("CREATE INDEX {name} ON {table} ({columns})"));
    }
    statements
}

/// The statements for a database where the indexes are a part of the table's definition.
pub fn definitions_with_indexes() -> Vec<String> {
    let create = |kind| {
        let mut inside = String::new();
        for (_, (name, columns)) in indexes().iter().filter(|(table, _)| *table == kind) {
            let _ = write!(inside, ", INDEX {name} ({})", columns.join(", "));
        }
        create_table(kind, &inside)
    };
    Kind::ALL.map(create).into()
}

type Index = (&'static str, &'static [&'static str]);

fn indexes() -> [(Kind, Index); 2] {
    [(Kind::Customer, CUSTOMER_BY_NAME), (Kind::Orders, ORDERS_BY_CUSTOMER)]
}

fn create_table(kind: Kind, indexes: &str) -> String {
    let (name, columns, key) = kind.definition();
    let columns = columns.iter().map(|(name, data_type)| {
        let sql = match data_type {
            DataType::Int16 => "smallint",
            DataType::Int32 => "integer",
            DataType::Int64 => "bigint",
            DataType::Timestamp => "timestamp",
            _ => "text",
        };
        let null = if NULLABLE.contains(name) { "" } else { " NOT NULL" };
        format!("{name} {sql}{null}")
    });
    let columns: Vec<String> = columns.collect();
    let key = key.join(", ");
    format!("CREATE TABLE {name} ({}, PRIMARY KEY ({key}){indexes})", columns.join(", "))
}

/// The value of a column as it is in SQL.
pub fn in_sql(value: &Value) -> Value {
    match value {
        Value::Binary(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        other => other.clone(),
    }
}

/// The tables of a database of Atoll.
pub struct SqlTables(Vec<Table>);

impl SqlTables {
    /// Finds them.
    ///
    /// # Errors
    /// One is missing.
    pub fn find(db: &Database) -> Result<Self, BenchError> {
        let found = Kind::ALL.iter().map(|kind| Ok(db.table(kind.name())?));
        Ok(Self(found.collect::<Result<_, BenchError>>()?))
    }
}

impl Filled for SqlTables {
    fn partition(&self, warehouse: i16) -> u32 {
        self.0[Kind::Warehouse as usize].partition(&[Value::Int16(warehouse)])
    }

    fn put(&self, tx: &mut Transaction, kind: Kind, row: &[Value]) -> TxnResult<()> {
        let row: Vec<Value> = row.iter().map(in_sql).collect();
        tx.insert(&self.0[kind as usize], &row)
    }
}
