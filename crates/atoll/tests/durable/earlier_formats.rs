//! Folders that an earlier version has written open in this one, and show what was durable.
//!
//! `fixtures/format-4` is a folder of a process that ended without closing its database. The table
//! "people" has 300 rows of a checkpoint, of which the log then deletes every seventh and changes
//! others; the table "events" and its 200 rows are in the log only. The log was shortened to its
//! last block; this test extends it to the bytes that the earlier version had reserved.
//!
//! `fixtures/format-5` has two tablespaces. The tables "goods" and "stores" have 150 rows each of a
//! checkpoint; behind it, every tenth of "goods" is deleted and of "stores" changed. "orders" and
//! "notes" with 100 rows each are in the logs only.
//!
//! `fixtures/format-6` has two tablespaces. "gone" was dropped before the checkpoint, which has 150
//! rows of "kept" and 80 of "late". Behind it one transaction has dropped "late", created another
//! of that name with 40 rows, and deleted every tenth row of "kept"; "last" came and went, and
//! "end" has 30 rows.
//!
//! `fixtures/format-7` has two tablespaces. The checkpoint has 150 rows of "first" and 80 of
//! "second"; "third" has 60 in the log. Behind the checkpoint one transaction has renamed "second",
//! a column of it and its index, and deleted every tenth row; one has dropped the index of "third"
//! and added 30 rows; and every tenth row of "first" is deleted.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;

use atoll::{Database, DatabaseOptions, Range, TableChange, Transaction, Value};

const LOG: &str = "log-000000000000";

/// Copies the folder of a format; its log files had so many bytes.
fn copy(format: &str, log_bytes: u64, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format);
    fs::copy(from.join("control"), to.join("control")).unwrap();
    for node in ["node-0", "node-1"].iter().filter(|node| from.join(node).exists()) {
        let (from, to) = (from.join(node), to.join(node));
        fs::create_dir(&to).unwrap();
        for file in ["home", "map-000000000001", LOG] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
        File::options().write(true).open(to.join(LOG)).unwrap().set_len(log_bytes).unwrap();
    }
}

fn person(id: i64) -> Option<Vec<Value>> {
    let is_changed = id % 11 == 1;
    let name = match id % 3 {
        _ if is_changed => Value::Text("changed after the checkpoint".into()),
        0 => Value::Null,
        1 => Value::Text(format!("n{id}")),
        _ => Value::Text(format!("a name of more than twelve bytes {id}")),
    };
    let paid = Value::Decimal(if is_changed { -1 } else { i128::from(id) * 101 });
    let active = if id % 5 == 0 { Value::Null } else { Value::Bool(id % 2 == 0) };
    (id % 7 != 0).then(|| vec![id.into(), name, paid, active])
}

fn check(db: &Database) {
    let [people, events] = ["people", "events"].map(|name| db.table(name).unwrap());
    db.transaction(|tx| {
        for id in 0..300 {
            assert_eq!(tx.read(&people, &[Value::Int64(id)])?, person(id), "person {id}");
        }
        for at in 0..200i64 {
            let what = Value::Binary(vec![at as u8; (at % 40) as usize]);
            let event = tx.read(&events, &[Value::Timestamp(at * 1000)])?;
            assert_eq!(event, Some(vec![Value::Timestamp(at * 1000), what]), "event {at}");
        }
        let changed = [Value::Text("changed after the checkpoint".into())];
        let mut found = 0;
        let index = people.index("by_name").unwrap();
        tx.scan(
            &index,
            Range::prefix(&changed),
            |_| (),
            |()| {
                found += 1;
                ControlFlow::Continue(())
            },
        )?;
        assert_eq!(found, (1..300).step_by(11).filter(|id| id % 7 != 0).count());
        Ok(())
    })
    .unwrap();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.table("people").unwrap().row_count().unwrap(), 257);
    assert_eq!(snapshot.table("events").unwrap().row_count().unwrap(), 200);
}

#[test]
fn a_folder_of_format_4_opens_and_is_changed_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    copy("format-4", 16 << 20, folder.path());
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let db = open();
    check(&db);
    let people = db.table("people").unwrap();
    let more = |id: i64| [id.into(), Value::Null, Value::Decimal(0), Value::Null];
    db.transaction(|tx| (300..2000).try_for_each(|id| tx.insert(&people, &more(id)))).unwrap();
    drop(db);
    let db = open();
    let people = db.table("people").unwrap();
    let delete = |tx: &mut Transaction, id: i64| tx.delete(&people, &[id.into()]).map(drop);
    db.transaction(|tx| (300..2000).try_for_each(|id| delete(tx, id))).unwrap();
    check(&db);
    db.checkpoint().unwrap();
    drop(db);
    check(&open());
}

const GOODS: [(&str, i64); 4] = [("goods", 150), ("stores", 150), ("orders", 100), ("notes", 100)];

fn goods_row(table: &str, id: i64) -> Option<Vec<Value>> {
    let is_tenth = id % 10 == 0;
    let name = match id % 4 {
        _ if is_tenth && table == "stores" => Value::Text("moved".into()),
        0 => Value::Null,
        2 => Value::Text(format!("{table} {id}")),
        _ => Value::Text(format!("a long name in {table}, of number {id}")),
    };
    let row = vec![id.into(), name, Value::Float64(id as f64 / 4.0)];
    (!is_tenth || table != "goods").then_some(row)
}

