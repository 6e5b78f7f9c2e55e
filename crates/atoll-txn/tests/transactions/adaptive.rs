//! ADAPTIVE, one transaction at a time: when it locks rows early, and that readers wait as long as
//! necessary.

use std::sync::Arc;

use atoll_storage::{SEGMENT_ROWS, Table};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::common::read_set::Versioned;
use atoll_txn::scheme::{Place, States};
use atoll_txn::schemes::adaptive::Adaptive;
use atoll_txn::{AbortReason, Begin, OpError, Pool, SchemeOptions, TableOptions};

use crate::waiting::{self, Waiting, after};

type Here = Pool<Adaptive<Waiting>, Waiting>;
type Hand = Attached<Adaptive<Waiting>, Waiting>;

/// The only row.
const ROW: Place = Place::row(atoll_storage::TableId(0), 0);

fn engine() -> (Arc<Here>, Arc<Table<Waiting>>) {
    let scheme = Adaptive::new(&SchemeOptions::default());
    let (engine, table) = waiting::engine(scheme, &TableOptions::default());
    let mut worker = Attached::new(&engine).unwrap();
    worker.begin(Begin::default()).unwrap();
    worker.insert(&table, &[0i64.into(), 0i64.into()]).unwrap();
    worker.commit().unwrap();
    (engine, table)
}

fn add(worker: &mut Hand, table: &Table<Waiting>) -> Result<(), OpError> {
    let found = worker.update_with(table, &[0i64.into()], &mut |row| {
        let count = row.i64(1) + 1;
        row.set_i64(1, count);
    })?;
    assert!(found);
    Ok(())
}

fn read(worker: &mut Hand, table: &Table<Waiting>) -> Result<i64, OpError> {
    let mut count = 0;
    worker.read_with(table, &[0i64.into()], &mut |row| count = row.i64(1))?;
    Ok(count)
}

/// Makes validations fail until the row is locked early.
fn heat(engine: &Here, table: &Table<Waiting>, hands: &mut [Hand; 2]) {
    let [one, two] = hands;
    let mut failed = 0;
    while !engine.engine().scheme().is_pessimistic(ROW) {
        assert!(failed < 100, "it never gets hot");
        failed += 1;
        one.begin(Begin::default()).unwrap();
        add(one, table).unwrap();
        two.begin(Begin::default()).unwrap();
        add(two, table).unwrap();
        two.commit().unwrap();
        assert!(matches!(one.commit(), Err(OpError::Abort(AbortReason::Changed))));
    }
}

/// Runs transactions without conflicts until the row is left to validation again.
fn calm(engine: &Here, table: &Table<Waiting>, hand: &mut Hand) -> u32 {
    let mut rounds = 0;
    while engine.engine().scheme().is_pessimistic(ROW) {
        hand.begin(Begin::default()).unwrap();
        add(hand, table).unwrap();
        hand.commit().unwrap();
        rounds += 1;
        assert!(rounds < 1000, "it never cools down");
    }
    rounds
}

#[test]
fn a_row_where_transactions_meet_is_locked_early_and_no_longer_when_they_do_not() {
    let (engine, table) = engine();
    let mut hands = [Attached::new(&engine).unwrap(), Attached::new(&engine).unwrap()];
    for _ in 0..2 {
        heat(&engine, &table, &mut hands);
        let [one, two] = &mut hands;
        one.begin(Begin::default()).unwrap();
        add(one, &table).unwrap();
        // With an early lock, no transaction gets far enough to fail later.
        two.begin(Begin { hurried: true, ..Begin::default() }).unwrap();
        assert!(matches!(add(two, &table), Err(OpError::Abort(AbortReason::Denied))));
        one.commit().unwrap();
        calm(&engine, &table, one);
        one.begin(Begin::default()).unwrap();
        add(one, &table).unwrap();
        two.begin(Begin { hurried: true, ..Begin::default() }).unwrap();
        add(two, &table).unwrap();
        two.commit().unwrap();
        assert!(matches!(one.commit(), Err(OpError::Abort(AbortReason::Changed))));
    }
}

#[test]
fn waiting_for_an_early_lock_keeps_a_row_from_cooling_down() {
    let rounds = [false, true].map(|waits| {
        let (engine, table) = engine();
        let mut hands = [Attached::new(&engine).unwrap(), Attached::new(&engine).unwrap()];
        heat(&engine, &table, &mut hands);
        heat_once_more(&table, &mut hands);
        let [mut one, mut two] = hands;
        one.begin(Begin::default()).unwrap();
        add(&mut one, &table).unwrap();
        let mut end = move || one.commit().unwrap();
        two.begin(Begin::default()).unwrap();
        if waits {
            after(5, end);
        } else {
            end();
        }
        add(&mut two, &table).unwrap();
        two.commit().unwrap();
        calm(&engine, &table, &mut two)
    });
    assert!(rounds[1] > rounds[0], "{rounds:?}");
}

/// One more failed validation in spite of early locks: the row was read before it was locked.
fn heat_once_more(table: &Table<Waiting>, [one, two]: &mut [Hand; 2]) {
    one.begin(Begin::default()).unwrap();
    read(one, table).unwrap();
    two.begin(Begin::default()).unwrap();
    add(two, table).unwrap();
    two.commit().unwrap();
    assert!(one.commit().is_err());
}

#[test]
fn a_reader_waits_for_as_long_as_somebody_stores_even_in_a_hurry() {
    let (engine, table) = engine();
    let mut reader = Attached::new(&engine).unwrap();
    let begin = |reader: &mut Hand, read_only| {
        let engine = Arc::clone(&engine);
        let version = |engine: &Here| engine.engine().tables().row(ROW).version().load();
        let before = version(&engine);
        let state = engine.engine().tables().row(ROW).version();
        assert_eq!(state.lock(), Some(before));
        state.begin_storing();
        assert_ne!(version(&engine), before);
        let done = Arc::clone(&engine);
        after(10_000, move || done.engine().tables().row(ROW).version().unlock(before));
        reader.begin(Begin { read_only, hurried: true, ..Begin::default() }).unwrap();
    };
    begin(&mut reader, true);
    assert_eq!(read(&mut reader, &table).unwrap(), 0);
    reader.commit().unwrap();
    assert_eq!(engine.counts().aborts_all(), 0);
    // A transaction that may write might wait for another one of its own thread.
    begin(&mut reader, false);
    assert!(matches!(read(&mut reader, &table), Err(OpError::Abort(AbortReason::Denied))));
}

#[test]
fn what_was_deleted_goes_although_nobody_only_reads() {
    let (engine, table) = engine();
    let mut worker = Attached::new(&engine).unwrap();
    for id in 1..=2 * SEGMENT_ROWS as i64 {
        worker.begin(Begin::default()).unwrap();
        worker.insert(&table, &[id.into(), 0i64.into()]).unwrap();
        worker.commit().unwrap();
        worker.begin(Begin::default()).unwrap();
        assert!(worker.delete(&table, &[id.into()]).unwrap());
        worker.commit().unwrap();
    }
    assert_eq!(table.segment_count(), 1, "slots are used again");
}
