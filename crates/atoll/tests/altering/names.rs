//! Other names, and the handles of tables that have them.

use super::*;

#[test]
fn names_change_for_all_when_the_transaction_commits() {
    for scheme in all_schemes() {
        let db = Database::create(options(scheme)).unwrap();
        let old = create(&db, "t", vec![index("by_n", &["n"], false)]);
        insert(&db, &old, 0..100, |id| id % 7);
        let before = db.snapshot().unwrap();
        for commits in [false, true] {
            let mut tx = db.begin().unwrap();
            let to = TableChange {
                name: "u".into(),
                schema: schema(["key", "number", "words"]),
                added: vec![],
                indexes: vec![index("by_number", &["number"], false)],
            };
            let new = tx.alter_table(&old, &to).unwrap().unwrap();
            assert_eq!((new.name(), new.schema()), ("u", &to.schema));
            tx.insert(&new, &row(100 + i64::from(commits), 3)).unwrap();
            assert_eq!(by_index(&mut tx, &new, "by_number").unwrap().len(), 101, "{scheme}");
            let catalog = tx.catalog();
            assert!(catalog.table("t").is_none() && catalog.table("u").unwrap().name() == "u");
            assert_eq!(db.tables(), ["t"]);
            if commits {
                tx.commit().unwrap();
                let refused = db.transaction(|tx| tx.read(&old, &[1i64.into()])).unwrap_err();
                assert!(matches!(refused, Error::TableChanged(name) if name == "t"));
                assert_eq!(db.tables(), ["u"]);
                let now = db.table("u").unwrap();
                check_index(&db, &now, "by_number");
                let clash = db.transaction(|tx| tx.insert(&now, &row(101, 3))).unwrap_err();
                assert!(
                    clash.to_string().contains("\"u\" has a row with key key = 101"),
                    "{clash}"
                );
            } else {
                tx.rollback();
                assert_eq!(old.row_count(), 100, "{scheme}");
                check_index(&db, &old, "by_n");
            }
        }
        let shown = before.table("t").unwrap();
        assert_eq!(
            (shown.row_count().unwrap(), shown.schema().clone()),
            (100, schema(["id", "n", "text"]))
        );
        let snapshot = db.snapshot().unwrap();
        assert_eq!(snapshot.tables(), ["u"]);
        assert_eq!(snapshot.table("u").unwrap().schema().columns()[1].name, "number");
    }
}

#[test]
fn two_tables_exchange_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), options("silo".parse().unwrap())).unwrap();
    let db = open();
    let [a, b] = ["a", "b"].map(|name| create(&db, name, vec![]));
    insert(&db, &a, 0..10, |id| id);
    insert(&db, &b, 0..20, |id| id);
    db.transaction(|tx| {
        let to = |name: &str, table: &Table| TableChange { name: name.into(), ..change(table) };
        let c = tx.alter_table(&a, &to("c", &a))?.unwrap();
        tx.alter_table(&b, &to("a", &b))?.unwrap();
        tx.alter_table(&c, &to("b", &c))?.unwrap();
        Ok(())
    })
    .unwrap();
    let rows = |db: &Database| ["a", "b"].map(|name| db.table(name).unwrap().row_count());
    assert_eq!(rows(&db), [20, 10]);
    drop(db);
    assert_eq!(rows(&open()), [20, 10]);
}

