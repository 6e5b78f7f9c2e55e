//! Many rows inserted in one call, with the same result as one after the other.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, Index, IndexSpec, Range, Row, Schema,
    SchemeKind, Table, TableOptions, Transaction, TxnError, TxnResult, Value,
};

/// More rows than are inserted in one section, and not a multiple of that.
const ROWS: i64 = 40;

type Numbers = [i64; 3];

/// A table with a unique and another ordered index.
struct Place {
    db: Database,
    table: Table,
    by_rank: Index,
    by_group: Index,
}

fn place(scheme: SchemeKind) -> Place {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = ["id", "rank", "group"].map(|name| Column::new(name, DataType::Int64));
    let index = |name: &str, column: &str, unique| IndexSpec {
        name: name.into(),
        columns: vec![column.into()],
        unique,
        nulls_not_distinct: false,
    };
    let indexes = vec![index("by_rank", "rank", true), index("by_group", "group", false)];
    let options = TableOptions { indexes, ..TableOptions::default() };
    let schema = Schema::new(columns.into(), &["id"]).unwrap();
    let table = db.create_table_with("t", schema, &options).unwrap();
    let (by_rank, by_group) = (table.index("by_rank").unwrap(), table.index("by_group").unwrap());
    Place { db, table, by_rank, by_group }
}

fn row(id: i64) -> Numbers {
    [id, 1000 - id, id / 10]
}

fn flat(rows: impl IntoIterator<Item = Numbers>) -> Vec<Value> {
    rows.into_iter().flatten().map(Value::Int64).collect()
}

/// All rows in the order of an index.
fn rows(tx: &mut Transaction, index: &Index) -> TxnResult<Vec<Numbers>> {
    let mut all = Vec::new();
    let look = |row: &Row<'_>| [0, 1, 2].map(|at| row.i64(at));
    tx.scan(index, Range::ALL, look, |row| {
        all.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

impl Place {
    /// All rows by id; checks that both indexes and the table agree.
    fn rows(&self) -> Vec<Numbers> {
        let (mut by_rank, mut by_group) = self
            .db
            .transaction(|tx| Ok((rows(tx, &self.by_rank)?, rows(tx, &self.by_group)?)))
            .unwrap();
        assert!(by_rank.is_sorted_by_key(|row| row[1]), "{by_rank:?}");
        assert!(by_group.is_sorted_by_key(|row| row[2]), "{by_group:?}");
        by_rank.sort_unstable();
        by_group.sort_unstable();
        assert_eq!(by_rank, by_group);
        let found = self.db.transaction(|tx| {
            by_rank.iter().map(|row| tx.read(&self.table, &[row[0].into()])).collect()
        });
        let found: Vec<Option<Vec<Value>>> = found.unwrap();
        let expected = by_rank.iter().map(|row| Some(row.map(Value::Int64).to_vec()));
        assert_eq!(found, expected.collect::<Vec<_>>());
        by_rank
    }
}

#[test]
fn all_are_there_under_every_scheme() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let place = place(scheme);
        let all = flat((0..ROWS).map(row));
        let seen = place.db.transaction(|tx| {
            tx.insert(&place.table, &all)?;
            tx.insert(&place.table, &[])?;
            tx.read_with(&place.table, &[Value::Int64(17)], |row| row.value(1))
        });
        assert_eq!(seen.unwrap(), Some(Value::Int64(983)), "{scheme}");
        assert_eq!(place.rows(), (0..ROWS).map(row).collect::<Vec<_>>(), "{scheme}");
    }
}

#[test]
fn at_a_key_that_is_there_the_rows_before_have_been_inserted() {
    for scheme in SchemeKind::ALL.iter().copied() {
        // First, in the middle and last in a group; in the second group; a row of the call itself.
        for (taken, given) in [(100, 0), (100, 7), (100, 15), (100, 16), (100, 23), (5, 23)] {
            let place = place(scheme);
            let insert = |tx: &mut Transaction| {
                tx.insert(&place.table, &row(100).map(Value::Int64))?;
                let mut ids: Vec<i64> = (0..ROWS).collect();
                ids[given] = taken;
                let told = tx.insert(&place.table, &flat(ids.into_iter().map(row)));
                let Err(TxnError::Error(Error::DuplicateKey { key, .. })) = &told else {
                    panic!("{scheme}: {told:?}");
                };
                assert_eq!(*key, format!("id = {taken}"));
                // The transaction can go on, or commit what it has inserted.
                match given % 2 {
                    0 => tx.insert(&place.table, &row(200).map(Value::Int64)),
                    _ => Ok(()),
                }
            };
            place.db.transaction(insert).unwrap();
            let after = (given % 2 == 0).then_some(200);
            let ids = (0..given as i64).chain([100]).chain(after);
            let expected: Vec<Numbers> = ids.map(row).collect();
            assert_eq!(place.rows(), expected, "{scheme}, {taken} at {given}");
        }
    }
}

#[test]
fn rows_that_do_not_fit_change_nothing_and_a_rank_that_is_taken_rolls_back() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let place = place(scheme);
        let mut short = flat((0..ROWS).map(row));
        short.pop();
        let mut other = flat((0..ROWS).map(row));
        other[37 * 3 + 1] = Value::Text("many".into());
        place
            .db
            .transaction(|tx| {
                for bad in [&short, &other] {
                    let told = tx.insert(&place.table, bad);
                    assert!(matches!(told, Err(TxnError::Error(Error::Storage(_)))), "{told:?}");
                }
                // No row at all.
                tx.insert(&place.table, &[])?;
                tx.insert(&place.table, &row(300).map(Value::Int64))
            })
            .unwrap();
        assert_eq!(place.rows(), [row(300)], "{scheme}");
        let told = place.db.transaction(|tx| {
            let mut all: Vec<Numbers> = (0..ROWS).map(row).collect();
            all[20][1] = 700; // the value of row 300
            tx.insert(&place.table, &flat(all))
        });
        assert!(told.is_err(), "{scheme}");
        assert_eq!(place.rows(), [row(300)], "{scheme}");
    }
}

