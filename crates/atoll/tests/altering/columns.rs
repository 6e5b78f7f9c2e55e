//! Columns that a table gets while it has rows.

use super::*;

/// Columns of several types, with the value that the rows get.
fn added() -> Vec<(Column, Value)> {
    let decimal = DataType::Decimal { precision: 20, scale: 2 };
    vec![
        (Column::new("seven", DataType::Int32), Value::Int32(7)),
        (Column::nullable("note", DataType::Text), Value::Null),
        (Column::new("word", DataType::Text), Value::Text("twelve bytes".into())),
        (Column::nullable("flag", DataType::Bool), Value::Bool(true)),
        (Column::new("price", decimal), Value::Decimal(-12_345)),
        (Column::nullable("rate", DataType::Float64), Value::Null),
        (Column::new("tag", DataType::FixedBinary(20)), Value::Binary(vec![9; 20])),
    ]
}

/// A table with these columns more.
fn widened(table: &Table, added: &[(Column, Value)]) -> TableChange {
    let columns = added.iter().map(|(column, _)| column.clone());
    let schema = table.schema().with_columns(columns).unwrap();
    let added = added.iter().map(|(_, value)| value.clone()).collect();
    TableChange { schema, added, ..change(table) }
}

fn full_row(id: i64, n: i64) -> Vec<Value> {
    row(id, n).into_iter().chain(added().into_iter().map(|(_, value)| value)).collect()
}

/// A row with another value in each of the new columns.
fn other_row(id: i64, n: i64) -> Vec<Value> {
    let new = [
        Value::Int32(id as i32),
        Value::Text(format!("a note of some length on {id}")),
        Value::Text(format!("word {id} of more than twelve bytes")),
        if id % 2 == 0 { Value::Null } else { Value::Bool(false) },
        Value::Decimal(id.into()),
        Value::Float64(id as f64 / 8.0),
        Value::Binary(vec![id as u8; 20]),
    ];
    row(id, n).into_iter().chain(new).collect()
}

fn changes(id: i64) -> Vec<(usize, Value)> {
    other_row(id, 0).into_iter().enumerate().skip(3).collect()
}

fn rows(db: &Database, table: &Table, ids: std::ops::Range<i64>) -> Vec<Option<Vec<Value>>> {
    db.transaction(|tx| ids.clone().map(|id| tx.read(table, &[id.into()])).collect()).unwrap()
}

/// What a snapshot shows of a table: for each column, its name, the values that are not NULL, and
/// how they print.
fn shown(db: &Database, name: &str) -> Vec<(String, usize, String)> {
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table(name).unwrap();
    let columns: Vec<usize> = (0..table.schema().columns().len()).collect();
    let mut shown: Vec<_> = columns
        .iter()
        .map(|at| (table.schema().columns()[*at].name.clone(), 0, String::new()))
        .collect();
    for number in 0..table.segment_count() {
        let segment = table.segment(number).unwrap();
        let batch = segment.batch(&columns).unwrap();
        for (array, (_, count, text)) in batch.columns().iter().zip(&mut shown) {
            for (first, len) in segment.runs() {
                let array = array.slice(first, len);
                *count += array.len() - array.null_count();
                text.push_str(&format!("{array:?}"));
            }
        }
    }
    shown
}

const ROWS: i64 = 20_000;

