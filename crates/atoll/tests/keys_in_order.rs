//! Rows that were inserted in key order are found without the index; the results must not differ.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use atoll::machine::CrashMedium;
use atoll::{
    AbortReason, Buffers, Column, DataType, Database, DatabaseOptions, RowOp, Schema, SchemeKind,
    Session, Table, Transaction, TransactionOptions, TxnError, TxnResult, Value, Visit, Want,
};
use proptest::prelude::*;

/// Rows of the first fill: several blocks of keys.
const FILLED: i64 = 2500;
/// Keys that are looked up.
const KEYS: i64 = 3200;

fn options(scheme: SchemeKind) -> DatabaseOptions {
    DatabaseOptions { scheme, partitions: Some(2), ..DatabaseOptions::default() }
}

/// A table with rows that were inserted with the keys from `first` on, in the given steps.
fn filled(scheme: SchemeKind, first: i64, step: i64) -> (Database, Table) {
    let db = Database::create(options(scheme)).unwrap();
    let table = fill(&db, first, step);
    (db, table)
}

fn fill(db: &Database, first: i64, step: i64) -> Table {
    let columns = ["id", "amount"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.into(), &["id"]).unwrap();
    let table = db.create_table("numbers", schema).unwrap();
    let mut session = db.session().unwrap();
    for begin in 0..step {
        let keys = (first + begin..first + FILLED).step_by(step as usize);
        let fill =
            |tx: &mut Transaction| keys.clone().try_for_each(|id| tx.insert(&table, &row(id, id)));
        session.transaction_with(&TransactionOptions::default(), fill).unwrap();
    }
    table
}

fn row(id: i64, amount: i64) -> [Value; 2] {
    [Value::Int64(id), Value::Int64(amount)]
}

/// Amounts of these keys by every kind of lookup; all results must be equal.
fn amounts(session: &mut Session, table: &Table, ids: &[i64]) -> Vec<Option<i64>> {
    let keys: Vec<Value> = ids.iter().map(|id| Value::Int64(*id)).collect();
    let one_by_one = |tx: &mut Transaction| -> TxnResult<Vec<Option<i64>>> {
        let read = keys.chunks(1).map(|key| tx.read(table, key));
        read.map(|row| Ok(row?.map(|row| number(&row[1])))).collect()
    };
    let visited = |tx: &mut Transaction| {
        let mut seen = vec![None; ids.len()];
        tx.visit(
            table,
            &keys,
            |_| Want::read(&[1]),
            |at, row| {
                seen[at] = match row {
                    Visit::Read(row) => Some(row.i64(1)),
                    _ => None,
                };
            },
        )?;
        Ok(seen)
    };
    let applied = |tx: &mut Transaction, together: bool| {
        let mut output = vec![0; ids.len() * 8];
        let mut is_there = vec![true; ids.len()];
        let get = |at| RowOp::Get { column: 1, to: 8 * at };
        let each = if together { keys.len().max(1) } else { 1 };
        for (turn, keys) in keys.chunks(each).enumerate() {
            let ops: Vec<RowOp> = (0..keys.len()).map(|at| get(turn * each + at)).collect();
            let buffers = Buffers { input: &[], output: &mut output };
            tx.apply(table, keys, &ops, buffers, |at| is_there[turn * each + at] = false)?;
        }
        let values = output.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        Ok(values.zip(is_there).map(|(value, is_there)| is_there.then_some(value)).collect())
    };
    let fetched = |tx: &mut Transaction| {
        tx.prefetch(table, &keys, |_| &[1]);
        one_by_one(tx)
    };
    let mut ask = |asked: &dyn Fn(&mut Transaction) -> TxnResult<Vec<Option<i64>>>| {
        session.transaction(|tx| asked(tx)).unwrap()
    };
    let first = ask(&one_by_one);
    assert_eq!(ask(&visited), first);
    assert_eq!(ask(&|tx| applied(tx, true)), first);
    assert_eq!(ask(&|tx| applied(tx, false)), first);
    assert_eq!(ask(&fetched), first);
    first
}

fn number(value: &Value) -> i64 {
    let Value::Int64(number) = value else { panic!("{value:?} is no number") };
    *number
}

#[test]
fn every_key_is_found_and_no_other() {
    for scheme in SchemeKind::ALL.iter().copied() {
        for (first, step) in [(0, 1), (-700, 1), (5, 2)] {
            let (db, table) = filled(scheme, first, step);
            let mut session = db.session().unwrap();
            let ids: Vec<i64> = (first - 10..first + KEYS).collect();
            let expected = |id: &i64| (first..first + FILLED).contains(id).then_some(*id);
            let expected: Vec<_> = ids.iter().map(expected).collect();
            assert_eq!(amounts(&mut session, &table, &ids), expected, "{scheme} {first} {step}");
        }
    }
}

