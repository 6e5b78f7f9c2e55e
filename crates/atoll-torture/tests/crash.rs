//! Crash tests of every scheme, and planted faults that they find.
#![allow(clippy::unwrap_used, missing_docs)]

use atoll::machine::medium::crash::lines::Skipped;
use atoll::machine::medium::{SECTOR_BYTES, WORD_BYTES};
use atoll::{Planted, SchemeKind};
use atoll_torture::crash::plan::{Crashes, How};
use atoll_torture::crash::run::{Run, run};

const UNITS: [u64; 2] = [SECTOR_BYTES, WORD_BYTES];

#[test]
fn nothing_is_wrong_after_crashes_of_any_scheme() {
    for scheme in SchemeKind::ALL.iter().copied() {
        for seed in 0..3 {
            let lazy = seed == 2;
            let (crashes, unit) = (Crashes::Random(25), UNITS[seed as usize % 2]);
            let run = run(scheme, seed, &How { crashes, lazy, unit, ..How::default() });
            assert!(run.violations.is_empty(), "{scheme}: {:?}", run.violations);
            assert_eq!((run.crashes, run.in_recovery), (50, 25));
            assert_eq!(run.acknowledged, if lazy { 0 } else { 36 });
        }
    }
}

/// Runs small transactions of every scheme, with a crash behind every event and behind some events
/// of the recoveries.
fn every_event(unit: u64) {
    for (number, scheme) in SchemeKind::ALL.iter().copied().enumerate() {
        let crashes = Crashes::Every(40);
        let how = How { threads: 2, transactions: 2, crashes, unit, ..How::default() };
        let run = run(scheme, number as u64, &how);
        assert!(run.violations.is_empty(), "{scheme}: {:?}", run.violations);
        let Run { crashes, in_checkpoint, in_recovery, .. } = run;
        assert!(crashes > 100 && in_checkpoint > 20 && in_recovery > 50, "{scheme}: {run:?}");
    }
}

#[test]
fn nothing_is_wrong_after_a_crash_behind_every_event_of_a_small_run_on_a_disk() {
    every_event(SECTOR_BYTES);
}

#[test]
fn nothing_is_wrong_after_a_crash_behind_every_event_of_a_small_run_on_persistent_memory() {
    every_event(WORD_BYTES);
}

/// Runs with a fault until a violation contains `text`.
fn is_found_as(how: How, text: &str) {
    let how = How { crashes: Crashes::Random(200), transactions: 30, ..how };
    let runs = (0..20).map(|seed| run(SchemeKind::default(), seed, &how));
    let found = runs.flat_map(|run| run.violations).any(|one| one.text.contains(text));
    assert!(found, "{how:?}: {text:?} was not found");
}

fn is_found(planted: Planted) {
    is_found_as(How { planted, ..How::default() }, "");
}

#[test]
fn a_skipped_sync_is_found() {
    is_found(Planted::NoSync);
}

#[test]
fn a_commit_that_waits_for_one_log_too_few_is_found() {
    is_found(Planted::OneLogTooFew);
}

#[test]
fn a_checkpoint_that_forgets_what_was_open_at_its_cut_is_found() {
    is_found(Planted::EpochTooMany);
}

#[test]
fn a_survivor_without_what_it_has_seen_is_found() {
    let (planted, lazy) = (Planted::NothingSeen, true);
    is_found_as(How { planted, lazy, ..How::default() }, "has seen version");
}

#[test]
fn a_skipped_fence_of_persistent_memory_is_found() {
    let (unit, skipped) = (WORD_BYTES, Some(Skipped::Fence));
    is_found_as(How { unit, skipped, ..How::default() }, "");
}

#[test]
fn a_recovery_that_takes_a_table_for_its_successor_in_the_slot_is_found() {
    is_found(Planted::SuccessorInSlot);
}
