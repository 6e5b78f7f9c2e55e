//! Tables that transactions create and drop: with all of the transaction, or not at all.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{
    AbortReason, Column, DataType, Database, DatabaseOptions, Schema, SchemeKind, Table,
    TableOptions, Transaction, TxnError, TxnResult,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        memory_limit_bytes: Some(64 << 20),
        lock_timeout: Duration::from_secs(60),
        ..DatabaseOptions::default()
    }
}

fn schema() -> Schema {
    let columns = ["id", "n"].map(|name| Column::new(name, DataType::Int64)).to_vec();
    Schema::new(columns, &["id"]).unwrap()
}

fn create(tx: &mut Transaction, name: &str, rows: i64) -> TxnResult<Table> {
    let table = tx.create_table(name, schema(), &TableOptions::default())?;
    (0..rows).try_for_each(|id| tx.insert(&table, &[id.into(), 7i64.into()]))?;
    Ok(table)
}

/// Names of tables, with their rows, as a snapshot shows them.
fn shown(db: &Database) -> Vec<(String, u64)> {
    let snapshot = db.snapshot().unwrap();
    let mut names = snapshot.tables();
    names.sort();
    let rows = |name: &String| snapshot.table(name).unwrap().row_count().unwrap();
    names.iter().map(|name| (name.clone(), rows(name))).collect()
}

fn may_be_cut(scheme: SchemeKind) -> bool {
    ["DL_DETECT", "NO_WAIT", "WAIT_DIE", "HSTORE"].contains(&scheme.name())
}

fn wanted(tables: &[(&str, u64)]) -> Vec<(String, u64)> {
    tables.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect()
}

#[test]
fn what_a_transaction_creates_and_drops_is_its_own_until_it_commits() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let db = Database::create(options(scheme)).unwrap();
        db.transaction(|tx| create(tx, "old", 3)).unwrap();
        for commits in [false, true] {
            let old = db.table("old").unwrap();
            let mut tx = db.begin().unwrap();
            tx.insert(&old, &[9i64.into(), 0i64.into()]).unwrap();
            let new = create(&mut tx, "new", 5).unwrap();
            tx.drop_table(&old).unwrap();
            let gone = create(&mut tx, "gone", 1).unwrap();
            tx.drop_table(&gone).unwrap();
            let again = create(&mut tx, "old", 2).unwrap();
            let catalog = tx.catalog();
            assert_eq!(catalog.tables().map(Table::name).collect::<Vec<_>>(), ["new", "old"]);
            assert!(catalog.table("gone").is_none());
            assert!(tx.create_table("new", schema(), &TableOptions::default()).is_err());
            assert!(tx.read(&new, &[4i64.into()]).unwrap().is_some());
            assert_eq!(db.tables(), ["old"]);
            // Under some schemes a transaction that was open at a cut does not commit.
            if !commits || may_be_cut(scheme) {
                assert_eq!(shown(&db), wanted(&[("old", 3)]), "{scheme}");
            }
            assert!(db.table("new").is_err());
            if !commits {
                tx.rollback();
                assert_eq!(shown(&db), wanted(&[("old", 3)]), "{scheme}");
                assert_eq!(old.row_count(), 3);
                db.transaction(|tx| tx.update(&old, &[1i64.into()], &[(1, 8i64.into())])).unwrap();
                continue;
            }
            tx.commit().unwrap();
            assert_eq!(db.tables(), ["new", "old"], "{scheme}");
            assert_eq!(shown(&db), wanted(&[("new", 5), ("old", 2)]), "{scheme}");
            for table in [&new, &again] {
                let key = [1i64.into()];
                db.transaction(|tx| tx.update(table, &key, &[(1, 8i64.into())])).unwrap();
            }
            let refused = db.transaction(|tx| tx.read(&old, &[1i64.into()]));
            assert!(matches!(refused, Err(atoll::Error::TableChanged(_))), "{scheme}");
        }
    }
}