#[test]
fn all_rows_have_the_value_of_a_new_column_until_they_get_another() {
    for scheme in all_schemes() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Database::open(folder.path(), options(scheme)).unwrap();
        let db = open();
        let table = create(&db, "t", vec![index("by_n", &["n"], false)]);
        insert(&db, &table, 0..ROWS, |id| id);
        db.transaction(|tx| tx.delete(&table, &[5i64.into()])).unwrap();
        let before = db.snapshot().unwrap();
        let table = alter(&db, &table, &widened(&table, &added()));
        assert_eq!(before.table("t").unwrap().schema().columns().len(), 3, "{scheme}");
        assert_eq!(before.table("t").unwrap().row_count().unwrap(), ROWS as u64 - 1);
        for (name, count, _) in &shown(&db, "t")[3..] {
            let is_null = ["note", "rate"].contains(&name.as_str());
            assert_eq!(*count, if is_null { 0 } else { ROWS as usize - 1 }, "{scheme}: {name}");
        }
        let with_constants = db.snapshot().unwrap();
        let expected = |id: i64| match id {
            5 => None,
            100..200 => Some(other_row(id, id)),
            ROWS.. => Some(other_row(id, id)),
            _ => Some(full_row(id, id)),
        };
        db.transaction(|tx| {
            for id in 100..200 {
                tx.update(&table, &[id.into()], &changes(id))?;
            }
            (ROWS..ROWS + 300).try_for_each(|id| tx.insert(&table, &other_row(id, id)))
        })
        .unwrap();
        let mut undone = db.begin().unwrap();
        undone.update(&table, &[300i64.into()], &changes(300)).unwrap();
        undone.insert(&table, &other_row(ROWS + 500, 1)).unwrap();
        // A snapshot shows nothing of an open transaction.
        assert_eq!(shown(&db, "t")[4].1, 400, "{scheme}");
        undone.rollback();
        assert_eq!(with_constants.table("t").unwrap().row_count().unwrap(), ROWS as u64 - 1);
        let check = |db: &Database| {
            let table = db.table("t").unwrap();
            let found = rows(db, &table, 0..ROWS + 310);
            for (id, row) in (0..).zip(found) {
                let wanted = expected(id).filter(|_| id < ROWS + 300);
                assert_eq!(row, wanted, "{scheme}: {id}");
            }
            check_index(db, &table, "by_n");
        };
        check(&db);
        let now = shown(&db, "t");
        drop((before, with_constants, db));
        let db = open();
        check(&db);
        assert_eq!(shown(&db, "t"), now, "{scheme}");
        db.checkpoint().unwrap();
        drop(db);
        check(&open());
    }
}

#[test]
fn a_rollback_leaves_the_table_as_it_was() {
    for scheme in all_schemes() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Database::open(folder.path(), options(scheme)).unwrap();
        let db = open();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..1000, |id| id);
        let mut tx = db.begin().unwrap();
        tx.insert(&table, &row(2000, 1)).unwrap();
        let new = tx.alter_table(&table, &widened(&table, &added())).unwrap().unwrap();
        tx.insert(&new, &other_row(2001, 1)).unwrap();
        tx.update(&new, &[7i64.into()], &changes(7)).unwrap();
        assert_eq!(tx.read(&new, &[2000i64.into()]).unwrap(), Some(full_row(2000, 1)), "{scheme}");
        assert_eq!(tx.read(&new, &[7i64.into()]).unwrap(), Some(other_row(7, 7)), "{scheme}");
        // A checkpoint while segments have columns that the table does not have yet.
        db.checkpoint().unwrap();
        tx.rollback();
        assert_eq!(table.schema().columns().len(), 3);
        insert(&db, &table, 1000..1500, |id| id);
        let wanted: Vec<_> = (0..1500).map(|id| Some(row(id, id).to_vec())).collect();
        assert_eq!(rows(&db, &table, 0..1500), wanted, "{scheme}");
        let again = db.transaction(|tx| tx.alter_table(&table, &widened(&table, &added())));
        assert!(again.unwrap().is_none(), "segments have columns that are not in the schema");
        db.checkpoint().unwrap();
        insert(&db, &table, 1500..1600, |id| id);
        drop(db);
        let db = open();
        let table = db.table("t").unwrap();
        let wanted: Vec<_> = (0..1600).map(|id| Some(row(id, id).to_vec())).collect();
        assert_eq!(rows(&db, &table, 0..1600), wanted, "{scheme}");
        let table = alter(&db, &table, &widened(&table, &added()));
        assert_eq!(rows(&db, &table, 3..4), [Some(full_row(3, 3))]);
    }
}

#[test]
fn a_savepoint_keeps_the_columns_that_were_there() {
    let medium = CrashMedium::default();
    let open = || Database::open_on(&medium, options("no_wait".parse().unwrap())).unwrap();
    let db = open();
    let table = create(&db, "t", vec![]);
    insert(&db, &table, 0..1000, |id| id);
    let all = added();
    db.transaction(|tx| {
        let one = tx.alter_table(&table, &widened(&table, &all[..1]))?.unwrap();
        let made = tx.definitions_made();
        tx.alter_table(&one, &widened(&one, &all[1..]))?.unwrap();
        tx.undo_definitions(&made)?;
        tx.insert(&one, &full_row(1000, 3)[..4])
    })
    .unwrap();
    let check = |db: &Database| {
        let table = db.table("t").unwrap();
        assert_eq!(table.schema().columns().len(), 4);
        let wanted: Vec<_> = (0..1001)
            .map(|id| Some(full_row(id, if id == 1000 { 3 } else { id })[..4].to_vec()))
            .collect();
        assert_eq!(rows(db, &table, 0..1001), wanted);
    };
    check(&db);
    drop(db);
    check(&open());
}

