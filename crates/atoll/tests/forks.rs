//! Forked children: the objects of their parent are refused there, nothing that they do affects the
//! parent, and what they read does not change.
#![allow(clippy::unwrap_used)]

mod fork_common;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, LeaseError, Schema, Snapshot, Table,
    TxnError, Value,
};
use fork_common::{Signal, eventually, forked};

const ROWS: i64 = 20_000;

fn small() -> DatabaseOptions {
    DatabaseOptions { memory_limit_bytes: Some(128 << 20), ..Default::default() }
}

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Text),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn row(id: i64, value: i64) -> [Value; 3] {
    [id.into(), value.into(), format!("the note of row {id} with the value {value}").into()]
}

/// One test at a time: a child of another test would go on reading what this one has released.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database with a table of [`ROWS`] rows.
fn filled(options: DatabaseOptions) -> (Database, Table) {
    let db = Database::create(options).unwrap();
    let table = fill(&db);
    (db, table)
}

fn fill(db: &Database) -> Table {
    let table = db.create_table("t", schema()).unwrap();
    db.transaction(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, &row(id, 1)))).unwrap();
    table
}

fn overwrite(db: &Database, table: &Table, value: i64) {
    let set = |id: i64| [(1, value.into()), (2, row(id, value)[2].clone())];
    db.transaction(|tx| {
        (0..ROWS).try_for_each(|id| tx.update(table, &[id.into()], &set(id)).map(drop))
    })
    .unwrap();
}

/// Whether all rows of a snapshot have this value and the note for it.
fn shows(snapshot: &Snapshot, value: i64) -> bool {
    let table = snapshot.table("t").unwrap();
    let mut rows = 0;
    for at in 0..table.segment_count() {
        let segment = table.segment(at).unwrap();
        let (ids, values) = (segment.array(0).unwrap(), segment.array(1).unwrap());
        let notes = segment.array(2).unwrap();
        for slot in 0..segment.slots() {
            let id = ids.as_primitive::<Int64Type>().value(slot);
            let note = format!("the note of row {id} with the value {value}");
            if values.as_primitive::<Int64Type>().value(slot) != value
                || notes.as_string_view().value(slot) != note
            {
                return false;
            }
        }
        rows += notes.len() as i64;
    }
    rows == ROWS && table.contiguous(1).unwrap().rows() as i64 == ROWS
}

fn is_refused<T>(done: Result<T, Error>) -> bool {
    let parent = std::os::unix::process::parent_id();
    matches!(done, Err(Error::ForkedChild { pid, .. }) if pid == parent)
}

fn is_refused_inside<T>(done: Result<T, TxnError>) -> bool {
    matches!(done, Err(TxnError::Error(Error::ForkedChild { .. })))
}

