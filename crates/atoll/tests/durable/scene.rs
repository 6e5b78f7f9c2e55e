//! A table, and changes to it.

use std::collections::BTreeMap;

use atoll::{
    Column, DataType, Database, DatabaseOptions, IndexSpec, LogsOptions, Planted, Schema,
    SchemeKind, Table, TableOptions, Value,
};

pub const LOGS: LogsOptions = LogsOptions {
    file_bytes: 256 << 10,
    ring_bytes: 4 << 20,
    in_turns: false,
    planted: Planted::Nothing,
};

pub fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        partitions: Some(2),
        tablespaces: Some(2),
        memory_limit_bytes: Some(256 << 20),
        logs: LOGS,
        ..DatabaseOptions::default()
    }
}

pub fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("name", DataType::Text),
        Column::new("amount", DataType::Int32),
        Column::nullable("is_open", DataType::Bool),
        Column::nullable("price", DataType::Float64),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

pub fn row(id: i64, round: i64) -> Vec<Value> {
    let name = match (id + round) % 4 {
        0 => Value::Null,
        1 => Value::Text("short".into()),
        _ => Value::Text(format!("a longer name of {id} in round {round}")),
    };
    let is_open = if id % 3 == 0 { Value::Null } else { Value::Bool((id + round) % 2 == 0) };
    let amount = Value::Int32((id * 7 + round) as i32);
    let price = if id % 5 == 0 { Value::Null } else { Value::Float64(id as f64 / 3.0) };
    vec![Value::Int64(id), name, amount, is_open, price]
}

pub fn create(db: &Database, name: &str) -> Table {
    let indexes = vec![IndexSpec {
        name: "by_amount".into(),
        columns: vec!["amount".into()],
        unique: false,
        nulls_not_distinct: false,
    }];
    let options = TableOptions { indexes, ..TableOptions::default() };
    db.create_table_with(name, schema(), &options).unwrap()
}

pub type Rows = BTreeMap<i64, Vec<Value>>;

/// All rows by a snapshot; checks that the key and the index find them.
pub fn rows(db: &Database, name: &str) -> Rows {
    let table = db.table(name).unwrap();
    let index = table.index("by_amount").unwrap();
    let mut by_index = Rows::new();
    let mut by_key = Rows::new();
    let mut session = db.session().unwrap();
    session
        .transaction(|tx| {
            by_index.clear();
            by_key.clear();
            tx.scan(
                &index,
                atoll::Range::ALL,
                |row| (0..5).map(|at| row.value(at)).collect::<Vec<_>>(),
                |row| {
                    let Value::Int64(id) = row[0] else { panic!("a key is a number") };
                    assert!(by_index.insert(id, row).is_none());
                    std::ops::ControlFlow::Continue(())
                },
            )?;
            for id in by_index.keys() {
                let row = tx.read(&table, &[Value::Int64(*id)])?.unwrap();
                by_key.insert(*id, row);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(by_index, by_key);
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.table(name).unwrap().row_count().unwrap(), by_key.len() as u64);
    by_key
}

/// Inserts, updates and deletes; `expected` gets the same changes.
pub fn work(db: &Database, table: &Table, expected: &mut Rows, round: i64) {
    let mut session = db.session().unwrap();
    for base in 0..20 {
        let mut next = expected.clone();
        session
            .transaction(|tx| {
                next = expected.clone();
                for id in (base * 10..base * 10 + 10).filter(|id| (id + round) % 3 != 2) {
                    let key = [Value::Int64(id)];
                    let new = row(id, round);
                    match next.get(&id) {
                        None => tx.insert(table, &new)?,
                        Some(_) if (id + round) % 7 == 0 => {
                            tx.delete(table, &key)?;
                            next.remove(&id);
                            continue;
                        }
                        Some(_) => {
                            let changes: Vec<_> = (1..5).map(|at| (at, new[at].clone())).collect();
                            assert!(tx.update(table, &key, &changes)?);
                        }
                    }
                    next.insert(id, new);
                }
                Ok(())
            })
            .unwrap();
        *expected = next;
    }
}