#[test]
fn what_does_not_fit_the_rows_needs_a_copy() {
    let db = Database::create(options("no_wait".parse().unwrap())).unwrap();
    let table = create(&db, "t", vec![]);
    insert(&db, &table, 0..10, |id| id);
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("n", DataType::Int64),
        Column::nullable("text", DataType::Text),
    ];
    let other = Schema::new(columns, &["id"]).unwrap();
    db.transaction(|tx| {
        let to = TableChange { schema: other.clone(), ..change(&table) };
        assert!(tx.alter_table(&table, &to)?.is_none(), "n could be NULL");
        let new = tx.create_table("new", table.schema().clone(), &TableOptions::default())?;
        assert!(tx.alter_table(&new, &TableChange { name: "x".into(), ..change(&new) })?.is_none());
        tx.insert(&table, &row(100, 1))?;
        let indexed = with_index(&table, index("by_n", &["n"], false));
        assert!(tx.alter_table(&table, &indexed)?.is_none(), "it has changed rows");
        let renamed = TableChange { name: "u".into(), ..change(&table) };
        tx.alter_table(&table, &renamed)?.expect("names need no copy");
        Ok(())
    })
    .unwrap();
    assert_eq!(db.table("u").unwrap().row_count(), 11);
    let refused = db.begin().unwrap().alter_table(
        &db.table("u").unwrap(),
        &TableChange { name: "new".into(), ..change(&db.table("u").unwrap()) },
    );
    assert!(matches!(refused, Err(TxnError::Error(Error::Storage(_)))), "{refused:?}");
}

#[test]
fn a_table_takes_the_name_of_one_that_is_dropped_with_it() {
    let db = Database::create(options("dl_detect".parse().unwrap())).unwrap();
    let [a, b] = ["a", "b"].map(|name| create(&db, name, vec![]));
    insert(&db, &a, 0..10, |id| id);
    db.transaction(|tx| {
        tx.drop_table(&b)?;
        let new = tx.alter_table(&a, &TableChange { name: "b".into(), ..change(&a) })?.unwrap();
        assert!(tx.catalog().table("b").unwrap().row_count() == 10 && new.row_count() == 10);
        let gone = tx.alter_table(&b, &change(&b));
        assert!(gone.is_err(), "it is dropped");
        Ok(())
    })
    .unwrap();
    assert_eq!((db.tables(), db.table("b").unwrap().row_count()), (vec!["b".into()], 10));
    // One that it has altered first.
    let b = db.table("b").unwrap();
    db.transaction(|tx| {
        let c = tx.alter_table(&b, &TableChange { name: "c".into(), ..change(&b) })?.unwrap();
        tx.drop_table(&c)?;
        tx.create_table("b", b.schema().clone(), &TableOptions::default())
    })
    .unwrap();
    assert_eq!((db.tables(), db.table("b").unwrap().row_count()), (vec!["b".into()], 0));
}

#[test]
fn handles_of_other_versions_are_refused() {
    let db = Database::create(options("silo".parse().unwrap())).unwrap();
    let old = create(&db, "t", vec![index("by_n", &["n"], false)]);
    insert(&db, &old, 0..10, |id| id);
    let mut between = None;
    let new = db
        .transaction(|tx| {
            let one =
                tx.alter_table(&old, &with_index(&old, index("i", &["text"], false)))?.unwrap();
            assert_eq!(by_index(tx, &one, "i")?.len(), 10);
            between = Some(one.clone());
            tx.insert(&one, &row(10, 10))?;
            Ok(tx.alter_table(&one, &TableChange { indexes: vec![], ..change(&one) })?.unwrap())
        })
        .unwrap();
    let between = between.unwrap();
    for (table, index) in [(&old, "by_n"), (&between, "by_n"), (&between, "i")] {
        let refused = db.transaction(|tx| by_index(tx, table, index)).unwrap_err();
        assert!(matches!(refused, Error::TableChanged(_)), "{refused}");
    }
    db.transaction(|tx| tx.insert(&new, &row(11, 11))).unwrap();
    // A drop that waits for a transaction drops the table that has the name then, or none.
    let mut tx = db.begin().unwrap();
    let kept = tx.alter_table(&new, &TableChange { name: "kept".into(), ..change(&new) });
    kept.unwrap().unwrap();
    let dropped = thread::scope(|scope| {
        let waiting = scope.spawn(|| db.drop_table("t"));
        thread::sleep(Duration::from_millis(50));
        tx.commit().unwrap();
        waiting.join().unwrap()
    });
    assert!(dropped.is_err());
    assert_eq!(db.table("kept").unwrap().row_count(), 12);
}