#[test]
fn two_transactions_that_give_one_name_follow_each_other() {
    let db = Database::create(options("silo".parse().unwrap())).unwrap();
    for commits in [false, true] {
        let mut one = db.begin().unwrap();
        create(&mut one, "t", 1).unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut tx = db.begin().unwrap();
                let made = create(&mut tx, "t", 2);
                assert!(ended.load(Ordering::SeqCst), "it waits");
                made.map(|_| tx.commit().unwrap()).is_ok()
            });
            thread::sleep(Duration::from_millis(30));
            ended.store(true, Ordering::SeqCst);
            if commits {
                one.commit().unwrap()
            } else {
                one.rollback()
            }
            assert_eq!(other.join().unwrap(), !commits);
        });
        assert_eq!(shown(&db), wanted(&[("t", if commits { 1 } else { 2 })]));
        db.drop_table("t").unwrap();
        assert_eq!(shown(&db), []);
    }
}

#[test]
fn names_in_opposite_orders_are_a_deadlock() {
    let db = Database::create(options("silo".parse().unwrap())).unwrap();
    let both = std::sync::Barrier::new(2);
    let ends = thread::scope(|scope| {
        let one = |names: [&'static str; 2]| {
            let (db, both) = (&db, &both);
            scope.spawn(move || {
                let mut tx = db.begin().unwrap();
                create(&mut tx, names[0], 1).unwrap();
                both.wait();
                let end = create(&mut tx, names[1], 1);
                matches!(end, Err(TxnError::Abort(AbortReason::Deadlock)))
            })
        };
        [one(["a", "b"]), one(["b", "a"])].map(|thread| thread.join().unwrap())
    });
    assert_eq!(ends.iter().filter(|is_deadlock| **is_deadlock).count(), 1);
    assert_eq!(db.tables(), [""; 0]);
}

/// After a crash at any moment, all of a transaction is there or nothing.
#[test]
fn definitions_and_rows_survive_together() {
    let nodes = [1, 3];
    for (nodes, scheme) in nodes.into_iter().flat_map(|nodes| {
        ["dl_detect", "silo", "mvcc"].map(|scheme| (nodes, scheme.parse().unwrap()))
    }) {
        let medium = CrashMedium::default();
        let options = || DatabaseOptions { nodes: Some(nodes), ..options(scheme) };
        let db = Database::open_on(&medium, options()).unwrap();
        db.transaction(|tx| create(tx, "a", 3)).unwrap();
        db.transaction(|tx| create(tx, "b", 2)).unwrap();
        db.checkpoint().unwrap();
        let begun = medium.events();
        let mut tx = db.begin().unwrap();
        create(&mut tx, "c", 4).unwrap();
        // The serial numbers of these do not have the order of the commits.
        db.transaction(|tx| create(tx, "d", 1)).unwrap();
        if may_be_cut(scheme) {
            db.checkpoint().unwrap();
        }
        let a = tx.catalog().table("a").unwrap().clone();
        tx.drop_table(&a).unwrap();
        let b = tx.catalog().table("b").unwrap().clone();
        tx.insert(&b, &[7i64.into(), 7i64.into()]).unwrap();
        create(&mut tx, "a", 1).unwrap();
        tx.commit().unwrap();
        let committed = medium.events();
        db.drop_table("c").unwrap();
        let mut seen = Vec::new();
        for at in begun..=medium.events() {
            let crashed = medium.crash(at, || false);
            let db = Database::open_on(&crashed, options()).unwrap();
            let tables = shown(&db);
            let before = wanted(&[("a", 3), ("b", 2)]);
            let beside = wanted(&[("a", 3), ("b", 2), ("d", 1)]);
            let after = wanted(&[("a", 1), ("b", 3), ("c", 4), ("d", 1)]);
            let last = wanted(&[("a", 1), ("b", 3), ("d", 1)]);
            let stage = [before, beside, after, last].iter().position(|one| *one == tables);
            let stage = stage.unwrap_or_else(|| panic!("{scheme}, {at}: {tables:?}"));
            assert!(at < committed || stage >= 2, "{scheme}, {at}: acknowledged");
            assert!(seen.last().is_none_or(|last| *last <= stage));
            seen.push(stage);
            // Another one gets a number of its own.
            db.transaction(|tx| create(tx, "e", 6)).unwrap();
            assert!(shown(&db).contains(&("e".to_owned(), 6)));
            drop(db);
            let db = Database::open_on(&crashed, options()).unwrap();
            assert_eq!(shown(&db).len(), tables.len() + 1, "{scheme}, {at}");
        }
        assert!(seen.contains(&0) && seen.contains(&3), "{seen:?}");
        db.close().unwrap();
    }
}
