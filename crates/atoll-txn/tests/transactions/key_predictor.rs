//! Inserts and restores of rows in key order train the table's key predictor and its dense-block
//! map. Whether lookups use them shows only in their time, not in their results.

// No transaction waits here.
#[allow(dead_code)]
use atoll_storage::undo::UndoList;
use atoll_storage::{Change, DENSE_ROWS, Filling, RowId, Table, Value};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::hstore::HStore;
use atoll_txn::schemes::silo::Silo;
use atoll_txn::{AbortReason, Begin, Pool, Scheme, SchemeOptions, TableOptions};

use crate::waiting::{self, Waiting};

/// More than a block of keys.
const ROWS: u64 = 3000;

fn hash(table: &Table<Waiting>, key: u64) -> u64 {
    table.hash(&[Value::Int64(key.cast_signed())])
}

fn assert_guessed(table: &Table<Waiting>) {
    for key in 0..ROWS {
        let predict = table.predict(hash(table, key)).unwrap();
        assert_eq!(predict, RowId(key), "{key}");
    }
}

#[test]
fn rows_are_guessed_after_they_were_inserted_and_after_their_table_was_restored() {
    let scheme = Silo::new(&SchemeOptions::default());
    let (engine, table) = waiting::engine(scheme, &TableOptions::default());
    let mut worker = Attached::new(&engine).unwrap();
    // Several transactions: the key run of a worker outlives each.
    for keys in [0..40, 40..1000, 1000..ROWS] {
        worker.begin(Begin::default()).unwrap();
        for key in keys {
            worker.insert(&table, &[key.cast_signed().into(), 0i64.into()]).unwrap();
        }
        worker.commit().unwrap();
    }
    assert_guessed(&table);

    // A restored table in its first state: its rows are not in the index yet.
    let scheme = Silo::new(&SchemeOptions::default());
    let (engine, table) = waiting::engine(scheme, &TableOptions::default());
    let mut member = engine.memory().upkeep();
    let (mut filling, mut undo) = (Filling::default(), UndoList::default());
    for key in 0..ROWS {
        table.make_room(&mut member, &mut filling, 1).unwrap();
        let section = member.enter();
        let change = Change::forward(section.inside());
        let row = table.claim(change, &mut filling).unwrap();
        table.fill_rows(change, &[row], &[key.cast_signed().into(), 0i64.into()]).unwrap();
        table.appear(change, &[row], &mut undo).unwrap();
    }
    assert_eq!(table.predict(hash(&table, 7)), None);
    assert_eq!(engine.engine().index_restored(table.id(), 1, &|_| ()), Ok(()));
    assert_guessed(&table);
}

#[test]
fn a_row_that_lies_elsewhere_does_not_make_those_be_forgotten_that_do_not() {
    let scheme = Silo::new(&SchemeOptions::default());
    let (engine, table) = waiting::engine(scheme, &TableOptions::default());
    let mut worker = Attached::new(&engine).unwrap();
    worker.begin(Begin::default()).unwrap();
    for key in (0..10).chain(11..ROWS) {
        worker.insert(&table, &[key.cast_signed().into(), 0i64.into()]).unwrap();
    }
    worker.commit().unwrap();
    insert(&mut worker, &table, 10..11, true);
    let predict = |key| table.predict(hash(&table, key));
    // All later keys of the block are where the predictor expects them.
    let mut read = |key: u64| {
        worker.begin(Begin::default()).unwrap();
        let key = [Value::Int64(key.cast_signed())];
        assert!(worker.read_with(&table, &key, &mut |_| {}).unwrap());
        worker.commit().unwrap();
    };
    for _ in 0..1000 {
        read(10);
    }
    assert_eq!((predict(10), predict(11)), (Some(RowId(9)), Some(RowId(10))));
}

/// Whether the prediction for a key is exact.
fn is_exact(table: &Table<Waiting>, key: u64) -> bool {
    let slot = table.slot(table.predict(hash(table, key)).unwrap());
    let is_exact = table.is_exact(slot, hash(table, key));
    let found = table.locate_exact(&[Value::Int64(key.cast_signed())]);
    assert_eq!(found.map(|slot| slot.id()), is_exact.then_some(slot.id()));
    assert!(!table.is_exact(slot, hash(table, key + 1)), "it is another key's");
    is_exact
}

type AnEngine<S> = std::sync::Arc<Pool<S, Waiting>>;

fn end<S: Scheme<Waiting>>(worker: &mut Attached<S, Waiting>, commits: bool) {
    match commits {
        true => worker.commit().unwrap(),
        false => worker.abort(AbortReason::Requested),
    }
    worker.park();
    worker.pool().collect_garbage(usize::MAX);
}

/// Inserts rows of these keys, and commits or not.
fn insert<S: Scheme<Waiting>>(
    worker: &mut Attached<S, Waiting>,
    table: &Table<Waiting>,
    keys: std::ops::Range<u64>,
    commits: bool,
) {
    worker.begin(Begin::default()).unwrap();
    for key in keys {
        worker.insert(table, &[key.cast_signed().into(), 0i64.into()]).unwrap();
    }
    end(worker, commits);
}

fn delete<S: Scheme<Waiting>>(
    worker: &mut Attached<S, Waiting>,
    table: &Table<Waiting>,
    key: u64,
    commits: bool,
) {
    worker.begin(Begin::default()).unwrap();
    assert!(worker.delete(table, &[key.cast_signed().into()]).unwrap());
    end(worker, commits);
}

/// Predictions are exact in blocks of filled slots, until one of the rows is freed.
fn blocks_are_sure_until_broken<S: Scheme<Waiting>>(scheme: S) {
    const BLOCK: u64 = DENSE_ROWS;
    let (engine, table): (AnEngine<S>, _) = waiting::engine(scheme, &TableOptions::default());
    let mut worker = Attached::new(&engine).unwrap();
    insert(&mut worker, &table, 0..BLOCK - 1, true);
    assert!(!is_exact(&table, 5), "one row is missing");
    insert(&mut worker, &table, BLOCK - 1..2 * BLOCK + 500, true);
    let exact = |block: u64| [0, 5, BLOCK - 1].map(|at| is_exact(&table, block * BLOCK + at));
    assert_eq!([exact(0), exact(1)], [[true; 3]; 2]);
    assert!(!is_exact(&table, 2 * BLOCK + 5), "not filled");

    // A deletion that is rolled back frees no row.
    delete(&mut worker, &table, 7, false);
    assert_eq!(exact(0), [true; 3]);
    delete(&mut worker, &table, 7, true);
    assert_eq!([exact(0), exact(1)], [[false; 3], [true; 3]]);

    // The rows of a rolled back insert were freed, whatever row gets their slots next.
    insert(&mut worker, &table, 2 * BLOCK + 500..3 * BLOCK, false);
    insert(&mut worker, &table, 2 * BLOCK + 500..6 * BLOCK, true);
    insert(&mut worker, &table, 7..8, true);
    assert!(!is_exact(&table, 2 * BLOCK + 5) && !is_exact(&table, 7) && !is_exact(&table, 8));
}

#[test]
fn rows_are_sure_in_whole_blocks_however_they_are_given_up() {
    blocks_are_sure_until_broken(Silo::new(&SchemeOptions::default()));
    blocks_are_sure_until_broken(HStore::new(&SchemeOptions::default()));
}
