//! Tables that get other names and other indexes, with their rows as they are.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, IndexSpec, Range, Schema, SchemeKind,
    Table, TableChange, TableOptions, Transaction, TxnError, TxnResult, Value,
};

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions {
        scheme,
        partitions: Some(2),
        memory_limit_bytes: Some(128 << 20),
        lock_timeout: Duration::from_secs(60),
        checkpoint_log_bytes: u64::MAX,
        ..DatabaseOptions::default()
    }
}

fn all_schemes() -> impl Iterator<Item = SchemeKind> {
    SchemeKind::ALL.iter().copied()
}

fn schema(names: [&str; 3]) -> Schema {
    let columns = vec![
        Column::new(names[0], DataType::Int64),
        Column::nullable(names[1], DataType::Int64),
        Column::nullable(names[2], DataType::Text),
    ];
    Schema::new(columns, &[names[0]]).unwrap()
}

fn index(name: &str, columns: &[&str], unique: bool) -> IndexSpec {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    IndexSpec { name: name.to_owned(), columns, unique }
}

fn create(db: &Database, name: &str, indexes: Vec<IndexSpec>) -> Table {
    let options = TableOptions { indexes, ..TableOptions::default() };
    db.create_table_with(name, schema(["id", "n", "text"]), &options).unwrap()
}

fn row(id: i64, n: i64) -> [Value; 3] {
    let n = if n % 10 == 9 { Value::Null } else { n.into() };
    [id.into(), n, Value::Text(format!("a text of some length {}", id % 13))]
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>, n: impl Fn(i64) -> i64) {
    db.transaction(|tx| ids.clone().try_for_each(|id| tx.insert(table, &row(id, n(id))))).unwrap();
}

/// What a table becomes, beyond what it is.
fn change(table: &Table) -> TableChange {
    TableChange {
        name: table.name().to_owned(),
        schema: table.schema().clone(),
        indexes: table.indexes(),
    }
}

fn with_index(table: &Table, added: IndexSpec) -> TableChange {
    let mut to = change(table);
    to.indexes.push(added);
    to
}

/// Gives a table a further index, beside other transactions where the scheme can.
fn add_index(db: &Database, table: &Table, spec: &IndexSpec) -> Result<Table, Error> {
    let begun = db.transaction(|tx| tx.begin_index(table, spec))?;
    let Some(mut build) = begun else {
        let to = with_index(table, spec.clone());
        return db.transaction(|tx| Ok(tx.alter_table(table, &to)?.expect("it is not full")));
    };
    build.fill(&mut || false)?;
    build.check(&mut || false)?;
    db.transaction(|tx| tx.end_index(&mut build))
}

/// The schemes under which a transaction can make an index of its own.
fn schemes_of_the_present() -> impl Iterator<Item = SchemeKind> {
    all_schemes().filter(|scheme| !scheme.orders_by_timestamp())
}

fn alter(db: &Database, table: &Table, to: &TableChange) -> Table {
    db.transaction(|tx| Ok(tx.alter_table(table, to)?.expect("the rows stay as they are"))).unwrap()
}

