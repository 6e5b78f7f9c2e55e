//! The limits of snapshots and transactions: a clear error, and everything works again when the
//! cause is gone.

use std::path::Path;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{
    Database, DatabaseOptions, Error, Expiry, LeaseError, RefusalCode, Table, Transaction,
};

use crate::limits_common::{database, eventually, payload, small, total, update, wide};

#[test]
fn a_snapshot_that_is_too_old_says_so_and_keeps_its_memory_until_it_is_dropped() {
    let age = Duration::from_secs(1);
    let db = database(DatabaseOptions { snapshot_age_max: Some(age), ..small(128) });
    let table = wide(&db, 9_000);
    let snapshot = db.snapshot().unwrap();
    let shown = snapshot.table("t").unwrap();
    let segment = shown.segment(0).unwrap();
    let array = segment.array(1).unwrap();
    eventually("it gets too old", || snapshot.check().is_err());
    let expired = |error: Error| {
        let text = error.to_string();
        assert!(matches!(error, Error::SnapshotExpired(Expiry::Age(limit)) if limit == age));
        assert!(text.contains("older than 1s") && text.contains("take a new one"), "{text}");
    };
    expired(snapshot.table("t").err().unwrap());
    expired(shown.segment(0).err().unwrap());
    expired(segment.array(1).unwrap_err());
    expired(segment.batch(&[0]).unwrap_err());
    expired(Database::derive(vec![snapshot.clone()], small(64)).err().unwrap());
    eventually("the owner's list says so", || db.snapshots()[0].state == "expired");
    update(&db, &table, 0..9_000, 2).unwrap();
    assert!(array.as_primitive::<Int64Type>().values().iter().all(|value| *value == 1));
    assert!(db.counters().memory_kept_bytes > 4 << 20);
    drop((snapshot, shown, segment));
    assert!(db.counters().memory_kept_bytes > 0, "an array keeps it");
    drop(array);
    assert_eq!(db.counters().memory_kept_bytes, 0);
    assert_eq!(total(&db.snapshot().unwrap()).unwrap(), (9_000, 18_000));
}

#[test]
fn a_column_at_one_address_is_not_given_of_a_snapshot_that_expired() {
    let age = Duration::from_nanos(1);
    let db = database(DatabaseOptions { snapshot_age_max: Some(age), ..small(128) });
    wide(&db, 10);
    let snapshot = db.snapshot().unwrap();
    eventually("it gets too old", || snapshot.check().is_err());
    assert!(matches!(snapshot.table("t").err(), Some(Error::SnapshotExpired(_))));
}

#[test]
fn the_eldest_snapshots_expire_when_all_keep_too_much_and_no_other_is_given() {
    let db = database(DatabaseOptions { snapshot_bytes_max: Some(8 << 20), ..small(256) });
    let table = wide(&db, 40_000);
    let eldest = db.snapshot().unwrap();
    let second = db.snapshot().unwrap();
    update(&db, &table, 0..40_000, 2).unwrap();
    let youngest = db.snapshot();
    eventually("the eldest expires", || eldest.check().is_err());
    let error = eldest.table("t").err().unwrap();
    assert!(matches!(error, Error::SnapshotExpired(Expiry::Bytes)), "{error}");
    eventually("the second expires", || second.check().is_err());
    let error = db.snapshot().unwrap_err();
    let kept = db.counters().memory_kept_bytes;
    assert!(
        matches!(error, Error::SnapshotLimit { kept_bytes, limit_bytes }
            if kept_bytes == kept && limit_bytes == 8 << 20),
        "{error}"
    );
    if let Ok(youngest) = &youngest {
        assert_eq!(total(youngest).unwrap(), (40_000, 80_000), "it keeps nothing");
    }
    drop(eldest);
    assert!(db.snapshot().is_err(), "the second shows the same");
    drop(second);
    assert_eq!(db.counters().memory_kept_bytes, 0);
    assert_eq!(total(&db.snapshot().unwrap()).unwrap(), (40_000, 80_000));
}

/// An owner in this process, seen as by another process.
fn published(dir: &Path, name: &str, options: DatabaseOptions) -> (Database, Table) {
    let db = database(options);
    let table = wide(&db, 9_000);
    db.publish(name, Some(dir)).unwrap();
    (db, table)
}