#[test]
fn what_has_no_place_in_its_segment_needs_a_copy() {
    let db = Database::create(options("no_wait".parse().unwrap())).unwrap();
    let table = create(&db, "t", vec![]);
    insert(&db, &table, 0..10, |id| id);
    let refused = |added: &[(Column, Value)]| {
        db.transaction(|tx| tx.alter_table(&table, &widened(&table, added))).unwrap().is_none()
    };
    assert!(refused(&[(Column::new("x", DataType::Int32), Value::Null)]));
    assert!(refused(&[(Column::new("x", DataType::Int32), Value::Int64(1))]));
    let long = Value::Text("thirteen byte".into());
    assert!(refused(&[(Column::new("x", DataType::Text), long)]));
    let mut indexed = widened(&table, &added());
    indexed.indexes.push(index("by_seven", &["seven"], false));
    assert!(db.transaction(|tx| tx.alter_table(&table, &indexed)).unwrap().is_none());
    // Each of these has left the table as it was.
    let table = alter(&db, &table, &widened(&table, &added()));
    let table = add_index(&db, &table, &index("by_seven", &["seven"], false)).unwrap();
    check_index(&db, &table, "by_seven");
}

#[test]
fn columns_survive_a_crash_with_the_transaction_that_adds_them() {
    for (nodes, scheme) in [(1, "no_wait"), (2, "mvcc"), (3, "silo")] {
        let medium = CrashMedium::default();
        let options = || DatabaseOptions { nodes: Some(nodes), ..options(scheme.parse().unwrap()) };
        let db = Database::open_on(&medium, options()).unwrap();
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..300, |id| id);
        db.checkpoint().unwrap();
        let found = |db: &Database| {
            let table = db.table("t").unwrap();
            (shown(db, "t"), rows(db, &table, 0..340))
        };
        let begun = medium.events();
        let mut stages = vec![found(&db)];
        db.transaction(|tx| {
            tx.insert(&table, &row(300, 1))?;
            let new = tx.alter_table(&table, &widened(&table, &added()[..4]))?.unwrap();
            tx.insert(&new, &other_row(301, 1)[..7])?;
            tx.update(&new, &[1i64.into()], &changes(1)[..4]).map(drop)
        })
        .unwrap();
        stages.push(found(&db));
        let table = db.table("t").unwrap();
        db.transaction(|tx| tx.insert(&table, &other_row(310, 1)[..7])).unwrap();
        stages.push(found(&db));
        db.checkpoint().unwrap();
        let table = alter(&db, &table, &widened(&table, &added()[4..]));
        stages.push(found(&db));
        db.transaction(|tx| {
            tx.delete(&table, &[301i64.into()])?;
            tx.insert(&table, &full_row(320, 1))
        })
        .unwrap();
        stages.push(found(&db));
        db.checkpoint().unwrap();
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
            assert!(found(&db) == now, "{scheme}, {at}");
        }
        assert!(seen.is_sorted() && seen[0] == 0, "{seen:?}");
        assert!((0..5).all(|stage| seen.contains(&stage)), "{seen:?}");
    }
}

/// Recovery applies changes before and behind new columns, in several threads.
#[test]
fn a_long_log_with_new_columns_is_applied_in_its_order() {
    let medium = CrashMedium::default();
    let options = || DatabaseOptions {
        nodes: Some(1),
        tablespaces: Some(2),
        ..options("no_wait".parse().unwrap())
    };
    let db = Database::open_on(&medium, options()).unwrap();
    let mut table = create(&db, "t", vec![]);
    const STEP: i64 = 30_000;
    let count = added().len() as i64;
    for at in 0..=count {
        let width = 3 + at as usize;
        let ids = at * STEP..(at + 1) * STEP;
        db.transaction(|tx| {
            ids.clone().try_for_each(|id| tx.insert(&table, &other_row(id, at)[..width]))?;
            // Rows of each age.
            for id in (0..ids.start).step_by(97) {
                tx.update(&table, &[id.into()], &[(1, (at + 1).into())])?;
            }
            Ok(())
        })
        .unwrap();
        if at < count {
            table = alter(&db, &table, &widened(&table, &added()[at as usize..][..1]));
        }
    }
    let all = (count + 1) * STEP;
    let now = rows(&db, &table, 0..all);
    let at = (STEP + 5) as usize;
    let expected = [&other_row(at as i64, 1)[..4], &full_row(0, 0)[4..]].concat();
    assert_eq!(now[at], Some(expected));
    let crashed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&crashed, options()).unwrap();
    assert!(rows(&db, &db.table("t").unwrap(), 0..all) == now);
}

