//! Planted faults: real schemes with one step left out, and the anomalies that torture must find.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Once;

use atoll::machine::{Machine, Native};
use atoll_torture::hands::with_scheme;
use atoll_torture::lineup::options;
use atoll_torture::machine::{Stepped, is_on_stage};
use atoll_torture::rules::Rules;
use atoll_torture::run::{run_native, run_seed};
use atoll_txn::before_image::BeforeImage;
use atoll_txn::common::timestamp::TimestampKind;
use atoll_txn::scheme::{
    AbortReason, Conflict, Fetch, Place, Scheme, Section, Seen, Start, StatesOf, Target, Writes,
};
use atoll_txn::schemes::SchemeOptions;
use atoll_txn::schemes::mvcc::Mvcc;
use atoll_txn::schemes::no_wait::NoWait;
use atoll_txn::schemes::occ::Occ;
use atoll_txn::schemes::silo::Silo;
use atoll_txn::schemes::tictoc::TicToc;
use atoll_txn::schemes::timestamp::TimestampOrdering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No fault.
    None,
    /// Rows are read without their lock.
    UnlockedReads,
    /// Rows are written without their lock.
    UnlockedWrites,
    /// A gap read does not protect the absence of a key.
    UnwatchedGaps,
    /// A gap insert does not check the readers of the gap.
    UnaskedAdds,
    /// A lock is released as soon as the next one is requested.
    EarlyRelease,
    /// A transaction commits whatever validation returns.
    NoValidation,
    /// A transaction that is too old for the epoch commits.
    LateCommits,
    /// An older version of a row is its current contents.
    NewestVersions,
    /// A transaction that has read inconsistent values believes what follows from them.
    NoDoubt,
    /// A reader of a row waits for ever.
    EndlessWaits,
    /// No transaction can begin.
    Panics,
}

/// Seeds that are run at most until a fault is found.
const SEEDS_MAX: u64 = 40_000;

/// A scheme with a fault.
struct Faulty<S>(S, Fault);

impl<M: Machine, S: Scheme<M>> Scheme<M> for Faulty<S> {
    const NAME: &'static str = S::NAME;
    const WRITES: Writes = S::WRITES;
    const PARTITIONED: bool = S::PARTITIONED;
    const VERSIONED: bool = S::VERSIONED;
    type State = S::State;
    type Gap = S::Gap;
    type Local = S::Local;

    fn local(&self, worker: u32) -> S::Local {
        self.0.local(worker)
    }

    fn begin(&self, local: &mut S::Local, start: &Start<'_>) -> Result<(), Conflict> {
        assert!(self.1 != Fault::Panics || !is_on_stage(), "planted");
        self.0.begin(local, start)
    }

    fn read(
        &self,
        local: &mut S::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, S::State>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        match self.1 {
            Fault::UnlockedReads => {
                return Ok(if fetch(None) { Seen::Present } else { Seen::Absent });
            }
            Fault::EarlyRelease => self.0.end(local, states, true),
            Fault::EndlessWaits if is_on_stage() => return Err(Conflict::WouldBlock(target.place)),
            Fault::NewestVersions => {
                return self.0.read(local, states, target, &mut |_| fetch(None));
            }
            _ => {}
        }
        self.0.read(local, states, target, fetch)
    }

    fn write(
        &self,
        local: &mut S::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, S::State>,
        present: bool,
    ) -> Result<(), Conflict> {
        match self.1 {
            Fault::UnlockedWrites => return Ok(()),
            Fault::EarlyRelease => self.0.end(local, states, true),
            _ => {}
        }
        self.0.write(local, states, target, present)
    }

    fn read_gap(&self, local: &mut S::Local, place: Place, gap: &S::Gap) -> Result<(), Conflict> {
        if self.1 == Fault::UnwatchedGaps {
            return Ok(());
        }
        self.0.read_gap(local, place, gap)
    }

    fn insert_into_gap(
        &self,
        local: &mut S::Local,
        place: Place,
        gap: &S::Gap,
    ) -> Result<(), Conflict> {
        if self.1 == Fault::UnaskedAdds {
            return Ok(());
        }
        self.0.insert_into_gap(local, place, gap)
    }

    fn split(&self, local: &mut S::Local, old: (Place, &S::Gap), new: (Place, &S::Gap)) -> bool {
        self.0.split(local, old, new)
    }

    fn remove_from_gap(&self, gap: &S::Gap, state: &S::State, stamp: u64) {
        self.0.remove_from_gap(gap, state, stamp);
    }

    fn wait(
        &self,
        local: &mut S::Local,
        states: &impl StatesOf<Self, M>,
        place: Place,
        round: u32,
    ) -> Result<(), AbortReason> {
        if self.1 == Fault::EndlessWaits {
            M::wait(round);
            return Ok(());
        }
        self.0.wait(local, states, place, round)
    }

