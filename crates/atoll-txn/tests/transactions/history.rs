//! The check of histories: it names every anomaly, and agrees with trying all orders of small
//! histories.

use std::collections::BTreeMap;

use atoll_txn::history::{
    Anomaly, End, History, Item, Kind, Left, Op, Over, Transaction, Version, check,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn row(key: i64) -> Item {
    Item::row(key)
}

fn left(version: Version, place: i64) -> Option<Left> {
    Some(Left { version, place })
}

fn read(key: i64, saw: Option<Version>) -> Op {
    Op::Read { item: row(key), saw }
}

fn write(key: i64, before: Option<Version>, after: Option<Version>) -> Op {
    let after = after.map(|version| Left { version, place: key });
    Op::Write { item: row(key), before, after }
}

fn scan(from: i64, to: i64, saw: &[(i64, Version)]) -> Op {
    let saw = saw.iter().map(|(key, version)| (row(*key), *version)).collect();
    Op::Scan { over: Over::Key, from, to, saw }
}

/// Rows 1 to 4 with their keys as versions, and transactions that all overlap.
fn history(all: &[(End, &[Op])]) -> History {
    let initial = (1..5).map(|key| (row(key), Left { version: key as u64, place: key }));
    let transactions = all.iter().enumerate().map(|(at, (end, ops))| {
        let (began, ended) = (at as u64, 1000 + at as u64);
        Transaction { thread: at as u32, began, ended, end: *end, ops: ops.to_vec() }
    });
    History { initial: initial.collect(), transactions: transactions.collect() }
}

fn kind(history: &History, strict: bool) -> Option<Kind> {
    check(history, strict).err().map(|anomaly| anomaly.kind)
}

fn committed(all: &[&[Op]]) -> Option<Kind> {
    let all: Vec<_> = all.iter().map(|ops| (End::Committed, *ops)).collect();
    kind(&history(&all), true)
}

#[test]
fn every_anomaly_is_found_and_named() {
    let dirty: &[Op] = &[read(1, Some(9))];
    let rolled_back: &[Op] = &[write(1, Some(1), Some(9))];
    let all = [(End::Aborted, rolled_back), (End::Committed, dirty)];
    assert_eq!(kind(&history(&all), false), Some(Kind::DirtyRead), "of one that was rolled back");
    let twice: &[Op] = &[write(1, Some(1), Some(9)), write(1, Some(9), Some(10))];
    assert_eq!(committed(&[twice, dirty]), Some(Kind::DirtyRead), "of an intermediate version");
    let over: &[Op] = &[write(1, Some(9), Some(11))];
    let all = [(End::Aborted, rolled_back), (End::Committed, over)];
    assert_eq!(kind(&history(&all), false), Some(Kind::DirtyWrite));
    let (one, two) = ([write(1, Some(1), Some(9))], [write(1, Some(1), Some(10))]);
    assert_eq!(committed(&[&one, &two]), Some(Kind::LostUpdate));
    assert_eq!(committed(&[&[read(1, Some(77))]]), Some(Kind::OutOfNowhere));
    assert_eq!(committed(&[&[read(1, None)]]), Some(Kind::OutOfNowhere));
    let forgets = [write(1, Some(1), Some(9)), read(1, Some(1))];
    assert_eq!(committed(&[&forgets]), Some(Kind::OwnWrite));
    let overlooks = [write(7, None, Some(9)), scan(5, 9, &[])];
    assert_eq!(committed(&[&overlooks]), Some(Kind::OwnWrite));
    let torn = [read(1, Some(1)), read(1, Some(9))];
    assert_eq!(committed(&[&torn, &[write(1, Some(1), Some(9))]]), Some(Kind::NonRepeatableRead));
    let both = [write(1, Some(1), Some(9)), write(2, Some(2), Some(10))];
    assert_eq!(committed(&[&both, &[read(1, Some(1)), read(2, Some(10))]]), Some(Kind::ReadSkew));
    let (one, two) = (
        [read(1, Some(1)), read(2, Some(2)), write(1, Some(1), Some(9))],
        [read(1, Some(1)), read(2, Some(2)), write(2, Some(2), Some(10))],
    );
    assert_eq!(committed(&[&one, &two]), Some(Kind::WriteSkew));
    let (one, two) = ([write(7, None, Some(9))], [write(7, None, Some(10))]);
    assert_eq!(committed(&[&one, &two]), Some(Kind::DuplicateKey));
    let flow = [
        [read(2, Some(10)), write(1, Some(1), Some(9))],
        [read(1, Some(9)), write(2, Some(2), Some(10))],
    ];
    assert_eq!(committed(&[&flow[0], &flow[1]]), Some(Kind::CircularFlow));
}

#[test]
fn phantoms_are_found_in_every_kind_of_range() {
    let inserts = [write(7, None, Some(9)), write(1, Some(1), Some(10))];
    assert_eq!(committed(&[&inserts, &[scan(5, 9, &[]), read(1, Some(10))]]), Some(Kind::Phantom));
    assert_eq!(committed(&[&inserts, &[scan(8, 9, &[]), read(1, Some(10))]]), None);
    assert_eq!(committed(&[&inserts, &[scan(5, 9, &[]), read(1, Some(1))]]), None);
    assert_eq!(committed(&[&inserts, &[scan(5, 9, &[(7, 9)]), read(1, Some(10))]]), None);
    let deletes = [write(2, Some(2), None), write(1, Some(1), Some(10))];
    assert_eq!(committed(&[&deletes, &[scan(2, 2, &[]), read(1, Some(1))]]), Some(Kind::Phantom));
    assert_eq!(committed(&[&deletes, &[scan(2, 2, &[(2, 2)]), read(1, Some(1))]]), None);
    assert_eq!(committed(&[&[scan(2, 2, &[])]]), Some(Kind::Phantom), "it was always there");
    assert_eq!(committed(&[&[scan(2, 2, &[(2, 2), (2, 2)])]]), Some(Kind::Phantom), "twice");
    assert_eq!(committed(&[&[scan(3, 3, &[(2, 2)])]]), Some(Kind::OutOfNowhere));
    // The reads of a transaction that was rolled back do not matter.
    let stray: &[Op] = &[scan(3, 3, &[(2, 2)])];
    assert_eq!(kind(&history(&[(End::Aborted, stray)]), true), None);
    // A row that moves to another place leaves one range and comes into another.
    let moves = [Op::Write { item: row(2), before: Some(2), after: left(9, 50) }];
    let places = |from, to, saw: &[(i64, Version)]| {
        let saw = saw.iter().map(|(key, version)| (row(*key), *version)).collect();
        Op::Scan { over: Over::Place, from, to, saw }
    };
    let missing = [places(2, 2, &[]), places(50, 50, &[])];
    assert_eq!(committed(&[&moves, &missing]), Some(Kind::Phantom));
    let both = [places(2, 2, &[(2, 2)]), places(50, 50, &[(2, 9)])];
    assert_eq!(committed(&[&moves, &both]), Some(Kind::NonRepeatableRead));
    assert_eq!(committed(&[&moves, &[places(2, 2, &[]), places(50, 50, &[(2, 9)])]]), None);
    // A row that no committed transaction has written.
    let all: [(End, &[Op]); 2] =
        [(End::Aborted, &[write(7, None, Some(9))]), (End::Committed, &[scan(5, 9, &[])])];
    assert_eq!(kind(&history(&all), true), None);
    // What a transaction deletes was there before.
    let late = [scan(2, 2, &[]), write(2, Some(2), None)];
    assert_eq!(committed(&[&late]), Some(Kind::Phantom));
}

#[test]
fn absences_are_told_apart_by_what_else_is_known() {
    // Row 7 comes, goes and comes again.
    let comes = [write(7, None, Some(9)), write(1, Some(1), Some(10))];
    let goes = [write(7, Some(9), None), write(2, Some(2), Some(11))];
    let again = [write(7, None, Some(12)), write(3, Some(3), Some(13))];
    let between = [read(7, None), read(2, Some(11)), read(3, Some(3))];
    assert_eq!(committed(&[&comes, &goes, &again, &between]), None);
    let never = [read(7, None), read(1, Some(10)), read(2, Some(2))];
    assert_eq!(committed(&[&comes, &goes, &again, &never]), Some(Kind::ReadSkew));
    let range = [scan(6, 8, &[]), read(1, Some(10)), read(2, Some(2))];
    assert_eq!(committed(&[&comes, &goes, &again, &range]), Some(Kind::Phantom));
}

#[test]
fn the_order_of_time_counts_where_it_must_and_for_snapshots_always() {
    let stale = |end| {
        let mut history =
            history(&[(End::Committed, &[write(1, Some(1), Some(9))]), (end, &[read(1, Some(1))])]);
        (history.transactions[0].ended, history.transactions[1].began) = (5, 6);
        history
    };
    assert_eq!(kind(&stale(End::Committed), true), Some(Kind::RealTime));
    assert_eq!(kind(&stale(End::Committed), false), None);
    assert_eq!(kind(&stale(End::Snapshot), false), Some(Kind::RealTime));
    let mut early = history(&[
        (End::Snapshot, &[read(1, Some(9))]),
        (End::Committed, &[write(1, Some(1), Some(9))]),
    ]);
    (early.transactions[0].ended, early.transactions[1].began) = (5, 6);
    assert_eq!(kind(&early, false), Some(Kind::RealTime));
}

#[test]
fn a_snapshot_that_shows_a_later_commit_without_an_earlier_one_is_the_read_only_anomaly() {
    // The deposit is ordered behind the withdrawal, which does not see it; the snapshot shows the
    // deposit alone.
    let withdraws: &[Op] = &[read(1, Some(1)), read(2, Some(2)), write(1, Some(1), Some(9))];
    let deposits: &[Op] = &[write(2, Some(2), Some(10))];
    let shows: &[Op] = &[read(1, Some(1)), read(2, Some(10))];
    let both = [(End::Committed, withdraws), (End::Committed, deposits)];
    assert_eq!(kind(&history(&both), false), None);
    let all = [both[0], both[1], (End::Snapshot, shows)];
    assert_eq!(kind(&history(&all), false), Some(Kind::ReadOnly));
}

/// Whether the transactions in this order explain what each saw.
fn explains(history: &History, order: &[usize]) -> bool {
    let mut state: BTreeMap<Item, Left> = history.initial.clone();
    order.iter().all(|at| {
        history.transactions[*at].ops.iter().all(|op| match op {
            Op::Read { item, saw } => state.get(item).map(|left| left.version) == *saw,
            Op::Exists { item } => state.contains_key(item),
            Op::Write { item, before, after } => {
                let found = state.get(item).map(|left| left.version) == *before;
                match after {
                    Some(left) => _ = state.insert(*item, *left),
                    None => _ = state.remove(item),
                }
                found
            }
            Op::Scan { from, to, saw, .. } => {
                let all: Vec<_> = state
                    .iter()
                    .filter(|(item, _)| (*from..=*to).contains(&item.key))
                    .map(|(item, left)| (*item, left.version))
                    .collect();
                all == *saw
            }
        })
    })
}

fn some_order_explains(history: &History, order: &mut Vec<usize>, left: &mut Vec<usize>) -> bool {
    if left.is_empty() {
        return explains(history, order);
    }
    (0..left.len()).any(|at| {
        let next = left.remove(at);
        order.push(next);
        let found = explains(history, order) && some_order_explains(history, order, left);
        order.pop();
        left.insert(at, next);
        found
    })
}

/// Transactions in a serial order, each of which sees the state after some earlier one.
fn almost_serial(random: &mut StdRng) -> History {
    let keys = 5;
    let mut history = History::default();
    (0..2).for_each(|key| _ = history.initial.insert(row(key), left(key as u64, key).unwrap()));
    let mut states = vec![history.initial.clone()];
    let count = random.random_range(2..6);
    for at in 0..count {
        // Mostly what was left last, sometimes what was left before.
        let back = if random.random_bool(0.5) { random.random_range(0..states.len()) } else { 0 };
        let mut seen = states[states.len() - 1 - back].clone();
        let mut next = states.last().unwrap().clone();
        let mut ops = Vec::new();
        for step in 0..random.random_range(1..5) {
            let key = random.random_range(0..keys);
            let saw = seen.get(&row(key)).map(|left| left.version);
            match random.random_range(0..4) {
                0 => ops.push(read(key, saw)),
                1 => {
                    let to = key + random.random_range(0..3);
                    let all = seen.iter().filter(|(item, _)| (key..=to).contains(&item.key));
                    let all = all.map(|(item, left)| (item.key, left.version)).collect::<Vec<_>>();
                    ops.push(scan(key, to, &all));
                }
                _ => {
                    let version = 100 + at * 10 + step;
                    let after = random.random_bool(0.7).then_some(version);
                    if saw.is_none() && after.is_none() {
                        continue;
                    }
                    ops.push(write(key, saw, after));
                    for state in [&mut seen, &mut next] {
                        match after {
                            Some(version) => {
                                _ = state.insert(row(key), left(version, key).unwrap());
                            }
                            None => _ = state.remove(&row(key)),
                        }
                    }
                }
            }
        }
        states.push(next);
        let (began, ended, end) = (at, random.random_range(1000..9000), End::Committed);
        history.transactions.push(Transaction { thread: at as u32, began, ended, end, ops });
    }
    history
}

#[test]
fn the_judge_agrees_with_trying_all_orders_of_small_histories() {
    let mut random = StdRng::seed_from_u64(7);
    let (mut sound, mut unsound, mut missed) = (0, 0, 0);
    for number in 0..60_000 {
        let history = almost_serial(&mut random);
        let mut all = (0..history.transactions.len()).collect();
        let is_sound = some_order_explains(&history, &mut Vec::new(), &mut all);
        match check(&history, false) {
            Ok(()) if is_sound => sound += 1,
            Ok(()) => missed += 1,
            Err(Anomaly { .. }) if !is_sound => unsound += 1,
            Err(anomaly) => panic!("history {number} is sound, but {anomaly}\n{history:#?}"),
        }
    }
    println!("{sound} sound, {unsound} unsound, {missed} missed");
    assert!(sound > 10_000 && unsound > 5_000, "{sound} sound, {unsound} unsound");
    assert!(missed * 1000 < unsound, "{missed} of {unsound} were missed");
}

/// A thread commits an insert and is descheduled before it can record that. What other transactions
/// have seen shows when the row existed, however many lifetimes it has had when the thread
/// continues.
#[test]
fn who_sleeps_after_a_commit_does_not_change_the_order_of_lives() {
    let step = |began, ended, ops: &[Op]| Transaction {
        thread: 0,
        began,
        ended,
        end: End::Committed,
        ops: ops.to_vec(),
    };
    let mut transactions = vec![
        step(1, 1000, &[write(9, None, Some(10))]),
        step(2, 20, &[read(9, Some(10)), read(1, Some(1))]),
        step(21, 30, &[write(1, Some(1), Some(11)), write(9, Some(10), None)]),
    ];
    for life in 0..6 {
        let (begin, version) = (40 + 20 * life, 100 + life);
        let insert = [read(1, Some(11)), write(9, None, Some(version))];
        transactions.push(step(begin, begin + 5, &insert));
        transactions.push(step(begin + 6, begin + 10, &[write(9, Some(version), None)]));
    }
    let mut history = history(&[]);
    history.transactions = transactions;
    assert_eq!(kind(&history, false), None);
    // The same, but the transaction that saw the first lifetime has also seen a later write.
    history.transactions[1].ops[1] = read(1, Some(11));
    assert_eq!(kind(&history, false), Some(Kind::ReadSkew));
}

/// A row with many lifetimes. By their begins alone, each may have begun before the one before it.
/// One of the last is recorded late; its end shows its position.
#[test]
fn lives_are_in_the_order_of_their_ends_where_that_of_their_begins_is_not_known() {
    let mut transactions = Vec::new();
    let mut step = |began: u64, ended: u64, before, after| {
        let ops = vec![write(9, before, after)];
        transactions.push(Transaction { thread: 0, began, ended, end: End::Committed, ops });
    };
    for life in 0..80u64 {
        let (begin, version) = (100 + 10 * life, 100 + life);
        step(begin, begin + 12, None, Some(version));
        step(begin + 3, begin + 9, Some(version), None);
    }
    // A thread that is descheduled right after its commit, and the next lifetime, which is recorded
    // first.
    step(1000, 9000, None, Some(10));
    step(1001, 1009, Some(10), None);
    step(1002, 1008, None, Some(11));
    step(1050, 1060, Some(11), None);
    let mut history = history(&[]);
    history.transactions = transactions;
    assert_eq!(kind(&history, true), None);
    // If that one had ended before, it could not have begun within it.
    let next = history.transactions.len() - 2;
    (history.transactions[next].began, history.transactions[next].ended) = (990, 995);
    assert!(kind(&history, true).is_some());
}