/// The ids of all rows by an index, with the values of its first column.
fn by_index(tx: &mut Transaction, table: &Table, name: &str) -> TxnResult<Vec<(Value, i64)>> {
    let column = table.indexes().into_iter().find(|spec| spec.name == name).unwrap().columns;
    let column = table.schema().position(&column[0]).unwrap();
    let mut found = Vec::new();
    tx.scan(
        &table.index(name).unwrap(),
        Range::prefix(&[]),
        |row| (row.value(column), row.value(0)),
        |(value, id)| {
            let Value::Int64(id) = id else { panic!("{id:?}") };
            found.push((value, id));
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

/// Checks that an index leads to the rows that there are, and to no others.
fn check_index(db: &Database, table: &Table, name: &str) {
    let (found, expected) = db
        .transaction(|tx| {
            let found: BTreeMap<i64, Value> =
                by_index(tx, table, name)?.into_iter().map(|(value, id)| (id, value)).collect();
            let columns = table.indexes().into_iter().find(|spec| spec.name == name).unwrap();
            let column = table.schema().position(&columns.columns[0]).unwrap();
            let mut expected = BTreeMap::new();
            tx.scan_table(
                table,
                |row| (row.value(0), row.value(column)),
                |(id, value)| {
                    let Value::Int64(id) = id else { panic!("{id:?}") };
                    expected.insert(id, value);
                    ControlFlow::Continue(())
                },
            )?;
            Ok((found, expected))
        })
        .unwrap();
    assert_eq!(found, expected, "{name}");
}

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
fn an_index_is_there_for_the_transaction_that_makes_it_and_goes_if_it_rolls_back() {
    for scheme in schemes_of_the_present() {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..2000, |id| id % 100);
        db.transaction(|tx| {
            (0..2000i64).step_by(3).try_for_each(|id| tx.delete(&table, &[id.into()]).map(drop))
        })
        .unwrap();
        for commits in [false, true, true] {
            let table = db.table("t").unwrap();
            let name = format!("by_n{}", table.indexes().len());
            let mut tx = db.begin().unwrap();
            let new = tx.alter_table(&table, &with_index(&table, index(&name, &["n"], false)));
            let new = new.unwrap().unwrap();
            let id = 5000 + table.indexes().len() as i64 * 2 + i64::from(commits);
            tx.insert(&new, &row(id, 55)).unwrap();
            tx.update(&new, &[1i64.into()], &[(1, 1000i64.into())]).unwrap();
            let found = by_index(&mut tx, &new, &name).unwrap();
            assert!(found.contains(&(1000i64.into(), 1)) && found.contains(&(55i64.into(), id)));
            if commits {
                tx.commit().unwrap()
            } else {
                tx.rollback()
            }
            let now = db.table("t").unwrap();
            assert_eq!(now.indexes().len(), table.indexes().len() + usize::from(commits));
            if commits {
                check_index(&db, &now, &name);
            }
        }
        // Dropped again, one by one, and beside writers.
        for _ in 0..2 {
            let table = db.table("t").unwrap();
            let mut to = change(&table);
            to.indexes.remove(0);
            let table = alter(&db, &table, &to);
            insert(&db, &table, 9000..9010, |id| id);
            db.transaction(|tx| {
                (9000..9010).try_for_each(|id: i64| tx.delete(&table, &[id.into()]).map(drop))
            })
            .unwrap();
        }
        assert!(db.table("t").unwrap().indexes().is_empty());
    }
}

#[test]
fn a_unique_index_finds_rows_with_the_same_key() {
    for scheme in all_schemes() {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..1000, |id| if id == 700 { 31 } else { id });
        let unique = index("one_n", &["n"], true);
        let refused = add_index(&db, &table, &unique).unwrap_err();
        assert!(
            matches!(&refused, Error::DuplicateIndexKey { index, key, .. }
                if index == "one_n" && key == "n = 31"),
            "{scheme}: {refused}"
        );
        // The table is as before, and gets the index once the rows differ.
        db.transaction(|tx| tx.update(&table, &[700i64.into()], &[(1, 70_000i64.into())])).unwrap();
        let table = add_index(&db, &table, &unique).unwrap();
        check_index(&db, &table, "one_n");
        let refused = db.transaction(|tx| tx.insert(&table, &row(5000, 31))).unwrap_err();
        assert!(matches!(refused, Error::DuplicateIndexKey { .. }), "{scheme}: {refused}");
    }
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

/// Writers insert, update, delete and roll back while one index after the other is made.
#[test]
fn an_index_that_is_made_beside_writers_misses_nothing_and_has_nothing_else() {
    let schemes = all_schemes().filter(|scheme| !scheme.is_partitioned());
    for scheme in schemes {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![index("by_n", &["n"], false)]);
        insert(&db, &table, 0..3000, |id| id);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..2i64 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut round = 0i64;
                    while !done.load(Ordering::Relaxed) {
                        round += 1;
                        let table = db.table("t").unwrap();
                        let id = (round * 37 + writer * 11) % 4000;
                        let body = |tx: &mut Transaction| {
                            if !tx.update(
                                &table,
                                &[id.into()],
                                &[(1, (10_000 + round * 2 + writer).into())],
                            )? {
                                tx.insert(&table, &row(id, 20_000 + round * 20 + writer))?;
                            }
                            tx.delete(&table, &[((id + 1000) % 4000).into()]).map(drop)
                        };
                        if round % 3 == 0 {
                            // Rolled back.
                            if let Ok(mut tx) = db.begin() {
                                let _ = body(&mut tx);
                            }
                            continue;
                        }
                        match db.transaction(body) {
                            Ok(())
                            | Err(Error::TableChanged(_) | Error::DuplicateIndexKey { .. }) => {}
                            Err(error) => panic!("{scheme}: {error}"),
                        }
                    }
                });
            }
            for round in 0..6 {
                let name = format!("made{round}");
                let columns: &[&str] = if round % 2 == 0 { &["n", "text"] } else { &["text"] };
                let spec = index(&name, columns, false);
                let begin = |tx: &mut Transaction| {
                    let table = tx.catalog().table("t").unwrap().clone();
                    Ok(tx.begin_index(&table, &spec)?.expect("there are numbers left"))
                };
                let mut build = db.transaction(begin).unwrap();
                build.fill(&mut || false).unwrap();
                build.check(&mut || false).unwrap();
                if round == 3 {
                    continue; // Given up.
                }
                db.transaction(|tx| tx.end_index(&mut build).map(drop)).unwrap();
                check_index(&db, &db.table("t").unwrap(), &name);
            }
            done.store(true, Ordering::Relaxed);
        });
        let table = db.table("t").unwrap();
        assert_eq!(table.indexes().len(), 6, "{scheme}");
        for spec in table.indexes() {
            check_index(&db, &table, &spec.name);
        }
    }
}

