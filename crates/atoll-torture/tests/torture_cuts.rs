//! Many cuts beside few transactions on threads that sleep inside the gate: a snapshot shows a
//! transaction completely or not at all.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use atoll_torture::hands::{AMOUNT, ByName, Ground, Halt, Hands, ID, Row, with_scheme};
use atoll_torture::hesitant::Hesitant;
use atoll_torture::lineup::options;
use atoll_torture::workload::Plan;
use atoll_txn::schemes::{SchemeKind, SchemeVisitor};
use atoll_txn::{EngineOptions, Scheme};

const THREADS: usize = 3;
const CUTS: usize = 500;
/// Rows that always exist and hold the same number.
const TWINS: [i64; 2] = [0, 1];
/// Rows that are inserted and deleted together.
const GUESTS: [i64; 2] = [2, 3];

fn row(id: i64, amount: i64) -> Row {
    let mut row = [0; _];
    (row[ID], row[AMOUNT]) = (id, amount);
    row
}

fn amount(row: Option<Row>) -> i64 {
    row.unwrap()[AMOUNT]
}

/// One transaction: increments the twins, or inserts or deletes the guests.
fn transaction(scheme: &str, hands: &mut Hands<Hesitant>, grows: bool) -> Result<(), Halt> {
    hands.begin(None, &Plan::default())?;
    if grows {
        for key in TWINS {
            let grown = amount(hands.read(key)?) + 1;
            assert!(hands.update(key, &[(AMOUNT, grown)])?);
        }
    } else {
        for key in GUESTS {
            if !hands.delete(key)? {
                assert!(hands.insert(&row(key, 7))?, "{scheme}");
            }
        }
    }
    hands.commit()
}

struct Cuts;

impl SchemeVisitor<Hesitant> for Cuts {
    type Output = ();

    fn visit<S: Scheme<Hesitant>>(self, scheme: S) {
        let options = EngineOptions { accounting: false, ..EngineOptions::default() };
        let ground = Ground::new(with_scheme(scheme), options, ByName::Missing).unwrap();
        let mut hands = ground.hands().unwrap();
        hands.begin(None, &Plan::default()).unwrap();
        for key in TWINS {
            assert!(hands.insert(&row(key, 0)).unwrap());
        }
        hands.commit().unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (ground, ends) = (&ground, &ends);
                scope.spawn(move || {
                    let mut hands = ground.hands().unwrap();
                    let mut grows = thread % 2 == 0;
                    while !ends.load(Ordering::Relaxed) {
                        match transaction(S::NAME, &mut hands, grows) {
                            Ok(()) => grows = !grows,
                            Err(Halt::Conflict) => hands.roll_back(),
                            Err(halt) => panic!("{halt:?}"),
                        }
                    }
                });
            }
            let (epochs, now) = (&ground, &ends);
            scope.spawn(move || {
                while !now.load(Ordering::Relaxed) {
                    epochs.reclaim();
                }
            });
            let judge = || {
                for cut in 0..CUTS {
                    let mut rows = ground.snapshot(true, std::thread::yield_now).unwrap();
                    rows.sort_unstable();
                    let twins = [rows[0][AMOUNT], rows[1][AMOUNT]];
                    assert_eq!(twins[0], twins[1], "{} cut {cut}: {rows:?}", S::NAME);
                    let guests: Vec<_> =
                        rows[2..].iter().map(|row| (row[ID], row[AMOUNT])).collect();
                    let both = [(2, 7), (3, 7)];
                    assert!(guests.is_empty() || guests == both, "{} cut {cut}: {rows:?}", S::NAME);
                }
            };
            let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge));
            ends.store(true, Ordering::Relaxed);
            judged.unwrap();
        });
    }
}

#[test]
fn a_snapshot_shows_a_transaction_as_a_whole_or_not_at_all() {
    for kind in SchemeKind::ALL.iter().copied() {
        kind.visit::<Hesitant, _>(&options(0), Cuts);
    }
}
