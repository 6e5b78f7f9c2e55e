//! Databases that are built on snapshots: the tables that they show and hide, and the leases that
//! they keep.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Schema, Snapshot, StorageError, Table,
};

fn options() -> DatabaseOptions {
    DatabaseOptions { memory_limit_bytes: Some(128 << 20), ..Default::default() }
}

fn table(db: &Database, name: &str, values: &[i64]) -> Table {
    let columns = vec![Column::new("id", DataType::Int64), Column::new("value", DataType::Int64)];
    let table = db.create_table(name, Schema::new(columns, &["id"]).unwrap()).unwrap();
    db.transaction(|tx| {
        let mut rows = values.iter().enumerate();
        rows.try_for_each(|(id, value)| tx.insert(&table, &[(id as i64).into(), (*value).into()]))
    })
    .unwrap();
    table
}

/// A database with one table.
fn with(name: &str, values: &[i64]) -> (Database, Table) {
    let db = Database::create(options()).unwrap();
    let table = table(&db, name, values);
    (db, table)
}

fn set(db: &Database, table: &Table, id: i64, value: i64) {
    assert!(db.transaction(|tx| tx.update(table, &[id.into()], &[(1, value.into())])).unwrap());
}

fn values(snapshot: &Snapshot, name: &str) -> Vec<i64> {
    let table = snapshot.table(name).unwrap();
    let segments = (0..table.segment_count()).map(|at| table.segment(at).unwrap());
    let arrays = segments.map(|segment| segment.array(1).unwrap());
    arrays.flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn snapshot_of(name: &str, dir: &Path) -> Snapshot {
    atoll::attach(name, Some(dir)).unwrap().snapshot().unwrap()
}

/// Publishes the database and takes a snapshot like another process.
fn published(db: &Database, name: &str, dir: &Path) -> Snapshot {
    db.publish(name, Some(dir)).unwrap();
    snapshot_of(name, dir)
}

#[test]
fn a_derived_database_shows_the_tables_of_its_base_as_they_were() {
    let (base, t) = with("t", &[1, 2, 3]);
    let derived = Database::derive(vec![base.snapshot().unwrap()], options()).unwrap();
    table(&derived, "mine", &[10]);
    set(&base, &t, 1, 99);
    let both = derived.snapshot().unwrap();
    assert_eq!(both.tables(), ["mine", "t"]);
    assert_eq!(values(&both, "t"), [1, 2, 3]);
    assert_eq!(values(&both, "mine"), [10]);
    assert_eq!(both.bases().len(), 1);
    assert_eq!(derived.bases()[0].epoch(), both.bases()[0].epoch());
    // The base's tables are not its own.
    assert_eq!(derived.tables(), ["mine"]);
    assert!(matches!(derived.table("t"), Err(Error::InheritedTable { .. })));
    assert!(matches!(derived.table("u"), Err(Error::Storage(StorageError::UnknownTable(_)))));
    let error = both.table("theirs").err().unwrap();
    assert_eq!(error.to_string(), "table \"theirs\" does not exist");
}

#[test]
fn a_table_of_its_own_hides_one_of_the_base_and_an_earlier_base_a_later_one() {
    let (first, _) = with("t", &[1]);
    table(&first, "u", &[2]);
    let (second, _) = with("t", &[3]);
    table(&second, "u", &[4]);
    table(&second, "v", &[5]);
    let bases = vec![first.snapshot().unwrap(), second.snapshot().unwrap()];
    let derived = Database::derive(bases, options()).unwrap();
    table(&derived, "t", &[6]);
    let all = derived.snapshot().unwrap();
    assert_eq!(all.tables(), ["t", "u", "v"]);
    assert_eq!([values(&all, "t"), values(&all, "u"), values(&all, "v")], [[6], [2], [5]]);
    assert_eq!(values(&all.bases()[0], "t"), [1], "what is hidden is still there");
    assert_eq!(values(&all.bases()[1], "u"), [4]);
}

#[test]
fn a_base_lives_as_long_as_anything_that_is_built_on_it() {
    let (base, t) = with("t", &[1]);
    let derived = Database::derive(vec![base.snapshot().unwrap()], options()).unwrap();
    let shown = derived.snapshot().unwrap();
    let column = shown.table("t").unwrap().segment(0).unwrap().array(1).unwrap();
    set(&base, &t, 0, 2);
    drop(derived);
    assert_eq!(base.counters().snapshots, 1, "a snapshot of the derived database keeps it");
    drop(shown);
    assert_eq!(base.counters().snapshots, 1, "a column keeps it");
    assert_eq!(column.as_primitive::<Int64Type>().values(), &[1]);
    drop(column);
    assert_eq!((base.counters().snapshots, base.counters().memory_kept_bytes), (0, 0));
}

#[test]
fn a_snapshot_outlives_the_handle_of_its_database() {
    let (base, _) = with("t", &[1, 2]);
    let snapshot = base.snapshot().unwrap();
    drop(base);
    let derived = Database::derive(vec![snapshot], options()).unwrap();
    assert_eq!(values(&derived.snapshot().unwrap(), "t"), [1, 2]);
}

#[test]
fn what_is_built_on_a_database_of_this_process_cannot_be_published() {
    let dir = tempfile::tempdir().unwrap();
    let (base, _) = with("t", &[1]);
    let derived = Database::derive(vec![base.snapshot().unwrap()], options()).unwrap();
    let error = derived.publish("derived", Some(dir.path())).unwrap_err();
    assert!(matches!(error, Error::LocalBase), "{error}");
    assert!(error.to_string().contains("attach to it by name"), "{error}");
    assert_eq!(derived.name(), None);
    assert!(atoll::attach("derived", Some(dir.path())).is_err());
    // Also deeper in the chain.
    let top = Database::derive(vec![derived.snapshot().unwrap()], options()).unwrap();
    assert!(matches!(top.publish("top", Some(dir.path())), Err(Error::LocalBase)));
    // Does what the message advises.
    base.publish("base", Some(dir.path())).unwrap();
    let again = Database::derive(vec![snapshot_of("base", dir.path())], options()).unwrap();
    assert_eq!(values(&published(&again, "again", dir.path()), "t"), [1]);
}

#[test]
fn a_chain_of_three_is_read_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (base, t) = with("t", &[1]);
    let mut at = published(&base, "base", dir.path());
    let mut chain = Vec::new();
    for level in 1..=3i64 {
        let db = Database::derive(vec![at], options()).unwrap();
        table(&db, &format!("t{level}"), &[level * 10]);
        // Each level has its own table `same`.
        table(&db, "same", &[level]);
        at = published(&db, &format!("level{level}"), dir.path());
        chain.push(db);
    }
    set(&base, &t, 0, 99);
    assert_eq!(at.tables(), ["t3", "same", "t2", "t1", "t"]);
    assert_eq!([values(&at, "t1"), values(&at, "t2"), values(&at, "t3")], [[10], [20], [30]]);
    assert_eq!([values(&at, "t"), values(&at, "same")], [[1], [3]]);
    let middle = &at.bases()[0];
    assert_eq!(values(middle, "same"), [2]);
    assert_eq!(values(&middle.bases()[0], "same"), [1]);
    assert_eq!(middle.bases()[0].bases()[0].database(), "base");
    // All handles are dropped, the data stays.
    drop(chain);
    assert_eq!([values(&at, "t"), values(&at, "same"), values(&at, "t1")], [[1], [3], [10]]);
    assert_eq!(base.counters().snapshots, 1);
    drop(at);
    let ends = std::time::Instant::now();
    while base.counters().snapshots > 0 {
        assert!(ends.elapsed().as_secs() < 20, "the base's lease never ends");
        std::thread::yield_now();
    }
}