/// Two writers put the same value into two rows while a unique index is made: one of the three
/// fails.
#[test]
fn a_unique_index_that_is_made_beside_writers_is_unique() {
    let schemes = all_schemes().filter(|scheme| !scheme.is_partitioned());
    for scheme in schemes {
        let (mut made, mut refused) = (0, 0);
        for round in 0..12 {
            let db = Database::create(options(scheme)).unwrap();
            let table = create(&db, "t", vec![]);
            insert(&db, &table, 0..500, |id| id * 10);
            let spec = index("one_n", &["n"], true);
            let begin = |tx: &mut Transaction| Ok(tx.begin_index(&table, &spec)?.unwrap());
            let mut build = db.transaction(begin).unwrap();
            thread::scope(|scope| {
                let db = &db;
                let table = &table;
                scope.spawn(move || {
                    for id in 0..40 {
                        let to: i64 = if id == 20 && round % 2 == 0 { 10 } else { 100_000 + id };
                        match db.transaction(|tx| {
                            tx.update(table, &[(300 + id).into()], &[(1, to.into())])
                        }) {
                            Ok(_) | Err(Error::DuplicateIndexKey { .. }) => {}
                            Err(error) => panic!("{scheme}: {error}"),
                        }
                    }
                });
                build.fill(&mut || false).unwrap();
            });
            match build.check(&mut || false) {
                Ok(()) => {
                    db.transaction(|tx| tx.end_index(&mut build).map(drop)).unwrap();
                    made += 1;
                }
                Err(Error::DuplicateIndexKey { .. }) => refused += 1,
                Err(error) => panic!("{scheme}: {error}"),
            }
            let table = db.table("t").unwrap();
            let mut values = BTreeMap::new();
            db.transaction(|tx| {
                values.clear();
                tx.scan_table(
                    &table,
                    |row| row.value(1),
                    |value| {
                        *values.entry(format!("{value:?}")).or_insert(0) += 1;
                        ControlFlow::Continue(())
                    },
                )
            })
            .unwrap();
            let repeats = values.iter().any(|(value, count)| *count > 1 && value != "Null");
            assert!(!repeats || table.indexes().is_empty(), "{scheme}");
            if !table.indexes().is_empty() {
                check_index(&db, &table, "one_n");
            }
        }
        assert!(made > 0, "{scheme}: {made} made, {refused} refused");
    }
}

