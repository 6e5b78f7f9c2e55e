//! Global sequence numbers: their three strict partial orders (within a row, a log, a transaction)
//! and the durable horizon, in random interleavings of several recorders over one to four logs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bench`] | rows, recorders and their steps, in turns or in threads, and crashes |
//! | [`check`] | the properties that the logs on a medium must have |

mod bench;
mod check;

use atoll_log::Planted;
use atoll_machine::CrashMedium;
use bench::{Act, Bench, Step};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// Steps of recorders, in the order in which a scheduler runs them.
fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let act = prop_oneof![
        4 => (any::<u8>(), any::<u8>(), 0..1500usize)
            .prop_map(|(writes, reads, bytes)| Act::Begin { writes, reads, bytes }),
        2 => (any::<u8>(), 1..1500usize).prop_map(|(to, bytes)| Act::Spill { to, bytes }),
        4 => Just(Act::GoOn),
        1 => Just(Act::Withdraw),
        2 => any::<u8>().prop_map(|which| Act::Settle { which }),
        1 => Just(Act::Flush),
    ];
    let step = (0..4usize, act).prop_map(|(recorder, act)| Step { recorder, act });
    proptest::collection::vec(step, 1..most)
}

/// Two incarnations with a crash in between.
fn incarnations() -> impl Strategy<Value = (usize, Vec<Step>, Vec<Step>, u64)> {
    (1..=4usize, steps(50), steps(30), any::<u64>())
}

/// Runs the steps, and returns the first error in the run, in the logs, or after a crash.
fn run(
    (logs, first, second, seed): &(usize, Vec<Step>, Vec<Step>, u64),
    planted: Planted,
) -> Result<(), String> {
    let mut bench = Bench::new(CrashMedium::default(), *logs, planted);
    first.iter().try_for_each(|step| bench.step(step))?;
    bench.check_crashes(*seed)?;
    let mut bench = bench.crash_and_recover(*seed)?;
    second.iter().try_for_each(|step| bench.step(step))?;
    bench.check_crashes(seed.rotate_left(7))?;
    bench.check_all()
}

#[test]
fn orders_and_horizon_hold_in_any_interleaving() {
    let mut runner = TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    runner
        .run(&incarnations(), |one| run(&one, Planted::Nothing).map_err(TestCaseError::fail))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn orders_and_horizon_hold_with_threads() {
    for seed in 0..6 {
        let bench = Bench::new(CrashMedium::default(), 1 + seed as usize % 4, Planted::Nothing);
        bench.threads(seed).unwrap();
        let bench = bench.crash_and_recover(seed).unwrap();
        bench.threads(seed + 100).unwrap();
    }
}

/// The error that the same runs report with a planted fault.
fn found(planted: Planted) -> String {
    let config = ProptestConfig {
        cases: 3000,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..Default::default()
    };
    // The same runs each time, since only some of them show the fault.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let error = runner.run(&incarnations(), |one| run(&one, planted).map_err(TestCaseError::fail));
    error.expect_err("what was planted is found").to_string()
}

/// Checks that the runs report a lost commit, in any of the ways in which the loss can show.
fn is_found_lost(planted: Planted) {
    let text = found(planted);
    let ways = ["was told of", "below what was settled", "in part", "of a transaction is in log"];
    assert!(ways.iter().any(|way| text.contains(way)), "{text}");
}

#[test]
fn a_recorder_that_has_not_learnt_what_it_has_seen_is_found() {
    let text = found(Planted::NothingSeen);
    assert!(text.contains("order of a row"), "{text}");
}

#[test]
fn a_flush_that_does_not_sync_is_found() {
    is_found_lost(Planted::NoSync);
}

#[test]
fn a_commit_that_waits_for_one_log_too_few_is_found() {
    is_found_lost(Planted::OneLogTooFew);
}

#[test]
fn a_watermark_of_a_log_that_has_something_to_flush_is_found() {
    is_found_lost(Planted::NotAtRest);
}

#[test]
fn a_log_that_does_not_keep_what_was_promised_for_it_is_found() {
    is_found_lost(Planted::PromiseForgotten);
}

/// A run with sound logs, for a test to damage.
fn sound() -> (Bench, check::Found) {
    let bench = Bench::new(CrashMedium::default(), 3, Planted::Nothing);
    bench.threads(7).unwrap();
    let found = bench.found();
    check::orders(&found, &bench.done()).unwrap();
    (bench, found)
}

#[test]
fn each_order_is_seen_to_be_broken() {
    let (bench, found) = sound();
    let done = bench.done();
    let told = |found: &check::Found, done: &[bench::Done], what: &str| {
        let text = check::orders(found, done).unwrap_err();
        assert!(text.contains(what), "{what}: {text}");
    };
    // Within a log: two commits change places.
    let mut other = found.clone();
    let commits: Vec<usize> = check::commits(&other[0]).map(|(at, _)| at).collect();
    other[0].swap(commits[3], commits[4]);
    check::lay_out(&mut other[0]);
    told(&other, &done, "order of log 0");
    // Within a log: the same GSN twice.
    let mut other = found.clone();
    other[0][commits[4]].0.gsn = other[0][commits[3]].0.gsn;
    told(&other, &done, "order of log 0");
    // Within a transaction: another GSN in one of its logs, though each log is in order.
    let mut other = found.clone();
    let (log, at) = check::with_room_behind(&other, &done).unwrap();
    other[log][at].0.gsn += 1;
    told(&other, &done, &format!("of a transaction is in log {log} no commit's"));
    // Within a transaction: a piece behind the commit.
    let mut other = found.clone();
    let (log, piece, transaction) = check::a_piece(&other).unwrap();
    let is_commit = |(header, _): &check::Block| check::is_commit_of(header, transaction);
    let commit = other[log].iter().position(is_commit).unwrap();
    let (low, high) = (other[log][piece].0.gsn, other[log][commit].0.gsn);
    other[log].swap(piece, commit);
    (other[log][piece].0.gsn, other[log][commit].0.gsn) = (low, high);
    check::lay_out(&mut other[log]);
    told(&other, &done, "GSN");
    // Within a row: the later change has the smaller GSN.
    let mut other = done.clone();
    let (at, by) = check::two_of_a_row(&done).unwrap();
    (other[at].turns, other[by].turns) = (done[by].turns.clone(), done[at].turns.clone());
    told(&found, &other, "order of a row");
}