#[test]
fn the_memory_of_a_table_with_new_columns_comes_back() {
    let db = Database::create(options("no_wait".parse().unwrap())).unwrap();
    let used = |db: &Database| {
        for _ in 0..1000 {
            thread::sleep(Duration::from_millis(1));
        }
        db.memory().tables_bytes + db.memory().kept_bytes
    };
    let round = || {
        let table = create(&db, "t", vec![]);
        insert(&db, &table, 0..ROWS, |id| id);
        let table = alter(&db, &table, &widened(&table, &added()));
        db.transaction(|tx| {
            (0..ROWS)
                .step_by(7)
                .try_for_each(|id| tx.update(&table, &[id.into()], &changes(id)).map(drop))
        })
        .unwrap();
        db.drop_table("t").unwrap();
    };
    round();
    let once = used(&db);
    (0..3).for_each(|_| round());
    let more = used(&db);
    assert!(more <= once + (1 << 20), "{once} bytes after one round, {more} after four");
}

/// The log has rows of a table with a new column, and the table is dropped with them.
#[test]
fn a_table_that_goes_with_its_new_column_leaves_a_log_that_can_be_read() {
    for (scheme, copies) in [("no_wait", false), ("no_wait", true), ("silo", false), ("silo", true)]
    {
        let medium = CrashMedium::default();
        let open = |medium: &CrashMedium| {
            let options = DatabaseOptions { nodes: Some(1), ..options(scheme.parse().unwrap()) };
            Database::open_on(medium, options).unwrap()
        };
        let db = open(&medium);
        let [table, other] = ["t", "other"].map(|name| create(&db, name, vec![]));
        insert(&db, &table, 0..1000, |id| id);
        db.checkpoint().unwrap();
        db.transaction(|tx| {
            tx.insert(&table, &row(2000, 1))?;
            let new = tx.alter_table(&table, &widened(&table, &added()))?.unwrap();
            for id in 0..500 {
                tx.update(&new, &[id.into()], &changes(id))?;
            }
            tx.drop_table(&new)?;
            if copies {
                let copy = tx.create_table("t", new.schema().clone(), &TableOptions::default())?;
                (0..300).try_for_each(|id| tx.insert(&copy, &full_row(id, id)))?;
            }
            Ok(())
        })
        .unwrap();
        insert(&db, &other, 0..10, |id| id);
        let crashed = medium.crash(medium.events(), || false);
        let db = open(&crashed);
        assert_eq!(db.table("other").unwrap().row_count(), 10);
        assert_eq!(db.table("t").map(|table| table.row_count()).ok(), copies.then_some(300));
    }
}

#[test]
fn a_new_column_takes_a_name_that_another_one_has_given_up() {
    let db = Database::create(options("no_wait".parse().unwrap())).unwrap();
    let table = create(&db, "t", vec![]);
    insert(&db, &table, 0..10, |id| id);
    let renamed = |table: &Table, at: usize, name: &str, more: Column| {
        let mut columns = table.schema().columns().to_vec();
        columns[at].name = name.to_owned();
        columns.push(more);
        let schema = Schema::new(columns, &["id"]).unwrap();
        TableChange { schema, added: vec![Value::Int64(5)], ..change(table) }
    };
    db.transaction(|tx| {
        let to = renamed(&table, 1, "was_n", Column::new("n", DataType::Int64));
        let one = tx.alter_table(&table, &to)?.unwrap();
        let to = renamed(&one, 3, "then_n", Column::new("n", DataType::Int64));
        tx.alter_table(&one, &to)?.unwrap();
        Ok(())
    })
    .unwrap();
    let table = db.table("t").unwrap();
    let names: Vec<_> = table.schema().columns().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["id", "was_n", "text", "then_n", "n"]);
    let wanted = [&row(3, 3)[..], &[5i64.into(), 5i64.into()]].concat();
    assert_eq!(rows(&db, &table, 3..4), [Some(wanted)]);
}