    fn prepare(
        &self,
        local: &mut S::Local,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        self.0.prepare(local, states)
    }

    fn validate(
        &self,
        local: &mut S::Local,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        match self.0.validate(local, states, section) {
            Err(_) if self.1 == Fault::NoValidation => Ok(()),
            Err(AbortReason::Cut) if self.1 == Fault::LateCommits => Ok(()),
            said => said,
        }
    }

    fn supersede(&self, local: &mut S::Local, target: Target<'_, S::State>, before: &BeforeImage) {
        self.0.supersede(local, target, before);
    }

    fn adopt(state: &Self::State) {
        S::adopt(state);
    }

    fn end(&self, local: &mut S::Local, states: &impl StatesOf<Self, M>, committed: bool) {
        self.0.end(local, states, committed);
    }

    fn stamp(&self, local: &S::Local) -> u64 {
        self.0.stamp(local)
    }

    fn horizon(&self, local: &mut S::Local, newest: u64) -> u64 {
        self.0.horizon(local, newest)
    }

    fn lock(&self, target: Target<'_, S::State>) -> Option<(Seen, u64)> {
        self.0.lock(target)
    }

    fn unlock(&self, target: Target<'_, S::State>, unlinked: bool) {
        self.0.unlock(target, unlinked);
    }

    fn is_consistent(&self, local: &mut S::Local, states: &impl StatesOf<Self, M>) -> bool {
        self.1 == Fault::NoDoubt || self.0.is_consistent(local, states)
    }
}

/// The findings of seeds by kind, with the number of seeds and the first description.
type Found = BTreeMap<String, (u32, String)>;

/// Runs this many seeds, or fewer if all of the wanted kinds have been found before.
fn find<S: Scheme<Stepped>>(
    make: impl Fn(&SchemeOptions) -> S,
    fault: Fault,
    seeds: u64,
    rules: &Rules,
    wanted: &[&str],
) -> Found {
    // A panic on the stage is a finding; its message need not be printed.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !is_on_stage() {
                tell(panic);
            }
        }));
    });
    let mut found = Found::new();
    let mut run = 0;
    while run < seeds && (wanted.is_empty() || wanted.iter().any(|kind| !found.contains_key(*kind)))
    {
        let scheme = Faulty(make(&options(run)), fault);
        let fault = run_seed(with_scheme(scheme), run, rules).fault;
        if let Some(fault) = fault {
            found.entry(fault.kind).or_insert((0, fault.text)).0 += 1;
        }
        run += 1;
    }
    let numbers: Vec<_> =
        found.iter().map(|(kind, (count, _))| format!("{kind} {count}")).collect();
    println!("{} {fault:?} {rules:?}: {run} seeds: {}", S::NAME, numbers.join(", "));
    found
}

/// What so many seeds find in a scheme that has no fault.
fn faults<S: Scheme<Stepped>>(
    make: impl Fn(&SchemeOptions) -> S,
    seeds: u64,
    rules: &Rules,
) -> Found {
    find(make, Fault::None, seeds, rules, &[])
}

/// Checks that a fault is found out as each of these kinds. How many seeds that takes changes with
/// every step of the engine, so there is room for many times the usual number.
fn expect<S: Scheme<Stepped>>(
    make: impl Fn(&SchemeOptions) -> S,
    fault: Fault,
    rules: &Rules,
    kinds: &[&str],
) -> Found {
    let found = find(make, fault, SEEDS_MAX, rules, kinds);
    for kind in kinds {
        assert!(found.contains_key(*kind), "no {kind} in {found:#?}");
    }
    found
}

#[test]
fn the_wrapper_alone_changes_nothing() {
    assert_eq!(faults(NoWait::new, 150, &Rules::default()), Found::new());
    assert_eq!(faults(Silo::new, 150, &Rules::default()), Found::new());
}

#[test]
fn reads_without_locks_are_dirty_and_repeat_differently() {
    let kinds = ["dirty read", "non-repeatable read", "write skew"];
    expect(NoWait::new, Fault::UnlockedReads, &Rules::default(), &kinds);
}

#[test]
fn writes_without_locks_lose_updates_and_overwrite_what_has_not_committed() {
    let kinds = ["lost update", "dirty write"];
    expect(NoWait::new, Fault::UnlockedWrites, &Rules::default(), &kinds);
}

#[test]
fn gaps_that_nobody_watches_or_asks_about_let_phantoms_in() {
    let rules = Rules::default();
    let not_strict = Rules { strict: false, ..rules };
    for fault in [Fault::UnwatchedGaps, Fault::UnaskedAdds] {
        expect(NoWait::new, fault, &rules, &["phantom"]);
        expect(Silo::new, fault, &rules, &["phantom"]);
        expect(TicToc::new, fault, &not_strict, &["phantom"]);
        expect(TimestampOrdering::new, fault, &rules, &["phantom"]);
    }
}