#[test]
fn what_is_built_on_an_expired_snapshot_can_neither_be_published_nor_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { snapshot_bytes_max: Some(1 << 20), ..small(128) };
    let (base, table) = published(dir.path(), "base", options);
    let take = || atoll::attach("base", Some(dir.path())).unwrap().snapshot().unwrap();
    let early = Database::derive(vec![take()], small(64)).unwrap();
    early.publish("early", Some(dir.path())).unwrap();
    let reader = atoll::attach("early", Some(dir.path())).unwrap();
    let shown = reader.snapshot().unwrap();
    assert_eq!(total(&shown).unwrap(), (9_000, 9_000));
    let late = Database::derive(vec![take()], small(64)).unwrap();

    update(&base, &table, 0..9_000, 2).unwrap();
    eventually("the base expires", || late.bases()[0].check().is_err());
    let expired = |error: Error| {
        assert!(matches!(error, Error::SnapshotExpired(Expiry::Bytes)), "{error}");
    };
    expired(late.publish("late", Some(dir.path())).unwrap_err());
    expired(late.snapshot().unwrap_err());
    eventually("the other base expires", || early.bases()[0].check().is_err());
    expired(shown.table("t").err().unwrap());
    let error = reader.snapshot().unwrap_err();
    assert!(
        matches!(&error, Error::Lease(LeaseError::Refused { code: RefusalCode::Expired, text, .. })
            if text.contains("take a new one")),
        "{error}"
    );
    // All snapshots of the old state are dropped, so its memory is freed and snapshots can be taken
    // again.
    drop((shown, early, late));
    eventually("all leases end", || base.counters().snapshots == 0);
    assert_eq!(base.counters().memory_kept_bytes, 0);
    assert_eq!(total(&take()).unwrap(), (9_000, 18_000));
}

#[test]
fn another_process_is_refused_over_the_limit_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { snapshot_bytes_max: Some(1 << 20), ..small(128) };
    let (db, table) = published(dir.path(), "base", options);
    let held = db.snapshot().unwrap();
    update(&db, &table, 0..9_000, 2).unwrap();
    let reader = atoll::attach("base", Some(dir.path())).unwrap();
    let error = reader.snapshot().unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Lease(LeaseError::Refused { code: RefusalCode::SnapshotLimit, .. })
        ),
        "{error}"
    );
    assert!(error.to_string().contains("1048576"), "{error}");
    drop(held);
    assert_eq!(total(&reader.snapshot().unwrap()).unwrap(), (9_000, 18_000));
}

#[test]
fn at_most_1024_transactions_are_open_and_room_comes_back_with_the_first_that_ends() {
    let db = database(small(64));
    let table = wide(&db, 10);
    let mut open: Vec<Transaction> = (0..1_024).map_while(|_| db.begin().ok()).collect();
    assert_eq!(open.len(), 1_024);
    let error = db.begin().err().unwrap();
    assert!(matches!(error, Error::TooManyTransactions(1_024)), "{error}");
    drop(open.pop());
    let mut tx = db.begin().unwrap();
    tx.insert(&table, &[20i64.into(), 1i64.into(), payload(1)]).unwrap();
    tx.commit().unwrap();
    drop(open);
    assert_eq!(table.row_count(), 11);
    // Ended transactions do not occupy places at the gate.
    db.create_table("more", table.schema().clone()).unwrap();
    db.snapshot().unwrap().table("more").unwrap();
}

#[test]
fn at_most_4096_snapshots_are_held_and_room_comes_back_with_the_first_that_goes() {
    let db = database(small(64));
    wide(&db, 10);
    let mut held: Vec<_> = (0..4_096).map_while(|_| db.snapshot().ok()).collect();
    assert_eq!(held.len(), 4_096);
    let error = db.snapshot().unwrap_err();
    assert!(matches!(error, Error::TooManySnapshots(4_096)), "{error}");
    held.swap_remove(2_000);
    held.push(db.snapshot().unwrap());
    assert!(db.snapshot().is_err());
    drop(held);
    assert_eq!(db.counters().snapshots, 0);
}