#[test]
fn a_derived_database_takes_transactions_and_snapshots_like_any_other() {
    let (base, _) = with("t", &[1]);
    let derived = Database::derive(vec![base.snapshot().unwrap()], options()).unwrap();
    let mine = table(&derived, "mine", &[1, 2, 3]);
    let before = derived.snapshot().unwrap();
    let mut tx = derived.begin().unwrap();
    tx.update(&mine, &[0i64.into()], &[(1, 100i64.into())]).unwrap();
    let during = derived.snapshot().unwrap();
    tx.commit().unwrap();
    let after = derived.snapshot().unwrap();
    assert_eq!(values(&before, "mine"), [1, 2, 3]);
    assert_eq!(values(&during, "mine"), [1, 2, 3]);
    assert_eq!(values(&after, "mine"), [100, 2, 3]);
}

#[test]
fn the_same_snapshot_can_be_the_base_of_several_and_twice_of_one() {
    let (base, t) = with("t", &[1]);
    let snapshot = base.snapshot().unwrap();
    let twice = vec![snapshot.clone(), snapshot.clone()];
    let one = Database::derive(twice, options()).unwrap();
    let two = Database::derive(vec![snapshot], options()).unwrap();
    set(&base, &t, 0, 5);
    for db in [&one, &two] {
        let shown = db.snapshot().unwrap();
        assert_eq!(shown.tables(), ["t"]);
        assert_eq!(values(&shown, "t"), [1]);
    }
    drop(one);
    assert_eq!(base.counters().snapshots, 1);
    drop(two);
    assert_eq!(base.counters().snapshots, 0);
}

#[test]
fn more_bases_than_can_be_handed_over_are_refused_and_leave_no_lease() {
    let dir = tempfile::tempdir().unwrap();
    let (base, _) = with("t", &[1]);
    let snapshot = published(&base, "base", dir.path());
    let derived = Database::derive(vec![snapshot; 200], options()).unwrap();
    derived.publish("many", Some(dir.path())).unwrap();
    let reader = atoll::attach("many", Some(dir.path())).unwrap();
    for _ in 0..3 {
        let error = reader.snapshot().unwrap_err().to_string();
        assert!(error.contains("201") && error.contains("at once"), "{error}");
    }
    let begin = std::time::Instant::now();
    while derived.counters().snapshots > 0 {
        assert!(begin.elapsed().as_secs() < 20, "a lease without a holder never ends");
        std::thread::yield_now();
    }
    assert_eq!(derived.snapshot().unwrap().tables(), ["t"], "here it can be used");
}
