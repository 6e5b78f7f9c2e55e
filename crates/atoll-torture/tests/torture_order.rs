//! A snapshot has a place in the serial order, even while a transaction stores in several sections,
//! between which other transactions commit and snapshots are taken.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use atoll_torture::hands::{AMOUNT, ByName, Ground, Halt, Hands, ID, Row, with_scheme};
use atoll_torture::machine::{Stepped, step};
use atoll_torture::stage::{Ended, Part, play};
use atoll_torture::workload::Plan;
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{EngineOptions, Scheme};

/// Copies of the original's number, each stored in a section of its own.
const COPIES: i64 = 4;
const ORIGINAL: i64 = COPIES;
const ATTEMPTS: u32 = 12;
/// Steps from one increment of the original to the next.
const STEPS_BETWEEN: u32 = 300;
const SEEDS: u64 = 250;
const STEPS_MAX: u64 = 2_000_000;

#[derive(Default)]
struct Seen {
    is_over: Cell<bool>,
    /// Numbers that committed transactions have copied.
    copied: RefCell<Vec<i64>>,
    /// The original and its copies, as snapshots show them.
    shown: RefCell<Vec<[i64; 2]>>,
}

fn row(id: i64) -> Row {
    let mut row = [0; _];
    row[ID] = id;
    row
}

fn amount(hands: &mut Hands<Stepped>, key: i64) -> Result<i64, Halt> {
    Ok(hands.read(key)?.unwrap()[AMOUNT])
}

fn set(hands: &mut Hands<Stepped>, key: i64, to: i64) -> Result<(), Halt> {
    assert!(hands.update(key, &[(AMOUNT, to)])?);
    Ok(())
}

/// Runs a transaction once; returns its result if it committed.
fn once<R>(
    hands: &mut Hands<Stepped>,
    body: impl FnOnce(&mut Hands<Stepped>) -> Result<R, Halt>,
) -> Option<R> {
    let done = hands.begin(None, &Plan::default()).and_then(|()| body(hands));
    match done.and_then(|result| hands.commit().map(|()| result)) {
        Ok(result) => Some(result),
        Err(Halt::Conflict) => {
            hands.roll_back();
            None
        }
        Err(halt) => panic!("{halt:?}"),
    }
}

fn shown(scheme: &str, ground: &Ground<Stepped>) -> [i64; 2] {
    let mut rows = ground.snapshot(true, step).unwrap();
    rows.sort_unstable();
    let amounts: Vec<i64> = rows.iter().map(|row| row[AMOUNT]).collect();
    let [copies @ .., original] = &amounts[..] else { panic!("{rows:?}") };
    assert!(copies.iter().all(|copy| *copy == copies[0]), "{scheme}: {rows:?}");
    [*original, copies[0]]
}

/// Increments the original, copies it and takes snapshots; records what was copied and seen.
struct Copying(u64);

impl SchemeVisitor<Stepped> for Copying {
    type Output = Rc<Seen>;

    fn visit<S: Scheme<Stepped>>(self, scheme: S) -> Rc<Seen> {
        let options =
            EngineOptions { accounting: false, rows_in_section: 1, ..EngineOptions::default() };
        let ground = Rc::new(Ground::new(with_scheme(scheme), options, ByName::Missing).unwrap());
        let mut first = ground.hands().unwrap();
        let fill = once(&mut first, |hands| {
            (0..=ORIGINAL).try_for_each(|id| hands.insert(&row(id)).map(|is_new| assert!(is_new)))
        });
        fill.unwrap();

        let seen = Rc::new(Seen::default());
        let copies: Part = Box::new({
            let (seen, mut hands) = (Rc::clone(&seen), ground.hands().unwrap());
            move || {
                for _ in 0..ATTEMPTS {
                    let copied = once(&mut hands, |hands| {
                        let original = amount(hands, ORIGINAL)?;
                        (0..COPIES).try_for_each(|copy| set(hands, copy, original))?;
                        Ok(original)
                    });
                    seen.copied.borrow_mut().extend(copied);
                }
                seen.is_over.set(true);
            }
        });
        let raises: Part = Box::new({
            let (seen, mut hands) = (Rc::clone(&seen), ground.hands().unwrap());
            move || {
                while !seen.is_over.get() {
                    once(&mut hands, |hands| {
                        let original = amount(hands, ORIGINAL)?;
                        set(hands, ORIGINAL, original + 1)
                    });
                    (0..STEPS_BETWEEN).for_each(|_| step());
                }
            }
        });
        let looks: Part = Box::new({
            let (seen, ground) = (Rc::clone(&seen), Rc::clone(&ground));
            move || {
                while !seen.is_over.get() {
                    let shown = shown(S::NAME, &ground);
                    seen.shown.borrow_mut().push(shown);
                    step();
                }
            }
        });
        let Self(seed) = self;
        let played = play(seed, STEPS_MAX, false, vec![copies, raises, looks]);
        assert_eq!(played.ended, Ended::Well, "{}, seed {seed}", S::NAME);
        seen
    }
}

/// A transaction that copied a number precedes the one that incremented it. So a snapshot that
/// shows a greater number shows that copy, or a later one.
fn check(name: &str, seed: u64, seen: &Seen) {
    for [original, copy] in seen.shown.borrow().iter().copied() {
        let missing = |number: &&i64| **number < original && copy < **number;
        let copied = seen.copied.borrow();
        let found = copied.iter().find(missing);
        assert_eq!(found, None, "{name}, seed {seed}: not in {copy} beside {original}");
    }
}

#[test]
fn a_snapshot_comes_after_all_who_come_before_what_it_shows() {
    for kind in SchemeKind::ALL.iter().copied() {
        let (mut copied, mut shown) = (0, 0);
        for seed in 0..SEEDS {
            let seen = kind.visit(&SchemeOptions::default(), Copying(seed));
            check(kind.name(), seed, &seen);
            copied += seen.copied.borrow().iter().filter(|number| **number > 0).count();
            shown += seen.shown.borrow().iter().filter(|[original, _]| *original > 0).count();
        }
        assert!(copied > 0 && shown > 0, "{kind}: {copied} were copied, {shown} shown");
    }
}