/// A transaction that was open while rows came and went cannot rely on an index that does not know
/// of them.
#[test]
fn an_older_transaction_does_not_use_a_newer_index() {
    for scheme in all_schemes().filter(|scheme| !scheme.is_partitioned()) {
        let db = Database::create(options(scheme)).unwrap();
        let [table, other] = ["t", "other"].map(|name| create(&db, name, vec![]));
        insert(&db, &table, 0..100, |id| id);
        insert(&db, &other, 0..10, |id| id);
        let mut old = db.begin().unwrap();
        old.read(&other, &[1i64.into()]).unwrap();
        db.transaction(|tx| tx.delete(&table, &[50i64.into()])).unwrap();
        let table = add_index(&db, &table, &index("by_n", &["n"], false)).unwrap();
        let found = by_index(&mut old, &table, "by_n");
        let sees_now = ["DL_DETECT", "NO_WAIT", "WAIT_DIE"].contains(&scheme.name());
        match found {
            Ok(found) => assert!(sees_now && found.len() == 99, "{scheme}: {}", found.len()),
            Err(TxnError::Abort(reason)) => assert!(!sees_now && reason.is_conflict(), "{scheme}"),
            Err(error) => panic!("{scheme}: {error}"),
        }
    }
}

/// Names, indexes and rows of all tables.
fn found(db: &Database) -> Vec<(String, Vec<String>, Vec<String>, u64)> {
    let mut names = db.tables();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let table = db.table(&name).unwrap();
            let columns = table.schema().columns().iter().map(|one| one.name.clone()).collect();
            let indexes = table.indexes();
            for spec in &indexes {
                check_index(db, &table, &spec.name);
            }
            let snapshot = db.snapshot().unwrap();
            let shown = snapshot.table(&name).unwrap();
            assert_eq!(shown.schema(), table.schema());
            assert_eq!(shown.row_count().unwrap(), table.row_count());
            let indexes = indexes.into_iter().map(|spec| spec.name).collect();
            (name, columns, indexes, table.row_count())
        })
        .collect()
}

/// After a crash at any moment, a table is as before or as after each alteration.
#[test]
fn alterations_survive_with_their_transactions() {
    for (nodes, scheme) in [(1, "no_wait"), (2, "dl_detect"), (3, "silo")] {
        let medium = CrashMedium::default();
        let options = || DatabaseOptions { nodes: Some(nodes), ..options(scheme.parse().unwrap()) };
        let db = Database::open_on(&medium, options()).unwrap();
        let table = create(&db, "t", vec![index("by_n", &["n"], false)]);
        let other = create(&db, "other", vec![]);
        insert(&db, &table, 0..50, |id| id);
        insert(&db, &other, 0..5, |id| id);
        db.checkpoint().unwrap();
        let begun = medium.events();
        let mut stages = vec![found(&db)];
        // In one transaction: names, an index more and one less, rows, and tables that come and go.
        db.transaction(|tx| {
            let to = TableChange {
                name: "u".into(),
                schema: schema(["key", "number", "words"]),
                indexes: vec![index("by_words", &["words"], false)],
            };
            let table = tx.alter_table(&table, &to)?.unwrap();
            tx.insert(&table, &row(60, 61))?;
            let new =
                tx.create_table("t", schema(["id", "n", "text"]), &TableOptions::default())?;
            tx.insert(&new, &row(1, 1))?;
            tx.drop_table(&other)
        })
        .unwrap();
        stages.push(found(&db));
        let table = db.table("u").unwrap();
        insert(&db, &table, 100..120, |id| id);
        stages.push(found(&db));
        db.checkpoint().unwrap();
        // Only its definition has changed since the checkpoint.
        let to = TableChange {
            name: "w".into(),
            ..with_index(&table, index("by_number", &["number"], true))
        };
        let table = alter(&db, &table, &to);
        stages.push(found(&db));
        db.checkpoint().unwrap();
        insert(&db, &table, 200..203, |id| id);
        stages.push(found(&db));
        let mut seen = Vec::new();
        for at in begun..=medium.events() {
            let crashed = medium.crash(at, || false);
            let db = Database::open_on(&crashed, options()).unwrap();
            let now = found(&db);
            let stage = stages.iter().position(|stage| *stage == now);
            seen.push(stage.unwrap_or_else(|| panic!("{scheme}, {at}: {now:?}")));
            db.checkpoint().unwrap();
            drop(db);
            let db = Database::open_on(&crashed, options()).unwrap();
            assert_eq!(found(&db), now, "{scheme}, {at}");
        }
        assert!(seen.is_sorted() && seen[0] == 0, "{seen:?}");
        assert_eq!(seen.last(), Some(&4), "{seen:?}");
        assert!((0..5).all(|stage| seen.contains(&stage)), "{seen:?}");
    }
}