#[test]
fn locks_that_go_early_are_found_out() {
    let kinds = ["non-repeatable read", "dirty read", "read skew"];
    expect(NoWait::new, Fault::EarlyRelease, &Rules::default(), &kinds);
}

#[test]
fn commits_without_validation_are_found_out() {
    let rules = Rules::default();
    let not_strict = Rules { strict: false, ..rules };
    let kinds = ["write skew", "phantom", "non-repeatable read", "lost update"];
    expect(Occ::new, Fault::NoValidation, &rules, &kinds);
    expect(Silo::new, Fault::NoValidation, &rules, &kinds);
    expect(TicToc::new, Fault::NoValidation, &not_strict, &kinds);
}

#[test]
fn old_versions_that_are_not_old_are_found_out() {
    expect(Mvcc::new, Fault::NewestVersions, &Rules::default(), &["read skew"]);
}

#[test]
fn a_snapshot_without_its_patch_shows_what_has_not_committed() {
    let rules = Rules { patched: false, ..Rules::default() };
    expect(NoWait::new, Fault::None, &rules, &["dirty read"]);
}

#[test]
fn a_commit_that_belongs_before_a_snapshot_taken_already_is_the_read_only_anomaly() {
    let rules = Rules { strict: false, ..Rules::default() };
    let kinds = ["read-only transaction anomaly"];
    expect(TimestampOrdering::new, Fault::LateCommits, &rules, &kinds);
    expect(Mvcc::new, Fault::LateCommits, &rules, &kinds);
}

#[test]
fn an_order_against_time_is_found_where_it_is_forbidden() {
    let batched = |options: &SchemeOptions| {
        let timestamps = TimestampKind::Batched;
        Mvcc::new(&SchemeOptions { timestamps, ..*options })
    };
    expect(batched, Fault::None, &Rules::default(), &["against real time"]);
    let rules = Rules { strict: false, ..Rules::default() };
    assert_eq!(faults(batched, 300, &rules), Found::new());
}

#[test]
fn names_that_nobody_looks_for_are_given_twice() {
    let rules = Rules { unique: false, ..Rules::default() };
    let kinds = ["non-repeatable read"];
    let found = [
        expect(NoWait::new, Fault::None, &rules, &kinds),
        expect(Silo::new, Fault::None, &rules, &kinds),
        expect(Mvcc::new, Fault::None, &rules, &kinds),
    ];
    for found in found {
        // A transaction that reads both rows sees the name, part 2 of the history's rows, in two
        // versions.
        let (_, text) = &found["non-repeatable read"];
        assert!(text.contains("part 2 as version"), "{text}");
    }
    let rules = Rules { history: false, ..rules };
    expect(NoWait::new, Fault::None, &rules, &["duplicate name"]);
}

#[test]
fn two_who_look_for_a_name_at_once_and_do_not_meet_both_get_it() {
    let rules = Rules { history: false, ..Rules::default() };
    for fault in [Fault::UnwatchedGaps, Fault::UnaskedAdds] {
        expect(NoWait::new, fault, &rules, &["duplicate name"]);
        expect(Silo::new, fault, &rules, &["duplicate name"]);
    }
}

#[test]
fn names_that_are_refused_for_a_row_that_was_not_there_are_found_out() {
    // Usually a transaction is misled by values that it has read itself.
    let refused = (0..SEEDS_MAX).find(|seed| {
        let scheme = Faulty(Silo::new(&options(*seed)), Fault::NoDoubt);
        let fault = run_seed(with_scheme(scheme), *seed, &Rules::default()).fault;
        fault.is_some_and(|fault| fault.text.contains("was told that there is row"))
    });
    println!("SILO NoDoubt: {refused:?}");
    assert!(refused.is_some());
}

#[test]
fn what_is_always_true_of_rows_finds_faults_without_the_history() {
    let rules = Rules { history: false, ..Rules::default() };
    let kinds = ["sum of accounts", "unequal twins"];
    expect(NoWait::new, Fault::UnlockedReads, &rules, &kinds);
    let kinds = ["sum of accounts", "torn row", "duplicate name"];
    expect(Silo::new, Fault::NoValidation, &rules, &kinds);
}

#[test]
fn a_run_that_does_not_end_and_one_that_panics_are_told() {
    expect(NoWait::new, Fault::EndlessWaits, &Rules::default(), &["livelock"]);
    let found = expect(NoWait::new, Fault::Panics, &Rules::default(), &["panic"]);
    let (_, text) = &found["panic"];
    assert!(text.contains("planted"), "{text}");
}

#[test]
fn threads_of_this_machine_find_faults_as_well() {
    let found = (0..300).find_map(|seed| {
        let scheme = Faulty(NoWait::<Native>::new(&options(seed)), Fault::UnlockedReads);
        run_native(with_scheme(scheme), seed, 4, &Rules::default()).fault
    });
    assert!(found.is_some());
}
