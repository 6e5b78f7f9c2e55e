//! Alterations after a crash at any moment, and in long logs.

use super::*;

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
                added: vec![],
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
