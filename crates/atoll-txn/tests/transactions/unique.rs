//! A transaction that gives a row a value of a unique index searches for other rows with the value,
//! and waits for a transaction that may remove the value from such a row.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use atoll_storage::{Table, Value};
use atoll_txn::any::{AnyTxn, Attached};
use atoll_txn::scheme::{Place, States};
use atoll_txn::schemes::dl_detect::DlDetect;
use atoll_txn::{AbortReason, Begin, IndexSpec, OpError, Pool, Range, SchemeOptions, TableOptions};

use crate::waiting::{self, Waiting, after};

type Here = Pool<DlDetect<Waiting>, Waiting>;
type Hand = Attached<DlDetect<Waiting>, Waiting>;

fn row(id: i64, count: i64) -> [Value; 2] {
    [id.into(), count.into()]
}

/// A row with the count 7, a worker with an open transaction that has changed it to 8, and another
/// worker.
fn scene() -> (Arc<Here>, Arc<Table<Waiting>>, [Hand; 2]) {
    let columns = vec!["count".to_owned()];
    let index =
        IndexSpec { name: "by_count".to_owned(), columns, unique: true, nulls_not_distinct: false };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    let limit = SchemeOptions { lock_timeout_ns: 1000, ..SchemeOptions::default() };
    let (engine, table) = waiting::engine(DlDetect::<Waiting>::new(&limit), &options);
    let [mut one, two] = [(); 2].map(|()| Attached::new(&engine).unwrap());
    one.begin(Begin::default()).unwrap();
    one.insert(&table, &row(0, 7)).unwrap();
    one.commit().unwrap();
    one.begin(Begin::default()).unwrap();
    assert!(one.update(&table, &row(0, 7)[..1], &[(1, 8i64.into())]).unwrap());
    (engine, table, [one, two])
}

#[test]
fn who_waits_asks_for_nothing_again_that_it_has() {
    let (engine, table, [mut one, mut two]) = scene();
    let leaf = Place::gap(table.id(), 1, 0);
    let is_held = Rc::new(Cell::new(None));
    let said = Rc::clone(&is_held);
    after(500, move || {
        // Both transactions have read the gap of the only leaf.
        said.set(Some(engine.engine().tables().gap(leaf).check_sole_reader(2)));
        one.commit().unwrap();
    });
    two.begin(Begin::default()).unwrap();
    two.insert(&table, &row(1, 7)).unwrap();
    assert_eq!(is_held.get(), Some(Ok(())));
    two.commit().unwrap();
}

#[test]
fn who_gave_up_waiting_adds_all_entries_of_its_next_transaction() {
    let (_engine, table, [mut one, mut two]) = scene();
    two.begin(Begin::default()).unwrap();
    let refused = two.insert(&table, &row(1, 7));
    assert!(matches!(refused, Err(OpError::Abort(AbortReason::Timeout))), "{refused:?}");
    one.commit().unwrap();
    two.begin(Begin::default()).unwrap();
    two.insert(&table, &row(2, 9)).unwrap();
    two.commit().unwrap();
    two.begin(Begin::default()).unwrap();
    let (mut counts, seen) = (Vec::new(), Cell::new(0));
    two.scan(&table, 0, &Range::ALL, &mut |row| seen.set(row.i64(1)), &mut || {
        counts.push(seen.get());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(counts, [8, 9]);
}