/// A block of slots is dense again when its table is restored, but not if rows are missing at its
/// begin or in its middle, followed by enough rows for a prediction.
#[test]
fn what_was_deleted_before_a_crash_is_not_found_after_it() {
    const GONE: [i64; 3] = [0, 700, FILLED - 1];
    for scheme in SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { memory_limit_bytes: Some(256 << 20), ..options(scheme) };
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options.clone()).unwrap();
        let table = fill(&db, 0, 1);
        db.transaction(|tx| {
            GONE.iter().try_for_each(|id| tx.delete(&table, &[Value::Int64(*id)]).map(|_| ()))
        })
        .unwrap();
        let crashed = medium.crash(medium.events(), || false);
        let db = Database::open_on(&crashed, options).unwrap();
        let table = db.table("numbers").unwrap();
        let mut session = db.session().unwrap();
        let ids: Vec<i64> = (-5..KEYS).collect();
        let is_there = |id: &i64| (0..FILLED).contains(id) && !GONE.contains(id);
        let mut expected: Vec<_> = ids.iter().map(|id| is_there(id).then_some(*id)).collect();
        assert_eq!(amounts(&mut session, &table, &ids), expected, "{scheme}");
        // Also in a block that was restored as dense.
        let gone = session.transaction(|tx| tx.delete(&table, &[Value::Int64(1500)])).unwrap();
        assert!(gone, "{scheme}");
        expected[1505] = None;
        assert_eq!(amounts(&mut session, &table, &ids), expected, "{scheme}");
    }
}

#[derive(Debug, Clone)]
enum Change {
    Delete(i64),
    Insert(i64),
    Update(i64),
    RollBack(i64),
}

fn change() -> impl Strategy<Value = Change> {
    // Few keys, so that the same ones occur often.
    let key = prop_oneof![0..40i64, 1000..1050i64, FILLED - 20..FILLED + 20];
    prop_oneof![
        key.clone().prop_map(Change::Delete),
        key.clone().prop_map(Change::Insert),
        key.clone().prop_map(Change::Update),
        key.prop_map(Change::RollBack),
    ]
}

fn make(
    session: &mut Session,
    table: &Table,
    model: &mut BTreeMap<i64, i64>,
    (turn, change): (i64, &Change),
) {
    match *change {
        Change::Delete(id) => {
            let gone = session.transaction(|tx| tx.delete(table, &[Value::Int64(id)])).unwrap();
            assert_eq!(gone, model.remove(&id).is_some(), "delete {id}");
        }
        Change::Insert(id) => {
            let inserted = session.transaction(|tx| tx.insert(table, &row(id, turn)));
            assert_eq!(inserted.is_ok(), !model.contains_key(&id), "insert {id}: {inserted:?}");
            model.entry(id).or_insert(turn);
        }
        Change::Update(id) => {
            let set = [(1, Value::Int64(turn))];
            let key = [Value::Int64(id)];
            let found = session.transaction(|tx| tx.update(table, &key, &set)).unwrap();
            assert_eq!(found, model.contains_key(&id), "update {id}");
            model.entry(id).and_modify(|amount| *amount = turn);
        }
        Change::RollBack(id) => {
            let mut gone = None;
            let ended = session.transaction(|tx| {
                gone = Some(tx.delete(table, &[Value::Int64(id)])?);
                tx.insert(table, &row(id, turn))?;
                Err::<(), _>(TxnError::Abort(AbortReason::Requested))
            });
            assert!(ended.is_err());
            assert_eq!(gone, Some(model.contains_key(&id)), "delete {id}, to be rolled back");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Deleted rows are inserted again into other slots, which had other keys.
    #[test]
    fn what_has_moved_is_found_where_it_is(changes in prop::collection::vec(change(), 1..120)) {
        let ids: Vec<i64> = (0..45).chain(995..1055).chain(FILLED - 25..FILLED + 25).collect();
        for scheme in SchemeKind::ALL.iter().copied() {
            let (db, table) = filled(scheme, 0, 1);
            let mut session = db.session().unwrap();
            let mut model: BTreeMap<i64, i64> = (0..FILLED).map(|id| (id, id)).collect();
            for (turn, change) in changes.iter().enumerate() {
                make(&mut session, &table, &mut model, (10_000 + turn as i64, change));
                if turn % 16 == 0 {
                    let expected: Vec<_> = ids.iter().map(|id| model.get(id).copied()).collect();
                    prop_assert_eq!(amounts(&mut session, &table, &ids), expected);
                }
            }
            let expected: Vec<_> = ids.iter().map(|id| model.get(id).copied()).collect();
            prop_assert_eq!(amounts(&mut session, &table, &ids), expected);
        }
    }
}

/// Where no cache line of the index is prefetched, a turn of the other lanes costs more than it
/// gains.
#[test]
fn who_fetches_rows_that_are_guessed_gives_its_turn_away_once() {
    let (db, guessed) = filled("silo".parse().unwrap(), 0, 1);
    let columns = ["name", "amount"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.into(), &["name", "amount"]).unwrap();
    let hashed = db.create_table("names", schema).unwrap();
    let mut transaction = db.begin().unwrap();
    let mut turns = |table: &Table, key: &[Value]| {
        let mut fetch = std::pin::pin!(transaction.fetch(table, key, |_| &[1]));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        (0..).take_while(|_| fetch.as_mut().poll(&mut context).is_pending()).count()
    };
    assert_eq!(turns(&guessed, &[Value::Int64(17)]), 1);
    assert_eq!(turns(&hashed, &row(17, 17)), 2);
    assert_eq!(turns(&guessed, &[Value::Int64(17), Value::Int64(-1_000_000)]), 2, "one is not");
}