#[test]
fn a_table_can_get_more_indexes_in_its_life_than_at_a_time() {
    let db = Database::create(options("occ".parse().unwrap())).unwrap();
    let mut table = create(&db, "t", vec![]);
    insert(&db, &table, 0..10, |id| id);
    let mut made = 0;
    loop {
        let to = with_index(&table, index("by_n", &["n"], false));
        let done = db.transaction(|tx| tx.alter_table(&table, &to)).unwrap();
        let Some(indexed) = done else { break };
        made += 1;
        assert!(made < 100, "numbers are not given again");
        table = alter(&db, &indexed, &TableChange { indexes: vec![], ..change(&indexed) });
    }
    assert_eq!(made, 64, "then it has to be copied");
    assert_eq!(table.row_count(), 10);
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

#[test]
fn no_index_is_defined_that_could_not_be_restored() {
    let db = Database::create(options("no_wait".parse().unwrap())).unwrap();
    let table = create(&db, "t", vec![index("i", &["n"], false)]);
    let twice = with_index(&table, index("i", &["text"], false));
    let refused = db.transaction(|tx| tx.alter_table(&table, &twice).map(drop)).unwrap_err();
    assert!(refused.to_string().contains("two indexes"), "{refused}");
    let unknown = with_index(&table, index("j", &["nothing"], false));
    assert!(db.transaction(|tx| tx.alter_table(&table, &unknown).map(drop)).is_err());
    let mut build =
        db.transaction(|tx| tx.begin_index(&table, &index("k", &["n"], true))).unwrap().unwrap();
    let early = db.transaction(|tx| tx.end_index(&mut build).map(drop)).unwrap_err();
    assert!(matches!(early, Error::IndexNotFilled(_)), "{early}");
    assert!(build.check(&mut || false).is_err());
}

/// A transaction that was ordered before changes cannot make an index that knows nothing of them.
#[test]
fn an_index_knows_what_its_maker_can_see() {
    for scheme in all_schemes().filter(|scheme| scheme.orders_by_timestamp()) {
        let db = Database::create(options(scheme)).unwrap();
        let [table, other] = ["t", "other"].map(|name| create(&db, name, vec![]));
        insert(&db, &other, 0..3, |id| id);
        let mut old = db.begin().unwrap();
        old.read(&other, &[1i64.into()]).unwrap();
        insert(&db, &table, 1..2, |_| 7);
        let unique = with_index(&table, index("one", &["n"], true));
        assert!(old.alter_table(&table, &unique).unwrap().is_none(), "{scheme}");
    }
}

/// A unique index that could not be made refuses no row, and goes with the next definition.
#[test]
fn an_index_that_was_given_up_refuses_no_row() {
    for scheme in all_schemes().filter(|scheme| !scheme.is_partitioned()) {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..100, |id| id % 20);
        for round in 0..3 {
            let failed = add_index(&db, &table, &index("one", &["n"], true)).unwrap_err();
            assert!(matches!(failed, Error::DuplicateIndexKey { .. }), "{scheme}");
            insert(&db, &table, 100 * (round + 1)..100 * (round + 2), |id| id % 20);
            let long = Value::Text("long ".repeat(2000));
            db.transaction(|tx| tx.update(&table, &[1i64.into()], &[(2, long.clone())])).unwrap();
            let begin =
                |tx: &mut Transaction| tx.begin_index(&table, &index("x", &["text"], false));
            drop(db.transaction(begin).unwrap());
            db.transaction(|tx| tx.update(&table, &[2i64.into()], &[(2, long.clone())])).unwrap();
            // One that has changed rows of the table gets it alone.
            db.transaction(|tx| {
                tx.insert(&table, &row(1000 + round, 3))?;
                tx.lock_table(&table)?;
                tx.delete(&table, &[5i64.into()])
            })
            .unwrap();
        }
    }
}

