//! Objects that are no tables, such as views: kept, logged and shown by snapshots as tables are,
//! with names among those of tables, and in no list of tables.
#![allow(clippy::unwrap_used)]

use atoll::machine::CrashMedium;
use atoll::{
    Catalog, Column, DataType, Database, DatabaseOptions, Schema, Table, TableOptions, Transaction,
    TxnResult,
};

fn options() -> DatabaseOptions {
    DatabaseOptions {
        memory_limit_bytes: Some(64 << 20),
        tablespaces: Some(1),
        ..DatabaseOptions::default()
    }
}

fn schema() -> Schema {
    Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap()
}

fn object(tx: &mut Transaction, name: &str, text: &str) -> TxnResult<Table> {
    let schema = schema().of_object("view", text).unwrap();
    tx.create_table(name, schema, &TableOptions::default())
}

fn objects(catalog: &Catalog) -> Vec<String> {
    let text = |object: &Table| object.schema().object().unwrap().1.to_owned();
    catalog.objects().map(|object| format!("{} {}", object.name(), text(object))).collect()
}

#[test]
fn an_object_is_in_no_list_of_tables_and_shares_their_names() {
    let db = Database::create(options()).unwrap();
    db.create_table("t", schema()).unwrap();
    db.transaction(|tx| {
        object(tx, "\u{1}hidden", "h")?;
        object(tx, "v", "one")
    })
    .unwrap();
    assert_eq!(db.tables(), ["t"]);
    assert!(db.table("v").is_err() && db.drop_table("v").is_err());
    assert!(db.create_table("v", schema()).is_err());
    let catalog = db.catalog().unwrap();
    assert_eq!(objects(&catalog), ["\u{1}hidden h", "v one"]);
    assert!(catalog.table("v").is_none() && catalog.object("t").is_none());
    assert_eq!(catalog.object("v").unwrap().schema().object(), Some(("view", "one")));
    assert!(db.transaction(|tx| object(tx, "t", "two")).is_err());
    assert!(db.transaction(|tx| tx.create_table("v", schema(), &TableOptions::default())).is_err());
    // Only an object may have a hidden name.
    assert!(db.create_table("\u{1}t", schema()).is_err());
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.tables(), ["t"]);
    assert!(snapshot.table("v").is_err() && snapshot.object("t").is_none());
    let names: Vec<_> = snapshot.objects().map(|object| object.name().to_owned()).collect();
    assert_eq!(names, ["\u{1}hidden", "v"]);
    assert_eq!(snapshot.object("v").unwrap().schema().object(), Some(("view", "one")));
}

#[test]
fn an_object_is_part_of_its_transaction() {
    let db = Database::create(options()).unwrap();
    let mut tx = db.begin().unwrap();
    let first = object(&mut tx, "v", "one").unwrap();
    assert_eq!(objects(&tx.catalog()), ["v one"]);
    assert!(objects(&db.catalog().unwrap()).is_empty());
    assert!(db.snapshot().unwrap().object("v").is_none());
    tx.drop_table(&first).unwrap();
    object(&mut tx, "v", "two").unwrap();
    let before = db.catalog_version();
    tx.commit().unwrap();
    assert_ne!(db.catalog_version(), before);
    let catalog = db.catalog().unwrap();
    assert_eq!(objects(&catalog), ["v two"]);
    let mut tx = db.begin().unwrap();
    tx.drop_table(catalog.object("v").unwrap()).unwrap();
    assert!(objects(&tx.catalog()).is_empty());
    tx.rollback();
    assert_eq!(objects(&db.catalog().unwrap()), ["v two"]);
}

#[test]
fn a_snapshot_hides_tables_of_its_bases_behind_objects() {
    let base = Database::create(options()).unwrap();
    base.create_table("v", schema()).unwrap();
    base.create_table("t", schema()).unwrap();
    let db = Database::derive(vec![base.snapshot().unwrap()], options()).unwrap();
    db.transaction(|tx| object(tx, "v", "one")).unwrap();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.tables(), ["t"]);
    assert!(snapshot.table("v").is_err() && snapshot.table("t").is_ok());
}

/// After a crash at any moment an object is there with the rows of its transaction, or not at all.
#[test]
fn an_object_survives_with_its_transaction() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options()).unwrap();
    let begun = medium.events();
    for round in 0..4i64 {
        db.transaction(|tx| {
            if let Some(old) = tx.catalog().object("v") {
                tx.drop_table(old)?;
            }
            object(tx, "v", &round.to_string())?;
            let name = format!("t{round}");
            let table = tx.create_table(&name, schema(), &TableOptions::default())?;
            tx.insert(&table, &[round.into()])
        })
        .unwrap();
        if round == 1 {
            db.checkpoint().unwrap();
        }
    }
    let mut seen = Vec::new();
    for at in begun..=medium.events() {
        let crashed = medium.crash(at, || false);
        let db = Database::open_on(&crashed, options()).unwrap();
        let rounds = db.tables().len();
        let wanted: Vec<_> =
            rounds.checked_sub(1).map(|last| format!("v {last}")).into_iter().collect();
        assert_eq!(objects(&db.catalog().unwrap()), wanted, "after {at} events");
        seen.push(rounds);
    }
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}
