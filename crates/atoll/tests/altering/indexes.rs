//! Indexes that a transaction makes and drops.

use super::*;

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