#[test]
fn everything_of_the_owner_is_refused_in_a_child_and_stays_as_it_is() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), small()).unwrap();
    let table = fill(&db);
    let (mut open, mut kept) = (Some(db.begin().unwrap()), Some(db.begin().unwrap()));
    open.as_mut().unwrap().insert(&table, &row(ROWS, 1)).unwrap();
    let mut session = db.session().unwrap();
    let runtime_dir = tempfile::tempdir().unwrap();
    let mut handle = Some(db);
    forked(|| {
        let db = handle.take().unwrap();
        let nothing = |_: &mut atoll::Transaction| Ok(());
        assert!(is_refused(db.begin()) && is_refused(db.session()) && is_refused(db.lanes(2)));
        assert!(is_refused(db.transaction(nothing)) && is_refused(session.transaction(nothing)));
        assert!(is_refused(db.table("t")) && is_refused(db.create_table("u", schema())));
        assert!(is_refused(db.snapshot()) && is_refused(db.budget()) && is_refused(db.mark()));
        assert!(is_refused(db.publish("child", Some(runtime_dir.path()))));
        assert!(
            is_refused(db.flush()) && is_refused(db.checkpoint()) && is_refused(db.log_bytes())
        );
        assert!(is_refused(db.backup(&runtime_dir.path().join("copy"))));
        assert!(is_refused(db.check_owner()) && is_refused(db.clone().close()));
        assert!(db.tables().is_empty() && db.snapshots().is_empty() && db.name().is_none());
        assert!(db.counters().commits == 0 && db.accounting().commits == 0);
        assert!(db.checkpoints() == 0 && db.flushes() == 0 && db.health().is_well());
        let mut inside = open.take().unwrap();
        let key = [Value::Int64(1)];
        assert!(is_refused_inside(inside.insert(&table, &row(-1, 1))));
        assert!(is_refused_inside(inside.insert(&table, &row(-1, 1))));
        assert!(is_refused_inside(inside.update(&table, &key, &[(1, 5i64.into())])));
        assert!(is_refused_inside(inside.update_with(&table, &key, |row| row.set_i64(1, 5))));
        assert!(is_refused_inside(inside.delete(&table, &key)));
        assert!(is_refused_inside(inside.commit()));
        kept.take().unwrap().rollback();
        drop((db, table.clone()));
        true
    })
    .holds();
    let db = handle.unwrap();
    let mut inside = open.unwrap();
    inside.insert(&table, &row(ROWS + 1, 1)).unwrap();
    inside.commit().unwrap();
    drop(kept);
    drop(session);
    assert_eq!(
        db.transaction(|tx| tx.read(&table, &[ROWS.into()])).unwrap().unwrap()[0],
        ROWS.into()
    );
    db.checkpoint().unwrap();
    drop(table);
    db.close().unwrap();
    let db = Database::open(folder.path(), small()).unwrap();
    let table = db.table("t").unwrap();
    assert_eq!(table.row_count() as i64, ROWS + 2);
}

#[test]
fn a_child_has_databases_of_its_own_which_its_own_children_cannot_use() {
    let _alone = alone();
    let (db, _table) = filled(small());
    let runtime_dir = tempfile::tempdir().unwrap();
    db.publish("parent", Some(runtime_dir.path())).unwrap();
    let connection = atoll::attach("parent", Some(runtime_dir.path())).unwrap();
    forked(|| {
        // The connection is the parent's, and so is the remote end.
        let refused = connection.snapshot();
        assert!(matches!(refused, Err(Error::Lease(LeaseError::ForkedChild { .. }))));
        let attached = atoll::attach("parent", Some(runtime_dir.path())).unwrap();
        let snapshot = attached.snapshot().unwrap();
        let own = Database::derive(vec![snapshot.clone()], small()).unwrap();
        let table = fill(&own);
        own.publish("child", Some(runtime_dir.path())).unwrap();
        forked(|| is_refused(own.begin()) && db.begin().is_err() && shows(&snapshot, 1)).holds();
        overwrite(&own, &table, 2);
        shows(&own.snapshot().unwrap(), 2) && shows(&snapshot, 1)
    })
    .holds();
    assert!(connection.snapshot().is_ok());
}

#[test]
fn what_a_child_reads_stays_until_it_has_ended() {
    let _alone = alone();
    let (db, table) = filled(small());
    let snapshot = Some(db.snapshot().unwrap());
    let (go, ready) = (Signal::new(), Signal::new());
    let child = forked(|| {
        // The child's own child can read on after the child has ended.
        let _ = forked(|| {
            ready.send();
            go.wait();
            let held = shows(snapshot.as_ref().unwrap(), 1);
            ready.send();
            go.wait();
            held
        });
        true
    });
    child.holds();
    ready.wait();
    drop(snapshot);
    for value in 2..6 {
        overwrite(&db, &table, value);
        assert_eq!(db.snapshots().len(), 1);
    }
    // A later snapshot keeps nothing for it.
    drop(db.snapshot().unwrap());
    assert_eq!(db.snapshots().len(), 1);
    go.send();
    ready.wait();
    go.send();
    eventually("the lease ends with its last reader", || db.snapshots().is_empty());
    eventually("what it kept is free", || db.counters().memory_kept_bytes == 0);
}