#[test]
fn a_window_may_begin_in_one_segment_and_end_in_the_next() {
    let place = place(SchemeKind::default());
    let ids = 0..20_000;
    for from in ids.clone().step_by(29) {
        let some = flat((from..ids.end.min(from + 29)).map(|id| [id, -id, id % 7]));
        place.db.transaction(|tx| tx.insert(&place.table, &some)).unwrap();
    }
    assert_eq!(place.rows(), ids.map(|id| [id, -id, id % 7]).collect::<Vec<_>>());
}

#[test]
fn rows_that_are_refused_leave_neither_slots_nor_long_values_behind() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let columns = vec![Column::new("id", DataType::Int64), Column::new("t", DataType::Text)];
        let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
        let row = |id: i64| [Value::Int64(id), Value::Text("long ".repeat(200))];
        db.transaction(|tx| tx.insert(&table, &row(0))).unwrap();
        // The second row exists already; the first and the third are tested with both ends of a
        // transaction.
        let rows: Vec<Value> = [1, 0, 2].into_iter().flat_map(row).collect();
        for round in 0..6000 {
            let told = db.transaction(|tx| match tx.insert(&table, &rows) {
                Err(TxnError::Error(Error::DuplicateKey { .. })) if round % 2 == 0 => {
                    assert!(tx.delete(&table, &[Value::Int64(1)])?);
                    Ok(())
                }
                told => told,
            });
            assert_eq!(told.is_ok(), round % 2 == 0, "{scheme}: {told:?}");
        }
        let snapshot = db.snapshot().unwrap();
        let segments = snapshot.table("t").unwrap().segment_count();
        let allocated = db.counters().memory_allocated_bytes;
        // 18,000 slots, which are three segments, and 18 MB of texts passed through few segments
        // and little memory. On a busy machine garbage may wait until a second segment has begun.
        assert!(segments <= 2 && allocated < 6 << 20, "{scheme}: {segments}, {allocated} bytes");
    }
}

#[test]
fn keys_that_are_there_need_no_slots_however_often_they_are_tried() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let place = place(scheme);
        let all = flat((0..ROWS).map(row));
        place.db.transaction(|tx| tx.insert(&place.table, &all)).unwrap();
        let tried = place.db.transaction(|tx| {
            for at in 0..10_000 {
                let one = row(at % ROWS).map(Value::Int64);
                let told = match at % 2 {
                    0 => tx.insert(&place.table, &one),
                    _ => tx.insert(&place.table, &all),
                };
                assert!(matches!(told, Err(TxnError::Error(Error::DuplicateKey { .. }))));
            }
            Ok(())
        });
        tried.unwrap();
        let snapshot = place.db.snapshot().unwrap();
        assert_eq!(snapshot.table("t").unwrap().segment_count(), 1, "{scheme}");
        drop(snapshot);
        assert_eq!(place.rows(), (0..ROWS).map(row).collect::<Vec<_>>(), "{scheme}");
    }
}

#[test]
fn rows_of_several_tables_appear_where_they_were_inserted() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let tables = ["one", "other"].map(|name| {
            let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
            db.create_table(name, schema).unwrap()
        });
        let insert = |tx: &mut Transaction| {
            // One has two rows for each row of the other, first alternating and then many at once.
            for id in 0..20i64 {
                tx.insert(&tables[0], &[(2 * id).into()])?;
                tx.insert(&tables[1], &[id.into()])?;
                tx.insert(&tables[0], &[(2 * id + 1).into()])?;
            }
            let many: Vec<Value> = (40..40 + ROWS).map(Value::Int64).collect();
            tx.insert(&tables[0], &many)
        };
        let counts = || {
            let snapshot = db.snapshot().unwrap();
            ["one", "other"].map(|name| snapshot.table(name).unwrap().row_count().unwrap())
        };
        let given_up = db.transaction(|tx| {
            insert(tx)?;
            Err::<(), _>(TxnError::Abort(atoll::AbortReason::Requested))
        });
        assert!(given_up.is_err());
        assert_eq!(counts(), [0, 0], "{scheme}");
        db.transaction(insert).unwrap();
        assert_eq!(counts(), [40 + ROWS as u64, 20], "{scheme}");
    }
}