/// Checks the tables of this number on, except the first `changed` rows of each.
fn check_goods(db: &Database, from: usize, changed: i64) {
    for (name, rows) in &GOODS[from..] {
        let table = db.table(name).unwrap();
        db.transaction(|tx| {
            for id in changed..*rows {
                assert_eq!(
                    tx.read(&table, &[Value::Int64(id)])?,
                    goods_row(name, id),
                    "{name} {id}"
                );
            }
            let (index, mut found) = (table.index("by_name").unwrap(), 0);
            let wanted = Value::Text(format!("a long name in {name}, of number 77"));
            tx.scan(
                &index,
                Range::prefix(&[wanted]),
                |_| (),
                |()| {
                    found += 1;
                    ControlFlow::Continue(())
                },
            )?;
            assert_eq!(found, 1, "{name}");
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_folder_of_format_5_opens_and_is_changed_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    copy("format-5", 64 << 10, folder.path());
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let db = open();
    check_goods(&db, 0, 0);
    assert_eq!(db.tables(), GOODS.map(|(name, _)| name));
    let delete = |db: &Database, id: i64| {
        for (name, _) in GOODS {
            let table = db.table(name).unwrap();
            db.transaction(|tx| tx.delete(&table, &[id.into()]).map(drop)).unwrap();
        }
    };
    delete(&db, 0);
    drop(db);
    let db = open();
    check_goods(&db, 0, 1);
    delete(&db, 1);
    db.checkpoint().unwrap();
    delete(&db, 2);
    drop(db);
    check_goods(&open(), 0, 3);
}

/// Rows of the tables of the folder of format 6, and the name that is in their texts.
const KEPT: [(&str, &str, i64); 3] =
    [("kept", "kept", 150), ("late", "new", 40), ("end", "end", 30)];

fn kept_row(table: &str, named: &str, id: i64) -> Option<Vec<Value>> {
    let name = match id % 3 {
        0 => Value::Null,
        1 => Value::Text(format!("{named} {id}")),
        _ => Value::Text(format!("a long name in {named}, of number {id}")),
    };
    (table != "kept" || id % 10 != 0).then(|| vec![id.into(), name])
}

fn check_kept(db: &Database) {
    for (name, named, rows) in KEPT {
        let table = db.table(name).unwrap();
        db.transaction(|tx| {
            for id in 0..rows {
                let expected = kept_row(name, named, id);
                assert_eq!(tx.read(&table, &[Value::Int64(id)])?, expected, "{name} {id}");
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_folder_of_format_6_opens_and_its_tables_are_altered() {
    let folder = tempfile::tempdir().unwrap();
    copy("format-6", 64 << 10, folder.path());
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let db = open();
    check_kept(&db);
    assert_eq!(db.tables(), KEPT.map(|(name, _, _)| name));
    for (name, _, _) in KEPT {
        let table = db.table(name).unwrap();
        assert_eq!(table.indexes().len(), 1);
        let to = TableChange {
            name: name.to_owned(),
            schema: table.schema().clone(),
            added: vec![],
            indexes: vec![],
        };
        db.transaction(|tx| tx.alter_table(&table, &to).map(drop)).unwrap();
    }
    drop(db);
    let db = open();
    check_kept(&db);
    assert!(KEPT.iter().all(|(name, _, _)| db.table(name).unwrap().indexes().is_empty()));
    db.checkpoint().unwrap();
    drop(db);
    check_kept(&open());
}

/// Rows of the tables of the folder of format 7: their name, the name in their texts, their number,
/// the names of their last column and of their index.
type Altered = (&'static str, &'static str, i64, &'static str, Option<&'static str>);
const ALTERED: [Altered; 3] = [
    ("first", "first", 150, "n", Some("by_name")),
    ("renamed", "second", 80, "number", Some("by_number")),
    ("third", "third", 90, "n", None),
];

fn altered_row(table: &str, named: &str, id: i64) -> Option<Vec<Value>> {
    let name = match id % 3 {
        0 => Value::Null,
        1 => Value::Text(format!("{named} {id}")),
        _ => Value::Text(format!("a long name in {named}, of number {id}")),
    };
    let row = vec![id.into(), name, Value::Int32((id % 7) as i32)];
    (table == "third" || id % 10 != 0).then_some(row)
}

#[test]
fn a_folder_of_format_7_opens_and_its_tables_get_columns() {
    let folder = tempfile::tempdir().unwrap();
    copy("format-7", 64 << 10, folder.path());
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let check = |db: &Database, more: &[Value]| {
        for (name, named, rows, column, index) in ALTERED {
            let table = db.table(name).unwrap();
            assert_eq!(table.schema().columns()[2].name, column, "{name}");
            let indexes: Vec<_> = table.indexes().into_iter().map(|index| index.name).collect();
            assert!(indexes.iter().map(String::as_str).eq(index), "{name}: {indexes:?}");
            db.transaction(|tx| {
                for id in 0..rows {
                    let expected = altered_row(name, named, id).map(|row| [&row, more].concat());
                    assert_eq!(tx.read(&table, &[id.into()])?, expected, "{name} {id}");
                }
                Ok(())
            })
            .unwrap();
        }
    };
    let db = open();
    check(&db, &[]);
    for (name, ..) in ALTERED {
        let table = db.table(name).unwrap();
        let column = atoll::Column::new("added", atoll::DataType::Int64);
        let to = TableChange {
            name: name.to_owned(),
            schema: table.schema().with_columns([column].into_iter()).unwrap(),
            added: vec![Value::Int64(7)],
            indexes: table.indexes(),
        };
        let altered = db.transaction(|tx| tx.alter_table(&table, &to)).unwrap();
        altered.expect("the rows have one value in the column");
    }
    drop(db);
    let db = open();
    check(&db, &[Value::Int64(7)]);
    db.checkpoint().unwrap();
    drop(db);
    check(&open(), &[Value::Int64(7)]);
}
