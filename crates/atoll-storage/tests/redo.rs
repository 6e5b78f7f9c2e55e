//! Changes that are applied to a table by recovery: a change that does not fit the table is refused
//! and has no effect.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use atoll_machine::Native;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::redo::{Head, Kind};
use atoll_storage::{
    Change, Column, DataType, Directory, RowId, Schema, Shown, StorageError, Table, TableSerial,
    Value,
};

fn table() -> (Table<Native>, Arc<Memory>) {
    let config = SwingConfig { buddy_bytes: 64 << 20, ..SwingConfig::default() };
    let capacity_bytes = SwingMalloc::capacity_for(&config);
    let options = StoreOptions { capacity_bytes, limit_bytes: 64 << 20, huge_pages: false };
    let store = Arc::new(Store::create_memfd("atoll-test", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &config).unwrap();
    let memory = Arc::new(Memory::new(store, swing));
    let directory = Arc::new(Directory::create(Arc::clone(&memory)).unwrap());
    let columns =
        vec![Column::new("id", DataType::Int64), Column::nullable("text", DataType::Text)];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let mut member = memory.join().unwrap();
    let section = member.enter();
    let change = Change::forward(section.inside());
    let table =
        Table::create(&directory, change, (TableSerial(0), Shown::Yes), "table", (schema, &[]))
            .unwrap();
    table.add_segments(change, 1).unwrap();
    drop(section);
    drop(member);
    (table, memory)
}

#[test]
fn a_row_has_each_column_once() {
    let (table, memory) = table();
    let mut member = memory.join().unwrap();
    let section = member.enter();
    let change = Change::forward(section.inside());
    let (one, two) = (1i64.to_le_bytes(), 2i64.to_le_bytes());
    let put = |row| Head { table: TableSerial(0), row: RowId(row), kind: Kind::Put };
    table.redo(change, 2, put(0), &[(1, Some(b"in any order")), (0, Some(&one))]).unwrap();
    for cells in [vec![(0, Some(&two[..])), (0, Some(&two))], vec![(1, None), (1, None)]] {
        for row in [0, 1] {
            let error = table.redo(change, 2, put(row), &cells).unwrap_err();
            assert!(matches!(error, StorageError::BadRecord { .. }), "{error}");
        }
    }
    assert_eq!(table.value(RowId(0), 0), Value::Int64(1));
    assert_eq!(table.value(RowId(0), 1), Value::Text("in any order".into()));
    assert!(!table.is_present(RowId(1)));
}
