//! Crashes of every scheme, and planted faults that they find.
#![allow(clippy::unwrap_used, missing_docs)]

use atoll::machine::medium::{SECTOR_BYTES, WORD_BYTES};
use atoll::{Planted, SchemeKind};
use atoll_bench::crash::run::{How, run};

#[test]
fn nothing_is_wrong_after_crashes_of_any_scheme() {
    for scheme in SchemeKind::ALL.iter().copied() {
        for seed in 0..3 {
            let lazy = seed == 2;
            let unit = [SECTOR_BYTES, WORD_BYTES][seed as usize % 2];
            let run = run(scheme, seed, &How { crashes: 25, lazy, unit, ..How::default() });
            assert!(run.violations.is_empty(), "{scheme}: {:?}", run.violations);
            assert_eq!((run.crashes, run.in_recovery), (50, 25));
            assert_eq!(run.acknowledged, if lazy { 0 } else { 36 });
        }
    }
}

#[test]
fn nothing_is_wrong_after_a_crash_behind_every_event_of_a_small_run() {
    for (seed, scheme) in SchemeKind::ALL.iter().copied().enumerate().take(4) {
        let unit = [SECTOR_BYTES, WORD_BYTES][seed % 2];
        let how = How { threads: 2, transactions: 6, crashes: 0, unit, ..How::default() };
        let run = run(scheme, seed as u64, &how);
        assert!(run.violations.is_empty(), "{scheme}: {:?}", run.violations);
        assert!(run.crashes > 100, "{} crashes", run.crashes);
    }
}

fn is_found(planted: Planted) {
    let how = How { crashes: 200, planted, transactions: 30, ..How::default() };
    let found = (0..20).any(|seed| {
        let run = run(SchemeKind::default(), seed, &how);
        !run.violations.is_empty()
    });
    assert!(found, "{planted:?} was not found");
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
