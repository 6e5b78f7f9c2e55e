//! Indexes and other definitions that are made while others use the table.

use super::*;

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