#[test]
fn many_rows_without_a_value_are_no_duplicates() {
    for scheme in ["dl_detect", "silo", "hstore"].map(|name| name.parse().unwrap()) {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..20_000, |_| 9);
        let table = add_index(&db, &table, &index("one", &["n"], true)).unwrap();
        check_index(&db, &table, "one");
    }
}

/// Definitions of one table by several threads, while indexes of it are made.
#[test]
fn indexes_and_other_definitions_of_one_table_follow_each_other() {
    for scheme in all_schemes().filter(|scheme| !scheme.is_partitioned()) {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..3000, |id| id);
        thread::scope(|scope| {
            for thread in 0..2 {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..4 {
                        let spec = index(&format!("i{thread}_{round}"), &["n"], round % 2 == 0);
                        loop {
                            let table = db.table("t").unwrap();
                            match add_index(db, &table, &spec) {
                                Ok(_) => break,
                                Err(Error::TableChanged(_)) => {}
                                Err(error) => panic!("{scheme}: {error}"),
                            }
                        }
                    }
                });
            }
            let db = &db;
            scope.spawn(move || {
                for round in 0..10 {
                    let rename = |tx: &mut Transaction| {
                        let table = tx.catalog().table("t").unwrap().clone();
                        let columns = ["id".to_owned(), "n".into(), format!("text{round}")];
                        let schema = schema([&columns[0], &columns[1], &columns[2]]);
                        tx.alter_table(&table, &TableChange { schema, ..change(&table) }).map(drop)
                    };
                    while let Err(error) = db.transaction(rename) {
                        assert!(matches!(error, Error::TableChanged(_)), "{error}");
                    }
                }
            });
        });
        let table = db.table("t").unwrap();
        assert_eq!(table.indexes().len(), 8);
        table.indexes().iter().for_each(|spec| check_index(&db, &table, &spec.name));
        // One is made while the table is dropped.
        thread::scope(|scope| {
            let making = scope.spawn(|| add_index(&db, &table, &index("late", &["text9"], false)));
            let dropped = db.drop_table("t");
            let made = making.join().unwrap();
            assert!(matches!(made, Ok(_) | Err(Error::TableChanged(_))), "{made:?}");
            assert!(matches!(dropped, Ok(()) | Err(Error::TableChanged(_))), "{dropped:?}");
        });
    }
}

