//! Who inserts rows, and who restores a table, tells the table where rows in the order of their
//! keys lie. That lookups follow this cannot be told by what they find, only by how long they take.
#![allow(clippy::unwrap_used)]

// Nobody waits here.
#[allow(dead_code)]
mod waiting;

use atoll_storage::{RowId, Table, Value};
use atoll_txn::schemes::silo::Silo;
use atoll_txn::{Begin, SchemeOptions, TableOptions};

use waiting::Waiting;

/// More than a block of keys.
const ROWS: u64 = 3000;

fn hash(table: &Table<Waiting>, key: u64) -> u64 {
    table.hash(&[Value::Int64(key.cast_signed())])
}

fn assert_guessed(table: &Table<Waiting>) {
    for key in 0..ROWS {
        assert_eq!(table.guess(hash(table, key)), Some(RowId(key)), "{key}");
    }
}

#[test]
fn rows_are_guessed_after_they_were_inserted_and_after_their_table_was_restored() {
    let scheme = Silo::new(&SchemeOptions::default());
    let (engine, table) = waiting::engine(scheme, &TableOptions::default());
    let mut worker = engine.worker().unwrap();
    // Several transactions: what a worker has inserted last outlives each.
    for keys in [0..40, 40..1000, 1000..ROWS] {
        worker.begin(Begin::default()).unwrap();
        for key in keys {
            worker.insert(&table, &[key.cast_signed().into(), 0i64.into()]).unwrap();
        }
        worker.commit().unwrap();
    }
    assert_guessed(&table);

    // As a restored table begins: the rows are there, and nothing names them.
    for key in 0..ROWS {
        let hash = hash(&table, key);
        assert!(table.index().remove(hash, RowId(key)));
        while table.guess(hash).is_some() {
            table.doubt(hash);
        }
    }
    assert_eq!(engine.adopt(table.id(), 0..table.segment_count()), None);
    assert_guessed(&table);
}
