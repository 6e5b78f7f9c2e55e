//! Folders that an earlier version has written open in this one, and show what was durable.
//!
//! `fixtures/format-4` is a folder of a process that ended without closing its database. The table
//! "people" has 300 rows of a checkpoint, of which the log then deletes every seventh and changes
//! others; the table "events" and its 200 rows are in the log only. The log was shortened to its
//! last block; this test extends it to the bytes that the earlier version had reserved.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;

use atoll::{Database, DatabaseOptions, Range, Transaction, Value};

const LOG_BYTES: u64 = 16 << 20;
const LOG: &str = "node-0/log-000000000000";

fn copy(to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-4");
    fs::create_dir(to.join("node-0")).unwrap();
    for file in ["control", "node-0/home", "node-0/map-000000000001", LOG] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    File::options().write(true).open(to.join(LOG)).unwrap().set_len(LOG_BYTES).unwrap();
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
    copy(folder.path());
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