/// Many changes on both sides of alterations, which recovery applies in several threads.
#[test]
fn no_change_is_lost_where_a_table_is_altered_in_the_log() {
    let medium = CrashMedium::default();
    let options = || DatabaseOptions {
        nodes: Some(1),
        tablespaces: Some(2),
        ..options("no_wait".parse().unwrap())
    };
    let db = Database::open_on(&medium, options()).unwrap();
    let [mut one, other] = ["one", "other"].map(|name| create(&db, name, vec![]));
    const ROWS: i64 = 60_000;
    const ROUNDS: i64 = 1_500;
    for table in [&one, &other] {
        insert(&db, table, 0..ROWS, |_| 1);
    }
    db.checkpoint().unwrap();
    // Each row is changed once, so that no later change hides a lost one.
    for round in 0..ROUNDS {
        let ids = round * ROWS / ROUNDS..(round + 1) * ROWS / ROUNDS;
        db.transaction(|tx| {
            for (id, table) in ids.clone().flat_map(|id| [(id, &one), (id, &other)]) {
                // Enough that appliers are at work while the log is read.
                let long = Value::Text("long ".repeat(60));
                tx.update(table, &[id.into()], &[(1, round.into()), (2, long)])?;
            }
            Ok(())
        })
        .unwrap();
        let text = ["a", "b"][round as usize % 2];
        let to = TableChange { schema: schema(["id", "n", text]), ..change(&one) };
        one = alter(&db, &one, &to);
    }
    let crashed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&crashed, options()).unwrap();
    assert_eq!(db.table("one").unwrap().schema().columns()[2].name, "b");
    for name in ["one", "other"] {
        let table = db.table(name).unwrap();
        db.transaction(|tx| {
            for id in 0..ROWS {
                let row = tx.read(&table, &[id.into()])?.unwrap();
                assert_eq!(row[1], (id * ROUNDS / ROWS).into(), "{name} {id}");
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn definitions_are_undone_beside_changes_of_rows() {
    for scheme in all_schemes() {
        let db = Database::create(options(scheme)).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..50, |id| id);
        let mut tx = db.begin().unwrap();
        let made = tx.definitions_made();
        let unique = with_index(&table, index("one", &["n"], true));
        let altered = tx.alter_table(&table, &unique).unwrap();
        let Some(altered) = altered else { continue };
        tx.insert(&altered, &row(100, 100)).unwrap();
        tx.update(&altered, &[1i64.into()], &[(1, 77i64.into())]).unwrap();
        // Undone from the last on, as a rollback to a savepoint does.
        tx.update(&altered, &[1i64.into()], &[(1, 1i64.into())]).unwrap();
        tx.undo_definitions(&made).unwrap();
        let now = tx.catalog().table("t").unwrap().clone();
        assert!(now.indexes().is_empty(), "{scheme}");
        tx.insert(&now, &row(101, 2)).unwrap();
        tx.update(&now, &[3i64.into()], &[(1, 2i64.into())]).unwrap();
        tx.commit().unwrap();
        let table = db.table("t").unwrap();
        assert_eq!((table.row_count(), table.indexes().len()), (52, 0), "{scheme}");
        let table = add_index(&db, &table, &index("by_n", &["n"], false)).unwrap();
        check_index(&db, &table, "by_n");
    }
}

/// A transaction that was refused a handle of another version does not use the table.
#[test]
fn a_refused_handle_keeps_no_one_from_altering_its_table() {
    for scheme in all_schemes().filter(|scheme| !scheme.is_partitioned()) {
        let db = Database::create(options(scheme)).unwrap();
        let old = create(&db, "t", vec![]);
        let other = create(&db, "other", vec![]);
        let new = alter(&db, &old, &TableChange { name: "u".into(), ..change(&old) });
        let mut tx = db.begin().unwrap();
        tx.read(&other, &[1i64.into()]).unwrap();
        assert!(tx.read(&old, &[1i64.into()]).is_err());
        // It is open still, and would wait for ever.
        let new = alter(&db, &new, &TableChange { name: "w".into(), ..change(&new) });
        tx.read(&new, &[1i64.into()]).unwrap();
        assert!(tx.read(&old, &[1i64.into()]).is_err());
        thread::scope(|scope| {
            let altering =
                scope.spawn(|| alter(&db, &new, &TableChange { name: "x".into(), ..change(&new) }));
            thread::sleep(Duration::from_millis(30));
            assert!(!altering.is_finished(), "{scheme}: it uses the table");
            tx.rollback();
            assert_eq!(altering.join().unwrap().name(), "x");
        });
    }
}