#[test]
fn forks_while_other_threads_commit_and_read_spoil_nothing() {
    let _alone = alone();
    let (db, table) = filled(small());
    let snapshot = db.snapshot().unwrap();
    let (over, committed) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let done = committed.load(Ordering::Relaxed);
                if done < ROWS {
                    db.transaction(|tx| tx.insert(&table, &row(ROWS + done, 1))).unwrap();
                    committed.fetch_add(1, Ordering::Relaxed);
                } else {
                    let key = [Value::Int64(ROWS)];
                    db.transaction(|tx| tx.update(&table, &key, &[(1, 2i64.into())])).unwrap();
                }
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(shows(&snapshot, 1));
                drop(db.snapshot().unwrap());
            }
        });
        for _ in 0..40 {
            let (mut mine, mut of_mine) = (Some(db.clone()), Some(snapshot.clone()));
            forked(|| {
                let held = is_refused(db.begin()) && shows(&snapshot, 1);
                let own = Database::create(small()).unwrap();
                fill(&own);
                drop((mine.take(), of_mine.take(), own));
                held
            })
            .holds();
        }
        over.store(true, Ordering::Relaxed);
    });
    let rows = ROWS + committed.into_inner();
    assert_eq!(table.row_count() as i64, rows);
    for id in 0..rows {
        assert!(db.transaction(|tx| tx.read(&table, &[id.into()])).unwrap().is_some(), "{id}");
    }
}

#[test]
fn a_name_and_a_folder_are_free_when_their_owner_is_gone_though_its_child_lives() {
    let _alone = alone();
    let (runtime_dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ready, go) = (Signal::new(), Signal::new());
    let owner = forked(|| {
        let db = Database::open(folder.path(), small()).unwrap();
        fill(&db);
        db.publish("db", Some(runtime_dir.path())).unwrap();
        let _ = forked(|| {
            ready.send();
            go.wait();
            is_refused(db.begin())
        });
        ready.send();
        std::thread::sleep(std::time::Duration::from_secs(60));
        true
    });
    ready.wait();
    ready.wait();
    let connection = atoll::attach("db", Some(runtime_dir.path())).unwrap();
    let snapshot = connection.snapshot().unwrap();
    owner.kill();
    let gone = atoll::attach("db", Some(runtime_dir.path()));
    assert!(matches!(gone, Err(Error::Lease(LeaseError::OwnerGone { .. }))));
    assert!(matches!(connection.snapshot(), Err(Error::Lease(LeaseError::Closed { .. }))));
    assert!(shows(&snapshot, 1));
    let db = Database::open(folder.path(), small()).unwrap();
    assert_eq!(db.table("t").unwrap().row_count() as i64, ROWS);
    db.publish("db", Some(runtime_dir.path())).unwrap();
    assert!(atoll::attach("db", Some(runtime_dir.path())).is_ok());
    go.send();
}

#[test]
fn a_lease_of_another_process_lasts_while_a_child_has_it() {
    let _alone = alone();
    let runtime_dir = tempfile::tempdir().unwrap();
    let (db, table) = filled(small());
    db.publish("db", Some(runtime_dir.path())).unwrap();
    let connection = atoll::attach("db", Some(runtime_dir.path())).unwrap();
    let mut snapshot = Some(connection.snapshot().unwrap());
    let (ready, go) = (Signal::new(), Signal::new());
    let child = forked(|| {
        ready.send();
        go.wait();
        let held = shows(snapshot.as_ref().unwrap(), 1);
        // The child lives on without the snapshot.
        snapshot = None;
        ready.send();
        go.wait();
        held
    });
    ready.wait();
    snapshot = None;
    overwrite(&db, &table, 2);
    overwrite(&db, &table, 3);
    assert_eq!(db.snapshots().len(), 1);
    go.send();
    ready.wait();
    eventually("the lease ends", || db.snapshots().is_empty());
    go.send();
    child.holds();
    assert!(snapshot.is_none());
}
